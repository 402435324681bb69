"""Layer norm: each row brought to mean 0 and variance 1, then scaled and shifted column by column.

    y = (x - mean(x)) / √(var(x) + ε) · scale + shift    with mean and variance of each row (the last axis)

Source: Ba, Kiros and Hinton, arXiv 1607.06450. All forms take an `x` of shape (…, n), `scale` and `shift` of shape
(n,), all float32 or all float64, of any strides and byte order; they keep the dtype, never change their input and never
warn. float16 is refused, for the reason that `accel.kernels.rows.as_rows` gives. They agree on the edges: a row
that holds a NaN or an infinity is NaN throughout, a row of equal elements, such as a row of one element, becomes
`shift`, and no row, or rows of no elements, give an empty result. A float32 row with deviations beyond 1e19 has a
variance beyond float32, and gives what infinity gives in the formula.
"""

from __future__ import annotations

import math
from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import costs
from accel.kernels import layer_norm_costs
from accel.kernels.arguments import as_real, overlaps, result_array
from accel.kernels.fallback import compiled
from accel.kernels.layer_norm_costs import EPSILON
from accel.kernels.rows import (
    as_rows,
    block_columns,
    block_elements,
    run_blocks,
    run_compiled,
    without_overlap,
)
from accel.kernels.threads import thread_count

__all__ = ["blocked", "fused", "reference", "textbook", "two_pass", "welford"]

Array = NDArray[Any]


def _epsilon(epsilon: SupportsFloat) -> float:
    """Return `epsilon` as a Python float, which does not promote float32 arrays; refuse what is not 0 or more."""
    if isinstance(epsilon, (str, bytes)) or not hasattr(epsilon, "__float__"):
        raise TypeError(f"epsilon must be a number; got {type(epsilon).__name__}. Pass a float such as 1e-5.")
    number = float(epsilon)
    if not 0 <= number < math.inf:
        raise ValueError(f"epsilon must be finite and at least 0; got {number}.")
    return number


def _checked(x: ArrayLike, scale: ArrayLike, shift: ArrayLike) -> tuple[Array, Array, Array]:
    """Return the three arrays; raise where `scale` or `shift` is not one number a column, of the dtype of `x`."""
    x = as_rows(x)
    return x, _vector(scale, "scale", x), _vector(shift, "shift", x)


def _vector(given: ArrayLike, name: str, x: Array) -> Array:
    """Return `given` as an array; raise where it is not one number a column of `x`, and of its dtype."""
    vector, columns = as_real(given, name), x.shape[-1:]
    if vector.shape != columns:
        raise ValueError(
            f"{name} must have one element for each column of x, shape {columns}; got {vector.shape}. "
            f"Pass np.broadcast_to({name}, {columns}) if that is what you mean."
        )
    if vector.dtype.newbyteorder("=") != x.dtype.newbyteorder("="):
        raise TypeError(f"{name} must have the dtype of x, {x.dtype}; got {vector.dtype}. Pass {name}.astype(x.dtype).")
    return vector


def reference(x: ArrayLike, scale: ArrayLike, shift: ArrayLike, *, epsilon: SupportsFloat = EPSILON) -> Array:
    """Return layer_norm(x) in float64, whatever real numbers come in: the yardstick for the other forms.

    Raises
    ------
    TypeError
        An argument does not hold real numbers.

    >>> reference([1, 2, 3], [1, 1, 1], [0, 0, 10]).round(4)
    array([-1.2247,  0.    , 11.2247])
    """
    x, scale, shift = (np.asarray(as_real(a, n), np.float64) for a, n in ((x, "x"), (scale, "scale"), (shift, "shift")))
    if not x.size:
        return np.empty(x.shape)
    with np.errstate(all="ignore"):
        deviations = x - x.mean(axis=-1, keepdims=True)
        variance = np.mean(deviations * deviations, axis=-1, keepdims=True)
        return np.asarray(deviations / np.sqrt(variance + float(epsilon)) * scale + shift)


