"""GELU in one pass: right on every shape, layout, boundary and edge, with Numba and without."""

import doctest
import importlib
import inspect
import math
import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pytest
from counting import Counted, count
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from layouts import floats, lay_out

import accel
from accel.cost import Cost
from accel.kernels import gelu
from accel.kernels.gelu import formula, fusion
from accel.measurement import measure_calls

REFERENCES = {gelu.fused: gelu.reference, gelu.exact: gelu.exact_reference}
FORMS = list(REFERENCES)
TOLERANCE = {"float16": 2e-2, "float32": 1e-6, "float64": 4e-15}


def biased(x, **keywords):
    """Call `bias_fused` as a form of one array, so that it stands the tests of the others."""
    x = np.asarray(x)
    return gelu.bias_fused(x, np.zeros(x.shape[-1], x.dtype), **keywords)


@pytest.fixture(params=["compiled", "NumPy"])
def compiler(request, monkeypatch):
    """Run a test with compiled code and without."""
    if request.param == "NumPy":
        monkeypatch.setattr(fusion, "compiled", lambda name: None)
    else:
        pytest.importorskip("numba")
    return request.param


@pytest.fixture
def streaming(monkeypatch):
    """Let every result go around the caches."""
    monkeypatch.setattr(fusion, "STREAMED_BYTES", 0)


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None)  # the first example compiles
@given(data=st.data())
def test_forms_equal_their_reference(form, data):
    dtype = data.draw(st.sampled_from(sorted(TOLERANCE)))
    x = data.draw(floats(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9), dtype, 12))
    before = x.copy()
    got = form(x)
    assert isinstance(got, np.ndarray)
    assert (got.dtype, got.shape) == (np.dtype(dtype), x.shape)
    np.testing.assert_allclose(got, REFERENCES[form](x), rtol=0, atol=TOLERANCE[dtype])
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", FORMS)
def test_error_between_minus_and_plus_twelve(form, dtype, compiler):
    x = np.linspace(-12, 12, 200_001, dtype=dtype)
    tolerance = TOLERANCE[dtype] if form is gelu.exact or compiler == "compiled" else 2e-6
    assert np.abs(form(x) - REFERENCES[form](x)).max() <= tolerance


@pytest.mark.parametrize(("dtype", "least", "relative"), [("float32", -9, 1e-5), ("float64", -12, 1e-13)])
@pytest.mark.parametrize("form", FORMS)
def test_small_results_keep_their_digits(form, dtype, least, relative):
    pytest.importorskip("numba")
    x = np.linspace(least, -0.01, 50_001, dtype=dtype)
    np.testing.assert_allclose(form(x), REFERENCES[form](x), rtol=relative)


def test_exact_reference_is_the_formula():
    x = np.linspace(-5, 5, 1001)
    textbook = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x]
    np.testing.assert_allclose(gelu.exact_reference(x), textbook, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(gelu.exact_reference([-math.inf, math.inf, math.nan]), [0, math.inf, math.nan])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("repeat", [1, 1000])
@pytest.mark.parametrize("form", [*FORMS, biased])
@pytest.mark.usefixtures("compiler")
def test_edges_are_right_and_silent(form, dtype, repeat):
    info = np.finfo(dtype)
    tiny, huge = info.smallest_subnormal, info.max
    x = np.array([0.0, math.inf, -math.inf, math.nan, huge, -huge, 2 * tiny, -2 * tiny, 8, -40] * repeat, dtype)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        got = form(x)
    expected = np.array([0.0, math.inf, -0.0, math.nan, huge, -0.0, tiny, -tiny, 8, -0.0] * repeat, dtype)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=0)
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("compiler")
def test_zeros_keep_their_sign(form, dtype):
    got = form(np.array([0.0, -0.0] * 20, dtype))
    np.testing.assert_array_equal(np.signbit(got), [False, True] * 20)
    assert not got.any()


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None)
@given(x=hnp.arrays("float32", 40, elements=st.floats(width=32)))
def test_no_float_warns_or_leaves_its_bounds(form, x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = form(x)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(x))
    known = ~np.isnan(x)
    assert (got[known] >= -0.18).all()
    assert (got[known] <= np.maximum(x[known], 0)).all()


