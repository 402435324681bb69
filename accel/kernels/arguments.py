"""Arguments: what every kernel asks of its inputs and of `out=`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Literal, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

__all__ = [
    "as_blas",
    "as_floating",
    "as_real",
    "broadcast_shape",
    "is_flat",
    "one_dtype",
    "overlaps",
    "positive_integer",
    "read_only",
    "result_array",
    "same_memory",
    "sized",
]

Array = NDArray[Any]


def as_real(x: ArrayLike, name: str) -> Array:
    """Return `x` as an array of real numbers: booleans, integers or floats, of any shape and order.

    Lists become arrays. Subclasses of ndarray pass through, so that what they observe stays visible to them, save
    masked arrays and `numpy.matrix`, whose operators do not mean what the kernels' formulas mean.

    Raises
    ------
    TypeError
        For complex numbers, objects, strings, dates, masked arrays and matrices.

    >>> as_real([1.0, 2.0], "x")
    array([1., 2.])
    """
    array = np.asanyarray(x)
    if type(array) is not np.ndarray and isinstance(array, (np.ma.MaskedArray, np.matrix)):
        raise TypeError(f"{name} must be a plain array; got {type(array).__name__}. Pass np.asarray({name}).")
    if array.dtype.kind not in "biuf":
        fix = f"Pass {name}.real or {name}.imag." if array.dtype.kind == "c" else f"Try {name}.astype(np.float64)."
        raise TypeError(f"{name} must hold real numbers; got dtype {array.dtype}. {fix}")
    return array


def as_floating(x: ArrayLike, name: str = "x") -> Array:
    """Return `x` as a float16, float32 or float64 array; never convert the dtype.

    Raises
    ------
    TypeError
        For every other dtype, integers among them: which float to compute in is the caller's decision.

    >>> as_floating([1, 2])
    Traceback (most recent call last):
      ...
    TypeError: x must be float16, float32 or float64; got int64. Convert it, for example x.astype(np.float32).
    """
    array = np.asanyarray(x)
    if array.dtype.kind in "biu" or (array.dtype.kind == "f" and array.dtype.itemsize > 8):
        raise TypeError(
            f"{name} must be float16, float32 or float64; got {array.dtype}. "
            f"Convert it, for example {name}.astype(np.float32)."
        )
    return as_real(array, name)


def sized(x: Any, as_array: Callable[[Any, str], Any], name: str = "x") -> Any:
    """Return `x` for a cost to look at: as it is where it has shape and dtype, else the array the kernel makes of it.

    `as_array` is the kernel's own conversion, so a cost refuses the lists that its kernel refuses.

    >>> sized([[1.0, 2.0]], as_real).shape
    (1, 2)
    """
    return x if hasattr(x, "dtype") and hasattr(x, "shape") else as_array(x, name)


def positive_integer(value: SupportsIndex, name: str) -> int:
    """Return `value` as an int that is at least 1.

    >>> positive_integer(0, "tile_size")
    Traceback (most recent call last):
      ...
    ValueError: tile_size must be at least 1; got 0.
    """
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number; got {value!r}. Pass an int such as 64.")
    number = operator.index(value)
    if number < 1:
        raise ValueError(f"{name} must be at least 1; got {number}.")
    return number


def result_array(
    out: Array | None,
    shape: tuple[int, ...],
    dtype: DTypeLike,
    *like: Array,
    order: Literal["C", "K"] = "K",
) -> Array:
    """Return the array to write the result to: `out` after checking it, or a new one.

    A new array takes its type, and for order "K" its memory order, from the first of `like` that is of an ndarray
    subclass, or else the first.

    Raises
    ------
    TypeError
        `out` is not an array, or of another dtype.
    ValueError
        `out` has another shape, is read-only, or has elements that share memory with each other.

    >>> result_array(np.empty(3), (2,), np.float64)
    Traceback (most recent call last):
      ...
    ValueError: out must have the shape of the result, (2,); got (3,). Pass np.empty((2,), np.float64).
    """
    dtype = np.dtype(dtype)
    if not dtype.isnative:
        dtype = dtype.newbyteorder("=")
    if out is None:
        prototype = next((array for array in like if type(array) is not np.ndarray), like[0])
        return np.empty_like(prototype, dtype=dtype, order=order, shape=shape)
    if not (isinstance(out, np.ndarray) and out.shape == shape and out.dtype == dtype and out.flags.writeable):
        _refuse(out, shape, dtype)
    if overlaps_itself(out):
        raise ValueError(
            f"out must give each element memory of its own; got strides {out.strides} for shape {shape}, by which "
            f"elements share memory. Pass np.empty({shape}, np.{dtype.name})."
        )
    return out


def overlaps_itself(x: Array) -> bool:
    """Whether elements of `x` share memory with each other, as those of `numpy.broadcast_to` do.

    >>> overlaps_itself(np.broadcast_to(np.zeros(3), (2, 3))), overlaps_itself(np.zeros((4, 6))[::2, ::-3])
    (True, False)
    """
    if x.flags.c_contiguous or x.flags.f_contiguous or not x.size:
        return False
    span = x.itemsize
    for stride, length in sorted((abs(stride), n) for stride, n in zip(x.strides, x.shape, strict=True) if n > 1):
        if stride < span:
            return _shares_an_element(x)
        span += stride * (length - 1)
    return False


def _shares_an_element(x: Array) -> bool:
    """Find out exactly, where the strides alone leave it open: by the place of every element."""
    places = np.zeros((), np.int64)
    for stride, length in zip(x.strides, x.shape, strict=True):
        if stride == 0 and length > 1:
            return True
        places = np.add.outer(places, stride * np.arange(length))
    return bool((np.diff(np.sort(places, axis=None)) < x.itemsize).any())


def _refuse(out: object, shape: tuple[int, ...], dtype: np.dtype) -> NoReturn:
    """Say what is wrong with `out` and how to make one that is right."""
    fix = f"Pass np.empty({shape}, np.{dtype.name})."
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out must be an array; got {type(out).__name__}. {fix}")
    if out.shape != shape:
        raise ValueError(f"out must have the shape of the result, {shape}; got {out.shape}. {fix}")
    if out.dtype != dtype:
        raise TypeError(f"out must have the dtype of the result, {dtype}; got {out.dtype}. {fix}")
    raise ValueError(f"out must be writeable; got a read-only array. {fix}")


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return what `numpy.broadcast_shapes` does, ten times sooner in the usual case of equal shapes."""
    return shapes[0] if len(set(shapes)) == 1 else np.broadcast_shapes(*shapes)


