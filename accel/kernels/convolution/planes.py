"""Planes: a padded image laid out so that every point of the window sees consecutive elements."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost, costs
from accel.kernels.convolution.geometry import Geometry, checked, copy_cost, shaped

__all__ = ["Planes", "shifted"]

Array = NDArray[Any]


class Planes(NamedTuple):
    """How a band of rows of one padded image lies in scratch memory, so that every row of the operand is one piece.

    Pixels that one window place and the next `stride` apart see at the same point of the window are kept side by side:
    there are stride x stride planes a channel (for stride 1, the padded band itself). Point (p, q) of the window then
    sees, place after place, consecutive elements of one plane, from row p // stride and column q // stride on. Places
    are numbered along whole rows of a plane, so that the last few of each row are no places of the window and are
    dropped at the end.
    """

    phases: int
    rows: int
    height: int
    width: int

    @classmethod
    def of(cls, g: Geometry, rows: int) -> Planes:
        """Return the layout for a band that gives so many rows of the result."""
        phases = min(g.stride, max(g.k_h, g.k_w))
        return cls(phases, rows, rows + (g.k_h - 1) // g.stride, g.columns + (g.k_w - 1) // g.stride)

    @property
    def places(self) -> int:
        """Places of the window in a band, with those that are dropped, but for the last row's."""
        return self.rows * self.width

    @property
    def slack(self) -> int:
        """Elements that the last place of the last channel sees beyond its plane."""
        return self.width

    def shape(self, g: Geometry) -> tuple[int, int, int, int, int]:
        """Shape of the scratch memory."""
        return g.c_in, self.phases, self.phases, self.height, self.width

    def start(self, g: Geometry, p: int, q: int) -> int:
        """Return from which element of a channel on point (p, q) of the window sees."""
        phase = p % g.stride * self.phases + q % g.stride
        return (phase * self.height + p // g.stride) * self.width + q // g.stride

    def starts(self, g: Geometry, channel_size: int) -> NDArray[np.int64]:
        """Return where each row of the operand begins, in the order of the weights: ``(c_in, k, k)``."""
        window = [self.start(g, p, q) for p, q in product(range(g.k_h), range(g.k_w))]
        return np.add.outer(np.arange(g.c_in) * channel_size, np.array(window)).reshape(-1)

    def fill(self, planes: Array, image: Array, g: Geometry, first_row: int) -> None:
        """Copy what the band of the result from `first_row` on sees of an image, with zeros around the image."""
        if g.padding:
            planes[...] = 0
        for p, q in product(range(self.phases), repeat=2):
            to_rows, from_rows = _inside(first_row * g.stride + p - g.padding, g.stride, self.height, g.h)
            to_columns, from_columns = _inside(q - g.padding, g.stride, self.width, g.w)
            planes[:, p, q, to_rows, to_columns] = image[:, from_rows, from_columns]

    def fill_cost(self, g: Geometry, first_row: int, itemsize: int) -> Cost:
        """Cost of `fill`."""
        cost = copy_cost(int(np.prod(self.shape(g))) * itemsize) if g.padding else Cost()
        for p, q in product(range(self.phases), repeat=2):
            to_rows, _ = _inside(first_row * g.stride + p - g.padding, g.stride, self.height, g.h)
            to_columns, _ = _inside(q - g.padding, g.stride, self.width, g.w)
            size = g.c_in * len(range(*to_rows.indices(self.height))) * len(range(*to_columns.indices(self.width)))
            cost += copy_cost(size * itemsize, size * itemsize)
        return cost


def _inside(start: int, step: int, count: int, length: int) -> tuple[slice, slice]:
    """Return which of `count` pixels start, start + step, … exist, which are 0 to length - 1, and where they are."""
    first = min(count, max(0, -(start // step)))
    last = max(first, min(count, -((start - length) // step)))
    return slice(first, last), slice(start + first * step, max(0, start + last * step), step)


def _taps(weight: Array) -> Array:
    """Return the weights with a matrix (c_out, c_in) for each point of the window."""
    return np.ascontiguousarray(weight.transpose(2, 3, 0, 1))


def _shifted_cost(
    x: Any,
    weight: Any,
    *,
    stride: SupportsIndex = 1,
    padding: SupportsIndex = 0,
    out: Any = None,  # noqa: ARG001
) -> Cost:
    """For each image: fill the planes, k·k products, k·k - 1 additions, and the copy that drops what is no place."""
    x, weight, g, itemsize = shaped(x, weight, stride, padding)
    planes, taps = Planes.of(g, g.rows), g.k_h * g.k_w
    sums = g.c_out * planes.places
    seen = (g.c_in * planes.places + g.c_out * g.c_in) * itemsize
    multiply = copy_cost(sums * itemsize, seen) + Cost(2 * sums * g.c_in)
    add = Cost(sums, 0, 2 * sums * itemsize, sums * itemsize, calls=1)
    result = g.c_out * g.places * itemsize
    image = planes.fill_cost(g, 0, itemsize) + multiply * taps + add * (taps - 1) + copy_cost(result, result)
    return copy_cost(weight.nbytes, weight.nbytes) + image * g.batch


@costs(_shifted_cost)
def shifted(
    x: ArrayLike,
    weight: ArrayLike,
    *,
    stride: SupportsIndex = 1,
    padding: SupportsIndex = 0,
    out: Array | None = None,
) -> Array:
    """Return the convolution as a sum of k·k matrix products, one for each point of the window.

    What one point of the window sees is the padded image from some element on, which the BLAS can read where it is:
    nothing is copied k·k times. Instead the sum of the products is passed over k·k times.

    Parameters, errors: see `direct_loops`.

    >>> shifted(np.array([[[[1.0, 2.0, 3.0]]]]), np.array([[[[1.0, 10.0]]]]))
    array([[[[21., 32.]]]])
    """
    x, weight, g, result = checked(x, weight, stride, padding, out)
    planes, taps = Planes.of(g, g.rows), _taps(weight)
    size = int(np.prod(planes.shape(g)[1:]))
    memory = np.empty_like(result, shape=(g.c_in + 1) * size)
    total, partial = (np.empty_like(result, shape=(g.c_out, planes.places)) for _ in range(2))
    starts = [planes.start(g, p, q) for p, q in product(range(g.k_h), range(g.k_w))]
    with np.errstate(all="ignore"):
        for image, target in zip(x, result, strict=True):
            planes.fill(memory[: g.c_in * size].reshape(planes.shape(g)), image, g, 0)
            for number, (start, tap) in enumerate(zip(starts, taps.reshape(len(starts), g.c_out, g.c_in), strict=True)):
                seen = memory[start : start + g.c_in * size].reshape(g.c_in, size)[:, : planes.places]
                np.matmul(tap, seen, out=partial if number else total)
                if number:
                    np.add(total, partial, out=total)
            target[...] = total.reshape(g.c_out, g.rows, planes.width)[:, :, : g.columns]
    return result