@costs(layer_norm_costs.textbook)
def textbook(x: ArrayLike, scale: ArrayLike, shift: ArrayLike, *, epsilon: SupportsFloat = EPSILON) -> Array:
    """Return layer_norm(x) as textbooks write it: `numpy.mean`, `numpy.var`, and a named array a step.

    `numpy.var` computes the mean again, and within it a temporary array of full size. Four new arrays beside that, all
    alive at the end.

    Parameters
    ----------
    x : array_like
        float32 or float64, shape (…, n).
    scale, shift : array_like
        Of the dtype of `x`, shape (n,).
    epsilon : float, optional
        What is added to the variance, 1e-5 by default.

    Returns
    -------
    ndarray
        Shape and dtype of `x`. For float32 rows whose mean is small beside their deviation, and a `scale` of up to 1,
        within 4e-6 of `reference` of the same input. A mean of m deviations makes that m · 1e-7, or so: the rounding of
        the mean.

    Raises
    ------
    TypeError
        Any other dtype; `scale` or `shift` of another dtype than `x`; `epsilon` that is not a number.
    ValueError
        `x` is a single number; `scale` or `shift` of another shape; `epsilon` below 0 or not finite.

    >>> x = np.array([[1, 2, 3], [5, 5, 5]], dtype=np.float32)
    >>> one, zero = np.ones(3, np.float32), np.zeros(3, np.float32)
    >>> textbook(x, one, zero).round(4)
    array([[-1.2247,  0.    ,  1.2247],
           [ 0.    ,  0.    ,  0.    ]], dtype=float32)
    """
    epsilon = _epsilon(epsilon)
    x, scale, shift = _checked(x, scale, shift)
    if not x.size:
        return result_array(None, x.shape, x.dtype, x)
    with np.errstate(all="ignore"):
        mean = np.mean(x, axis=-1, keepdims=True)
        variance = np.var(x, axis=-1, keepdims=True)
        centred = x - mean
        deviation = np.sqrt(variance + epsilon)
        normal = centred / deviation
        scaled = normal * scale
        return scaled + shift


def _apply(y: Array, variance: Array, scale: Array, shift: Array, epsilon: float) -> None:
    """Turn `y`, the deviations from the mean, into the result; `variance` is overwritten."""
    np.add(variance, epsilon, out=variance)
    np.sqrt(variance, out=variance)
    np.divide(y, variance, out=y)
    np.multiply(y, scale, out=y)
    np.add(y, shift, out=y)


def _squares(deviations: Array) -> Array:
    """Return the sum of squares of each row, as a column, without an array of the squares."""
    total = np.empty((*deviations.shape[:-1], 1), deviations.dtype)
    np.vecdot(deviations, deviations, out=total[..., 0])
    return total


def _six_passes(x: Array, y: Array, scale: Array, shift: Array, epsilon: float) -> None:
    """Fill `y` with the layer norm of `x`; one number a row is all the memory it needs."""
    np.subtract(x, np.mean(x, axis=-1, keepdims=True), out=y)
    variance = _squares(y)
    np.divide(variance, x.shape[-1], out=variance)
    _apply(y, variance, scale, shift, epsilon)


@costs(layer_norm_costs.two_pass)
def two_pass(
    x: ArrayLike, scale: ArrayLike, shift: ArrayLike, *, epsilon: SupportsFloat = EPSILON, out: Array | None = None
) -> Array:
    """Return layer_norm(x), with ``out=`` and a number for each row: no temporary of full size.

    The mean, then the variance as the mean square of the deviations, which stand in the result array already
    (`numpy.vecdot` needs no array of squares).

    Parameters
    ----------
    x, scale, shift, epsilon
        See `textbook`.
    out : ndarray, optional
        Where to put the result: of the shape and dtype of `x`. It may overlap the arguments; ``out=x`` needs no copy.

    Returns
    -------
    ndarray
        Shape and dtype of `x`; `out` itself where given. Errors are those of `textbook`.

    Raises
    ------
    TypeError
        See `textbook`; `out` that is not an array or of another dtype.
    ValueError
        See `textbook`; `out` of another shape, read-only, or whose elements share memory.

    >>> x = np.array([[1, 2, 3], [5, 5, 5]], dtype=np.float32)
    >>> one, zero = np.ones(3, np.float32), np.zeros(3, np.float32)
    >>> two_pass(x, one, zero).round(4)
    array([[-1.2247,  0.    ,  1.2247],
           [ 0.    ,  0.    ,  0.    ]], dtype=float32)
    """
    epsilon = _epsilon(epsilon)
    x, y, scale, shift = _prepared(x, scale, shift, out)
    if y.size:
        with np.errstate(all="ignore"):
            _six_passes(x, y, scale, shift, epsilon)
    return y


