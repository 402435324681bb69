"""Packed matrix product: blocks in the caches, panels in order, a tile of the result in registers. Needs Numba.

Five loops around a micro-kernel, after Goto and van de Geijn (10.1145/1356052.1356053) and BLIS (10.1145/2764454):

    for each nc columns                    c[:, J] += a @ b[:, J]
        for each kc of the inner dimension     pack b[P, J], which then stays in L3
            for each mc rows                       pack a[I, P], which then stays in L2
                for each panel of nr columns           a kc x nr panel of b stays in L1
                    for each panel of mr rows              micro-kernel: an mr x nr tile of c stays in registers

*Packing* copies a block into panels in the order in which the micro-kernel will read it: one element after the other,
whatever the strides were. A panel of `a` is mr rows wide, one of `b` nr columns; both hold zeros where the matrix ends.
"""

from __future__ import annotations

import numba
import numpy as np
from numba import types

from accel.kernels import simd
from accel.kernels.compiled import compile_for, compiled, component
from accel.kernels.compiled.vectors import (
    add_each,
    broadcast_each,
    load_columns,
    load_part,
    load_tile,
    outer_fma,
    store_part,
    store_tile,
    zeros,
)
from accel.kernels.matmul_blocks import REGISTER_TILES

__all__ = ["multiply", "prepare", "workspace_elements"]

ROWS, ROW_VECTORS = REGISTER_TILES[simd.VECTOR_BITS]
"""Rows of the micro-kernel's tile, and vectors in each."""
_VECTORS = ROWS * ROW_VECTORS
_STEPS = 8
"""Steps of the inner dimension that are packed for all panels of a block before the next ones, where they lie in rows:
eight rows at a time are read from beginning to end, as hardware prefetchers like it."""


def prepare(dtype: np.dtype) -> None:
    """Compile `multiply` for matrices of float32 or float64 of any strides: one signature serves all layouts."""
    number = numba.from_dtype(dtype)
    operand = types.Array(number, 2, "A", readonly=True)
    result, workspace = types.Array(number, 2, "A"), types.Array(number, 1, "C")
    sizes = [types.int64] * 3
    compile_for(multiply, operand, operand, result, workspace, *sizes, types.boolean)


def workspace_elements(dtype: np.dtype, mc: int, nc: int, kc: int) -> int:
    """Return how many elements the packed blocks take, with what their last vectors write beyond them."""
    lanes = simd.lanes(dtype)
    return (mc + nc) * kc + lanes * (ROWS + ROW_VECTORS * lanes)


@compiled
def multiply(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, workspace: np.ndarray, mc: int, nc: int, kc: int, checked: bool
) -> bool:
    """Write ``a @ b`` to `c`: matrices of one dtype, `c` of unit column stride, `a` and `b` of one unit stride each.

    Of a matrix with one step the strides are of no matter. `c` shares no memory with the others. The workspace is
    contiguous and has `workspace_elements`. Unless all of this was `checked`, return False where it does not hold.
    """
    (m, n), inner = c.shape, a.shape[1]
    lanes = simd.lane_count(c)
    mr, nr = np.int64(ROWS), ROW_VECTORS * lanes
    mc, nc, kc = _even(m, mc, mr), _even(n, nc, nr), _even(inner, kc, 1)
    if not checked and not (_are_plain(a, b, c) and workspace.size >= (mc + nc) * kc + lanes * (mr + nr)):
        return False
    left, right, result = simd.address(a), simd.address(b), simd.address(c)
    packed, left_at = simd.address(workspace), nc * kc
    a_row, a_step = simd.element_strides(a)
    b_step, b_column = simd.element_strides(b)
    c_row, _ = simd.element_strides(c)
    steps = _STEPS if b_column == 1 else kc
    for column in range(0, n, nc):
        columns = min(nc, n - column)
        for step in range(0, inner, kc):
            depth = min(kc, inner - step)
            for k in range(0, depth, steps):
                for j in range(0, columns, nr):
                    at, to = (step + k) * b_step + (column + j) * b_column, j * depth + k * nr
                    size = min(nr, columns - j), min(steps, depth - k)
                    _pack_panel(right, at, b_column, b_step, size, packed, to, nr)
            for row in range(0, m, mc):
                rows = min(mc, m - row)
                for i in range(0, rows, mr):
                    at, to = (row + i) * a_row + step * a_step, left_at + i * depth
                    _pack_panel(left, at, a_row, a_step, (min(mr, rows - i), depth), packed, to, mr)
                for j in range(0, columns, nr):
                    for i in range(0, rows, mr):
                        panels, at = (left_at + i * depth, j * depth), (row + i) * c_row + column + j
                        size = min(mr, rows - i), min(nr, columns - j)
                        _multiply_panels(packed, panels, depth, result, at, c_row, size, step > 0)
    return True


