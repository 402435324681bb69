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
from accel.kernels import rows, softmax

FORMS = [softmax.three_pass, softmax.in_place, softmax.online, softmax.blocked, softmax.fused]
NUMPY_FORMS = FORMS[:-1]
WITH_OUT = FORMS[1:]
WITH_THREADS = [softmax.blocked, softmax.fused]
SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)


def errors(got, x, axis=-1):
    """Return the relative error of each element beyond what the rounding of its distance from the maximum explains."""
    exact = softmax.reference(x, axis=axis)
    below = x.max(axis=axis, keepdims=True).astype(float) - x
    return np.abs(got - exact) / exact - np.finfo(x.dtype).eps * below


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
@settings(deadline=None)  # the first of these calls compile
def test_forms_equal_the_reference(form, data):
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    x = data.draw(floats(SHAPES, dtype, 20))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    before = x.copy()
    got = form(x, axis=axis)
    assert (got.dtype, got.shape) == (np.dtype(dtype), x.shape)
    np.testing.assert_allclose(got, softmax.reference(x, axis=axis), rtol=100 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(x, before)


def test_reference_is_the_formula():
    x = [0.5, -1.0, 3.0]
    total = math.fsum(math.exp(v) for v in x)
    np.testing.assert_allclose(softmax.reference(x), [math.exp(v) / total for v in x], rtol=1e-15)
    np.testing.assert_allclose(softmax.reference([[1], [1]], axis=0), [[0.5], [0.5]])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [3, 64, 1000, 300_000])