def overlaps(x: Array, out: Array | None) -> bool:
    """Whether writing to `out` could change `x`. Memory bounds decide, so interleaved views count as overlapping."""
    return out is not None and np.may_share_memory(x, out)


def same_memory(x: Array, y: Array) -> bool:
    """Whether each element of `y` lies exactly where the same element of `x` does."""
    return (
        x.__array_interface__["data"][0] == y.__array_interface__["data"][0]
        and x.strides == y.strides
        and x.dtype == y.dtype
    )


def is_flat(*arrays: Array) -> bool:
    """Whether compiled code can address all of them element after element."""
    return all(a.flags.c_contiguous and a.flags.aligned and a.dtype.isnative for a in arrays)


def read_only(x: Array) -> Array:
    """Return a plain one-dimensional view that cannot be written to, so that a kernel meets one type of input only."""
    view = np.asarray(x).reshape(-1).view()
    view.flags.writeable = False
    return view


def as_blas(x: ArrayLike, name: str) -> Array:
    """Return `x` as a float32 or float64 array, the dtypes in which the BLAS multiplies; never convert.

    Raises
    ------
    TypeError
        For every other dtype.

    >>> as_blas(np.ones(2, np.float16), "x")
    Traceback (most recent call last):
      ...
    TypeError: x must be float32 or float64; got float16. Convert it, for example x.astype(np.float32).
    """
    array = np.asanyarray(x)
    if array.dtype.kind in "biuf" and (array.dtype.kind != "f" or array.dtype.itemsize not in (4, 8)):
        raise TypeError(
            f"{name} must be float32 or float64; got {array.dtype}. Convert it, for example {name}.astype(np.float32)."
        )
    return as_real(array, name)


def one_dtype(**operands: Array) -> np.dtype[Any]:
    """Return the dtype that all operands have, in native byte order.

    Raises
    ------
    TypeError
        They differ: which to convert is the caller's decision.

    >>> one_dtype(x=np.ones(2), y=np.ones(2, np.float32))
    Traceback (most recent call last):
      ...
    TypeError: x and y must have one dtype; got float64 and float32. Convert one with astype.
    """
    dtypes = [array.dtype.newbyteorder("=") for array in operands.values()]
    if len(set(dtypes)) > 1:
        raise TypeError(f"{_listed(operands)} must have one dtype; got {_listed(dtypes)}. Convert one with astype.")
    return dtypes[0]


def _listed(items: Iterable[object]) -> str:
    """Return "a, b and c"."""
    *first, last = map(str, items)
    return f"{', '.join(first)} and {last}" if first else last
