"""Layout: how NumPy orders and merges the axes of the arrays in one call."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["addressed_elements", "axis_order", "extent", "inner_loop", "is_contiguous", "packed_strides"]

Shape = tuple[int, ...]


def axis_order(ndim: int, strides: Sequence[Shape]) -> list[int]:
    """Return the axes from outermost to innermost, as NumPy's iterator orders them (its order "K").

    An axis moves inwards past another when the first operand that steps along both says that its own step is the
    shorter; ties keep C order. The rule is that of `npyiter_find_best_axis_ordering` in NumPy's `nditer_constr.c`.

    >>> axis_order(2, [(8, 80)])  # Fortran order: the first axis is the innermost
    [1, 0]
    """
    inner_first = list(range(ndim - 1, -1, -1))
    for i in range(1, ndim):
        axis, place = inner_first[i], i
        for j in range(i - 1, -1, -1):
            other, shorter, known = inner_first[j], False, False
            for steps in strides:
                outer_step, inner_step = abs(steps[axis]), abs(steps[other])
                if outer_step and inner_step:
                    if inner_step <= outer_step:
                        shorter = False
                        known = True
                    elif not known:
                        shorter = True
                        known = True
            if known and not shorter:
                break
            if shorter:
                place = j
        inner_first.insert(place, inner_first.pop(i))
    return inner_first[::-1]


def inner_loop(shape: Shape, strides: Sequence[Shape]) -> tuple[int, int]:
    """Return (elements of each inner loop, number of inner loops) once axes that continue one another are merged.

    >>> inner_loop((100, 8), [(64, 8), (64, 8)])  # two contiguous operands: one loop over everything
    (800, 1)
    >>> inner_loop((100, 8), [(64, 8), (0, 8)])  # the second is a row, broadcast down
    (8, 100)
    """
    size = math.prod(shape)
    if not size:
        return 0, 0
    order = [axis for axis in axis_order(len(shape), strides) if shape[axis] > 1]
    length, inner = 1, [0] * len(strides)
    while order:
        axis = order.pop()
        if length > 1 and any(steps[axis] != step * length for steps, step in zip(strides, inner, strict=True)):
            break
        if length == 1:
            inner = [steps[axis] for steps in strides]
        length *= shape[axis]
    return length, size // length


def packed_strides(shape: Shape, itemsize: int, order: Sequence[int]) -> Shape:
    """Return the strides of an array without gaps whose axes lie in memory in `order`, outermost first."""
    strides, step = [0] * len(shape), itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def addressed_elements(shape: Shape, strides: Shape) -> int:
    """Return the number of distinct elements, a broadcast (stride 0) axis counted once."""
    count = 1
    for length, step in zip(shape, strides, strict=True):
        count *= length if step or not length else 1
    return count


def extent(start: int, shape: Shape, strides: Shape, itemsize: int) -> tuple[int, int]:
    """Return the addresses of the first byte and of the one after the last, of an array whose first element is known.

    >>> extent(100, (3,), (-8,), 8)
    (84, 108)
    """
    low = high = start
    for length, step in zip(shape, strides, strict=True):
        reach = (length - 1) * step
        low, high = (low + reach, high) if reach < 0 else (low, high + reach)
    return low, high + itemsize


def is_contiguous(shape: Shape, strides: Shape, itemsize: int) -> bool:
    """Tell whether the array is in C or in Fortran order with no gaps."""
    if 0 in shape:
        return True
    for axes in (range(len(shape) - 1, -1, -1), range(len(shape))):
        step = itemsize
        for axis in axes:
            if shape[axis] != 1 and strides[axis] != step:
                break
            step *= shape[axis]
        else:
            return True
    return False
