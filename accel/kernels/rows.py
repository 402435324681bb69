"""Rows: what the kernels that work along one axis, softmax and layer norm, share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import ArrayLike, NDArray

from accel.kernels.arguments import as_blas, is_flat, overlaps, positive_integer, same_memory, sized
from accel.kernels.blocks import blocks
from accel.kernels.threads import run_parts, spans

__all__ = [
    "as_rows",
    "block_columns",
    "block_elements",
    "row_blocks",
    "rows_and_length",
    "run_blocks",
    "run_compiled",
    "without_overlap",
]

Array = NDArray[Any]

BLOCK_SIZE = 256 * 1024
"""Elements in a block of rows unless the caller says otherwise: float32 input and result then fill 2 MB, which the L3
cache holds. Smaller blocks would sit in L2, but reductions and broadcasts cost NumPy some 50 microseconds a block."""
COPIED_BLOCK_SIZE = 16 * 1024
"""Elements in a block that is copied for compiled code, where a block costs a few microseconds and can sit in L2."""
BLOCK_COLUMNS = 1024
"""Columns that forms which see a row piece by piece take at a time unless the caller says otherwise."""


def as_rows(x: ArrayLike, name: str = "x") -> Array:
    """Return `x` as a float32 or float64 array of at least one dimension; never convert the dtype.

    float16 is refused: sums over a row need more digits than it has, so that every form would have to work in float32
    on a converted copy. Who converts before the call sees that copy.

    Raises
    ------
    TypeError
        For every other dtype.
    ValueError
        For a single number, which has no row.

    >>> as_rows(np.ones(3, np.float16))
    Traceback (most recent call last):
      ...
    TypeError: x must be float32 or float64; got float16. Convert it, for example x.astype(np.float32).
    """
    array = as_blas(x, name)
    if not array.ndim:
        raise ValueError(f"{name} must have at least one axis; got a single number. Pass {name}.reshape(1).")
    return array


def rows_and_length(x: Any, axis: SupportsIndex = -1) -> tuple[int, int, int]:
    """Return the number of rows along `axis`, their length, and the bytes of an element, of anything with a shape.

    >>> rows_and_length(np.ones((2, 3, 5), np.float32), axis=1)
    (10, 3, 4)
    """
    x = sized(x, as_rows)
    axis = normalize_axis_index(axis, len(x.shape))  # type: ignore[arg-type]
    return math.prod((*x.shape[:axis], *x.shape[axis + 1 :])), x.shape[axis], x.dtype.itemsize


def block_elements(block_size: SupportsIndex | None) -> int:
    """Return the elements of a block: `block_size` after checking it, or the default."""
    return BLOCK_SIZE if block_size is None else positive_integer(block_size, "block_size")


def block_columns(columns: SupportsIndex | None) -> int:
    """Return the columns of a block: `columns` after checking it, or the default."""
    return BLOCK_COLUMNS if columns is None else positive_integer(columns, "columns")


def row_blocks(shape: tuple[int, ...], size: int) -> Iterator[tuple[int | slice, ...]]:
    """Yield the indices that cut an array of `shape` into blocks of whole rows, of at most `size` elements if so small.

    >>> list(row_blocks((5, 100), 250))
    [(slice(0, 2, None),), (slice(2, 4, None),), (slice(4, 6, None),)]
    >>> list(row_blocks((100,), 7))
    [()]
    """
    if len(shape) == 1:
        return iter([()])
    return blocks(shape[:-1], max(1, size // max(1, shape[-1])))


def run_blocks(run: Callable[[Array, Array], Any], x: Array, y: Array, size: int, threads: int) -> None:
    """Call ``run(x[block], y[block])`` for each block of rows, the blocks shared out among `threads`."""
    cuts = list(row_blocks(y.shape, size))

    def run_some(first: int, last: int) -> None:
        for block in cuts[first:last]:
            run(x[block], y[block])

    run_parts(run_some, spans(len(cuts), threads), threads)


def run_compiled(
    between: Callable[[Array, Array], Any], in_place: Callable[[Array], Any], x: Array, y: Array, threads: int
) -> None:
    """Fill `y` from `x`, of equal shape, by kernels that take C-contiguous rows of shape (rows, length).

    `between` reads one array and writes another one. Where the memory of `x` or `y` is not as it needs it, blocks of
    rows are copied, to `y` itself where possible and else to a block of scratch, and `in_place` works there.
    """
    x, y = x.view(np.ndarray), y.view(np.ndarray)
    if is_flat(x, y) and not overlaps(x, y):
        source, target = (array.reshape(-1, array.shape[-1]) for array in (x, y))
        parts = ((source[a:b], target[a:b]) for a, b in spans(len(target), threads))
        run_parts(between, parts, threads)
        return

    def copy_and_run(source: Array, target: Array) -> None:
        work = target if is_flat(target) else np.empty(target.shape, target.dtype)
        if not (work is target and same_memory(source, target)):
            np.copyto(work, source)
        in_place(work.reshape(-1, work.shape[-1]))
        if work is not target:
            np.copyto(target, work)

    run_blocks(copy_and_run, without_overlap(x, y), y, COPIED_BLOCK_SIZE, threads)


def without_overlap(x: Array, y: Array) -> Array:
    """Return `x`, or a copy of it if writing a row of `y` could change another row of `x`."""
    return x.copy() if overlaps(x, y) and not same_memory(x, y) else x
