import doctest
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from layouts import LAYOUTS, floats, lay_out
from measuring import SMALL_CHANGE, compile_seconds, peak_bytes

import accel
from accel.cost import Cost
from accel.kernels import layer_norm, rows

FORMS = [layer_norm.textbook, layer_norm.two_pass, layer_norm.welford, layer_norm.blocked, layer_norm.fused]
NUMPY_FORMS = FORMS[:-1]
WITH_OUT = FORMS[1:]
WITH_THREADS = [layer_norm.blocked, layer_norm.fused]
SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)


def arguments(shape, dtype="float32", mean=0.0, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(mean, 1, shape).astype(dtype)
    return x, generator.uniform(-1, 1, shape[-1]).astype(dtype), generator.uniform(-1, 1, shape[-1]).astype(dtype)


def worst(form, given, **keywords):
    return np.abs(form(*given, **keywords) - layer_norm.reference(*given)).max()


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
@settings(deadline=None)  # the first of these calls compile
def test_forms_equal_the_reference(form, data):
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    x = data.draw(floats(SHAPES, dtype, 20))
    scale, shift = (data.draw(floats(x.shape[-1:], dtype, 2)) for _ in range(2))
    before = x.copy()
    got = form(x, scale, shift, epsilon=0.1)
    assert (got.dtype, got.shape) == (np.dtype(dtype), x.shape)
    expected = layer_norm.reference(x, scale, shift, epsilon=0.1)
    np.testing.assert_allclose(got, expected, rtol=0, atol=500 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(x, before)


def test_reference_is_the_formula():
    x, scale, shift = [0.5, -1.0, 3.0], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]
    mean = math.fsum(x) / 3
    variance = math.fsum((v - mean) ** 2 for v in x) / 3
    expected = [(v - mean) / math.sqrt(variance + 0.5) * a + b for v, a, b in zip(x, scale, shift, strict=True)]
    np.testing.assert_allclose(layer_norm.reference(x, scale, shift, epsilon=0.5), expected, rtol=1e-15)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [3, 64, 1000, 300_000])
