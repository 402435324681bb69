"""Blocks: cutting arrays into pieces small enough to stay in cache from one pass to the next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["BLOCK_SIZE", "aligned_empty", "block_count", "blocks", "in_memory_order"]

BLOCK_SIZE = 64 * 1024
"""Elements in a block unless the caller says otherwise: float32 input and result then fill 512 KB, so a 1 MB L2 cache
holds both, and eight dispatches a block cost little beside 64K elements of work."""

CACHE_LINE = 64
"""Bytes in a cache line; where lines are longer, as on Apple's CPUs, this is half of one."""

Index = tuple[int | slice, ...]


def in_memory_order(x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return views of two arrays of one shape, axes from slowest to fastest in the memory of `x`.

    Where both are then contiguous the views are one-dimensional.

    >>> import numpy as np
    >>> a = np.zeros((2, 3), order="F")
    >>> in_memory_order(a, a)[0].shape, in_memory_order(a, np.zeros((2, 3)))[0].shape
    ((6,), (3, 2))
    """
    if x.flags.c_contiguous and y.flags.c_contiguous:
        return x.reshape(-1), y.reshape(-1)
    axes = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))
    x, y = x.transpose(axes), y.transpose(axes)
    if x.flags.c_contiguous and y.flags.c_contiguous:
        return x.reshape(-1), y.reshape(-1)
    return x, y


def blocks(shape: tuple[int, ...], size: int) -> Iterator[Index]:
    """Yield the indices that cut an array of `shape` into blocks of at most `size` elements, in C order.

    >>> list(blocks((5,), 2))
    [(slice(0, 2, None),), (slice(2, 4, None),), (slice(4, 6, None),)]
    >>> list(blocks((2, 4), 3))[:2]
    [(0, slice(0, 3, None)), (0, slice(3, 6, None))]
    """
    axis, step = _cut(shape, size)
    for outer in product(*map(range, shape[:axis])):
        for start in range(0, shape[axis], step):
            yield (*outer, slice(start, start + step))


def aligned_empty(count: int, dtype: DTypeLike, alignment: int = CACHE_LINE) -> NDArray[Any]:
    """Return memory for `count` elements that begins where a cache line does, as vector loads and stores like it.

    A vector register that begins elsewhere may lie in two cache lines, which takes two accesses.

    >>> aligned_empty(3, "float64").ctypes.data % CACHE_LINE
    0
    """
    size = count * np.dtype(dtype).itemsize
    memory = np.empty(size + alignment, np.uint8)
    start = -memory.ctypes.data % alignment
    return memory[start : start + size].view(dtype)


def block_count(shape: tuple[int, ...], size: int) -> int:
    """Return how many blocks `blocks` yields.

    >>> block_count((2, 4), 3)
    4
    """
    axis, step = _cut(shape, size)
    return math.prod(shape[:axis]) * -(-shape[axis] // step)


def _cut(shape: tuple[int, ...], size: int) -> tuple[int, int]:
    """Return the axis to cut, everything after which fits in one block, and the step along it."""
    axis = 0
    while axis < len(shape) - 1 and math.prod(shape[axis + 1 :]) > size:
        axis += 1
    return axis, max(1, size // max(1, math.prod(shape[axis + 1 :])))
