import doctest
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import floats, lay_out

import accel
from accel.cost import Cost
from accel.kernels import attention
from accel.kernels.attention import blockwise, fusion, textbook
from accel.measurement import measure_memory

FORMS = [attention.plain, attention.tiled, attention.fused]
TOLERANCE = {"float32": 3e-6, "float64": 1e-14}


def operands(*shapes, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def small_blocks(q, k, v, **keywords):
    return attention.tiled(q, k, v, query_block=3, key_block=2, **keywords)


@pytest.mark.parametrize("form", [*FORMS, small_blocks])
@settings(deadline=None)
@given(data=st.data())
def test_forms_equal_the_reference(form, data):
    dtype = data.draw(st.sampled_from(sorted(TOLERANCE)))
    heads = data.draw(st.sampled_from([(), (1,), (2,), (0,), (2, 3)]))
    n_q, n_k, d, d_v = (data.draw(st.integers(0, most)) for most in (20, 20, 5, 20))
    q, k, v = (data.draw(floats((*heads, *s), dtype, 8)) for s in ((n_q, d), (n_k, d), (n_k, d_v)))
    before = [x.copy() for x in (q, k, v)]
    causal = data.draw(st.booleans())
    got = form(q, k, v, causal=causal)
    assert isinstance(got, np.ndarray)
    assert (got.dtype, got.shape) == (np.dtype(dtype), (*heads, n_q, d_v))
    np.testing.assert_allclose(got, attention.reference(q, k, v, causal=causal), rtol=0, atol=100 * TOLERANCE[dtype])
    for x, kept in zip((q, k, v), before, strict=True):
        np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(300, 64, 64), (97, 101, 40), (205, 96, 33), (8, 203, 64), (130, 7, 16)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_blocks(dtype, shape, causal):
    n_q, n_k, d = shape
    q, k, v = operands((2, n_q, d), (2, n_k, d), (2, n_k, d + 1), dtype=dtype)
    expected = attention.reference(q, k, v, causal=causal)
    for form in (*FORMS, small_blocks):
        np.testing.assert_allclose(form(q, k, v, causal=causal), expected, rtol=0, atol=TOLERANCE[dtype])
    np.testing.assert_array_equal(
        attention.fused(q, k, v, causal=causal, threads=2), attention.fused(q, k, v, causal=causal)
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_query_that_sees_no_key_gets_zeros(form):
    q, k, v = operands((130, 4), (7, 4), (7, 3))
    got = form(q, k, v, causal=True)
    assert not got[:123].any()
    np.testing.assert_allclose(got[123], v[0], rtol=1e-6)  # the first that sees one sees that one alone
    np.testing.assert_array_equal(form(q, k[:0], v[:0]), np.zeros((130, 3)))


@pytest.mark.parametrize("form", FORMS)
def test_one_query_sees_every_key(form):
    q, k, v = operands((1, 4), (200, 4), (200, 3))
    np.testing.assert_array_equal(form(q, k, v, causal=True), form(q, k, v))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_and_infinity_spread_as_in_the_reference_and_silently(form, dtype):
    q, k, v = operands((40, 4), (120, 4), (120, 5), dtype=dtype)
    q[3, 1], q[4, 2], v[7, 2] = math.nan, math.inf, math.inf
    k[:, 3] = np.abs(k[:, 3]) + 1
    q[5] = [0, 0, 0, -math.inf]  # every score of this query is -inf
    q[6] = [0, 0, 0, -np.finfo(dtype).max]  # and its scores are out of range or close to that
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        got = form(q, k, v)
    expected = attention.reference(q, k, v)
    rows = [i for i in range(40) if i != 6]  # in float64, as the reference computes, query 6 has finite scores
    np.testing.assert_allclose(got[rows], expected[rows], rtol=1e-5, atol=1e-5)
    assert np.isnan(expected[3]).all()
    assert np.isinf(expected[0, 2])


@pytest.mark.parametrize("form", FORMS)
def test_large_scores_do_not_overflow(form):
    q, k, v = operands((20, 4), (150, 4), (150, 5))
    q *= 300
    np.testing.assert_allclose(form(q, k, v), attention.reference(q, k, v), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_leading_axes_broadcast(form):
    q, k, v = operands((2, 1, 9, 4), (3, 8, 4), (8, 5))
    got = form(q, k, v)
    assert got.shape == (2, 3, 9, 5)
    np.testing.assert_allclose(got, attention.reference(q, k, v), atol=3e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", ["C", "F", "strided", "reversed"])
def test_out_of_any_layout_is_filled_and_returned(form, layout):
    q, k, v = operands((2, 17, 4), (2, 9, 4), (2, 9, 5))
    out = lay_out(np.zeros((2, 17, 5), np.float32), layout)
    assert form(q, k, v, out=out) is out
    np.testing.assert_allclose(out, form(q, k, v), atol=3e-6)


@pytest.mark.parametrize("form", FORMS)
def test_out_may_be_an_operand(form):
    q, k, v = operands((16, 4), (16, 4), (16, 4))
    expected = form(q, k, v)
    for i in range(3):
        copies = [x.copy() for x in (q, k, v)]
        np.testing.assert_array_equal(form(*copies, out=copies[i]), expected)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        (((3,), (4, 2), (4, 2)), r"got \(3,\), \(4, 2\) and \(4, 2\): each needs two dimensions"),
        (((3, 2), (4, 3), (4, 3)), "queries of length 2 cannot be matched with keys of 3"),
        (((3, 2), (4, 2), (5, 2)), "4 keys, 5 values"),
        (((2, 3, 2), (3, 4, 2), (4, 2)), "do not broadcast"),
    ],
)
def test_shapes_that_do_not_fit_are_named(form, shapes, says):
    with pytest.raises(ValueError, match=says):
        form(*(np.zeros(shape, np.float32) for shape in shapes))


@pytest.mark.parametrize("form", FORMS)
def test_other_dtypes_and_mixtures_are_refused_with_the_fix(form):
    x = np.ones((2, 2))
    for wrong in ("float16", "int64", "complex64"):
        with pytest.raises(TypeError, match=wrong):
            form(x.astype(wrong), x, x)
    with pytest.raises(TypeError, match="q, k and v must have one dtype; got float32, float64 and float64"):
        form(x.astype("float32"), x, x)
    with pytest.raises(TypeError, match="out must have the dtype"):
        form(x, x, x, out=np.empty((2, 2), np.float32))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("form", [attention.plain, attention.tiled, small_blocks])
@pytest.mark.parametrize(("n_q", "n_k"), [(5, 7), (7, 5), (4, 4), (1, 3), (3, 0)])
def test_costs_equal_what_is_traced(form, n_q, n_k, causal):
    q, k, v = operands((2, n_q, 3), (2, n_k, 3), (2, n_k, 4))
    sizes = {"query_block": 3, "key_block": 2} if form is small_blocks else {}
    public = attention.tiled if form is small_blocks else form
    traced = accel.trace(lambda q, k, v: form(q, k, v, causal=causal), q, k, v)
    assert traced.cost == public.cost(q, k, v, causal=causal, **sizes)


def test_cost_of_the_fused_form_counts_the_pairs_that_see_each_other():
    q, k, v = operands((2, 5, 3), (2, 4, 3), (2, 4, 6))
    assert attention.fused.cost(q, k, v) == Cost(
        flops=40 * (2 * 3 + 2 * 6 + 3) + 2 * 5 * (3 + 6),
        special=40,
        bytes_read=4 * (30 + 24 + 48),
        bytes_written=240,
        bytes_write_allocate=240,
        calls=1,
    )
    for n_q, n_k in [(5, 4), (4, 5), (4, 4), (1, 9), (9, 1), (3, 0), (0, 3)]:
        q, k, v = operands((2, n_q, 3), (2, n_k, 3), (2, n_k, 6))
        assert attention.fused.cost(q, k, v, causal=True).special == 2 * int(np.tri(n_q, n_k, n_k - n_q).sum())
    [op] = [op for op in accel.trace(attention.fused, q, k, v).ops if op.cost.calls]
    assert op.cost == attention.fused.cost(q, k, v)


def test_memory_is_linear_in_the_number_of_keys():
    def beside_the_result(form, n):
        q, k, v = operands((n, 16), (n, 16), (n, 16))
        out = np.empty_like(q)
        form(q, k, v, out=out)
        return measure_memory(lambda: form(q, k, v, out=out)).peak_bytes

    assert beside_the_result(attention.plain, 1024) >= 4 * 1024**2
    for form in (attention.tiled, attention.fused):
        assert beside_the_result(form, 1024) < 800_000
        assert beside_the_result(form, 2048) < 1.2 * beside_the_result(form, 1024)


def test_without_numba_the_fused_form_runs_the_tiled_one(monkeypatch):
    monkeypatch.setattr(fusion, "compiled", lambda name: None)
    q, k, v = operands((40, 8), (50, 8), (50, 8))
    np.testing.assert_array_equal(attention.fused(q, k, v), attention.tiled(q, k, v))


@pytest.mark.parametrize("wrong", [0, 1.5, True])
def test_bad_counts_are_refused(wrong):
    q, k, v = operands((4, 2), (4, 2), (4, 2))
    with pytest.raises((TypeError, ValueError), match="threads must be"):
        attention.fused(q, k, v, threads=wrong)
    with pytest.raises((TypeError, ValueError), match="key_block must be"):
        attention.tiled(q, k, v, key_block=wrong)


@pytest.mark.parametrize("module", [textbook, blockwise, fusion])
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0
