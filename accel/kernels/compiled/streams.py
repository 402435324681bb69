"""Streams: compiled loops that show what the hardware can do at best, for the calibration. Needs Numba.

The plain loops are left to LLVM, which vectorizes them. What a compiler does not promise, multiply-adds on whole
registers and stores around the caches, stands on `accel.kernels.simd`.
"""

from __future__ import annotations

import numpy as np

from accel.kernels import simd
from accel.kernels.compiled import compiled, reassociated
from accel.kernels.compiled.vectors import fma_each, sum_each

__all__ = ["CHAINS", "copy", "copy_non_temporal", "fma_chains", "load", "triad"]

CHAINS = 12
"""Independent chains of fused multiply-adds: more than latency x issue width (4 x 2 to 5 x 2 cycles) on current
CPUs, few enough for the 16 registers of AVX2."""


@compiled
def fma_chains(steps: int, x: float) -> float:
    """Run ``steps * CHAINS`` vector multiply-adds in the dtype of `x`: 2 * lanes * CHAINS * steps FLOPs, no memory."""
    factor = simd.broadcast(x)
    a, b, c, d = factor, factor + factor, factor * factor, factor - factor
    # Twelve chains that begin apart: the compiler would make one of those that are equal.
    chains = (a, b, c, d, a + c, b + c, a * b, c * c, b * b, b * c, a - b, a - c)
    for _ in range(steps):
        chains = fma_each(chains, factor, factor)
    return simd.sum_lanes(sum_each(chains))  # so that no chain is dead code


@reassociated
def load(source: np.ndarray, unused: np.ndarray, repeats: int) -> float:
    """Read `source` `repeats` times; return the sum."""
    total = source.dtype.type(0)
    for _ in range(repeats):
        for i in range(source.size):
            total += source[i]
    return total


@compiled
def copy(source: np.ndarray, target: np.ndarray, repeats: int) -> float:
    """Copy `source` to `target` `repeats` times."""
    for r in range(repeats):
        change = source.dtype.type(r)  # makes each repetition differ, so that none can be left out
        for i in range(source.size):
            target[i] = source[i] + change
    return target[0]


@compiled
def triad(source: np.ndarray, target: np.ndarray, repeats: int) -> float:
    """Add to half of `source` a multiple of its other half, into `target` (half as long), `repeats` times."""
    half = target.size
    for r in range(repeats):
        factor = source.dtype.type(r)
        for i in range(half):
            target[i] = source[i] + factor * source[half + i]
    return target[0]


@compiled
def copy_non_temporal(source: np.ndarray, target: np.ndarray, repeats: int) -> float:
    """Copy whole vectors `repeats` times with stores that do not fetch the line first.

    `target` must start on a vector boundary.
    """
    width = simd.lane_count(target)
    for _ in range(repeats):
        for k in range(source.size // width):
            simd.store_non_temporal(target, k * width, simd.load(source, k * width))
        simd.fence()
    return target[0]
