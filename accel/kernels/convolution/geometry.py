"""Geometry: what the operands of a convolution must fit, and the sizes its costs are made of."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost
from accel.kernels.arguments import as_blas, one_dtype, overlaps, positive_integer, result_array, sized

__all__ = [
    "Geometry",
    "checked",
    "copy_cost",
    "geometry",
    "padded",
    "padded_cost",
    "shaped",
    "whole_cost",
    "windows_of",
]

Array = NDArray[Any]


class Geometry(NamedTuple):
    """Sizes of a convolution: images, channels, the image, the window, how it moves, and where it comes to lie."""

    batch: int
    c_in: int
    h: int
    w: int
    c_out: int
    k_h: int
    k_w: int
    stride: int
    padding: int
    rows: int
    columns: int

    @property
    def depth(self) -> int:
        """Multiply-adds for one number of the result."""
        return self.c_in * self.k_h * self.k_w

    @property
    def places(self) -> int:
        """Places of the window on one image."""
        return self.rows * self.columns

    @property
    def result_shape(self) -> tuple[int, int, int, int]:
        """Shape of the result."""
        return self.batch, self.c_out, self.rows, self.columns


def geometry(x: Any, weight: Any, stride: SupportsIndex, padding: SupportsIndex) -> Geometry:
    """Return the sizes; raise ValueError, naming both shapes, where the two arrays do not fit."""
    stride = positive_integer(stride, "stride")
    if isinstance(padding, bool) or not hasattr(padding, "__index__"):
        raise TypeError(f"padding must be a whole number; got {padding!r}. Pass an int such as 1.")
    padding = operator.index(padding)
    if padding < 0:
        raise ValueError(f"padding must be at least 0; got {padding}.")
    if len(x.shape) != 4 or len(weight.shape) != 4:
        raise _mismatch(x, weight, "both need four dimensions; add axes of length 1.")
    (batch, c_in, h, w), (c_out, channels, k_h, k_w) = x.shape, weight.shape
    if c_in != channels:
        raise _mismatch(x, weight, f"images of {c_in} channels cannot be weighed with {channels}.")
    if not (k_h and k_w):
        raise _mismatch(x, weight, "a window needs at least one row and one column.")
    rows, columns = ((size + 2 * padding - k) // stride + 1 for size, k in ((h, k_h), (w, k_w)))
    if rows < 1 or columns < 1:
        raise _mismatch(x, weight, f"the window is larger than the image with padding {padding}; raise the padding?")
    return Geometry(batch, c_in, h, w, c_out, k_h, k_w, stride, padding, rows, columns)


def _mismatch(x: Any, weight: Any, reason: str) -> ValueError:
    needs = "convolution needs x (batch, c_in, h, w) and weight (c_out, c_in, k, k)"
    return ValueError(f"{needs}; got {x.shape} and {weight.shape}: {reason}")


def checked(
    x: ArrayLike, weight: ArrayLike, stride: SupportsIndex, padding: SupportsIndex, out: Array | None
) -> tuple[Array, Array, Geometry, Array]:
    """Return the operands, copied where they overlap `out`, the sizes, and the array to write to."""
    x, weight = as_blas(x, "x"), as_blas(weight, "weight")
    g = geometry(x, weight, stride, padding)
    result = result_array(out, g.result_shape, one_dtype(x=x, weight=weight), x, weight, order="C")
    return x.copy() if overlaps(x, out) else x, weight.copy() if overlaps(weight, out) else weight, g, result


def shaped(x: Any, weight: Any, stride: SupportsIndex, padding: SupportsIndex) -> tuple[Any, Any, Geometry, int]:
    """Return what costs are made of: the operands, the sizes, and bytes an element."""
    x, weight = sized(x, as_blas, "x"), sized(weight, as_blas, "weight")
    return x, weight, geometry(x, weight, stride, padding), x.dtype.itemsize


def copy_cost(size_bytes: int, read_bytes: int = 0) -> Cost:
    """Cost of one call that writes memory it does not read."""
    return Cost(bytes_read=read_bytes, bytes_written=size_bytes, bytes_write_allocate=size_bytes, calls=1)


def whole_cost(x: Any, weight: Any, stride: SupportsIndex, padding: SupportsIndex, **work: int) -> Cost:
    """Each operand read once, the result written once."""
    x, weight, g, itemsize = shaped(x, weight, stride, padding)
    result = g.batch * g.c_out * g.places * itemsize
    flops = 2 * g.batch * g.c_out * g.places * g.depth
    return Cost(flops, 0, x.nbytes + weight.nbytes, result, result, **work)


def padded(x: Array, g: Geometry) -> Array:
    """Return the images with zeros around them; the images themselves where the padding is 0."""
    if not g.padding:
        return x
    m = g.padding
    images = np.empty_like(x, shape=(g.batch, g.c_in, g.h + 2 * m, g.w + 2 * m), order="C")
    images[...] = 0
    images[:, :, m : m + g.h, m : m + g.w] = x
    return images


def padded_cost(g: Geometry, itemsize: int) -> Cost:
    """Cost of `padded`."""
    if not g.padding:
        return Cost()
    planes, m = g.batch * g.c_in * itemsize, g.padding
    image = planes * g.h * g.w
    return copy_cost(planes * (g.h + 2 * m) * (g.w + 2 * m)) + copy_cost(image, image)


def windows_of(x: Array, g: Geometry) -> Array:
    """Return a view (batch, c_in, rows, columns, k, k) in which each place has a window of its own."""
    windows = sliding_window_view(padded(x, g), (g.k_h, g.k_w), axis=(2, 3), subok=True)
    return windows[:, :, :: g.stride, :: g.stride]
