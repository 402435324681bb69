"""Elementwise kernels: one or two arithmetic operations an element, so memory decides their speed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost, costs
from accel.kernels.arguments import as_real, broadcast_shape, overlaps, result_array, sized

__all__ = ["add", "multiply", "triad"]

Array = NDArray[Any]
Operand = Array | bool | int | float


def _operand(x: ArrayLike, name: str) -> Operand:
    """Return `x` as an array, or as the Python number it is: as an array it would promote float32 to float64."""
    return x if type(x) in (bool, int, float) else as_real(x, name)  # type: ignore[return-value]


def _shape(*operands: Any) -> tuple[int, ...]:
    return broadcast_shape(*(getattr(x, "shape", ()) for x in operands))


def _dtype(*operands: Any) -> np.dtype:
    return np.result_type(*(getattr(x, "dtype", x) for x in operands))


def _checked(out: Array | None, *operands: Operand) -> Array | None:
    return None if out is None else result_array(out, _shape(*operands), _dtype(*operands))


def _one_call(x1: Any, x2: Any, out: Any = None) -> Cost:  # noqa: ARG001
    """Cost of one binary NumPy call; an array that is both operands is read once."""
    x1, x2 = sized(x1, _operand, "x1"), sized(x2, _operand, "x2")
    size = math.prod(_shape(x1, x2))
    written = size * _dtype(x1, x2).itemsize
    read = sum(x.nbytes for x in {id(x): x for x in (x1, x2)}.values() if hasattr(x, "nbytes"))
    return Cost(flops=size, bytes_read=read, bytes_written=written, bytes_write_allocate=written, calls=1)


@costs(_one_call)
def add(x1: ArrayLike, x2: ArrayLike, *, out: Array | None = None) -> Array:
    """Return ``x1 + x2``, broadcast and typed as `numpy.add` does.

    One FLOP for 12 bytes in float32: an arithmetic intensity of 1/12.

    Parameters
    ----------
    x1, x2 : array_like
        Real numbers of shapes that broadcast together. A Python number takes the dtype of the other operand.
    out : ndarray, optional
        Where to put the result: of its exact shape and dtype. It may overlap the inputs.

    Raises
    ------
    TypeError
        An operand that is not real; `out` that is not an array or of another dtype.
    ValueError
        Shapes that do not broadcast; `out` of another shape, read-only, or whose elements share memory.

    >>> x = np.array([1, 2, 3], dtype=np.float32)
    >>> add(x, 0.5)
    array([1.5, 2.5, 3.5], dtype=float32)
    >>> round(add.cost(x, x + 1).intensity, 4)
    0.0833
    """
    x1, x2 = _operand(x1, "x1"), _operand(x2, "x2")
    return np.add(x1, x2, out=_checked(out, x1, x2))


@costs(_one_call)
def multiply(x1: ArrayLike, x2: ArrayLike, *, out: Array | None = None) -> Array:
    """Return ``x1 * x2``, broadcast and typed as `numpy.multiply` does. The cost is that of `add`.

    Parameters, errors: see `add`.

    >>> multiply(np.array([1, 2, 3], dtype=np.float32), 2)
    array([2., 4., 6.], dtype=float32)
    """
    x1, x2 = _operand(x1, "x1"), _operand(x2, "x2")
    return np.multiply(x1, x2, out=_checked(out, x1, x2))


def _triad_cost(x1: Any, x2: Any, scalar: Any, *, out: Any = None) -> Cost:  # noqa: ARG001
    x1, x2 = sized(x1, as_real, "x1"), sized(x2, as_real, "x2")
    size = math.prod(_shape(x1, x2))
    written = size * _dtype(x1, x2, scalar).itemsize
    scale = Cost(flops=size, bytes_read=x2.nbytes, bytes_written=written, bytes_write_allocate=written, calls=1)
    accumulate = Cost(flops=size, bytes_read=x1.nbytes + written, bytes_written=written, calls=1)
    return scale + accumulate


@costs(_triad_cost)
def triad(x1: ArrayLike, x2: ArrayLike, scalar: float, *, out: Array | None = None) -> Array:
    """Return ``x1 + scalar * x2``, the triad of the STREAM benchmark (McCalpin, 1995).

    NumPy needs two calls and passes over the result twice, where a compiled triad passes once: the cost says so.

    Parameters
    ----------
    x1, x2 : array_like
        Real numbers of shapes that broadcast together.
    scalar : float
        A Python number; it takes the dtype of the arrays.
    out : ndarray, optional
        Where to put the result: of its exact shape and dtype. It may be `x2`; if it overlaps `x1`, or `x2` in part,
        the kernel first copies that operand, which the cost does not count.

    Raises
    ------
    TypeError
        An operand that is not real; `scalar` that is not a Python number; `out` that is not an array or of another
        dtype.
    ValueError
        Shapes that do not broadcast; `out` of another shape, read-only, or whose elements share memory.
    OverflowError
        `scalar` is an int that the dtype of integer arrays cannot hold.

    >>> x = np.array([1, 2, 3], dtype=np.float32)
    >>> triad(x, x, 3.0)
    array([ 4.,  8., 12.], dtype=float32)
    >>> triad.cost(x, x, 3.0).bytes_algorithmic  # a compiled triad: 3 arrays of 12 bytes
    60
    """
    if type(scalar) not in (int, float):
        raise TypeError(f"scalar must be a Python int or float; got {type(scalar).__name__}. Pass float(scalar).")
    a, b = as_real(x1, "x1"), as_real(x2, "x2")
    result = result_array(out, _shape(a, b), _dtype(a, b, scalar), a, b)
    if overlaps(a, out):
        a = a.copy()
    # Of booleans and an int NumPy makes int64, which has no place in uint64. It copies `b` where that overlaps `out`.
    np.multiply(b, scalar, out=result, dtype=result.dtype if b.dtype == np.bool_ else None)
    return np.add(a, result, out=result)
