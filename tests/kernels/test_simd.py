"""The SIMD layer: every intrinsic against what NumPy says, on the vector width of this machine."""

import doctest

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from accel.kernels import simd  # noqa: E402
from accel.kernels.compiled import llvm, streams, vectors  # noqa: E402

DTYPES = ["float32", "float64"]
EDGES = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, 3.5]


def random(count, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(count).astype(dtype)


def aligned(count, dtype):
    memory = np.zeros(count * np.dtype(dtype).itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + count * np.dtype(dtype).itemsize].view(dtype)


@numba.njit(error_model="numpy")
def arithmetic(a, b, c, out):
    x, y, z = simd.load(a, 0), simd.load(b, 0), simd.load(c, 0)
    width = simd.lane_count(a)
    simd.store(out, 0, simd.fma(x, y, z))
    simd.store(out, width, x + y)
    simd.store(out, 2 * width, x - y)
    simd.store(out, 3 * width, x * y)
    simd.store(out, 4 * width, x / y)
    simd.store(out, 5 * width, simd.minimum(x, y))
    simd.store(out, 6 * width, simd.maximum(x, y))
    simd.store(out, 7 * width, simd.broadcast(c[1]))
    return simd.sum_lanes(x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic(dtype):
    width = simd.lanes(dtype)
    a, b, c = (random(width, dtype, seed) for seed in range(3))
    out = np.zeros(8 * width, dtype)
    total = arithmetic(a, b, c, out)
    fused, *others = out.reshape(8, width)
    wide = np.longdouble if dtype == "float64" else np.float64
    np.testing.assert_allclose(fused, (a.astype(wide) * b + c).astype(dtype), rtol=0, atol=2e-16 * 4)
    expected = [a + b, a - b, a * b, a / b, np.minimum(a, b), np.maximum(a, b), np.full(width, c[1])]
    np.testing.assert_array_equal(others, expected)
    assert total == pytest.approx(float(a.astype(np.float64).sum()), rel=1e-4 if dtype == "float32" else 1e-12)
    assert isinstance(total, float)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("edge", EDGES)
def test_minimum_and_maximum_hand_on_the_second_operand_where_either_is_nan(dtype, edge):
    width = simd.lanes(dtype)
    a, b = np.full(width, edge, dtype), np.full(width, 1, dtype)
    for first, second in ((a, b), (b, a)):
        out = np.zeros(8 * width, dtype)
        arithmetic(first, second, first, out)
        lesser, greater = out.reshape(8, width)[5:7]
        np.testing.assert_array_equal(lesser, np.where(first < second, first, second))
        np.testing.assert_array_equal(greater, np.where(first > second, first, second))


@numba.njit
def copy_both_ways(x, plain, around):
    width = simd.lane_count(x)
    for i in range(0, x.size, width):
        simd.prefetch(x, i + width)
        simd.store(plain, i, simd.load(x, i))
        simd.store_non_temporal(around, i, simd.load(x, i))
    simd.fence()


@pytest.mark.parametrize("dtype", DTYPES)
def test_stores_from_an_unaligned_load(dtype):
    count = 16 * simd.lanes(dtype)
    x = random(count + 1, dtype)[1:]
    plain, around = aligned(count + 1, dtype)[1:], aligned(count, dtype)
    copy_both_ways(x, plain, around)
    np.testing.assert_array_equal(plain, x)
    np.testing.assert_array_equal(around, x)


def test_stores_are_the_instructions_that_were_asked_for():
    copy_both_ways(np.zeros(16, np.float32), np.zeros(16, np.float32), aligned(16, "float32"))
    code = "".join(copy_both_ways.inspect_asm().values())
    names = ("movntps", "sfence", "prefetcht0") if llvm.IS_X86 else ("stnp", "dmb", "prfm")
    assert [name for name in names if name not in code] == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_transpose(dtype):
    width = simd.lanes(dtype)
    x, out = random(width * width, dtype), np.zeros(width * width, dtype)
    columns = numba.njit(lambda x, out: vectors.store_tile(out, 0, width, simd.transpose(load(x)), 1))
    load = numba.njit(lambda x: vectors.load_tile(x, 0, width, width, 1))
    columns(x, out)
    np.testing.assert_array_equal(out.reshape(width, width), x.reshape(width, width).T)


@pytest.mark.parametrize("dtype", DTYPES)
def test_transpose_of_fewer_rows_fills_the_first_lanes(dtype):
    width = simd.lanes(dtype)
    rows = width - 1
    x, out = random(width * width, dtype), np.zeros(width * width, dtype)
    load = numba.njit(lambda x: vectors.load_tile(x, 0, width, rows, 1))
    numba.njit(lambda x, out: vectors.store_tile(out, 0, width, simd.transpose(load(x)), 1))(x, out)
    np.testing.assert_array_equal(out.reshape(width, width)[:, :rows], x.reshape(width, width).T[:, :rows])


@numba.njit
def interleave_halves(x, out):
    width = simd.lane_count(x)
    low, high = simd.interleave(simd.load(x, 0), simd.load(x, width))
    simd.store(out, 0, low)
    simd.store(out, width, high)


@pytest.mark.parametrize("dtype", DTYPES)
def test_interleave(dtype):
    width = simd.lanes(dtype)
    x, out = random(2 * width, dtype), np.zeros(2 * width, dtype)
    interleave_halves(x, out)
    np.testing.assert_array_equal(out, np.stack([x[:width], x[width:]], axis=1).ravel())


@numba.njit
def rank_two_update(column, row, tile, out):
    width = simd.lane_count(row)
    sums = vectors.add_each(vectors.zeros(row, 6), vectors.load_tile(tile, 0, 2 * width, 3, 2))
    for k in range(2):
        sums = vectors.outer_fma(
            sums, vectors.broadcast_each(column, 3 * k, 3), vectors.load_tile(row, 2 * width * k, 0, 1, 2)
        )
    vectors.store_tile(out, 0, 2 * width, sums, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tile_in_registers(dtype):
    width = 2 * simd.lanes(dtype)
    column, row, tile = (random(count, dtype, 1) for count in (6, 2 * width, 3 * width))
    out = np.zeros_like(tile)
    rank_two_update(column, row, tile, out)
    exact = column.reshape(2, 3).T.astype(np.float64) @ row.reshape(2, width) + tile.reshape(3, width)
    np.testing.assert_allclose(out.reshape(3, width), exact, rtol=1e-5 if dtype == "float32" else 1e-13, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (lambda x: simd.load(x.astype(np.int64), 0), "array of float32 or float64"),
        (lambda x: simd.load(x[::2], 0), "contiguous"),
        (lambda x: simd.broadcast(1), "float32 or float64; got"),
        (lambda x: simd.fma(simd.load(x, 0), simd.load(x, 0), x[0]), "vectors of one type"),
        (lambda x: simd.transpose(vectors.load_tile(x, 0, 1, 1000, 1)), "at most as many vectors"),
        (lambda x: vectors.zeros(x, x.size), "known while compiling"),
    ],
)
def test_wrong_uses_are_refused_while_compiling(body, says):
    def use(x):
        body_compiled(x)

    body_compiled = numba.njit(body)
    with pytest.raises(numba.TypingError, match=says):
        numba.njit(use)(np.ones(64))


def test_streams_move_what_they_say():
    source, target = aligned(4096, "float32"), aligned(4096, "float32")
    source[:] = random(4096, "float32")
    streams.copy_non_temporal(source, target, 2)
    np.testing.assert_array_equal(target, source)
    streams.copy(source, target, 3)
    np.testing.assert_array_equal(target, source + np.float32(2))
    streams.triad(source, target[:2048], 4)
    np.testing.assert_allclose(target[:2048], source[:2048] + np.float32(3) * source[2048:], rtol=1e-5, atol=1e-6)
    assert streams.load(source, target, 2) == pytest.approx(2 * float(source.astype(np.float64).sum()), rel=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_chains_of_multiply_adds_sum_to_their_closed_form(dtype):
    x = np.dtype(dtype).type(0.5)
    # Each chain tends to the fixed point of c = c * x + x, which is x / (1 - x) = 1.
    assert streams.fma_chains(200, x) == pytest.approx(streams.CHAINS * simd.lanes(dtype))


@pytest.mark.parametrize("module", [simd, vectors])
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0
