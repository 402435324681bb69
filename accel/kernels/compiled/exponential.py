"""exp(x) as a building block of compiled loops: straight-line arithmetic that LLVM turns into vector code.

`math.exp` inside a compiled loop is a call into the C library for every element, which keeps the loop scalar. Here

    exp(x) = 2ⁿ · exp(r)    with n = round(x / ln 2) and r = x - n · ln 2, so that |r| ≤ ln(2)/2

and exp(r) is a polynomial, fitted below at import. There is no branch, no table, and no conversion between floats and
integers: adding a large number to x / ln 2 rounds it, and leaves n in the low bits of the sum (Cody and Waite,
*Software Manual for the Elementary Functions*, 1980, for the reduction in two steps; the rest is common practice).

The multiply-adds are asked for by name and not written as ``a * b + c``, so that a caller compiled under relaxed rules
cannot reorder them. Both functions are exact at 0, ±inf and NaN, round to subnormal numbers where the result is one,
and are within `ULP32` and `ULP64` units in the last place of the true value.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from accel.kernels.compiled import inlined

__all__ = ["ULP32", "ULP64", "exp", "exp32", "exp64", "multiply_add"]

ULP32 = 1.1
"""Bound on the error of `exp32`, in units in the last place of the result."""
ULP64 = 1.1
"""Bound on the error of `exp64`, in units in the last place of the result."""


def fitted_polynomial(degree: int) -> list[Decimal]:
    """Return coefficients of q, from the constant up, so that exp(r) ≈ 1 + r + r² · q(r) over |r| ≤ ln(2)/2.

    q takes the values of (exp(r) - 1 - r) / r² at the Chebyshev nodes of the interval, which makes its largest error
    nearly the smallest possible. The arithmetic is decimal, with digits to spare for what the differences cancel.

    >>> [round(float(c), 3) for c in fitted_polynomial(3)]  # near 1/2, 1/6, 1/24, 1/120
    [0.5, 0.167, 0.042, 0.008]
    """
    with localcontext(prec=60):
        half_width = Decimal(2).ln() / 2
        # Cosines may come from floats: nodes near Chebyshev's are as good. The middle one is near 0, never at 0.
        nodes = [half_width * Decimal(math.cos(math.pi * (k + 0.5) / (degree + 1))) for k in range(degree + 1)]
        newton = [(node.exp() - 1 - node) / node**2 for node in nodes]
        for order in range(1, degree + 1):  # divided differences
            for k in range(degree, order - 1, -1):
                newton[k] = (newton[k] - newton[k - 1]) / (nodes[k] - nodes[k - order])
        coefficients = [Decimal(0)] * (degree + 1)
        for k in range(degree, -1, -1):  # from Newton's form to powers: q ← newton[k] + (r - nodes[k]) · q
            shifted = [Decimal(0), *coefficients[:-1]]
            coefficients = [high - nodes[k] * low for high, low in zip(shifted, coefficients, strict=True)]
            coefficients[0] += newton[k]
        return coefficients


def split_ln2(bits: int) -> tuple[float, float]:
    """Return ln 2 as a sum high + low in which high has so few bits that n · high is exact for every n in use."""
    with localcontext(prec=60):
        ln2 = Decimal(2).ln()
        high = math.floor(ln2 * 2**bits) / 2**bits
        return high, float(ln2 - Decimal(high))


# float32. The rounding number 1.5 · 2²³ is where the spacing of float32 is 1. What is added to it is twice the exponent
# bias, so that the low bits, halved, are the biased exponent of 2^(n/2).
_ROUND32 = np.float32(1.5 * 2**23 + 2 * 127)
_LOG2E32 = np.float32(1 / math.log(2))
_HIGH32, _LOW32 = map(np.float32, split_ln2(15))
_LEAST32, _MOST32 = np.float32(-104), np.float32(89)  # beyond these exp is 0 and inf
_A0, _A1, _A2, _A3, _A4 = map(np.float32, fitted_polynomial(4))

# float64, likewise.
_ROUND64 = 1.5 * 2**52 + 2 * 1023
_LOG2E64 = 1 / math.log(2)
_HIGH64, _LOW64 = split_ln2(40)
_LEAST64, _MOST64 = -746.0, 710.0
_B0, _B1, _B2, _B3, _B4, _B5, _B6, _B7, _B8, _B9 = map(float, fitted_polynomial(9))


@intrinsic
def multiply_add(typing_context: Any, a: types.Float, b: types.Float, c: types.Float) -> Any:
    """Return a · b + c, with one rounding where the CPU has such an instruction."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        number = context.get_value_type(signature.return_type)
        name = f"llvm.fmuladd.f{signature.return_type.bitwidth}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(number, [number] * 3), name)
        return builder.call(function, arguments)

    return a(a, a, a), generate