@pytest.mark.parametrize("form", [*FORMS, biased])
@pytest.mark.usefixtures("streaming")
def test_ends_and_boundaries_around_the_caches(form):
    """Stores around the caches need a boundary to start at, wherever the result begins and ends."""
    values = np.linspace(-3, 3, 80, dtype=np.float32)
    expected = form(values.astype(np.float64))
    for start in range(18):
        for size in (0, 1, 7, 8, 9, 31, 60):
            memory = np.full(100, 7, np.float32)
            form(values[:size], out=memory[start : start + size])
            np.testing.assert_allclose(memory[start : start + size], expected[:size], atol=1e-6)
            assert (memory[:start] == 7).all()
            assert (memory[start + size :] == 7).all()


@pytest.mark.parametrize("form", [*FORMS, biased])
@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed"])
@pytest.mark.usefixtures("compiler")
def test_out_of_any_layout_is_filled_and_returned(form, layout):
    x = np.linspace(-3, 3, 60, dtype=np.float32).reshape(3, 4, 5)
    out = lay_out(np.zeros_like(x), layout)
    assert form(x, out=out) is out
    np.testing.assert_array_equal(out, form(x))


@pytest.mark.parametrize("form", [*FORMS, biased])
@pytest.mark.parametrize(("source", "target"), [(np.s_[:], np.s_[:]), (np.s_[:-7], np.s_[7:]), (np.s_[::-1], np.s_[:])])
@pytest.mark.usefixtures("compiler")
def test_out_may_overlap_the_input(form, source, target):
    memory = np.linspace(-4, 4, 100_000, dtype=np.float32)
    memory[[3, -5]] = -math.inf
    x, out = memory[source], memory[target]
    expected = form(x.copy())
    np.testing.assert_array_equal(form(x, out=out), expected)


@pytest.mark.parametrize("form", [*FORMS, biased])
@pytest.mark.parametrize(
    ("out", "error", "says"),
    [
        (np.empty((2, 1), np.float32), ValueError, r"\(2,\); got \(2, 1\)"),
        (np.empty(2), TypeError, "float32; got float64"),
        (lay_out(np.empty(2, np.float32), "read-only"), ValueError, "read-only"),
    ],
)
@pytest.mark.usefixtures("compiler")
def test_bad_out_is_refused(form, out, error, says):
    with pytest.raises(error, match=says):
        form(np.ones(2, np.float32), out=out)


@pytest.mark.parametrize("form", [*FORMS, biased])
@pytest.mark.parametrize("x", [np.arange(3), [1, 2], np.ones(2, bool)])
def test_other_dtypes_are_refused_with_the_fix(form, x):
    with pytest.raises(TypeError, match=rf"got {np.asarray(x).dtype}.*x.astype\(np.float32\)"):
        form(x)