def test_error_in_float32(form, length):
    x = np.random.default_rng(length).normal(0, 5, (max(1, 20_000 // length), length)).astype(np.float32)
    assert errors(form(x), x).max() <= 1e-6


@pytest.mark.parametrize("form", FORMS)
def test_error_in_float64(form):
    x = np.random.default_rng(1).normal(0, 5, (20, 5000))
    exact = softmax.reference(x.astype(np.longdouble))
    assert (np.abs(form(x) - exact) / exact).max() <= 1e-14


def test_fused_rows_may_be_long_along_any_axis():
    x = np.random.default_rng(2).uniform(0, 1, (1_000_000, 2)).astype(np.float32)
    assert errors(softmax.fused(x, axis=0), x, axis=0).max() <= 1e-6
    naive = softmax.three_pass(x, axis=0)
    assert errors(naive, x, axis=0).max() > 1e-5  # what the docstring warns of


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [5, 40, 3000])
def test_edges_are_as_the_definition_says_and_silent(form, dtype, columns):
    inf, nan = math.inf, math.nan
    huge = float(np.finfo(dtype).max)
    edges = [-inf, 1.0, 1.0, 0.0, -inf], [-inf] * 5, [0, nan, 0, 0, 0], [0, inf, 0, 0, 0], [huge, huge, -huge, 0, -huge]
    x = np.full((5, columns), -inf, dtype)
    x[:, -5:] = edges  # at the end, so that blocks of columns begin with nothing but -inf
    expected = np.zeros(x.shape)
    e = math.e
    expected[:, -5:] = [0, e / (2 * e + 1), e / (2 * e + 1), 1 / (2 * e + 1), 0], *[[nan] * 5] * 3, [0.5, 0.5, 0, 0, 0]
    expected[1:4] = nan
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        got = form(x)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_nothing_gives_nothing(form, shape):
    got = form(np.ones(shape, np.float32))
    assert got.shape == shape
    assert form.cost(np.ones(shape, np.float32)) == Cost()
    assert softmax.reference(np.ones(shape)).shape == shape


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_one_element_are_one(form):
    np.testing.assert_array_equal(form(np.array([[-1e30], [0.0], [3e38]], np.float32)), np.ones((3, 1)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("x", "error", "says"),
    [
        (np.ones(2, np.float16), TypeError, r"got float16.*x.astype\(np.float32\)"),
        (np.arange(3), TypeError, r"got int64.*x.astype\(np.float32\)"),
        (np.ones(2, np.complex64), TypeError, r"complex64.*x\.real"),
        (np.ma.ones(2), TypeError, "MaskedArray"),
        (np.float32(3), ValueError, r"single number.*x.reshape\(1\)"),
    ],
)
def test_other_inputs_are_refused_with_the_fix(form, x, error, says):
    for call in (form, form.cost):
        if call is form or not hasattr(x, "dtype"):
            with pytest.raises(error, match=says):
                call(x)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("axis", "error"), [(2, np.exceptions.AxisError), (-3, ValueError), (1.0, TypeError)])
def test_axis_must_be_one_of_the_array(form, axis, error):
    for call in (form, form.cost):
        with pytest.raises(error):
            call(np.ones((2, 2)), axis=axis)


@pytest.mark.parametrize("form", FORMS)
def test_lists_are_arrays(form):
    np.testing.assert_allclose(form([[1.0, 1.0]]), [[0.5, 0.5]])
    assert form.cost([[1.0, 1.0]]) == form.cost(np.ones((1, 2)))


@pytest.mark.parametrize("form", WITH_OUT)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed"])
def test_out_of_any_layout_is_filled_and_returned(form, axis, layout):
    x = np.linspace(-3, 3, 60, dtype=np.float32).reshape(3, 4, 5)
    out = lay_out(np.zeros_like(x), layout)
    assert form(x, axis=axis, out=out) is out
    np.testing.assert_allclose(out, softmax.reference(x, axis=axis), rtol=1e-6)


@pytest.mark.parametrize("form", WITH_OUT)
@pytest.mark.parametrize("shape", [(500, 200), (10, 10_000)])
@pytest.mark.parametrize(("source", "target"), [(np.s_[:], np.s_[:]), (np.s_[:-1], np.s_[1:]), (np.s_[::-1], np.s_[:])])
def test_out_may_overlap_the_input(form, shape, source, target):
    memory = np.linspace(-4, 4, math.prod(shape), dtype=np.float32).reshape(shape)
    expected = softmax.reference(memory[source])
    got = form(memory[source], out=memory[target])
    np.testing.assert_allclose(got, expected, rtol=2e-6)
    np.testing.assert_array_equal(memory[target], got)


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
        form(np.ones(2, np.float32), out=out)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", WITH_THREADS)
def test_threads_change_nothing_in_any_layout(form, layout):
    x = lay_out(np.random.default_rng(4).standard_normal((7, 300, 11)).astype(np.float32), layout)
    one = form(x)
    np.testing.assert_allclose(one, softmax.reference(x), rtol=2e-6)
    for threads in (2, 3, np.int64(5)):
        np.testing.assert_array_equal(form(x, threads=threads), one)


@pytest.mark.parametrize("form", WITH_THREADS)
@pytest.mark.parametrize(("threads", "error"), [(0, ValueError), (1.0, TypeError), (True, TypeError)])
def test_bad_thread_counts_are_refused(form, threads, error):
    for call in (form, form.cost):
        with pytest.raises(error, match="threads must be"):
            call(np.ones(2), threads=threads)


@given(data=st.data(), block_size=st.integers(1, 60), columns=st.integers(1, 7))
def test_blocks_of_any_size_give_the_same(data, block_size, columns):
    x = data.draw(floats(SHAPES, "float64", 20))
    expected = softmax.reference(x)
    np.testing.assert_allclose(softmax.blocked(x, block_size=block_size, threads=2), expected, rtol=1e-13)
    np.testing.assert_allclose(softmax.online(x, columns=columns), expected, rtol=1e-13)


@pytest.mark.parametrize(("form", "name"), [(softmax.blocked, "block_size"), (softmax.online, "columns")])
@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (2.0, TypeError), (True, TypeError)])
def test_bad_block_sizes_are_refused(form, name, size, error):
    for call in (form, form.cost):
        with pytest.raises(error, match=f"{name} must be"):
            call(np.ones(2), **{name: size})


