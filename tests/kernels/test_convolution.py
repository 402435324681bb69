import doctest
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import floats, lay_out

import accel
from accel.cost import Cost
from accel.kernels import convolution
from accel.kernels.convolution import bands, fusion, planes, textbook
from accel.measurement import measure_memory

NUMPY_FORMS = [convolution.im2col, convolution.window_view, convolution.shifted, convolution.tiled]
FORMS = [convolution.direct_loops, *NUMPY_FORMS, convolution.fused]
TOLERANCE = {"float32": 2e-6, "float64": 1e-14}


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_forms_equal_the_reference(form, data):
    dtype = data.draw(st.sampled_from(sorted(TOLERANCE)))
    batch, c_in, c_out = (data.draw(st.integers(0, 3)) for _ in range(3))
    k_h, k_w, stride, padding = (data.draw(st.integers(least, 3)) for least in (1, 1, 1, 0))
    h, w = (data.draw(st.integers(max(0, k - 2 * padding), 7)) for k in (k_h, k_w))
    x = data.draw(floats((batch, c_in, h, w), dtype, 8))
    weight = data.draw(floats((c_out, c_in, k_h, k_w), dtype, 8))
    before = x.copy(), weight.copy()
    got = form(x, weight, stride=stride, padding=padding)
    expected = convolution.reference(x, weight, stride=stride, padding=padding)
    assert isinstance(got, np.ndarray)
    assert (got.dtype, got.shape) == (np.dtype(dtype), expected.shape)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1000 * TOLERANCE[dtype])
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(weight, before[1])


@pytest.mark.parametrize(("stride", "padding"), [(1, 1), (2, 3), (3, 0)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_bands_and_tiles(dtype, stride, padding):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 50, 40, 37)).astype(dtype)
    weight = rng.standard_normal((13, 50, 3, 4)).astype(dtype)
    expected = convolution.reference(x, weight, stride=stride, padding=padding)
    for form in (*NUMPY_FORMS, convolution.fused):
        got = form(x, weight, stride=stride, padding=padding)
        np.testing.assert_allclose(got, expected, rtol=0, atol=60 * TOLERANCE[dtype])
    for form in (convolution.tiled, convolution.fused):
        with_two = form(x, weight, stride=stride, padding=padding, threads=2)
        np.testing.assert_array_equal(with_two, form(x, weight, stride=stride, padding=padding))


def test_a_window_that_picks_one_pixel_shifts_the_image():
    x = np.arange(20, dtype=np.float32).reshape(1, 1, 4, 5)
    weight = np.zeros((1, 1, 3, 3), np.float32)
    weight[0, 0, 0, 2] = 1  # the pixel above and to the right: the window is not mirrored
    for form in FORMS:
        got = form(x, weight, padding=1)[0, 0]
        np.testing.assert_array_equal(got[1:, :-1], x[0, 0, :-1, 1:])
        assert not got[0].any()
        assert not got[:, -1].any()


