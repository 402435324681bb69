"""The register tile: both layouts of the left operand, rows of the right one anywhere, and no step at all."""

import numpy as np
import pytest

from accel.kernels.compiled import compiled, register_tile
from accel.kernels.compiled.register_tile import ROWS, columns, multiply_columns, multiply_rows


@compiled
def both(steps, packed, rows, b, starts, c, width, add):
    multiply_columns(steps, packed, 0, ROWS, b, 0, starts, c, 0, width, add)
    multiply_rows(steps, rows, 0, rows.size // ROWS, b, 0, starts, c, ROWS * width, width, add)


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 9])
def test_both_multiply(steps, add):
    rng = np.random.default_rng(0)
    width = columns("float64") + 3
    a, b = rng.integers(-5, 5, (ROWS, 9)).astype(float), rng.integers(-5, 5, 200).astype(float)
    starts = rng.integers(0, 200 - width, 9)
    c = np.full((2 * ROWS, width), 7.0)
    both(steps, a.T.copy().reshape(-1), a.reshape(-1), b, starts, c.reshape(-1), width, add)
    operand = np.array([b[start : start + width] for start in starts])
    expected = a[:, :steps] @ operand[:steps] + (7 if add else 0)
    tile = columns("float64")
    for got in (c[:ROWS], c[ROWS:]):
        np.testing.assert_array_equal(got[:, :tile], expected[:, :tile])
        np.testing.assert_array_equal(got[:, tile:], 7.0)


def test_a_tile_leaves_registers_for_its_operands():
    registers = 16 if register_tile.simd.VECTOR_BITS == 256 else 32
    needed = ROWS * register_tile.VECTORS + register_tile.VECTORS + 1
    assert needed <= registers
