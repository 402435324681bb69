import doctest
import math
import warnings

import numpy as np
import pytest
from counting import count
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from layouts import floats, lay_out
from measuring import peak_bytes

from accel.cost import Cost
from accel.elision import binary_elision
from accel.kernels import gelu

FORMS = [gelu.unfused, gelu.expression, gelu.in_place, gelu.blocked]
WITH_OUT = [gelu.in_place, gelu.blocked]
TOLERANCE = {"float16": 2e-2, "float32": 2e-6, "float64": 1e-14}


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
def test_forms_equal_the_reference(form, data):
    dtype = data.draw(st.sampled_from(sorted(TOLERANCE)))
    x = data.draw(floats(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5), dtype, 12))
    before = x.copy()
    got = form(x)
    assert isinstance(got, np.ndarray)
    assert (got.dtype, got.shape) == (np.dtype(dtype), x.shape)
    np.testing.assert_allclose(got, gelu.reference(x), rtol=0, atol=TOLERANCE[dtype])
    np.testing.assert_array_equal(x, before)


def test_reference_is_the_formula():
    x = np.linspace(-5, 5, 1001)
    textbook = [0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) for v in x]
    np.testing.assert_allclose(gelu.reference(x), textbook, rtol=0, atol=1e-15)
    # and that stays close to the exact form, x times the normal distribution function
    normal = [0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x]
    np.testing.assert_allclose(gelu.reference(x), normal, rtol=0, atol=5e-4)


@pytest.mark.parametrize("form", FORMS)
def test_error_in_float32(form):
    x = np.linspace(-12, 12, 200_001, dtype=np.float32)
    assert np.abs(form(x) - gelu.reference(x)).max() <= 2e-6


def test_error_of_blocks_in_float64():
    x = np.linspace(-12, 12, 200_001)
    assert np.abs(gelu.blocked(x) - gelu.reference(x)).max() <= 4e-15


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("repeat", [1, 1000])
@pytest.mark.parametrize("form", FORMS)
def test_edges_are_right_and_silent(form, dtype, repeat):
    info = np.finfo(dtype)
    tiny, huge = info.smallest_subnormal, info.max
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, huge, -huge, tiny, -tiny, 8, -8] * repeat, dtype)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        got = form(x)
    half_tiny = np.array([tiny, -tiny], dtype) * 0.5  # rounds to even, as the true result does
    expected = np.array([0.0, -0.0, math.inf, -0.0, math.nan, huge, -0.0, *half_tiny, 8, -0.0] * repeat, dtype)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    zeros = np.flatnonzero(expected == 0)
    finite_zero = zeros[np.abs(x[zeros]) != 8]
    np.testing.assert_array_equal(np.signbit(got[finite_zero]), np.signbit(expected[finite_zero]))


@pytest.mark.parametrize("form", FORMS)
@given(x=hnp.arrays("float32", 40, elements=st.floats(width=32)))
def test_no_float_warns_or_leaves_its_bounds(form, x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = form(x)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(x))
    known = ~np.isnan(x)
    assert (got[known] >= -0.18).all()
    assert (got[known] <= np.maximum(x[known], 0)).all()


@pytest.mark.parametrize("form", FORMS)
def test_zero_dimensions_and_edges_together(form):
    for value, expected in [(-math.inf, 0.0), (math.inf, math.inf), (1.0, 0.841192)]:
        got = form(np.array(value, np.float32))
        assert isinstance(got, np.ndarray)
        assert got.shape == ()
        np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("x", [np.arange(3), [1, 2], np.ones(2, bool), np.ones(2, np.longdouble)])
def test_other_dtypes_are_refused_with_the_fix(form, x):
    if np.asarray(x).dtype == np.float64:
        pytest.skip("long double is double here")
    with pytest.raises(TypeError, match=rf"got {np.asarray(x).dtype}.*x.astype\(np.float32\)"):
        form(x)


@pytest.mark.parametrize("form", FORMS)
def test_complex_is_refused(form):
    with pytest.raises(TypeError, match=r"complex64.*x\.real"):
        form(np.ones(2, np.complex64))


@pytest.mark.parametrize("form", FORMS)
def test_lists_are_arrays(form):
    np.testing.assert_allclose(form([[1.0, -1.0]]), [[0.841192, -0.158808]], atol=1e-6)


@pytest.mark.parametrize("form", WITH_OUT)
@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed"])
def test_out_of_any_layout_is_filled_and_returned(form, layout):
    x = np.linspace(-3, 3, 60, dtype=np.float32).reshape(3, 4, 5)
    out = lay_out(np.zeros_like(x), layout)
    assert form(x, out=out) is out
    np.testing.assert_array_equal(out, form(x))


@pytest.mark.parametrize("form", WITH_OUT)
@pytest.mark.parametrize(("source", "target"), [(np.s_[:], np.s_[:]), (np.s_[:-7], np.s_[7:]), (np.s_[::-1], np.s_[:])])
def test_out_may_overlap_the_input(form, source, target):
    memory = np.linspace(-4, 4, 200_000, dtype=np.float32)
    memory[[3, -5]] = -math.inf
    x, out = memory[source], memory[target]
    expected = form(x.copy())
    np.testing.assert_array_equal(form(x, out=out), expected)


