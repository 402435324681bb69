"""Convolution in compiled code: a matrix product whose right operand is never made."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost, costs
from accel.kernels.arguments import read_only
from accel.kernels.blocks import aligned_empty
from accel.kernels.convolution.bands import band_rows, bands_of, tiled
from accel.kernels.convolution.geometry import Geometry, checked, whole_cost
from accel.kernels.convolution.planes import Planes
from accel.kernels.fallback import compiled
from accel.kernels.threads import run_parts, spans, thread_count

__all__ = ["fused"]

Array = NDArray[Any]


def _fused_cost(
    x: Any,
    weight: Any,
    *,
    stride: SupportsIndex = 1,
    padding: SupportsIndex = 0,
    out: Any = None,  # noqa: ARG001
    threads: SupportsIndex = 1,  # noqa: ARG001
) -> Cost:
    return whole_cost(x, weight, stride, padding, calls=1)


@costs(_fused_cost, opaque=True)
def fused(
    x: ArrayLike,
    weight: ArrayLike,
    *,
    stride: SupportsIndex = 1,
    padding: SupportsIndex = 0,
    out: Array | None = None,
    threads: SupportsIndex = 1,
) -> Array:
    """Return the convolution as a compiled matrix product whose right operand is never made.

    Each row of that operand is a piece of the padded image, so the innermost loop, which keeps its sums in registers,
    loads it from there. Bands of rows are padded one at a time and stay in the cache: the memory beside the result is
    that of one band, about `BAND_BYTES`, for each thread. There is no BLAS in it. Images, weights and `out` take a copy
    each where they are not contiguous.

    Without Numba `tiled` does the work.

    Parameters
    ----------
    x, weight, stride, padding, out
        See `direct_loops`.
    threads : int
        How many threads share the bands. The same result to the bit for any number.

    Raises
    ------
    TypeError, ValueError
        As `direct_loops`; for `threads` that is not a whole number from 1 on.

    >>> fused(np.array([[[[1.0, 2.0, 3.0]]]]), np.array([[[[1.0, 10.0]]]]))
    array([[[[21., 32.]]]])
    """
    count = thread_count(threads)
    x, weight, g, result = checked(x, weight, stride, padding, out)
    module = compiled("convolution")
    if module is None or not (result.size and g.depth):
        return tiled(x, weight, stride=stride, padding=padding, out=result, threads=count)
    layout = _Layout(module, g, result.dtype)
    weights = layout.panels(weight)
    target = result if result.flags.c_contiguous else np.empty(result.shape, result.dtype)
    images = [read_only(np.require(image, result.dtype, ("C", "A"))) for image in x]
    bands = [(i, *band) for i in range(g.batch) for band in bands_of(g, layout.rows)]

    def run(start: int, stop: int) -> None:
        pixels, sums = layout.scratch()
        for i, first, last in bands[start:stop]:
            planes, starts = layout.of_band(last - first)
            flat = np.asarray(target[i]).reshape(-1)
            module.convolve(*g[1:], *planes, first, *weights, images[i], pixels, starts, sums, flat, layout.tile)

    run_parts(run, spans(len(bands), count), count)
    if target is not result:
        result[...] = target
    return result


class _Layout:
    """How the bands of a call of `fused` lie in scratch memory, and how many rows a band has."""

    def __init__(self, module: Any, g: Geometry, dtype: np.dtype[Any]) -> None:
        self.g, self.dtype = g, dtype
        self.tile, self.panel = module.columns(dtype), module.ROWS
        self.channels = -(-g.c_out // self.panel) * self.panel
        one_row, two_rows = (sum(self._sizes(rows)) for rows in (1, 2))
        self.rows = band_rows(g, dtype.itemsize, two_rows - one_row, 2 * one_row - two_rows)
        self._bands: dict[int, tuple[Planes, NDArray[np.int64]]] = {}
        for rows in {self.rows, g.rows % self.rows or self.rows}:
            planes = Planes.of(g, rows)
            self._bands[rows] = planes, planes.starts(g, self._channel_size(planes))

    def of_band(self, rows: int) -> tuple[Planes, NDArray[np.int64]]:
        """Return the planes of a band of so many rows, and where each row of the operand begins."""
        return self._bands[rows]

    def scratch(self) -> tuple[Array, Array]:
        """Return memory for the planes of a band, and for its sums."""
        pixels, sums = self._sizes(self.rows)
        slack = Planes.of(self.g, self.rows).slack + self.tile
        memory = aligned_empty(pixels + slack, self.dtype)
        memory[...] = 0
        return memory, aligned_empty(sums, self.dtype)

    def panels(self, weight: Array) -> tuple[Array, Array]:
        """Return the weights, a row for each channel of the result, and those of the last panel if it is not full."""
        matrix = np.require(np.asarray(weight).reshape(self.g.c_out, self.g.depth), self.dtype, ("C", "A"))
        full = self.g.c_out // self.panel * self.panel
        rest = np.zeros((self.panel, self.g.depth), self.dtype)
        rest[: self.g.c_out - full] = matrix[full:]
        return read_only(matrix), read_only(rest)

    def _sizes(self, rows: int) -> tuple[int, int]:
        """Return the elements of the planes and of the sums of a band."""
        planes = Planes.of(self.g, rows)
        places = -(-planes.places // self.tile) * self.tile
        return self.g.c_in * self._channel_size(planes), self.channels * places

    def _channel_size(self, planes: Planes) -> int:
        """Elements from one channel to the next: an odd number of cache lines, so that they spread over the cache."""
        line = 64 // self.dtype.itemsize
        lines = -(-(planes.phases**2 * planes.height * planes.width) // line)
        return (lines | 1) * line
