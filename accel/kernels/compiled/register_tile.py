"""Register tile: the innermost loop of a matrix product, which keeps its results in registers. Needs Numba.

Two building blocks, which become part of the function that calls them, compute a tile of ROWS x `columns` results of a
matrix product, or add to it:

    c[i, j] = Σₖ a[i, k] · b[k, j]    for i < ROWS and j < columns

Each step k loads a row of `b` as whole vectors, spreads ROWS numbers of `a` over vectors, and makes ROWS x VECTORS
multiply-adds: many FLOPs for few loads. Row k of `b` starts at element ``b_start + b_rows[k]``, wherever that is. Rows
that lie apart, or overlap as the windows of a convolution do, therefore need no copy. (Dukhan, arXiv 1907.02129, does
the same with pointers.)

The two differ in how `a` lies in memory: `multiply_columns` finds a[i, k] at ``a_start + k * a_step + i``, the rows of
one step side by side; `multiply_rows` at ``a_start + i * a_step + k``, the steps of one row side by side.
"""

from __future__ import annotations

from typing import Any

from accel.kernels import simd
from accel.kernels.compiled import inlined
from accel.kernels.compiled.vectors import broadcast_apart, broadcast_each, load_tile, outer_fma, store_tile, zeros

__all__ = ["ROWS", "VECTORS", "columns", "multiply_columns", "multiply_rows"]

ROWS = 6
VECTORS = 2 if simd.VECTOR_BITS == 256 else 4
"""Vectors in a row of the tile. With a row of `b` and a number of `a` beside it, the tile fills the 16 registers of
AVX2, or most of the 32 of AVX-512 and NEON."""
_SIZE = ROWS * VECTORS


def columns(dtype: Any) -> int:
    """Return the number of columns of a tile of this dtype."""
    return VECTORS * simd.lanes(dtype)


@inlined
def multiply_columns(steps, a, a_start, a_step, b, b_start, b_rows, c, c_start, c_step, add):  # type: ignore[no-untyped-def]
    """Write the tile at ``c_start + i * c_step + j`` of `c`, or `add` to it."""
    tile = load_tile(c, c_start, c_step, ROWS, VECTORS) if add else zeros(c, _SIZE)
    for k in range(steps):
        row = load_tile(b, b_start + b_rows[k], 0, 1, VECTORS)
        tile = outer_fma(tile, broadcast_each(a, a_start + k * a_step, ROWS), row)
    store_tile(c, c_start, c_step, tile, VECTORS)


@inlined
def multiply_rows(steps, a, a_start, a_step, b, b_start, b_rows, c, c_start, c_step, add):  # type: ignore[no-untyped-def]
    """Write the tile at ``c_start + i * c_step + j`` of `c`, or `add` to it."""
    tile = load_tile(c, c_start, c_step, ROWS, VECTORS) if add else zeros(c, _SIZE)
    for k in range(steps):
        row = load_tile(b, b_start + b_rows[k], 0, 1, VECTORS)
        tile = outer_fma(tile, broadcast_apart(a, a_start + k, a_step, ROWS), row)
    store_tile(c, c_start, c_step, tile, VECTORS)