@intrinsic
def _clipped(typing_context: Any, x: types.Float, least: types.Float, most: types.Float) -> Any:
    """Return x within its bounds. NaN stays NaN: both comparisons are false for it."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        x, least, most = arguments
        x = builder.select(builder.fcmp_ordered(">", x, most), most, x)
        return builder.select(builder.fcmp_ordered("<", x, least), least, x)

    return x(x, x, x), generate


@intrinsic
def _two_powers(typing_context: Any, rounded: types.Float) -> Any:
    """Return 2^⌊n/2⌋ and 2^⌈n/2⌉, where the low bits of `rounded` are n + 2 · bias.

    Two, because 2ⁿ itself may be out of range where the result is subnormal or just below the largest float. A float
    is a power of two if it consists of nothing but the biased exponent, above the bits of the mantissa.
    """
    mantissa_bits = 23 if rounded.bitwidth == 32 else 52

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        integer = ir.IntType(rounded.bitwidth)
        number = context.get_value_type(rounded)
        both = builder.bitcast(arguments[0], integer)
        low = builder.lshr(both, integer(1))
        powers = [builder.shl(exponent, integer(mantissa_bits)) for exponent in (low, builder.sub(both, low))]
        return context.make_tuple(builder, signature.return_type, [builder.bitcast(p, number) for p in powers])

    return types.UniTuple(rounded, 2)(rounded), generate


@inlined
def exp32(x: Any) -> Any:
    """Return exp(x) for a float32 x."""
    x = _clipped(x, _LEAST32, _MOST32)
    rounded: Any = multiply_add(x, _LOG2E32, _ROUND32)
    n = rounded - _ROUND32
    r = multiply_add(n, -_LOW32, multiply_add(n, -_HIGH32, x))
    q = multiply_add(multiply_add(multiply_add(multiply_add(_A4, r, _A3), r, _A2), r, _A1), r, _A0)
    above_one = multiply_add(r * r, q, r)
    low, high = _two_powers(rounded)
    return multiply_add(above_one, low, low) * high


@inlined
def exp64(x: Any) -> Any:
    """Return exp(x) for a float64 x."""
    x = _clipped(x, _LEAST64, _MOST64)
    rounded: Any = multiply_add(x, _LOG2E64, _ROUND64)
    n = rounded - _ROUND64
    r = multiply_add(n, -_LOW64, multiply_add(n, -_HIGH64, x))
    q = multiply_add(multiply_add(multiply_add(multiply_add(_B9, r, _B8), r, _B7), r, _B6), r, _B5)
    q = multiply_add(multiply_add(multiply_add(multiply_add(multiply_add(q, r, _B4), r, _B3), r, _B2), r, _B1), r, _B0)
    above_one = multiply_add(r * r, q, r)
    low, high = _two_powers(rounded)
    return multiply_add(above_one, low, low) * high


def exp(x: float) -> float:
    """Return exp(x) by `exp32` or `exp64`, whichever the type of `x` asks for. Only within compiled code."""
    raise NotImplementedError("exp is for compiled code; outside it use np.exp.")


@overload(exp, inline="always")
def _exp_by_type(x):  # type: ignore[no-untyped-def]  # Numba compares this signature with that of the lambdas
    if x == types.float32:
        return lambda x: exp32(x)
    if x == types.float64:
        return lambda x: exp64(x)
    return None