def _prepared(x: ArrayLike, scale: ArrayLike, shift: ArrayLike, out: Array | None) -> tuple[Array, Array, Array, Array]:
    """Check the arguments; return input, result, scale and shift. Writing the result changes neither of the vectors."""
    x, scale, shift = _checked(x, scale, shift)
    y = result_array(out, x.shape, x.dtype, x)
    scale, shift = (vector.copy() if overlaps(vector, out) else vector for vector in (scale, shift))
    return x, y, scale, shift


@costs(layer_norm_costs.welford)
def welford(
    x: ArrayLike,
    scale: ArrayLike,
    shift: ArrayLike,
    *,
    epsilon: SupportsFloat = EPSILON,
    out: Array | None = None,
    columns: SupportsIndex | None = None,
) -> Array:
    """Return layer_norm(x), from one sweep for mean and variance together, and one for the result.

    Welford's method takes one element at a time (*Technometrics* 4, 1962), which NumPy cannot do fast; this is its form
    for blocks of columns. The mean m and the sum of squares q of n elements, merged with those of k more, become

        δ = m' - m,    m + δ · k / (n + k),    q + q' + δ² · n · k / (n + k)

    (Chan, Golub and LeVeque, 1983). Unlike the mean of the squares less the square of the mean, it cancels no digits.

    Parameters
    ----------
    x, scale, shift, epsilon
        See `textbook`.
    out : ndarray, optional
        Where to put the result: of the shape and dtype of `x`. If it overlaps an argument, the kernel first copies
        that, which the cost does not count.
    columns : int, optional
        Elements of each row in a block, 1024 by default.

    Returns
    -------
    ndarray
        Shape and dtype of `x`; `out` itself where given. Errors are those of `textbook`.

    Raises
    ------
    TypeError
        See `two_pass`; `columns` that is not an int.
    ValueError
        See `two_pass`; `columns` below 1.

    >>> x = np.array([[1, 2, 3], [5, 5, 5]], dtype=np.float32)
    >>> one, zero = np.ones(3, np.float32), np.zeros(3, np.float32)
    >>> welford(x, one, zero, columns=2).round(4)
    array([[-1.2247,  0.    ,  1.2247],
           [ 0.    ,  0.    ,  0.    ]], dtype=float32)
    """
    epsilon, step = _epsilon(epsilon), block_columns(columns)
    x, y, scale, shift = _prepared(x, scale, shift, out)
    if not y.size:
        return y
    if overlaps(x, out):
        x = x.copy()
    with np.errstate(all="ignore"):
        mean, variance = _merged_statistics(x, y, step)
        np.subtract(x, mean, out=y)
        _apply(y, variance, scale, shift, epsilon)
    return y


def _merged_statistics(x: Array, scratch: Array, step: int) -> tuple[Array, Array]:
    """Return the mean and the variance of each row, seeing each element once."""
    mean = np.zeros((*x.shape[:-1], 1), scratch.dtype)
    squares = np.zeros_like(mean)
    for start in range(0, x.shape[-1], step):
        block, deviations = x[..., start : start + step], scratch[..., start : start + step]
        count = block.shape[-1]
        total = start + count
        difference = np.mean(block, axis=-1, keepdims=True)
        np.subtract(block, difference, out=deviations)
        added = _squares(deviations)
        np.subtract(difference, mean, out=difference)
        np.add(mean, difference * (count / total), out=mean)
        np.add(squares, added, out=squares)
        weighted = difference * (start * count / total)  # before squaring: the weight of the first block is 0
        np.multiply(weighted, difference, out=difference)
        np.add(squares, difference, out=squares)
    np.divide(squares, x.shape[-1], out=squares)
    return mean, squares


