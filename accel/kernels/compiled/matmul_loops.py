"""Matrix product by plain loops over tiles, which the compiler vectorizes along j. Needs Numba."""

from __future__ import annotations

import functools

import numba
import numpy as np
from numba import types

from accel.kernels.compiled import compile_for, compiled, component

__all__ = ["multiply", "prepare"]


@functools.cache
def prepare(dtype: np.dtype) -> None:
    """Compile `multiply` for contiguous matrices of float32 or float64."""
    number = numba.from_dtype(dtype)
    operand, result = types.Array(number, 2, "C", readonly=True), types.Array(number, 2, "C")
    compile_for(multiply, operand, operand, result, types.int64)


@compiled
def multiply(a: np.ndarray, b: np.ndarray, c: np.ndarray, tile: int) -> None:
    """Write ``a @ b`` to `c`, a tile of each at a time: three loops over tiles around three within them."""
    (m, n), inner = c.shape, a.shape[1]
    c[:, :] = 0
    for i0 in range(0, m, tile):
        for k0 in range(0, inner, tile):
            for j0 in range(0, n, tile):
                for i in range(i0, min(i0 + tile, m)):
                    target = c[i, j0 : j0 + tile]
                    for k in range(k0, min(k0 + tile, inner)):
                        _add_multiple(target, a[i, k], b[k, j0 : j0 + tile])


@component
def _add_multiple(target: np.ndarray, factor: float, row: np.ndarray) -> None:
    """Add ``factor * row`` to part of a row of the result.

    A loop over a contiguous piece that counts from zero is one that the compiler can vectorize: it then knows that no
    index is negative, which would count from the end, and that neighbours lie side by side.
    """
    for j in range(target.size):
        target[j] += factor * row[j]
