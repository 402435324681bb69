"""Convolution as it is written down, and as a product with all windows copied out."""

from __future__ import annotations

from itertools import product
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost, costs
from accel.kernels.arguments import as_real
from accel.kernels.convolution.geometry import (
    checked,
    copy_cost,
    geometry,
    padded,
    padded_cost,
    shaped,
    whole_cost,
    windows_of,
)

__all__ = ["direct_loops", "im2col", "reference", "window_view"]

Array = NDArray[Any]


def reference(
    x: ArrayLike, weight: ArrayLike, *, stride: SupportsIndex = 1, padding: SupportsIndex = 0
) -> NDArray[np.float64]:
    """Return the convolution in float64, as a sum over the k·k places in the window, whatever real numbers come in.

    Raises
    ------
    TypeError, ValueError
        Numbers that are not real; shapes that do not fit.

    >>> reference([[[[1, 2, 3]]]], [[[[1, 10]]]])
    array([[[[21., 32.]]]])
    """
    x = np.asarray(as_real(x, "x"), np.float64)
    weight = np.asarray(as_real(weight, "weight"), np.float64)
    g = geometry(x, weight, stride, padding)
    with np.errstate(all="ignore"):
        windows = windows_of(x, g)
        result = np.zeros(g.result_shape)
        for p, q in product(range(g.k_h), range(g.k_w)):
            result += np.einsum("bcij,oc->boij", windows[..., p, q], weight[:, :, p, q])
    return result


def _direct_loops_cost(
    x: Any,
    weight: Any,
    *,
    stride: SupportsIndex = 1,
    padding: SupportsIndex = 0,
    out: Any = None,  # noqa: ARG001
) -> Cost:
    g = shaped(x, weight, stride, padding)[2]
    return whole_cost(x, weight, stride, padding, interpreted=g.batch * g.c_out * g.places * g.depth)


@costs(_direct_loops_cost, opaque=True)
def direct_loops(
    x: ArrayLike,
    weight: ArrayLike,
    *,
    stride: SupportsIndex = 1,
    padding: SupportsIndex = 0,
    out: Array | None = None,
) -> Array:
    """Return the convolution by seven Python loops over array elements: the definition, and the baseline.

    Its cost has the bytes of `fused`, each operand once, and one interpreted step for each multiply-add.

    Parameters
    ----------
    x : array_like
        Images, ``(batch, c_in, h, w)``, float32 or float64.
    weight : array_like
        One window ``(c_in, k, k)`` for each channel of the result, ``(c_out, c_in, k, k)``; the dtype of `x`.
    stride : int
        By how many pixels the window moves, in both directions.
    padding : int
        Rows and columns of zeros added on each side of the image.
    out : ndarray, optional
        Where to put the result: of its exact shape and dtype. An operand that overlaps it is copied first, which the
        cost does not count.

    Returns
    -------
    ndarray
        ``(batch, c_out, (h + 2·padding - k) // stride + 1, (w + 2·padding - k) // stride + 1)``, of the dtype of `x`;
        `out` itself where given.

    Raises
    ------
    TypeError
        Operands of other dtypes or of two different ones; `stride` or `padding` that is not an int; `out` that is not
        an array or of another dtype.
    ValueError
        Shapes that do not fit together, a window larger than the padded image, `stride` below 1, `padding` below 0;
        `out` of another shape, read-only, or whose elements share memory.

    >>> x, weight = np.array([[[[1.0, 2.0, 3.0]]]]), np.array([[[[1.0, 10.0]]]])
    >>> direct_loops(x, weight)
    array([[[[21., 32.]]]])
    >>> direct_loops.cost(x, weight).interpreted
    4
    """
    x, weight, g, result = checked(x, weight, stride, padding, out)
    images = padded(x, g)
    with np.errstate(all="ignore"):
        for b, o, i, j in product(*map(range, g.result_shape)):
            total = result.dtype.type(0)
            for c, p, q in product(range(g.c_in), range(g.k_h), range(g.k_w)):
                total += images[b, c, i * g.stride + p, j * g.stride + q] * weight[o, c, p, q]
            result[b, o, i, j] = total
    return result


