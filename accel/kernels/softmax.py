"""Softmax: the exponentials of a row, divided by their sum, from three passes over the whole array down to one.

    softmax(x)ᵢ = exp(xᵢ - m) / Σⱼ exp(xⱼ - m)    with m = maxⱼ xⱼ

Subtracting the maximum changes nothing but the range: every exponent is 0 or less, so nothing overflows.

All forms take float32 or float64 arrays of at least one dimension, of any shape, strides and byte order, work along
any one axis, keep the dtype, never change their input and never warn. float16 is refused, for the reason that
`accel.kernels.rows.as_rows` gives. They agree on the edges. An element that is -inf, as masks are, gets 0. A row that
is -inf throughout, or that holds an inf or a NaN, is NaN throughout, since the definition has -inf - -inf or inf - inf
in it. A row of one finite element is 1; no row, or a row of no elements, gives an empty result.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost, costs
from accel.kernels.arguments import as_real, overlaps, result_array, sized
from accel.kernels.fallback import compiled
from accel.kernels.rows import (
    as_rows,
    block_columns,
    block_elements,
    row_blocks,
    rows_and_length,
    run_blocks,
    run_compiled,
    without_overlap,
)
from accel.kernels.threads import thread_count

__all__ = ["blocked", "fused", "in_place", "online", "reference", "three_pass"]

Array = NDArray[Any]


def reference(x: ArrayLike, *, axis: SupportsIndex = -1) -> NDArray[np.float64]:
    """Return softmax(x) along `axis` in float64, whatever real numbers come in: the yardstick for the other forms.

    Raises
    ------
    TypeError
        `x` does not hold real numbers.

    >>> reference([0, 1, 2]).round(6)
    array([0.090031, 0.244728, 0.665241])
    """
    x = np.asarray(as_real(x, "x"), dtype=np.float64)
    if not x.size:
        return np.empty(x.shape)
    with np.errstate(all="ignore"):
        powers = np.exp(x - x.max(axis=axis, keepdims=True))
        return powers / powers.sum(axis=axis, keepdims=True)


def _passes_cost(x: Any, axis: SupportsIndex, allocated: int, blocks: int = 1) -> Cost:
    """Five calls a block: maximum, subtract, exp, sum, divide. `allocated` of the full results are not read before."""
    rows, length, itemsize = rows_and_length(x, axis)
    size, array, column = rows * length, rows * length * itemsize, rows * itemsize
    if not size:
        return Cost()
    return Cost(
        flops=2 * (size - rows) + 2 * size,
        special=size,
        bytes_read=5 * array + 2 * column,
        bytes_written=3 * array + 2 * column,
        bytes_write_allocate=allocated * array + 2 * column,
        calls=5 * blocks,
    )


@costs(lambda x, *, axis=-1: _passes_cost(x, axis, allocated=3))
def three_pass(x: ArrayLike, *, axis: SupportsIndex = -1) -> Array:
    """Return softmax(x) along `axis` as textbooks write it: maximum, exponentials, sum, each over the whole array.

    The three passes over memory of the formula are five in NumPy, which has the subtraction and the division as calls
    of their own. Three new arrays of full size, all alive at the end.

    Parameters
    ----------
    x : array_like
        float32 or float64, at least one dimension.
    axis : int, optional
        Axis whose elements add up to 1, the last by default.

    Returns
    -------
    ndarray
        Shape and dtype of `x`. In float32 the error against `reference` of the same input is, relative to each element,
        at most 1e-6 and 1e-7 more for each unit that it lies below the maximum, which is the rounding of that
        difference. Along an axis that is not the innermost in memory NumPy adds up one element after the other, and
        the error grows with the length of the row.

    Raises
    ------
    TypeError
        Any other dtype.
    ValueError
        `x` is a single number; `axis` is not one of its axes (`numpy.exceptions.AxisError`).

    >>> three_pass(np.array([0, 1, 2], dtype=np.float32)).round(4)
    array([0.09  , 0.2447, 0.6652], dtype=float32)
    """
    x = as_rows(x)
    rows_and_length(x, axis)
    if not x.size:
        return result_array(None, x.shape, x.dtype, x)
    with np.errstate(all="ignore"):
        most = np.max(x, axis=axis, keepdims=True)
        below = x - most
        powers = np.exp(below)
        total = np.sum(powers, axis=axis, keepdims=True)
        return powers / total


def _five_passes(x: Array, y: Array) -> None:
    """Fill `y` with the softmax of the last axis of `x`; one number a row is all the memory it needs."""
    most = np.max(x, axis=-1, keepdims=True)
    np.subtract(x, most, out=y)
    np.exp(y, out=y)
    total = np.sum(y, axis=-1, keepdims=True, out=most)
    np.divide(y, total, out=y)


def _rows_of(x: ArrayLike, out: Array | None, axis: SupportsIndex) -> tuple[Array, Array, Array]:
    """Check the arguments; return the result array, and views of input and result with `axis` last."""
    x = as_rows(x)
    rows_and_length(x, axis)
    y = result_array(out, x.shape, x.dtype, x)
    return y, np.moveaxis(x, axis, -1), np.moveaxis(y, axis, -1)


@costs(lambda x, *, axis=-1, out=None: _passes_cost(x, axis, allocated=1))  # noqa: ARG005
def in_place(x: ArrayLike, *, axis: SupportsIndex = -1, out: Array | None = None) -> Array:
    """Return softmax(x) along `axis`, computed by ``out=`` in the result array alone: no temporary of full size.

    Parameters
    ----------
    x, axis
        See `three_pass`.
    out : ndarray, optional
        Where to put the result: of the shape and dtype of `x`. It may overlap `x`; ``out=x`` needs no copy.

    Returns
    -------
    ndarray
        Shape and dtype of `x`; `out` itself where given. Errors are those of `three_pass`.

    Raises
    ------
    TypeError
        `x` of any other dtype; `out` that is not an array or of another dtype.
    ValueError
        See `three_pass`; `out` of another shape, read-only, or whose elements share memory.

    >>> x = np.array([[0, 1, 2], [0, 0, -np.inf]], dtype=np.float32)
    >>> in_place(x).round(4)
    array([[0.09  , 0.2447, 0.6652],
           [0.5   , 0.5   , 0.    ]], dtype=float32)
    >>> in_place.cost(x).bytes_write_allocate, three_pass.cost(x).bytes_write_allocate
    (40, 88)
    """
    y, source, target = _rows_of(x, out, axis)
    if y.size:
        with np.errstate(all="ignore"):
            _five_passes(source, target)
    return y


def _online_cost(x: Any, *, axis: SupportsIndex = -1, out: Any = None, columns: SupportsIndex | None = None) -> Cost:  # noqa: ARG001
    """Two calls to begin with, nine for each block of columns, four of them on the block, and three at the end."""
    rows, length, itemsize = rows_and_length(x, axis)
    size, array, column = rows * length, rows * length * itemsize, rows * itemsize
    steps = -(-length // block_columns(columns))
    if not size:
        return Cost()
    each_step = Cost(  # maximum of two, subtract, exp, multiply, add: on one number a row
        flops=4 * rows,
        special=rows,
        bytes_read=9 * column,
        bytes_written=5 * column,
        bytes_write_allocate=column,
        calls=5,
    )
    on_blocks = Cost(  # maximum, subtract, exp, sum
        flops=2 * (size - steps * rows) + size,
        special=size,
        bytes_read=4 * array + steps * column,
        bytes_written=2 * array + 2 * steps * column,
        bytes_write_allocate=array + 2 * steps * column,
        calls=4 * steps,
    )
    at_the_end = Cost(  # subtract, exp, divide
        flops=2 * size,
        special=size,
        bytes_read=3 * array + 2 * column,
        bytes_written=3 * array,
        bytes_write_allocate=array,
        calls=3,
    )
    at_first = Cost(bytes_written=2 * column, bytes_write_allocate=2 * column, calls=2)  # full, zeros
    return at_first + each_step * steps + on_blocks + at_the_end


@costs(_online_cost)
def online(
    x: ArrayLike, *, axis: SupportsIndex = -1, out: Array | None = None, columns: SupportsIndex | None = None
) -> Array:
    """Return softmax(x) along `axis` from one sweep for maximum and sum together, and one for the result.

    A block of columns at a time, the running sum s of exponentials below the running maximum m becomes

        s · exp(m - m') + Σ exp(x - m')    where m' = max(m, largest of the block)

    so the row need not be known to its end before its exponentials are added up (Milakov and Gimelshein, arXiv
    1805.02867). That is what lets attention work on a score matrix that it never holds. On an array that is there
    anyway it pays with a second exponential for each element.

    Parameters
    ----------
    x, axis
        See `three_pass`.
    out : ndarray, optional
        Where to put the result: of the shape and dtype of `x`. If it overlaps `x`, the kernel first copies `x`, which
        the cost does not count.
    columns : int, optional
        Elements of each row in a block, 1024 by default.

    Returns
    -------
    ndarray
        Shape and dtype of `x`; `out` itself where given. Errors are those of `three_pass`.

    Raises
    ------
    TypeError
        See `in_place`; `columns` that is not an int.
    ValueError
        See `in_place`; `columns` below 1.

    >>> online(np.array([0, 1, 2], dtype=np.float32), columns=2).round(4)
    array([0.09  , 0.2447, 0.6652], dtype=float32)
    """
    step = block_columns(columns)
    y, source, target = _rows_of(x, out, axis)
    if not y.size:
        return y
    if overlaps(source, out):
        source = source.copy()
    with np.errstate(all="ignore"):
        most, total = _running_maximum_and_sum(source, target, step)
        np.subtract(source, most, out=target)
        np.exp(target, out=target)
        np.divide(target, total, out=target)
    return y


def _running_maximum_and_sum(x: Array, scratch: Array, step: int) -> tuple[Array, Array]:
    """Return the maximum of each row, and the sum of its exponentials below that, seeing each element once."""
    # The lowest finite number, not -inf: masked elements then give exp(-inf) = 0 and not exp(-inf - -inf) = NaN.
    most = np.full((*x.shape[:-1], 1), np.finfo(x.dtype).min, scratch.dtype)
    total = np.zeros_like(most)
    for start in range(0, x.shape[-1], step):
        block, powers = x[..., start : start + step], scratch[..., start : start + step]
        larger = np.maximum(most, np.max(block, axis=-1, keepdims=True))
        np.subtract(most, larger, out=most)
        np.exp(most, out=most)
        np.multiply(total, most, out=total)
        np.subtract(block, larger, out=powers)
        np.exp(powers, out=powers)
        np.add(total, np.sum(powers, axis=-1, keepdims=True), out=total)
        most = larger
    return most, total


def _blocked_cost(
    x: Any,
    *,
    axis: SupportsIndex = -1,
    out: Any = None,  # noqa: ARG001
    block_size: SupportsIndex | None = None,
    threads: SupportsIndex = 1,
) -> Cost:
    """Cost of `in_place`, in five calls a block."""
    thread_count(threads)
    x = sized(x, as_rows)
    rows_and_length(x, axis)
    lengths = list(x.shape)
    lengths.append(lengths.pop(axis))
    return _passes_cost(x, axis, 1, sum(1 for _ in row_blocks(tuple(lengths), block_elements(block_size))))


@costs(_blocked_cost)
def blocked(
    x: ArrayLike,
    *,
    axis: SupportsIndex = -1,
    out: Array | None = None,
    block_size: SupportsIndex | None = None,
    threads: SupportsIndex = 1,
) -> Array:
    """Return softmax(x) along `axis`, a block of rows at a time, so that four of the five passes hit the cache.

    Parameters
    ----------
    x, axis
        See `three_pass`.
    out : ndarray, optional
        Where to put the result: of the shape and dtype of `x`. ``out=x`` needs no copy; for any other overlap the
        kernel first copies `x`, which the cost does not count.
    block_size : int, optional
        Elements in a block, 262,144 by default; a longer row is a block of its own.
    threads : int, optional
        Threads to share the blocks out among.

    Returns
    -------
    ndarray
        Shape and dtype of `x`; `out` itself where given. Errors are those of `three_pass`.

    Raises
    ------
    TypeError
        See `in_place`; `block_size` or `threads` that is not an int.
    ValueError
        See `in_place`; `block_size` or `threads` below 1.

    >>> x = np.array([[0, 1, 2], [0, 0, -np.inf]], dtype=np.float32)
    >>> blocked(x, axis=0).round(4)
    array([[0.5   , 0.7311, 1.    ],
           [0.5   , 0.2689, 0.    ]], dtype=float32)
    >>> blocked.cost(x, block_size=3).calls
    10
    """
    size, count = block_elements(block_size), thread_count(threads)
    y, source, target = _rows_of(x, out, axis)

    def run(block: Array, result: Array) -> None:
        with np.errstate(all="ignore"):  # in each thread: NumPy keeps this setting by thread
            _five_passes(block, result)

    if y.size:
        run_blocks(run, without_overlap(source, target) if out is not None else source, target, size, count)
    return y


def _fused_cost(x: Any, *, axis: SupportsIndex = -1, out: Any = None, threads: SupportsIndex = 1) -> Cost:  # noqa: ARG001
    """One compiled call: it reads the array and writes the result. One reciprocal a row replaces the divisions."""
    thread_count(threads)
    rows, length, itemsize = rows_and_length(x, axis)
    size, array = rows * length, rows * length * itemsize
    if not size:
        return Cost()
    return Cost(
        flops=2 * (size - rows) + 2 * size + rows,
        special=size,
        bytes_read=array,
        bytes_written=array,
        bytes_write_allocate=array,
        calls=1,
    )


@costs(_fused_cost, opaque=True)
def fused(x: ArrayLike, *, axis: SupportsIndex = -1, out: Array | None = None, threads: SupportsIndex = 1) -> Array:
    """Return softmax(x) along `axis`, compiled: a row's three passes are over before the next row is read.

    The exponential is `accel.kernels.compiled.exponential`, in vector registers. Sums run in the dtype of `x` over 4096
    elements and in float64 over those sums, so that long rows are as exact as short ones, along any axis. Without Numba
    the call runs `blocked`, after one notice.

    Parameters
    ----------
    x, axis
        See `three_pass`. Rows that are not contiguous in memory, or not in the byte order of this machine, are copied a
        block at a time.
    out : ndarray, optional
        Where to put the result: of the shape and dtype of `x`. ``out=x`` needs no copy; for any other overlap the
        kernel first copies `x`, which the cost does not count.
    threads : int, optional
        Threads to share the rows out among.

    Returns
    -------
    ndarray
        Shape and dtype of `x`; `out` itself where given. Errors are those of `three_pass`.

    Raises
    ------
    TypeError
        See `in_place`; `threads` that is not an int.
    ValueError
        See `in_place`; `threads` below 1.

    >>> x = np.array([[0, 1, 2], [0, 0, -np.inf]], dtype=np.float32)
    >>> fused(x).round(4)
    array([[0.09  , 0.2447, 0.6652],
           [0.5   , 0.5   , 0.    ]], dtype=float32)
    >>> fused.cost(x).bytes_algorithmic, in_place.cost(x).bytes_algorithmic
    (48, 224)
    """
    count = thread_count(threads)
    kernels = compiled("softmax")
    if kernels is None:
        return blocked(x, axis=axis, out=out, threads=count)
    y, source, target = _rows_of(x, out, axis)
    if y.size:
        run_compiled(kernels.softmax, kernels.softmax_in_place, source, target, count)
    return y