@costs(layer_norm_costs.blocked)
def blocked(
    x: ArrayLike,
    scale: ArrayLike,
    shift: ArrayLike,
    *,
    epsilon: SupportsFloat = EPSILON,
    out: Array | None = None,
    block_size: SupportsIndex | None = None,
    threads: SupportsIndex = 1,
) -> Array:
    """Return layer_norm(x), computed as `two_pass` does, a block of rows at a time: five of six passes hit the cache.

    Parameters
    ----------
    x, scale, shift, epsilon
        See `textbook`.
    out : ndarray, optional
        Where to put the result: of the shape and dtype of `x`. ``out=x`` needs no copy; for any other overlap the
        kernel first copies the argument, which the cost does not count.
    block_size : int, optional
        Elements in a block, 262,144 by default; a longer row is a block of its own.
    threads : int, optional
        Threads to share the blocks out among.

    Returns
    -------
    ndarray
        Shape and dtype of `x`; `out` itself where given. Errors are those of `textbook`.

    Raises
    ------
    TypeError
        See `two_pass`; `block_size` or `threads` that is not an int.
    ValueError
        See `two_pass`; `block_size` or `threads` below 1.

    >>> x = np.array([[1, 2, 3], [5, 5, 5]], dtype=np.float32)
    >>> one, zero = np.ones(3, np.float32), np.zeros(3, np.float32)
    >>> blocked(x, one, zero, block_size=3).round(4)
    array([[-1.2247,  0.    ,  1.2247],
           [ 0.    ,  0.    ,  0.    ]], dtype=float32)
    >>> blocked.cost(x, one, zero, block_size=3).calls
    18
    """
    epsilon, size, count = _epsilon(epsilon), block_elements(block_size), thread_count(threads)
    x, y, scale, shift = _prepared(x, scale, shift, out)

    def run(block: Array, result: Array) -> None:
        with np.errstate(all="ignore"):  # in each thread: NumPy keeps this setting by thread
            _six_passes(block, result, scale, shift, epsilon)

    if y.size:
        run_blocks(run, without_overlap(x, y) if out is not None else x, y, size, count)
    return y


@costs(layer_norm_costs.fused, opaque=True)
def fused(
    x: ArrayLike,
    scale: ArrayLike,
    shift: ArrayLike,
    *,
    epsilon: SupportsFloat = EPSILON,
    out: Array | None = None,
    threads: SupportsIndex = 1,
) -> Array:
    """Return layer_norm(x), compiled: a row's three passes are over before the next row is read.

    Sums run in float64, those of squares within 4096 elements in the dtype of `x`, and the rounding error of the mean
    is put right, so that neither long rows nor a large mean cost accuracy. Without Numba the call runs `blocked`, after
    one notice.

    Parameters
    ----------
    x, scale, shift, epsilon
        See `textbook`. Rows that are not contiguous in memory, or not in the byte order of this machine, are copied a
        block at a time.
    out : ndarray, optional
        Where to put the result: of the shape and dtype of `x`. ``out=x`` needs no copy; for any other overlap the
        kernel first copies the argument, which the cost does not count.
    threads : int, optional
        Threads to share the rows out among.

    Returns
    -------
    ndarray
        Shape and dtype of `x`; `out` itself where given. In float32 within 4e-6 of `reference` for a `scale` of up to
        1, whatever the mean.

    Raises
    ------
    TypeError
        See `two_pass`; `threads` that is not an int.
    ValueError
        See `two_pass`; `threads` below 1.

    >>> x = np.array([[1, 2, 3], [5, 5, 5]], dtype=np.float32)
    >>> one, zero = np.ones(3, np.float32), np.zeros(3, np.float32)
    >>> fused(x, one, zero).round(4)
    array([[-1.2247,  0.    ,  1.2247],
           [ 0.    ,  0.    ,  0.    ]], dtype=float32)
    """
    epsilon, count = _epsilon(epsilon), thread_count(threads)
    kernels = compiled("layer_norm")
    if kernels is None:
        return blocked(x, scale, shift, epsilon=epsilon, out=out, threads=count)
    x, y, scale, shift = _prepared(x, scale, shift, out)
    # Writeable too, though only read: Numba compiles anew for arrays that are not.
    vectors = [np.require(vector, y.dtype, ["C", "ALIGNED", "WRITEABLE", "ENSUREARRAY"]) for vector in (scale, shift)]
    if y.size:
        run_compiled(
            lambda rows, result: kernels.layer_norm(rows, *vectors, epsilon, result),
            lambda rows: kernels.layer_norm_in_place(rows, *vectors, epsilon),
            x,
            y,
            count,
        )
    return y