@pytest.mark.parametrize("form", FORMS)
def test_nan_and_infinity_spread_as_in_the_reference_and_silently(form):
    x = np.random.default_rng(0).standard_normal((1, 2, 9, 9)).astype(np.float32)
    x[0, 0, 2, 3], x[0, 1, 7, 7], x[0, 1, 0, 0] = np.nan, np.inf, np.finfo(np.float32).max
    weight = np.ones((2, 2, 2, 2), np.float32)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        got = form(x, weight, padding=1)
    np.testing.assert_allclose(got, convolution.reference(x, weight, padding=1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed"])
def test_out_of_any_layout_is_filled_and_returned(form, layout):
    x, weight = np.random.default_rng(0).random((2, 2, 5, 6)), np.ones((3, 2, 2, 2))
    out = lay_out(np.zeros((2, 3, 4, 5)), layout)
    assert form(x, weight, out=out) is out
    np.testing.assert_array_equal(out, form(x, weight))


@pytest.mark.parametrize("form", FORMS)
def test_out_may_be_an_operand(form):
    x, weight = np.random.default_rng(0).random((1, 2, 5, 6)), np.random.default_rng(1).random((2, 2, 3, 3))
    expected = form(x, weight, padding=1)
    np.testing.assert_array_equal(form(x, weight, padding=1, out=x), expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("shapes", "keywords", "error", "says"),
    [
        (((2, 5, 5), (1, 2, 3, 3)), {}, ValueError, r"got \(2, 5, 5\) and \(1, 2, 3, 3\): both need four dimensions"),
        (((1, 2, 5, 5), (1, 3, 3, 3)), {}, ValueError, "images of 2 channels cannot be weighed with 3"),
        (((1, 2, 2, 5), (1, 2, 3, 3)), {}, ValueError, "larger than the image with padding 0"),
        (((1, 2, 5, 5), (1, 2, 0, 3)), {}, ValueError, "at least one row"),
        (((1, 2, 5, 5), (1, 2, 3, 3)), {"stride": 0}, ValueError, "stride must be at least 1"),
        (((1, 2, 5, 5), (1, 2, 3, 3)), {"padding": -1}, ValueError, "padding must be at least 0"),
        (((1, 2, 5, 5), (1, 2, 3, 3)), {"padding": 0.5}, TypeError, "padding must be a whole number"),
    ],
)
def test_what_does_not_fit_is_named(form, shapes, keywords, error, says):
    with pytest.raises(error, match=says):
        form(*(np.zeros(shape, np.float32) for shape in shapes), **keywords)


@pytest.mark.parametrize("form", FORMS)
def test_other_dtypes_and_mixtures_are_refused_with_the_fix(form):
    x, weight = np.ones((1, 1, 2, 2)), np.ones((1, 1, 1, 1))
    for wrong in ("float16", "int64", "complex64"):
        with pytest.raises(TypeError, match=wrong):
            form(x.astype(wrong), weight)
    with pytest.raises(TypeError, match="x and weight must have one dtype; got float32 and float64"):
        form(x.astype("float32"), weight)


@pytest.mark.parametrize("keywords", [{}, {"stride": 2, "padding": 1}, {"stride": 3, "padding": 2}])
@pytest.mark.parametrize("form", NUMPY_FORMS)
def test_costs_equal_what_is_traced(form, keywords):
    x, weight = np.ones((2, 3, 8, 7), np.float32), np.ones((4, 3, 3, 2), np.float32)
    traced = accel.trace(lambda x, weight: form(x, weight, **keywords), x, weight)
    assert traced.cost == form.cost(x, weight, **keywords)


def test_cost_of_the_fused_form_and_the_loops():
    x, weight = np.ones((2, 3, 8, 7), np.float32), np.ones((4, 3, 3, 3), np.float32)
    whole = Cost(2 * 2 * 4 * 30 * 27, 0, x.nbytes + weight.nbytes, 960, 960)
    assert convolution.fused.cost(x, weight) == whole + Cost(calls=1)
    assert convolution.direct_loops.cost(x, weight) == whole + Cost(interpreted=2 * 4 * 30 * 27)
    [op] = [op for op in accel.trace(convolution.fused, x, weight).ops if op.cost.calls]
    assert op.cost == convolution.fused.cost(x, weight)


def test_memory_of_a_band_not_of_an_image():
    x, weight = np.ones((1, 8, 400, 100), np.float32), np.ones((8, 8, 3, 3), np.float32)
    out = np.empty((1, 8, 398, 98), np.float32)

    def beside_the_result(form):
        form(x, weight, out=out)
        return measure_memory(lambda: form(x, weight, out=out)).peak_bytes

    assert beside_the_result(convolution.im2col) > 9 * 0.95 * x.nbytes
    for form in (convolution.tiled, convolution.fused):
        assert beside_the_result(form) < 1.3 * bands.BAND_BYTES


def test_without_numba_the_fused_form_runs_the_tiled_one(monkeypatch):
    monkeypatch.setattr(fusion, "compiled", lambda name: None)
    x, weight = np.random.default_rng(0).random((1, 2, 5, 6)), np.ones((2, 2, 3, 3))
    np.testing.assert_array_equal(convolution.fused(x, weight), convolution.tiled(x, weight))


@pytest.mark.parametrize("module", [textbook, planes, bands, fusion])
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0