@pytest.mark.parametrize("form", [*FORMS, gelu.blocked, biased])
@pytest.mark.parametrize("layout", ["C", "strided"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_threads_change_no_bit(form, layout, dtype):
    x = lay_out(np.linspace(-5, 5, 150_007, dtype=dtype), layout)
    for threads in (2, 3):
        np.testing.assert_array_equal(form(x, threads=threads), form(x))
    out = x.copy()
    np.testing.assert_array_equal(form(out, out=out, threads=2), form(x))


@pytest.mark.parametrize("form", [*FORMS, gelu.blocked, biased])
def test_more_threads_than_elements(form):
    np.testing.assert_array_equal(form(np.ones(2, np.float32), threads=40), form(np.ones(2, np.float32)))


@pytest.mark.parametrize("form", [*FORMS, gelu.blocked, biased])
@pytest.mark.parametrize(("threads", "error"), [(0, ValueError), (1.5, TypeError), (True, TypeError)])
def test_a_wrong_number_of_threads_is_refused(form, threads, error):
    with pytest.raises(error, match="threads must be"):
        form(np.ones(2), threads=threads)
    arguments = [np.ones(2)] * (2 if form is biased else 1)
    with pytest.raises(error, match="threads must be"):
        (gelu.bias_fused if form is biased else form).cost(*arguments, threads=threads)


def test_edges_are_silent_in_every_thread():
    x = np.full(300_000, -math.inf)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert not gelu.blocked(x, threads=3).any()


@settings(deadline=None)
@given(data=st.data(), dtype=st.sampled_from(["float16", "float32", "float64"]))
def test_bias_is_added_to_every_row(data, dtype):
    x = data.draw(floats(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=9), dtype, 5))
    bias = data.draw(floats((x.shape[-1],), dtype, 5))
    got = gelu.bias_fused(x, bias)
    assert (got.dtype, got.shape) == (np.dtype(dtype), x.shape)
    np.testing.assert_allclose(got, gelu.reference(x + bias), rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("columns", [1, 3, 8, 255, 256, 257, 1000, 70_001])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.usefixtures("compiler")
def test_bias_of_any_length(columns, streamed, monkeypatch):
    if streamed:
        monkeypatch.setattr(fusion, "STREAMED_BYTES", 0)
    rows = 3000 // columns + 3
    x = np.random.default_rng(1).normal(size=(rows, columns)).astype(np.float32)
    bias = np.random.default_rng(2).normal(size=columns).astype(np.float32)
    expected = gelu.reference(x + bias)
    for threads in (1, 2):
        np.testing.assert_allclose(gelu.bias_fused(x, bias, threads=threads), expected, rtol=0, atol=2e-6)
    transposed = np.asfortranarray(x)
    np.testing.assert_allclose(gelu.bias_fused(transposed, bias), expected, rtol=0, atol=2e-6)


@pytest.mark.usefixtures("compiler")
def test_out_may_overlap_the_bias():
    x, bias = np.ones((4, 5), np.float32), np.arange(5, dtype=np.float32)
    memory = np.zeros((5, 5), np.float32)
    memory[2] = bias
    np.testing.assert_array_equal(gelu.bias_fused(x, memory[2], out=memory[1:]), gelu.bias_fused(x, bias))


@pytest.mark.parametrize(
    ("shape", "bias", "error", "says"),
    [
        ((4, 5), np.ones(4), ValueError, r"shape of the last axis of x, for x of shape \(4, 5\); got \(4,\)"),
        ((4, 5), np.ones((1, 5)), ValueError, r"got \(1, 5\).*fused\(x \+ bias\)"),
        ((4, 5), 1.0, ValueError, r"got \(\)"),
        ((), np.ones(1), ValueError, r"x of shape \(\)"),
        ((4, 5), np.ones(5, np.float32), TypeError, "dtype of x, float64; got float32"),
        ((4, 5), np.ones(5, int), TypeError, "bias must be float16, float32 or float64; got int64"),
    ],
)
def test_a_bias_that_does_not_fit_is_refused(shape, bias, error, says):
    with pytest.raises(error, match=says):
        gelu.bias_fused(np.ones(shape), bias)


def test_without_numba_one_notice_and_the_same_results():
    """In a process of its own, where Numba cannot be imported."""
    script = """
import sys, warnings
sys.modules["numba"] = None
import numpy as np
from accel.kernels import gelu
x = np.linspace(-5, 5, 1000, dtype=np.float32).reshape(10, 100)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    assert np.abs(gelu.fused(x, threads=2) - gelu.reference(x)).max() < 2e-6
    assert np.abs(gelu.exact(x) - gelu.exact_reference(x)).max() < 2e-6
    assert np.abs(gelu.bias_fused(x, x[0]) - gelu.reference(x + x[0])).max() < 2e-6
print(len(seen), seen[0].category.__name__)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["1", "CompilerMissingWarning"]


def test_the_course_name_is_the_fused_form_and_imports_no_compiler():
    assert accel.fused_gelu is gelu.fused
    script = "import sys, accel; accel.fused_gelu; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_one_compilation_for_a_dtype():
    """Read-only, aligned or not, a slice or a whole: the machine code is the same."""
    pytest.importorskip("numba")
    kernel = importlib.import_module("accel.kernels.compiled.gelu").fused
    gelu.fused(np.ones(5, np.float32))
    gelu.fused(np.ones(5))
    before = len(kernel.signatures)
    unaligned = np.zeros(41, np.uint8)[1:].view(np.float32)
    for x in (lay_out(np.ones(5, np.float32), "read-only"), unaligned, np.ones((4, 4))[::2, ::2], np.ones(9, ">f8")):
        np.testing.assert_allclose(gelu.fused(x), gelu.reference(x), atol=1e-6)
    assert len(kernel.signatures) == before


def test_subclasses_keep_their_type():
    x = np.ones(10, np.float32).view(Counted)
    assert type(gelu.fused(x)) is Counted
    assert type(gelu.exact(x)) is Counted


def one_expression(x):
    return x / (1 + np.exp(x * (-2 * gelu.SCALE + -2 * gelu.SCALE * gelu.CUBIC * (x * x))))


def test_costs_of_a_thousand_float32():
    x, bias = np.ones((100, 10), np.float32), np.ones(10, np.float32)
    moved = {"bytes_read": 4000, "bytes_written": 4000, "bytes_write_allocate": 4000, "calls": 1}
    assert gelu.fused.cost(x) == Cost(6000, 1000, **moved)
    assert gelu.exact.cost(x) == Cost(3000, 1000, **moved)
    assert gelu.bias_fused.cost(x, bias) == Cost(7000, 1000, **moved) + Cost(bytes_read=40)


def test_costs_do_the_work_of_the_formula():
    x = np.linspace(-3, 3, 60, dtype=np.float32)
    counted = count(one_expression, x)
    np.testing.assert_allclose(one_expression(x), gelu.reference(x), atol=1e-6)
    assert (counted.flops, counted.special) == (gelu.fused.cost(x).flops, gelu.fused.cost(x).special)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_streamed_is_not_fetched_before(dtype):
    small, large = (accel.array_like((size,), dtype) for size in (1000, fusion.STREAMED_BYTES))
    assert gelu.fused.cost(small).bytes_write_allocate == small.nbytes
    assert gelu.fused.cost(large).bytes_write_allocate == 0


def test_costs_of_float16_are_those_of_the_form_that_computes_it():
    x, bias = np.linspace(-3, 3, 60, dtype=np.float16).reshape(3, 20), np.ones(20, np.float16)
    assert gelu.fused.cost(x) == gelu.blocked.cost(x)
    assert count(inspect.unwrap(gelu.bias_fused), x, bias) == gelu.bias_fused.cost(x, bias)


@pytest.mark.parametrize("form", [*FORMS, gelu.bias_fused])
def test_a_trace_sees_one_call(form):
    x = np.linspace(-3, 3, 6000, dtype=np.float32).reshape(60, 100)
    arguments = (x, x[0].copy()) if form is gelu.bias_fused else (x,)
    found = accel.trace(form, *arguments)
    assert [op.name for op in found.ops if op.kind != "opaque"] == [f"gelu.{form.__name__}"]
    assert found.cost == form.cost(*arguments)


@pytest.mark.parametrize("form", [*FORMS, biased])
def test_nothing_but_the_result_is_allocated(form):
    pytest.importorskip("numba")
    x = np.linspace(-3, 3, 500_000, dtype=np.float32)
    out = np.empty_like(x)
    if form is biased:
        x, out = x.reshape(-1, 500), out.reshape(-1, 500)
    form(x, out=out)
    tracemalloc.start()
    try:
        form(x, out=out)
        form(x, out=x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60_000


@pytest.mark.speed
def test_one_pass_is_faster_than_seven():
    pytest.importorskip("numba")
    x = np.linspace(-3, 3, 1_000_000, dtype=np.float32)
    out = np.empty_like(x)
    forms = {form: lambda form=form: form(x, out=out) for form in (gelu.fused, gelu.blocked)}
    found = measure_calls(forms, seconds=0.3)
    assert found[gelu.fused].best_seconds < 0.7 * found[gelu.blocked].best_seconds


def test_docstring_examples():
    """Those of the forms themselves are tested with the family's."""
    assert doctest.testmod(formula).failed == 0
