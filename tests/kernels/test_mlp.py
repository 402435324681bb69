import doctest
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import floats, lay_out

import accel
from accel.kernels import mlp
from accel.measurement import measure_memory

FORMS = [mlp.plain, mlp.accelerated]
TOLERANCE = {"float32": 1e-5, "float64": 1e-13}


def operands(rows=(7,), d=3, h=10, d_out=4, dtype="float32"):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(dtype) for shape in ((*rows, d), (d, h), (h,), (h, d_out), (d_out,))]


@pytest.mark.parametrize("form", FORMS)
@settings(deadline=None)
@given(data=st.data())
def test_forms_equal_the_reference(form, data):
    dtype = data.draw(st.sampled_from(sorted(TOLERANCE)))
    rows = data.draw(st.sampled_from([(), (1,), (5,), (0,), (2, 3)]))
    d, h, d_out = (data.draw(st.integers(0, 6)) for _ in range(3))
    given = [data.draw(floats(shape, dtype, 2)) for shape in ((*rows, d), (d, h), (h,), (h, d_out), (d_out,))]
    before = [x.copy() for x in given]
    got = form(*given)
    assert isinstance(got, np.ndarray)
    assert (got.dtype, got.shape) == (np.dtype(dtype), (*rows, d_out))
    np.testing.assert_allclose(got, mlp.reference(*given), rtol=0, atol=20 * TOLERANCE[dtype])
    for x, kept in zip(given, before, strict=True):
        np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "block_rows", "threads"), [(100, 100, 1), (100, 7, 1), (101, 30, 2), (3, 1, 2)])
def test_blocks_and_threads(dtype, rows, block_rows, threads):
    given = operands((rows,), 20, 80, 20, dtype)
    got = mlp.accelerated(*given, block_rows=block_rows, threads=threads)
    np.testing.assert_allclose(got, mlp.reference(*given), rtol=0, atol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize("form", FORMS)
def test_nan_and_infinity_spread_as_in_the_reference_and_silently(form):
    x, *others = operands()
    x[1, 1], x[2, 2], x[3, 0] = np.nan, np.inf, np.finfo(np.float32).max
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        got = form(x, *others)
    expected = mlp.reference(x, *others)
    assert np.isnan(got[1]).all()
    np.testing.assert_array_equal(np.isnan(got[2]), np.isnan(expected[2]))
    np.testing.assert_allclose(got[[0, 4, 5, 6]], expected[[0, 4, 5, 6]], atol=1e-5)


@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed"])
def test_out_of_any_layout_is_filled_and_returned(layout):
    given = operands((2, 7))
    out = lay_out(np.zeros((2, 7, 4), np.float32), layout)
    assert mlp.accelerated(*given, out=out) is out
    np.testing.assert_array_equal(out, mlp.accelerated(*given))


def test_out_may_be_the_input():
    given = operands((40,), 4, 10, 4)
    expected = mlp.accelerated(*given, block_rows=8)
    np.testing.assert_array_equal(mlp.accelerated(*given, block_rows=8, out=given[0]), expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("number", "shape", "says"),
    [
        (0, (7, 2), "x is 2 long, w1 takes 3 and gives 10, and w2 takes 10"),
        (0, (), r"got \(\), \(3, 10\), \(10,\), \(10, 4\), \(4,\): x needs one dimension"),
        (2, (1, 10), r"the biases must have shapes \(10,\) and \(4,\)"),
        (3, (4, 10), "and w2 takes 4; transpose one?"),
    ],
)
def test_shapes_that_do_not_fit_are_named(form, number, shape, says):
    given = operands()
    given[number] = np.zeros(shape, np.float32)
    with pytest.raises(ValueError, match=says):
        form(*given)


@pytest.mark.parametrize("form", FORMS)
def test_other_dtypes_and_mixtures_are_refused_with_the_fix(form):
    x, *others = operands()
    for wrong in ("float16", "int64", "complex64"):
        with pytest.raises(TypeError, match=wrong):
            form(x.astype(wrong), *others)
    with pytest.raises(TypeError, match="x, w1, b1, w2 and b2 must have one dtype; got float64, float32"):
        form(x.astype("float64"), *others)


@pytest.mark.parametrize("rows", [0, 1, 20])
def test_costs_equal_what_is_traced(rows):
    given = operands((rows,))
    assert accel.trace(mlp.plain, *given).cost == mlp.plain.cost(*given)
    traced = accel.trace(lambda *given: mlp.accelerated(*given, block_rows=8), *given)
    assert traced.cost == mlp.accelerated.cost(*given, block_rows=8)


def test_the_hidden_activation_of_one_block_is_all_that_is_in_memory():
    given = operands((1000,), 8, 100, 8)
    out, hidden = np.empty((1000, 8), np.float32), 1000 * 100 * 4
    mlp.accelerated(*given, out=out)
    assert measure_memory(lambda: mlp.plain(*given)).peak_bytes > 8 * hidden
    assert measure_memory(lambda: mlp.accelerated(*given, out=out, block_rows=100)).peak_bytes < 0.2 * hidden


@pytest.mark.parametrize("wrong", [0, 1.5, True])
def test_bad_counts_are_refused(wrong):
    for name in ("threads", "block_rows"):
        with pytest.raises((TypeError, ValueError), match=f"{name} must be"):
            mlp.accelerated(*operands(), **{name: wrong})


def test_docstring_examples():
    assert doctest.testmod(mlp).failed == 0
