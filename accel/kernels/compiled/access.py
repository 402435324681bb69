"""Access patterns, compiled: what the NumPy forms do, without temporaries, and the chase that NumPy cannot do."""

from __future__ import annotations

import numpy as np

from accel.kernels.compiled import compiled, reassociated

__all__ = ["chase", "gathered_sum", "strided_sum"]


@compiled
def chase(following: np.ndarray, start: int, steps: int) -> int:
    """Go from `start` to ``following[start]``, and on, `steps` times; return where that leads."""
    place = start
    for _ in range(steps):
        place = following[np.uintp(place)]
    return place


@reassociated
def strided_sum(x: np.ndarray, step: int) -> float:
    """Return the sum of every `step`-th element."""
    total = x.dtype.type(0)
    for i in range(0, x.size, step):
        total += x[i]
    return total


@reassociated
def gathered_sum(x: np.ndarray, order: np.ndarray) -> float:
    """Return the sum of the elements at the given places."""
    total = x.dtype.type(0)
    for i in range(order.size):
        total += x[np.uintp(order[i])]
    return total