def test_costs_of_ten_rows_of_a_hundred_float32():
    x = np.ones((10, 100), np.float32)  # 4,000 bytes; a number a row is 40
    three = Cost(3980, 1000, bytes_read=20_080, bytes_written=12_080, bytes_write_allocate=12_080, calls=5)
    assert softmax.three_pass.cost(x) == three
    assert softmax.in_place.cost(x) == replace(three, bytes_write_allocate=4_080)
    assert softmax.blocked.cost(x, block_size=300) == softmax.in_place.cost(x) + Cost(calls=15)  # four blocks, not one
    assert softmax.fused.cost(x, threads=2) == Cost(
        3990, 1000, bytes_read=4_000, bytes_written=4_000, bytes_write_allocate=4_000, calls=1
    )


@pytest.mark.parametrize("form", NUMPY_FORMS)
@given(shape=hnp.array_shapes(max_dims=3, max_side=6), data=st.data())
@settings(max_examples=15)
def test_costs_equal_what_a_trace_counts(form, shape, data):
    x = np.ones(shape, np.float32)
    keywords = {"axis": data.draw(st.integers(-x.ndim, x.ndim - 1))}
    if form is softmax.blocked:
        keywords["block_size"] = data.draw(st.integers(1, 40))
    if form is softmax.online:
        keywords["columns"] = data.draw(st.integers(1, 7))
    traced = accel.trace(lambda x: form(x, **keywords), x).cost
    declared = form.cost(x, **keywords)
    if min(shape) > 1:  # else a maximum over one element may share memory with it, or one array be broadcast to another
        assert replace(traced, interpreted=0) == declared
    assert (traced.special, traced.calls) == (declared.special, declared.calls)


def test_fused_is_one_call_to_a_trace():
    x = np.ones((4, 50), np.float32)
    (op,) = (op for op in accel.trace(softmax.fused, x).ops if op.cost.calls)
    assert op.cost == softmax.fused.cost(x)


@pytest.mark.parametrize("form", FORMS)
def test_costs_need_shapes_only(form):
    class Shape:
        shape, dtype = (70, 30), np.dtype("float32")

    assert form.cost(Shape()) == form.cost(np.ones((70, 30), np.float32))


LARGE = np.random.default_rng(5).standard_normal((500, 1000)).astype(np.float32)


@pytest.mark.parametrize(("form", "arrays"), list(zip(FORMS, [3, 1, 1, 1, 1], strict=True)))
def test_peak_memory_in_arrays(form, arrays):
    assert peak_bytes(form, LARGE) == pytest.approx(arrays * LARGE.nbytes, abs=SMALL_CHANGE)


@pytest.mark.parametrize("form", WITH_OUT)
def test_with_out_nothing_is_allocated(form):
    assert peak_bytes(form, LARGE, out=np.empty_like(LARGE)) < SMALL_CHANGE


def test_fused_copies_blocks_only():
    scratch = 4 * rows.COPIED_BLOCK_SIZE
    assert peak_bytes(softmax.fused, LARGE, axis=0, out=np.empty_like(LARGE)) < scratch + SMALL_CHANGE
    x = LARGE.copy()
    assert peak_bytes(softmax.fused, x, out=x) < SMALL_CHANGE


def test_without_numba_fused_is_blocked(monkeypatch):
    monkeypatch.setattr(softmax, "compiled", lambda _: None)
    out = np.empty_like(LARGE.T)
    assert softmax.fused(LARGE.T, axis=0, out=out, threads=2) is out
    np.testing.assert_array_equal(out, softmax.blocked(LARGE.T, axis=0))


@pytest.mark.speed
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_first_call_compiles_in_two_seconds(dtype, tmp_path):
    pytest.importorskip("numba")
    assert compile_seconds(f"softmax.fused(np.ones((4, 4), '{dtype}'))", tmp_path) <= 2


@pytest.mark.parametrize("module", [rows, softmax])
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0
