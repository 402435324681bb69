"""Closed-form costs of the forms of layer norm: see `accel.kernels.layer_norm`."""

# ruff: noqa: ARG001  (a cost takes the arguments of its kernel, and looks at few of them)

from __future__ import annotations

from typing import Any, SupportsFloat, SupportsIndex

from accel.cost import Cost
from accel.kernels.arguments import sized
from accel.kernels.rows import as_rows, block_columns, block_elements, row_blocks, rows_and_length
from accel.kernels.threads import thread_count

__all__ = ["EPSILON", "blocked", "fused", "textbook", "two_pass", "welford"]

EPSILON = 1e-5
"""What is added to the variance unless the caller says otherwise, so that equal elements do not divide 0 by 0."""


def _sizes(x: Any) -> tuple[int, int, int, int, int]:
    """Return the rows, all elements, and the bytes of the array, of one number a row, and of one number a column."""
    rows, length, itemsize = rows_and_length(x)
    return rows, rows * length, rows * length * itemsize, rows * itemsize, length * itemsize


def textbook(x: Any, scale: Any, shift: Any, *, epsilon: SupportsFloat = EPSILON) -> Cost:
    """Mean, variance; subtract, divide, multiply, add on the whole array; add and square root on one number a row."""
    rows, size, array, column, row = _sizes(x)
    if not size:
        return Cost()
    return Cost(
        flops=size + 4 * size + 4 * size + 2 * rows,
        bytes_read=6 * array + 4 * column + 2 * row,
        bytes_written=4 * array + 4 * column,
        bytes_write_allocate=4 * array + 4 * column,
        calls=8,
    )


def two_pass(
    x: Any,
    scale: Any,
    shift: Any,
    *,
    epsilon: SupportsFloat = EPSILON,
    out: Any = None,
    blocks: int = 1,
) -> Cost:
    """Nine calls a block: mean, subtract, vecdot; divide, add, sqrt on a number a row; divide, multiply, add."""
    rows, size, array, column, row = _sizes(x)
    if not size:
        return Cost()
    return Cost(
        flops=size + size + 2 * size + 3 * rows + 3 * size,
        bytes_read=6 * array + 5 * column + 2 * row * blocks,
        bytes_written=4 * array + 5 * column,
        bytes_write_allocate=array + 2 * column,
        calls=9 * blocks,
    )


def welford(
    x: Any,
    scale: Any,
    shift: Any,
    *,
    epsilon: SupportsFloat = EPSILON,
    out: Any = None,
    columns: SupportsIndex | None = None,
) -> Cost:
    """Two calls to begin with, ten for each block of columns, three of them on the block, and seven at the end."""
    steps = -(-rows_and_length(x)[1] // block_columns(columns))
    rows, size, array, column, row = _sizes(x)
    if not size:
        return Cost()
    on_blocks = Cost(  # mean, subtract, vecdot
        flops=size + size + 2 * size,
        bytes_read=3 * array + steps * column,
        bytes_written=array + 2 * steps * column,
        bytes_write_allocate=array + 2 * steps * column,
        calls=3 * steps,
    )
    each_merge = Cost(  # subtract; multiply, add to the mean; add; multiply, multiply, add to the squares
        flops=7 * rows,
        bytes_read=12 * column,
        bytes_written=7 * column,
        bytes_write_allocate=2 * column,
        calls=7,
    )
    at_the_end = Cost(  # divide; subtract; add, sqrt, divide, multiply, add
        flops=3 * rows + 4 * size,
        bytes_read=4 * array + 5 * column + 2 * row,
        bytes_written=4 * array + 3 * column,
        bytes_write_allocate=array,
        calls=7,
    )
    at_first = Cost(bytes_written=2 * column, bytes_write_allocate=2 * column, calls=2)  # zeros, zeros_like
    return at_first + on_blocks + each_merge * steps + at_the_end


def blocked(
    x: Any,
    scale: Any,
    shift: Any,
    *,
    epsilon: SupportsFloat = EPSILON,
    out: Any = None,
    block_size: SupportsIndex | None = None,
    threads: SupportsIndex = 1,
) -> Cost:
    """Cost of `two_pass`, in nine calls a block, each of which reads scale and shift."""
    thread_count(threads)
    x = sized(x, as_rows)
    count = sum(1 for _ in row_blocks(x.shape, block_elements(block_size)))
    return two_pass(x, scale, shift, blocks=count)


def fused(
    x: Any,
    scale: Any,
    shift: Any,
    *,
    epsilon: SupportsFloat = EPSILON,
    out: Any = None,
    threads: SupportsIndex = 1,
) -> Cost:
    """One compiled call: one addition for the mean, three operations for the squares, five for the result, an element.

    The dozen operations on each row that turn sums into factors are left out.
    """
    thread_count(threads)
    _, size, array, _, row = _sizes(x)
    if not size:
        return Cost()
    return Cost(
        flops=9 * size,
        bytes_read=array + 2 * row,
        bytes_written=array,
        bytes_write_allocate=array,
        calls=1,
    )