def _im2col_cost(
    x: Any,
    weight: Any,
    *,
    stride: SupportsIndex = 1,
    padding: SupportsIndex = 0,
    out: Any = None,  # noqa: ARG001
) -> Cost:
    """Pad, copy the windows, multiply."""
    x, weight, g, itemsize = shaped(x, weight, stride, padding)
    columns, result = (g.batch * n * g.places * itemsize for n in (g.depth, g.c_out))
    multiply = copy_cost(result, weight.nbytes + columns) + Cost(2 * g.batch * g.c_out * g.places * g.depth)
    return padded_cost(g, itemsize) + copy_cost(columns, columns) + multiply


@costs(_im2col_cost)
def im2col(
    x: ArrayLike,
    weight: ArrayLike,
    *,
    stride: SupportsIndex = 1,
    padding: SupportsIndex = 0,
    out: Array | None = None,
) -> Array:
    """Return the convolution as one matrix product an image, after all windows are copied out as columns.

    The BLAS does the work, and the copy takes up to k·k times the memory of the images.

    Parameters, errors: see `direct_loops`.

    >>> im2col(np.array([[[[1.0, 2.0, 3.0]]]]), np.array([[[[1.0, 10.0]]]]))
    array([[[[21., 32.]]]])
    """
    x, weight, g, result = checked(x, weight, stride, padding, out)
    with np.errstate(all="ignore"):
        columns = np.empty_like(x, shape=(g.batch, g.c_in, g.k_h, g.k_w, g.rows, g.columns), order="C")
        columns[...] = windows_of(x, g).transpose(0, 1, 4, 5, 2, 3)
        flat = columns.reshape(g.batch, g.depth, g.places)
        _multiply(weight.reshape(g.c_out, g.depth), flat, result.reshape(g.batch, g.c_out, g.places), result)
    return result


def _multiply(weight: Array, columns: Array, flat: Array, result: Array) -> None:
    """Write the product to `flat`, the result with its places in one axis, and to the result if that is not a view."""
    np.matmul(weight, columns, out=flat)
    if not np.may_share_memory(flat, result):
        result[...] = flat.reshape(result.shape)


def _window_view_cost(
    x: Any,
    weight: Any,
    *,
    stride: SupportsIndex = 1,
    padding: SupportsIndex = 0,
    out: Any = None,  # noqa: ARG001
) -> Cost:
    """Pad, multiply, and put the channels first. `tensordot` is one call, whatever it copies inside."""
    x, weight, g, itemsize = shaped(x, weight, stride, padding)
    windows, result = (g.batch * n * g.places * itemsize for n in (g.depth, g.c_out))
    multiply = copy_cost(result, weight.nbytes + windows) + Cost(2 * g.batch * g.c_out * g.places * g.depth)
    return padded_cost(g, itemsize) + multiply + copy_cost(result, result)


@costs(_window_view_cost)
def window_view(
    x: ArrayLike,
    weight: ArrayLike,
    *,
    stride: SupportsIndex = 1,
    padding: SupportsIndex = 0,
    out: Array | None = None,
) -> Array:
    """Return the convolution by `numpy.tensordot` on a view of all windows: short, and no faster than `im2col`.

    The view itself takes no memory. But the BLAS cannot read it, so `tensordot` copies all windows into a matrix before
    it multiplies, as `im2col` does by hand, and its result has the channels last, so that another copy is due. The cost
    counts `tensordot` as one call, without the copy inside.

    Parameters, errors: see `direct_loops`.

    >>> window_view(np.array([[[[1.0, 2.0, 3.0]]]]), np.array([[[[1.0, 10.0]]]]))
    array([[[[21., 32.]]]])
    """
    x, weight, g, result = checked(x, weight, stride, padding, out)
    with np.errstate(all="ignore"):
        channels_last = np.tensordot(windows_of(x, g), weight, axes=((1, 4, 5), (1, 2, 3)))
        result[...] = channels_last.transpose(0, 3, 1, 2)
    return result