def test_error_in_float32(form, length):
    assert worst(form, arguments((max(1, 20_000 // length), length))) <= 4e-6


@pytest.mark.parametrize("form", FORMS)
def test_error_in_float64(form):
    assert worst(form, arguments((20, 5000), "float64")) <= 1e-14


@pytest.mark.parametrize(("form", "error"), [*((form, 2e-3) for form in NUMPY_FORMS), (layer_norm.fused, 4e-6)])
def test_error_of_a_mean_of_ten_thousand_deviations(form, error):
    given = arguments((20, 10_000), mean=1e4)
    assert worst(form, given) <= error
    if form is layer_norm.textbook:
        assert worst(form, given) > 1e-5  # what its docstring warns of


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [5, 40, 3000])
def test_edges_are_as_the_definition_says_and_silent(form, dtype, columns):
    x = np.ones((5, columns), dtype)
    x[1, 3], x[2, 3], x[3, 3] = math.nan, math.inf, -math.inf
    x[4, ::2], x[4, -1] = 0, math.sqrt(np.finfo(dtype).max)
    scale, shift = np.full(columns, 2, dtype), np.arange(columns, dtype=dtype)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        got = form(x, scale, shift)
        nothing = form(x, scale, shift, epsilon=0)
    np.testing.assert_array_equal(got[0], shift)
    assert np.isnan(got[1:4]).all()
    assert np.isfinite(got[4]).all()
    assert np.isnan(nothing[0]).all()  # equal elements without an epsilon: 0 / 0


@pytest.mark.parametrize("form", FORMS)
def test_a_variance_beyond_the_dtype_is_infinite(form):
    x = np.array([[1e30, -1e30, 0, 0]], np.float32)
    np.testing.assert_array_equal(form(x, np.ones(4, np.float32), np.arange(4, dtype=np.float32)), [[0, 1, 2, 3]])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_nothing_gives_nothing(form, shape):
    given = arguments(shape)
    assert form(*given).shape == layer_norm.reference(*given).shape == shape
    assert form.cost(*given) == Cost()


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_one_element_become_the_shift(form):
    x = np.array([[-1e30], [0.0], [7.0]], np.float32)
    np.testing.assert_array_equal(form(x, np.float32([3]), np.float32([5])), [[5], [5], [5]])


ONE = np.ones(2, np.float32)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ((ONE.astype(np.float16), ONE, ONE), TypeError, r"x must be float32 or float64; got float16"),
        ((np.arange(2), ONE, ONE), TypeError, r"x must be float32 or float64; got int64"),
        ((ONE * 1j, ONE, ONE), TypeError, r"complex64.*x\.real"),
        ((np.float32(3), ONE, ONE), ValueError, r"single number.*x.reshape\(1\)"),
        ((ONE, ONE.astype(float), ONE), TypeError, r"scale must have the dtype of x, float32; got float64"),
        ((ONE, ONE, np.arange(2)), TypeError, r"shift must have the dtype of x, float32; got int64"),
        (
            (ONE, ONE[:1], ONE),
            ValueError,
            r"scale must have one element for each column of x, shape \(2,\); got \(1,\)",
        ),
        ((ONE, ONE, ONE[0]), ValueError, r"shift must .* got \(\)"),
    ],
)
def test_other_inputs_are_refused_with_the_fix(form, given, error, says):
    with pytest.raises(error, match=says):
        form(*given)


@pytest.mark.parametrize("form", [*FORMS])
@pytest.mark.parametrize(
    ("epsilon", "error"), [(-1e-5, ValueError), (math.inf, ValueError), (math.nan, ValueError), ("1", TypeError)]
)
def test_bad_epsilons_are_refused(form, epsilon, error):
    with pytest.raises(error, match="epsilon must be"):
        form(ONE, ONE, ONE, epsilon=epsilon)


@pytest.mark.parametrize("form", FORMS)
def test_epsilon_does_not_promote(form):
    assert form(ONE, ONE, ONE, epsilon=np.float64(1e-3)).dtype == np.float32


@pytest.mark.parametrize("form", FORMS)
def test_lists_are_arrays(form):
    given = [[1.0, 3.0]], [1.0, 1.0], [0.0, 0.0]
    np.testing.assert_allclose(form(*given), [[-1, 1]], atol=1e-5)
    assert form.cost(*given) == form.cost(*map(np.array, given))


@pytest.mark.parametrize("form", WITH_OUT)
@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed"])
def test_out_of_any_layout_is_filled_and_returned(form, layout):
    given = arguments((3, 4, 5))
    out = lay_out(np.zeros_like(given[0]), layout)
    assert form(*given, out=out) is out
    np.testing.assert_allclose(out, layer_norm.reference(*given), atol=4e-6)


@pytest.mark.parametrize("form", WITH_OUT)
@pytest.mark.parametrize("shape", [(500, 200), (10, 10_000)])
@pytest.mark.parametrize(("source", "target"), [(np.s_[:], np.s_[:]), (np.s_[:-1], np.s_[1:]), (np.s_[::-1], np.s_[:])])
def test_out_may_overlap_the_input(form, shape, source, target):
    memory, scale, shift = arguments(shape)
    expected = layer_norm.reference(memory[source], scale, shift)
    got = form(memory[source], scale, shift, out=memory[target])
    np.testing.assert_allclose(got, expected, atol=4e-6)
    np.testing.assert_array_equal(memory[target], got)


@pytest.mark.parametrize("form", WITH_OUT)
def test_out_may_overlap_scale_and_shift(form):
    x, scale, shift = arguments((4, 50))
    for place in (1, 2):
        out = np.zeros_like(x)
        given = [x, scale, shift]
        given[place] = out[2]
        given[place][:] = shift
        expected = layer_norm.reference(*given)
        np.testing.assert_allclose(form(*given, out=out), expected, atol=4e-6)


@pytest.mark.parametrize("form", WITH_OUT)
@pytest.mark.parametrize(
    ("out", "error", "says"),
    [
        (np.empty((2, 1), np.float32), ValueError, r"\(2,\); got \(2, 1\)"),
        (np.empty(2), TypeError, "float32; got float64"),
        (lay_out(np.empty(2, np.float32), "read-only"), ValueError, "read-only"),
        (np.ndarray((2,), np.float32, np.zeros(2), strides=(0,)), ValueError, "memory of its own"),
    ],
)
def test_bad_out_is_refused(form, out, error, says):
    with pytest.raises(error, match=says):
        form(ONE, ONE, ONE, out=out)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", WITH_THREADS)
def test_threads_change_nothing_in_any_layout(form, layout):
    x, scale, shift = (lay_out(array, layout) for array in arguments((7, 300, 11)))
    one = form(x, scale, shift)
    np.testing.assert_allclose(one, layer_norm.reference(x, scale, shift), atol=4e-6)
    for threads in (2, 3, np.int64(5)):
        np.testing.assert_array_equal(form(x, scale, shift, threads=threads), one)


@pytest.mark.parametrize("form", WITH_THREADS)
@pytest.mark.parametrize(("threads", "error"), [(0, ValueError), (1.0, TypeError), (True, TypeError)])
def test_bad_thread_counts_are_refused(form, threads, error):
    for call in (form, form.cost):
        with pytest.raises(error, match="threads must be"):
            call(ONE, ONE, ONE, threads=threads)


@given(data=st.data(), block_size=st.integers(1, 60), columns=st.integers(1, 7))
def test_blocks_of_any_size_give_the_same(data, block_size, columns):
    given = arguments(data.draw(SHAPES), "float64")
    expected = layer_norm.reference(*given)
    np.testing.assert_allclose(layer_norm.blocked(*given, block_size=block_size, threads=2), expected, atol=1e-12)
    np.testing.assert_allclose(layer_norm.welford(*given, columns=columns), expected, atol=1e-12)


@pytest.mark.parametrize(("form", "name"), [(layer_norm.blocked, "block_size"), (layer_norm.welford, "columns")])
@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (2.0, TypeError), (True, TypeError)])
def test_bad_block_sizes_are_refused(form, name, size, error):
    for call in (form, form.cost):
        with pytest.raises(error, match=f"{name} must be"):
            call(ONE, ONE, ONE, **{name: size})