@component
def _even(length: int, block: int, multiple: int) -> int:
    """Return a size, at most `block` and a `multiple`, that cuts `length` into as few pieces, of nearly equal size."""
    pieces = max(1, -(-length // block))
    return -(-length // (pieces * multiple)) * multiple


@component
def _are_plain(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> bool:
    """Whether three matrices fit together, are in C order with whole elements between rows, and `c` lies apart."""
    (m, n), inner = c.shape, a.shape[1]
    if a.shape[0] != m or b.shape[0] != inner or b.shape[1] != n:
        return False
    size = c.itemsize
    if a.strides[1] != size or b.strides[1] != size or c.strides[1] != size:
        return False
    a_row, b_row, c_row = a.strides[0], b.strides[0], c.strides[0]
    if a_row < inner * size or b_row < n * size or c_row < n * size or (a_row | b_row | c_row) % size != 0:
        return False
    a_start, b_start, c_start = simd.byte_address(a), simd.byte_address(b), simd.byte_address(c)
    c_end = c_start + m * c_row
    a_apart = a_start >= c_end or a_start + m * a_row <= c_start
    return a_apart and (b_start >= c_end or b_start + inner * b_row <= c_start)


@component
def _pack_panel(
    memory: np.ndarray,
    at: int,
    stride: int,
    step_stride: int,
    size: tuple[int, int],
    packed: np.ndarray,
    to: int,
    width: int,
) -> None:
    """Pack `size` (rows, steps) of `a`, or columns of `b`, into a panel: row i at step k goes to k * width + i.

    Rows that lie side by side in memory are copied, others are transposed, whose steps then lie side by side.

    Whole vectors are written. What they write beyond a step is written again, because the vectors of a step go from
    last to first; beyond the panel lies the next one, which is packed later. A panel narrower than `width` keeps what
    was there before: it only reaches results that do not exist.
    """
    count, depth = size
    lanes = simd.lane_count(packed)
    for lane in range((count - 1) // lanes * lanes, -1, -lanes):
        if stride == 1 and count - lane >= lanes:
            for k in range(depth):
                simd.store(packed, to + k * width + lane, simd.load(memory, at + k * step_stride + lane))
        elif stride == 1:
            for k in range(depth):
                row = simd.load_first(memory, at + k * step_stride + lane, count - lane)
                simd.store(packed, to + k * width + lane, row)
        else:
            for k in range(0, depth, lanes):
                columns = load_columns(memory, at + lane * stride + k, stride, count - lane, depth - k)
                store_tile(packed, to + k * width + lane, width, columns, 1)


@component
def _multiply_panels(
    packed: np.ndarray,
    panels: tuple[int, int],
    depth: int,
    c: np.ndarray,
    c_at: int,
    row_stride: int,
    size: tuple[int, int],
    accumulate: bool,
) -> None:
    """Micro-kernel: write the product of two panels to a tile of `c`, or add it. 2 * mr * nr FLOPs a step.

    `panels` says where the two begin, `size` how many rows and columns of the tile lie within `c`.
    """
    (left, right), (height, width) = panels, size
    nr = ROW_VECTORS * simd.lane_count(packed)
    for i in range(ROWS):
        simd.prefetch(c, c_at + i * row_stride)
        simd.prefetch(c, c_at + i * row_stride + nr - 1)
    tile = zeros(packed, _VECTORS)
    for k in range(depth):
        column = broadcast_each(packed, left + k * ROWS, ROWS)
        row = load_tile(packed, right + k * nr, 0, 1, ROW_VECTORS)
        tile = outer_fma(tile, column, row)
    if height == ROWS and width == nr:
        if accumulate:
            tile = add_each(load_tile(c, c_at, row_stride, ROWS, ROW_VECTORS), tile)
        store_tile(c, c_at, row_stride, tile, ROW_VECTORS)
    else:
        if accumulate:
            tile = add_each(load_part(c, c_at, row_stride, (ROWS, ROW_VECTORS), height, width), tile)
        store_part(c, c_at, row_stride, tile, ROW_VECTORS, height, width)
