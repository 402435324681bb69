"""The building blocks of the GELU kernels: constants, polynomials, powers of two, the normal distribution's tail."""

import math

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from accel.kernels import normal, simd  # noqa: E402
from accel.kernels.compiled import compiled  # noqa: E402
from accel.kernels.compiled.error_function import normal_tail  # noqa: E402
from accel.kernels.compiled.polynomials import constant, polynomial  # noqa: E402
from accel.kernels.compiled.powers import power_of_two  # noqa: E402

SINGLE, DOUBLE = [0.5, -1.25, 2.0, 3.0, -0.75, 1.5, 0.125], [1.0, 2.0]
_number = constant(0.5, 0.25)
_same = constant(3.0)
_polynomial = polynomial(SINGLE, DOUBLE)
_single_term = polynomial([4.0], [5.0])
EPSILON = {"float32": 2.0**-24, "float64": 2.0**-53}


@compiled
def constants(x, y, z):
    for i in range(0, x.size, simd.lane_count(x)):
        v = simd.load(x, i)
        simd.store(y, i, _number(v) + _single_term(v))
        simd.store(z, i, _same(v))


@compiled
def polynomials(x, y):
    for i in range(0, x.size, simd.lane_count(x)):
        simd.store(y, i, _polynomial(simd.load(x, i)))


@compiled
def powers(x, y, z):
    for i in range(0, x.size, simd.lane_count(x)):
        fraction, whole = power_of_two(simd.load(x, i))
        simd.store(y, i, fraction)
        simd.store(z, i, whole)


@compiled
def tails(x, y):
    for i in range(0, x.size, simd.lane_count(x)):
        simd.store(y, i, normal_tail(simd.load(x, i)))


def results(kernel, x, count):
    """Run a kernel over `x`, which must fill whole vectors."""
    made = [np.zeros_like(x) for _ in range(count)]
    kernel(x, *made)
    return made


@pytest.mark.parametrize(("dtype", "number", "term"), [("float32", 0.5, 4.0), ("float64", 0.25, 5.0)])
def test_the_dtype_chooses_the_constants(dtype, number, term):
    y, z = results(constants, np.zeros(32, dtype), 2)
    assert (y == number + term).all()
    assert (z == 3).all()


@pytest.mark.parametrize(("dtype", "coefficients"), [("float32", SINGLE), ("float64", DOUBLE)])
def test_polynomials(dtype, coefficients):
    x = np.linspace(-1, 1, 64, dtype=dtype)
    expected = np.polynomial.polynomial.polyval(x.astype(float), coefficients)
    [got] = results(polynomials, x, 1)
    np.testing.assert_allclose(got, expected, rtol=0, atol=8 * EPSILON[dtype])


@pytest.mark.parametrize(("dtype", "least", "most"), [("float32", -126, 127.4), ("float64", -1022, 1023.4)])
def test_powers_of_two(dtype, least, most):
    x = np.linspace(least, most, 64_000).astype(dtype)
    fraction, whole = results(powers, x, 2)
    exponent = np.rint(x).astype(int)
    np.testing.assert_array_equal(whole, np.ldexp(np.ones_like(x), exponent))
    # 2^f by the C library from the exact f, so that its error does not grow with the exponent
    expected = np.exp2(x.astype(float) - exponent)
    np.testing.assert_allclose(fraction, expected, rtol=6 * EPSILON[dtype])


@pytest.mark.parametrize(("dtype", "least", "most"), [("float32", -127, 128), ("float64", -1023, 1024)])
def test_ends_of_the_powers(dtype, least, most):
    x = np.array([least, most, 0.0, math.nan] * 16, dtype)
    fraction, whole = results(powers, x, 2)
    np.testing.assert_array_equal(whole.reshape(-1, 4)[:, :3], [[0, math.inf, 1]] * 16)
    np.testing.assert_array_equal(fraction.reshape(-1, 4), [[1, 1, 1, math.nan]] * 16)


def true_tails(a):
    return np.array([math.erfc(value * math.sqrt(0.5)) / 2 for value in a.astype(float)])


@pytest.mark.parametrize(("dtype", "relative"), [("float32", 1e-5), ("float64", 5e-13)])
def test_the_normal_tail_keeps_its_digits(dtype, relative):
    a = np.linspace(0, 0.99 * normal.LARGEST[dtype], 64_000).astype(dtype)
    [got] = results(tails, a, 1)
    expected = true_tails(a)
    normal_numbers = expected > np.finfo(dtype).tiny
    np.testing.assert_allclose(got[normal_numbers], expected[normal_numbers], rtol=relative)
    np.testing.assert_allclose(got, expected, rtol=0, atol=4 * EPSILON[dtype])
    [end] = results(tails, np.full(16, normal.LARGEST[dtype], dtype), 1)
    assert not end.any()


@pytest.mark.parametrize(("dtype", "absolute"), [("float16", 1e-3), ("float32", 1e-7), ("float64", 1e-16)])
def test_numpy_subtracts_the_same_tail(dtype, absolute):
    x = np.linspace(-6, 0, 5001).astype(dtype)
    y = np.empty_like(x)
    normal.subtract_tail(x, y)
    np.testing.assert_allclose(y, x * true_tails(-x), rtol=0, atol=absolute)
    visible = y < -np.finfo(dtype).tiny
    np.testing.assert_allclose(y[visible], (x * true_tails(-x))[visible], rtol=0.01)
    normal.subtract_tail(x, x)
    np.testing.assert_array_equal(x, y)
