"""The packed matrix product: every shape, stride, order and block edge against float64; block sizes by the model."""

import doctest
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import lay_out
from machines import LAPTOP

import accel
from accel.kernels import fallback, matmul, matmul_arguments, matmul_blocks, matmul_packed
from accel.machine import Cache

DTYPES = ["float32", "float64"]
LAYOUTS = ["C", "F", "strided", "reversed", "read-only"]
TOLERANCE = {"float32": 2e-5, "float64": 4e-14}


@pytest.fixture(autouse=True)
def small_products_too():
    """Give every size to the compiled code: by itself the form leaves the smallest to NumPy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matmul_packed, "FEW", 0)
        yield


def random(shape, dtype, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def small_blocks(dtype):
    """Block sizes so small that a product of a hundred has every kind of edge."""
    sizes = matmul.block_sizes(dtype=dtype)
    return replace(sizes, kc=9, mc=2 * sizes.mr, nc=2 * sizes.nr)


def assert_is_product(got, a, b):
    exact = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) + 1
    assert np.max(np.abs(got - exact) / scale, initial=0) < TOLERANCE[a.dtype.name]


@pytest.mark.parametrize("dtype", DTYPES)
@given(
    sizes=st.tuples(*[st.integers(1, 90)] * 3),
    layouts=st.tuples(*[st.sampled_from(LAYOUTS)] * 2),
    out_layout=st.sampled_from(["none", "C", "F", "strided", "reversed"]),
    small=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_every_shape_stride_and_order(dtype, sizes, layouts, out_layout, small):
    m, k, n = sizes
    a, b = lay_out(random((m, k), dtype, 1), layouts[0]), lay_out(random((k, n), dtype, 2), layouts[1])
    out = None if out_layout == "none" else lay_out(np.full((m, n), np.nan, dtype), out_layout)
    before = a.copy(), b.copy()
    got = matmul.packed(a, b, out=out, blocks=small_blocks(dtype) if small else None)
    assert got is out or out is None
    assert_is_product(got, a, b)
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(255, 255, 255), (1000, 17, 333), (17, 1000, 33), (64, 700, 64), (60, 3, 2000)])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_larger_shapes_on_threads(dtype, shape, threads):
    m, k, n = shape
    a, b = random((m, k), dtype, 1), random((k, n), dtype, 2)
    assert_is_product(matmul.packed(a, b, threads=threads), a, b)
    assert_is_product(matmul.packed(b.T, a.T, threads=threads), b.T, a.T)


def test_nothing_outside_the_result_is_written():
    around = np.full((40, 60), 7, np.float32)
    out = around[3:34, 5:52]
    a, b = random((31, 20), "float32", 1), random((20, 47), "float32", 2)
    matmul.packed(a, b, out=out)
    assert_is_product(out, a, b)
    out[...] = 7
    assert (around == 7).all()


def test_values_outside_the_operands_are_of_no_matter():
    wide = np.full((50, 50), np.nan, np.float32)
    wide[7:38, 9:30] = random((31, 21), "float32", 1)
    a, b = wide[7:38, 9:30], wide[7:28, 9:30]
    for left, right in ((a, b), (a.T, a), (b.T, a.T)):
        assert np.isfinite(matmul.packed(left, right, blocks=small_blocks("float32"))).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_special_values_reach_their_row_and_column_only(dtype, value):
    a, b = np.ones((20, 30), dtype), np.ones((30, 40), dtype)
    a[5, 7] = value
    with np.errstate(all="raise"):
        got = matmul.packed(a, b)
    np.testing.assert_array_equal(got[5], np.full(40, value, dtype))
    np.testing.assert_array_equal(np.delete(got, 5, axis=0), np.full((19, 40), 30, dtype))


@pytest.mark.parametrize("broadcast", [(0, 1), (1, 0), (0, 0)])
def test_operands_that_repeat_themselves(broadcast):
    a = np.lib.stride_tricks.as_strided(random(60, "float64", 1), (30, 20), [8 * stride for stride in broadcast])
    b = random((20, 25), "float64", 2)
    assert_is_product(matmul.packed(a, b), a, b)
    assert_is_product(matmul.packed(b.T, a.T), b.T, a.T)


def test_strides_that_are_no_whole_elements():
    pairs = np.zeros((30, 20), np.dtype([("flag", "i1"), ("value", "f8")]))
    pairs["value"] = random((30, 20), "float64", 1)
    b = random((20, 25), "float64", 2)
    assert_is_product(matmul.packed(pairs["value"], b), pairs["value"], b)
    out = np.zeros((30, 25), pairs.dtype)["value"]
    assert_is_product(matmul.packed(pairs["value"].copy(), b, out=out), pairs["value"], b)


def test_batches_broadcast():
    a, b = random((3, 1, 20, 10), "float32", 1), random((4, 10, 30), "float32", 2)
    got = matmul.packed(a, b, threads=2)
    assert got.shape == (3, 4, 20, 30)
    assert_is_product(got, a, b)


@pytest.mark.parametrize("form", [matmul.packed, matmul.tiled_loops])
@pytest.mark.parametrize("dtypes", [("float16", "float16"), (">f4", ">f4"), ("float32", "float64"), ("int64", "int64")])
def test_other_dtypes_are_left_to_numpy(form, dtypes):
    a, b = (np.arange(1, 101).reshape(10, 10).astype(dtype) for dtype in dtypes)
    np.testing.assert_array_equal(form(a, b), a @ b)
    assert form(a, b).dtype == (a @ b).dtype


@pytest.mark.parametrize("form", [matmul.packed, matmul.tiled_loops])
def test_native_byte_order_spelt_out_is_native(form, monkeypatch):
    dtype = np.dtype("float32").newbyteorder("=")
    a = random((20, 20), "float32", 1).astype(dtype)
    monkeypatch.setattr(np, "matmul", None)
    assert_is_product(form(a, a), a, a)


@pytest.mark.parametrize("form", [matmul.packed, matmul.tiled_loops])
def test_without_numba_numpy_multiplies(form, monkeypatch):
    monkeypatch.setattr(fallback, "_compiler_works", lambda: False)
    matmul_packed._kernel.cache_clear()
    a, b = random((20, 10), "float32", 1), random((10, 30), "float32", 2)
    np.testing.assert_array_equal(form(a, b), a @ b)
    matmul_packed._kernel.cache_clear()


def test_few_rows_or_columns_are_left_to_numpy(monkeypatch):
    monkeypatch.setattr(matmul_packed, "FEW", 32)
    monkeypatch.setattr(np, "matmul", None)
    wide, square = np.ones((32, 40)), np.ones((40, 40))
    for a, b in ((wide, square), (square, wide.T)):
        for out in (None, np.empty((a.shape[0], b.shape[1]))):
            with pytest.raises(TypeError, match="not callable"):
                matmul.packed(a, b, out=out)
    assert (matmul.packed(square, square) == 40).all()


@pytest.mark.parametrize("threads", [0, -1, 1.5, True])
def test_bad_threads_are_refused(threads):
    for call in (matmul.packed, matmul.packed.cost):
        with pytest.raises((ValueError, TypeError), match="threads must be"):
            call(np.eye(8), np.eye(8), threads=threads)


def test_blocks_for_other_registers_are_refused():
    sizes = matmul.block_sizes(dtype="float64")
    for wrong in (replace(sizes, mr=sizes.mr + 1), matmul.block_sizes(dtype="float32")):
        with pytest.raises(ValueError, match="blocks must be for float64 and tiles of"):
            matmul.packed(np.eye(8), np.eye(8), blocks=wrong)


def test_a_trace_takes_a_call_as_one_operation():
    a = np.ones((16, 16), np.float32)
    for form in (matmul.packed, matmul.tiled_loops):
        trace = accel.trace(form, a, a)
        assert [op.cost for op in trace.ops if op.kind != "opaque"] == [form.cost(a, a)]


# ------------------------------------------------------------------------------------------------ block sizes


def machine(simd_bits, *levels):
    caches = tuple(Cache(level, size, 64, ways, shared) for level, size, ways, shared in levels)
    return replace(LAPTOP, simd_bits=simd_bits, caches=caches)


ZEN3 = machine(256, (1, 32 << 10, 8, 1), (2, 512 << 10, 8, 1), (3, 32 << 20, 16, 2))


def test_block_sizes_by_hand():
    # L1: ways of 4 KB. A step takes 6 * 4 bytes of a and 16 * 4 of b: 320 steps fill 5 ways with b and 2 with a.
    # L2: ways of 64 KB. A panel of b, 20 KB, takes one, c one: 6 * 64 KB / (320 * 4) = 307 rows, or 306 in tiles.
    # L3: 16 MB are this CPU's, ways of 1 MB. The block of a takes one, c one: 14 MB / (320 * 4) = 11468 columns.
    sizes = matmul.block_sizes(ZEN3, "float32")
    assert (sizes.mr, sizes.nr, sizes.kc, sizes.mc, sizes.nc) == (6, 16, 320, 306, 11456)
    wide = matmul.block_sizes(ZEN3, "float64")
    assert (wide.mr, wide.nr, wide.kc, wide.mc, wide.nc) == (6, 8, 256, 192, 7168)
    # In float64 a step takes 6 * 8 bytes of a: 320 steps would fill 4 ways, and 4 + 5 + 1 are more than 8.
    # 14 * 4 and 32 * 4 bytes a step: 2 ways of a hold 146 steps, which take 5 of b.
    assert matmul.block_sizes(replace(ZEN3, simd_bits=512)).kc == 146


@given(
    bits=st.sampled_from([128, 256, 512]),
    dtype=st.sampled_from(DTYPES),
    sizes=st.tuples(st.integers(8, 128), st.integers(64, 4096), st.integers(1, 64)),
    ways=st.tuples(*[st.sampled_from([2, 4, 8, 12, 16, None])] * 3),
    levels=st.integers(0, 3),
)
@settings(max_examples=100)
def test_blocks_fit_the_ways_they_are_for(bits, dtype, sizes, ways, levels):
    first, second, third = sizes[0] << 10, sizes[1] << 10, sizes[2] << 20
    caches = [(1, first, ways[0], 1), (2, second, ways[1], 2), (3, third, ways[2], 4)][:levels]
    blocks = matmul.block_sizes(machine(bits, *caches), dtype)
    itemsize = np.dtype(dtype).itemsize
    assert blocks.mc % blocks.mr == blocks.nc % blocks.nr == 0
    assert min(blocks.kc, blocks.mc, blocks.nc) >= 1
    if levels >= 1 and (ways[0] or 8) > 2:
        count = ways[0] or 8
        way = first // count
        panels = [-(-blocks.kc * width * itemsize // way) for width in (blocks.mr, blocks.nr)]
        assert sum(panels) + 1 <= count
    if levels >= 2 and blocks.mc > blocks.mr:
        assert blocks.mc * blocks.kc * itemsize <= second
    if levels == 3 and blocks.nc > blocks.nr:
        assert blocks.nc * blocks.kc * itemsize <= third / 4


def test_block_sizes_say_why():
    text = str(matmul.block_sizes(ZEN3))
    assert "kc = 320    steps: panels of a and b then take 2 and 5 of the 8 ways of L1, and one is left to c" in text
    assert "of the 16 ways of this CPU's share of L3" in text
    assert "a typical L2" in str(matmul.block_sizes(machine(256)))
    assert matmul.BlockSizes.from_json(matmul.block_sizes(ZEN3).to_json()) == matmul.block_sizes(ZEN3)


def test_block_sizes_of_other_dtypes_are_refused():
    with pytest.raises(TypeError, match="float32 or float64; got int64"):
        matmul.block_sizes(dtype=np.int64)


@pytest.mark.parametrize("module", [matmul_packed, matmul_blocks, matmul_arguments])
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0


@pytest.mark.speed
def test_packed_keeps_up_with_numpy():
    a, b = random((512, 512), "float32", 1), random((512, 512), "float32", 2)
    out = np.empty((512, 512), np.float32)

    def seconds(call):
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    with accel.measurement.single_threaded():
        rounds = [
            (seconds(lambda: matmul.packed(a, b, out=out)), seconds(lambda: np.matmul(a, b, out=out)))
            for _ in range(40)
        ]
    packed, blas = map(min, zip(*rounds, strict=True))
    assert packed < 2 * blas
