"""Elementary functions over an array in a compiled loop: what one of them costs in vector registers. Needs Numba."""

from __future__ import annotations

import numpy as np

from accel.kernels.compiled import compiled
from accel.kernels.compiled.exponential import exp

__all__ = ["exponentials"]


@compiled
def exponentials(source: np.ndarray, target: np.ndarray, repeats: int) -> None:
    """Write exp of each element of `source` to `target`, `repeats` times."""
    for r in range(repeats):
        change = source.dtype.type(r)  # makes each repetition differ, so that none can be left out
        for i in range(source.size):
            target[i] = exp(source[i] - change)
