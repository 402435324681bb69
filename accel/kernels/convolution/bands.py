"""Convolution a band of rows at a time: the copied windows stay in the cache."""

from __future__ import annotations

from itertools import product
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost, costs
from accel.kernels.convolution.geometry import Geometry, checked, copy_cost, shaped
from accel.kernels.convolution.planes import Planes
from accel.kernels.threads import run_parts, spans, thread_count

__all__ = ["BAND_BYTES", "band_rows", "bands_of", "tiled"]

Array = NDArray[Any]

BAND_BYTES = 512 * 1024
"""Working set of a band of rows, in `tiled` and `fused`: it stays in an L2 cache of 1 MB."""


def band_rows(g: Geometry, itemsize: int, elements_a_row: int, elements_once: int) -> int:
    """Return how many rows of the result fit in BAND_BYTES, at least one."""
    fitting = (BAND_BYTES // itemsize - elements_once) // max(1, elements_a_row)
    return min(max(1, fitting), g.rows)


def _tiled_band(g: Geometry, itemsize: int) -> int:
    """Rows of a band of `tiled`: the windows of each of its places, and the results."""
    return band_rows(g, itemsize, (g.depth + g.c_out) * g.columns, 0)


def _tiled_cost(
    x: Any,
    weight: Any,
    *,
    stride: SupportsIndex = 1,
    padding: SupportsIndex = 0,
    out: Any = None,  # noqa: ARG001
    threads: SupportsIndex = 1,  # noqa: ARG001
) -> Cost:
    """For each band of rows: fill the planes, copy the windows in k·k calls, multiply."""
    x, weight, g, itemsize = shaped(x, weight, stride, padding)
    image = Cost()
    for first, last in bands_of(g, _tiled_band(g, itemsize)):
        planes, places = Planes.of(g, last - first), (last - first) * g.columns
        tap = g.c_in * places * itemsize
        result, columns = g.c_out * places * itemsize, g.depth * places * itemsize
        multiply = copy_cost(result, weight.nbytes + columns) + Cost(2 * g.c_out * places * g.depth)
        image += planes.fill_cost(g, first, itemsize) + copy_cost(tap, tap) * (g.k_h * g.k_w) + multiply
        image += copy_cost(result, result)
    return image * g.batch


def bands_of(g: Geometry, rows: int) -> list[tuple[int, int]]:
    """Return the first and the last row, exclusive, of each band of so many rows of the result."""
    return [(first, min(first + rows, g.rows)) for first in range(0, g.rows, rows)]


@costs(_tiled_cost)
def tiled(
    x: ArrayLike,
    weight: ArrayLike,
    *,
    stride: SupportsIndex = 1,
    padding: SupportsIndex = 0,
    out: Array | None = None,
    threads: SupportsIndex = 1,
) -> Array:
    """Return the convolution as `im2col` does, a band of rows at a time, so that the copied windows stay in the cache.

    The memory beside the result is that of one band, about `BAND_BYTES`, for each thread.

    Parameters
    ----------
    x, weight, stride, padding, out
        See `direct_loops`.
    threads : int
        How many threads share the bands. The BLAS uses threads of its own beside them unless it is told not to, as
        `accel.measurement.threads` does.

    Raises
    ------
    TypeError, ValueError
        As `direct_loops`; for `threads` that is not a whole number from 1 on.

    >>> tiled(np.array([[[[1.0, 2.0, 3.0]]]]), np.array([[[[1.0, 10.0]]]]))
    array([[[[21., 32.]]]])
    """
    count = thread_count(threads)
    x, weight, g, result = checked(x, weight, stride, padding, out)
    rows = _tiled_band(g, result.itemsize)
    matrix = weight.reshape(g.c_out, g.depth)
    bands = [(image, target, *band) for image, target in zip(x, result, strict=True) for band in bands_of(g, rows)]

    def run(start: int, stop: int) -> None:
        planes_memory = np.empty_like(result, shape=int(np.prod(Planes.of(g, rows).shape(g))))
        columns_memory = np.empty_like(result, shape=g.depth * rows * g.columns)
        product_memory = np.empty_like(result, shape=g.c_out * rows * g.columns)
        with np.errstate(all="ignore"):
            for image, target, first, last in bands[start:stop]:
                planes, places = Planes.of(g, last - first), (last - first) * g.columns
                shape = planes.shape(g)
                filled = planes_memory[: int(np.prod(shape))].reshape(shape)
                planes.fill(filled, image, g, first)
                columns = columns_memory[: g.depth * places].reshape(g.c_in, g.k_h, g.k_w, last - first, g.columns)
                for p, q in product(range(g.k_h), range(g.k_w)):
                    i, j = p // g.stride, q // g.stride
                    seen = filled[:, p % g.stride, q % g.stride, i : i + last - first, j : j + g.columns]
                    columns[:, p, q] = seen
                band = product_memory[: g.c_out * places].reshape(g.c_out, places)
                np.matmul(matrix, columns.reshape(g.depth, places), out=band)
                target[:, first:last] = band.reshape(g.c_out, last - first, g.columns)

    run_parts(run, spans(len(bands), count), count)
    return result
