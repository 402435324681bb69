import doctest
import functools
import math
import warnings
from decimal import Decimal, localcontext

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from accel.kernels.compiled import compiled, exponential, reassociated  # noqa: E402
from accel.kernels.compiled.exponential import ULP32, ULP64, exp, exp32, exp64, fitted_polynomial  # noqa: E402

ULP = {"float32": ULP32, "float64": ULP64}


@compiled
def strictly(x, y):
    for i in range(x.size):
        y[i] = exp(x[i])


@reassociated
def loosely(x, y):
    for i in range(x.size):
        y[i] = exp(x[i])


def of(loop, x):
    y = np.empty_like(x)
    loop(x, y)
    return y


def true_exponentials(x):
    """Return exp of each float, to more digits than a float64 has, as Decimals."""
    with localcontext(prec=40):
        return [Decimal(float(value)).exp() for value in x]


def errors_in_ulp(got, exact):
    spacing = np.spacing(np.abs(got))
    return [abs(Decimal(float(g)) - e) / Decimal(float(s)) for g, e, s in zip(got, exact, spacing, strict=True)]


@pytest.mark.parametrize("loop", [strictly, loosely])
def test_error_of_float32_over_its_whole_range(loop):
    x = np.linspace(-104, 88.7228, 3_000_001).astype(np.float32)
    exact = np.exp(x.astype(np.float64))  # 2⁻²⁹ of a unit in the last place of a float32 off, at most
    got = of(loop, x)
    ulp = np.spacing(np.maximum(exact.astype(np.float32), np.finfo(np.float32).smallest_subnormal))
    assert (np.abs(got - exact) / ulp).max() <= ULP32


@pytest.mark.parametrize("loop", [strictly, loosely])
@pytest.mark.parametrize(("dtype", "least", "most"), [("float32", -103.5, 88.7), ("float64", -744.4, 709.7)])
def test_error_against_forty_digits(loop, dtype, least, most):
    generator = np.random.default_rng(3)
    spans = [(-1, 1), (least, most), (least, 0.955 * least)]  # the last one gives subnormals
    x = np.concatenate([generator.uniform(*span, 2000) for span in spans]).astype(dtype)
    assert max(errors_in_ulp(of(loop, x), true_exponentials(x))) <= ULP[dtype]


@pytest.mark.parametrize("loop", [strictly, loosely])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_edges_are_exact(loop, dtype):
    huge, tiny = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, huge, -huge, tiny, -tiny] * 5, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = of(loop, x)
    np.testing.assert_array_equal(got, [1, 1, math.inf, 0, math.nan, math.nan, math.inf, 0, 1, 1] * 5)
    assert not np.signbit(got[~np.isnan(got)]).any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_ends_of_the_range(dtype):
    info = np.finfo(dtype)
    largest = np.log(info.max, dtype=dtype)  # rounds to a value whose exp is finite or just above
    below, above = np.nextafter(largest, 0, dtype=dtype), np.nextafter(largest, np.inf, dtype=dtype)
    least = np.array(math.log(float(info.smallest_subnormal)) if dtype == "float32" else -744.4400719213812, dtype)
    got = of(strictly, np.array([below, np.nextafter(above, np.inf), least + 0.1, least - 1], dtype))
    assert np.isfinite(got[0])
    assert got[1] == math.inf
    assert got[2] == info.smallest_subnormal
    assert got[3] == 0


def test_by_name_and_by_type_are_the_same():
    @numba.njit
    def by_name(x, y):
        return exp32(x), exp64(y)

    @numba.njit
    def by_type(x, y):
        return exp(x), exp(y)

    arguments = np.float32(-1.25), 2.5
    assert by_name(*arguments) == by_type(*arguments)
    with pytest.raises(numba.TypingError):
        by_type(1, 2)


def test_outside_compiled_code_it_names_numpy():
    with pytest.raises(NotImplementedError, match=r"np\.exp"):
        exp(1.0)


@pytest.mark.parametrize(("degree", "relative_error"), [(4, 1.1e-8), (9, 1.8e-17)])
def test_polynomials_are_as_close_as_their_degree_allows(degree, relative_error):
    coefficients = fitted_polynomial(degree)
    with localcontext(prec=40):
        for k in range(-200, 201):
            r = Decimal(k) / 400 * Decimal(2).ln()
            q = functools.reduce(lambda total, c: total * r + c, reversed(coefficients))
            assert abs(1 + r + r * r * q - r.exp()) <= Decimal(relative_error) * r.exp()


@pytest.mark.speed
def test_loops_become_vector_code():
    x = np.random.default_rng(0).standard_normal(4096, np.float32)
    y = np.empty_like(x)
    from accel.measurement import measure_calls

    @compiled
    def scalar(x, y):
        for i in range(x.size):
            y[i] = math.exp(x[i])

    timed = measure_calls(
        {"ours": lambda: strictly(x, y), "scalar": lambda: scalar(x, y)}, seconds=0.1, warm_up_seconds=0.02
    )
    assert timed["ours"].best_seconds < 0.6 * timed["scalar"].best_seconds


def test_docstring_examples():
    assert doctest.testmod(exponential).failed == 0