@pytest.mark.parametrize("form", WITH_OUT)
@pytest.mark.parametrize(
    ("out", "error", "says"),
    [
        (np.empty((2, 1), np.float32), ValueError, r"\(2,\); got \(2, 1\)"),
        (np.empty(2), TypeError, "float32; got float64"),
        (lay_out(np.empty(2, np.float32), "read-only"), ValueError, "read-only"),
    ],
)
def test_bad_out_is_refused(form, out, error, says):
    with pytest.raises(error, match=says):
        form(np.ones(2, np.float32), out=out)


@given(data=st.data(), block_size=st.integers(1, 50))
def test_blocks_of_any_size_give_the_same_numbers(data, block_size):
    x = data.draw(floats(hnp.array_shapes(max_dims=3, max_side=6), "float64", 12))
    np.testing.assert_allclose(gelu.blocked(x, block_size=block_size), gelu.blocked(x), rtol=1e-15, atol=0)


@pytest.mark.parametrize(
    ("block_size", "error"), [(0, ValueError), (-1, ValueError), (2.0, TypeError), (True, TypeError)]
)
def test_bad_block_size_is_refused(block_size, error):
    with pytest.raises(error, match="block_size must be"):
        gelu.blocked(np.ones(2), block_size=block_size)


def test_costs_of_a_thousand_float32():
    x = np.ones(1000, np.float32)  # 4,000 bytes, far below the size from which temporaries are reused
    textbook = Cost(6000, 2000, bytes_read=40_000, bytes_written=32_000, bytes_write_allocate=32_000, calls=8)
    assert gelu.unfused.cost(x) == gelu.expression.cost(x) == textbook
    assert gelu.in_place.cost(x) == Cost(
        7000, 1000, bytes_read=40_000, bytes_written=32_000, bytes_write_allocate=4_000, calls=8
    )
    assert gelu.blocked.cost(x, block_size=300) == Cost(
        6000, 1000, bytes_read=36_000, bytes_written=28_000, bytes_write_allocate=4_000, calls=4 * 7
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("form", FORMS)
def test_costs_equal_what_is_counted(form, dtype):
    x = np.linspace(-3, 3, 60, dtype=dtype).reshape(3, 20)
    assert count(form, x) == form.cost(x)


@given(data=st.data(), block_size=st.integers(1, 50))
def test_blocked_calls_equal_what_is_counted(data, block_size):
    x = data.draw(floats(hnp.array_shapes(max_dims=3, max_side=6), "float32", 12))
    assert count(gelu.blocked, x, block_size=block_size).calls == gelu.blocked.cost(x, block_size=block_size).calls


class Shape:
    shape, dtype, size, nbytes, itemsize = (70_000,), np.dtype("float32"), 70_000, 280_000, 4


@pytest.mark.parametrize("form", FORMS)
def test_costs_need_shapes_only(form):
    assert form.cost(Shape()) == form.cost(np.ones(70_000, np.float32))


def temporary(x, seen):
    """Return a new array that nothing else holds, and note where it lies."""
    array = x.copy()
    seen.append(array.__array_interface__["data"][0])
    return array


@pytest.mark.skipif(not binary_elision("mul")[0], reason="NumPy reuses no temporaries on this platform")
@pytest.mark.parametrize(
    ("dtype", "size", "reused"),
    [
        ("float32", 65_535, [False] * 5),
        ("float32", 65_536, [False, True, False, False, True]),
        ("float64", 32_767, [False] * 5),
        ("float64", 32_768, [True] * 5),
    ],
)
def test_which_operators_of_the_expression_reuse_a_temporary(dtype, size, reused):
    x, seen = np.ones(size, dtype), []
    results = [
        gelu.CUBIC * temporary(x, seen),
        x + temporary(x, seen),
        gelu.SCALE * temporary(x, seen),
        1.0 + temporary(x, seen),
        temporary(x, seen) * temporary(x, []),
    ]
    assert [r.__array_interface__["data"][0] == place for r, place in zip(results, seen, strict=True)] == reused
    assert gelu.expression.cost(x).bytes_write_allocate == (8 - sum(reused)) * x.nbytes


LARGE = np.linspace(-3, 3, 500_000, dtype=np.float32)
SMALL_CHANGE = 30_000  # Python objects and ufunc buffers


@pytest.mark.parametrize(
    ("form", "arrays"), [(gelu.unfused, 8), (gelu.expression, 3), (gelu.in_place, 1), (gelu.blocked, 1)]
)
def test_peak_memory_in_arrays(form, arrays):
    assert peak_bytes(form, LARGE) == pytest.approx(arrays * LARGE.nbytes, abs=SMALL_CHANGE)


@pytest.mark.parametrize("form", WITH_OUT)
def test_with_out_nothing_is_allocated(form):
    assert peak_bytes(form, LARGE, out=np.empty_like(LARGE)) < SMALL_CHANGE


def test_blocked_over_its_own_input_allocates_blocks_only():
    x = LARGE.copy()
    assert peak_bytes(gelu.blocked, x, out=x, block_size=1000) < SMALL_CHANGE + 2 * 4000


def test_docstring_examples():
    found = doctest.testmod(gelu, extraglobs={"np": np})
    assert found.attempted >= 14
    assert found.failed == 0