def test_costs_of_ten_rows_of_a_hundred_float32():
    given = arguments((10, 100))  # x has 4,000 bytes, a number a row 40, a number a column 400
    assert layer_norm.textbook.cost(*given) == Cost(
        9020, bytes_read=24_960, bytes_written=16_160, bytes_write_allocate=16_160, calls=8
    )
    two = Cost(7030, bytes_read=25_000, bytes_written=16_200, bytes_write_allocate=4_080, calls=9)
    assert layer_norm.two_pass.cost(*given) == two
    assert layer_norm.blocked.cost(*given, block_size=300) == two + Cost(
        bytes_read=3 * 800, calls=27
    )  # 4 blocks, not 1
    assert layer_norm.fused.cost(*given, threads=2) == Cost(
        9000, bytes_read=4_800, bytes_written=4_000, bytes_write_allocate=4_000, calls=1
    )


@pytest.mark.parametrize("form", NUMPY_FORMS)
@given(shape=hnp.array_shapes(max_dims=3, min_side=2, max_side=6), data=st.data())
@settings(max_examples=15, deadline=None)
def test_costs_equal_what_a_trace_counts(form, shape, data):
    given = arguments(shape)
    keywords = {}
    if form is layer_norm.blocked:
        keywords["block_size"] = data.draw(st.integers(1, 40))
    if form is layer_norm.welford:
        keywords["columns"] = data.draw(st.integers(1, 7))
    traced = accel.trace(lambda *given: form(*given, **keywords), *given).cost
    assert replace(traced, interpreted=0) == form.cost(*given, **keywords)


def test_fused_is_one_call_to_a_trace():
    given = arguments((4, 50))
    (op,) = (op for op in accel.trace(layer_norm.fused, *given).ops if op.cost.calls)
    assert op.cost == layer_norm.fused.cost(*given)


@pytest.mark.parametrize("form", FORMS)
def test_costs_need_shapes_only(form):
    class Shape:
        shape, dtype = (70, 30), np.dtype("float32")

    assert form.cost(Shape(), None, None) == form.cost(*arguments((70, 30)))


LARGE = arguments((500, 1000))


@pytest.mark.parametrize(("form", "arrays"), list(zip(FORMS, [4, 1, 1, 1, 1], strict=True)))
def test_peak_memory_in_arrays(form, arrays):
    assert peak_bytes(form, *LARGE) == pytest.approx(arrays * LARGE[0].nbytes, abs=SMALL_CHANGE)


@pytest.mark.parametrize("form", WITH_OUT)
def test_with_out_nothing_is_allocated(form):
    assert peak_bytes(form, *LARGE, out=np.empty_like(LARGE[0])) < SMALL_CHANGE


def test_fused_copies_blocks_only():
    x, scale, shift = LARGE
    scratch = 4 * rows.COPIED_BLOCK_SIZE
    columns = np.asfortranarray(x)
    assert peak_bytes(layer_norm.fused, columns, scale, shift, out=np.empty_like(columns)) < scratch + SMALL_CHANGE
    assert peak_bytes(layer_norm.fused, columns, scale, shift, out=columns) < scratch + SMALL_CHANGE


def test_without_numba_fused_is_blocked(monkeypatch):
    monkeypatch.setattr(layer_norm, "compiled", lambda _: None)
    out = np.empty_like(LARGE[0])
    assert layer_norm.fused(*LARGE, out=out, epsilon=0.5, threads=2) is out
    np.testing.assert_array_equal(out, layer_norm.blocked(*LARGE, epsilon=0.5))


@pytest.mark.speed
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_first_call_compiles_in_two_seconds(dtype, tmp_path):
    pytest.importorskip("numba")
    call = f"layer_norm.fused(np.ones((4, 4), '{dtype}'), *np.ones((2, 4), '{dtype}'))"
    assert compile_seconds(call, tmp_path) <= 2


def test_docstring_examples():
    assert doctest.testmod(layer_norm).failed == 0
