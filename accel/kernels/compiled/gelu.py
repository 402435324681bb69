"""GELU in one pass: each vector is loaded, computed and stored once, and nothing goes through memory between.

The tanh form is computed as

    gelu(x) = x / (1 + exp(-2u))    with u = √(2/π) · (x + 0.044715 x³)

which is the same function, since (1 + tanh u)/2 = 1/(1 + exp(-2u)), takes fewer instructions than any tanh, and cancels
no digits where the result is small. The exact form is computed as max(x, 0) - |x| · Φ(-|x|), for the same reason.

Ends that do not fill a vector go through a buffer of one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from accel.kernels import normal, simd
from accel.kernels.compiled import compiled, inlined
from accel.kernels.compiled.error_function import normal_tail
from accel.kernels.compiled.polynomials import constant, polynomial
from accel.kernels.compiled.powers import power_of_two
from accel.kernels.gelu.formula import CUBIC, SCALE

__all__ = ["bias_fused", "exact", "fused"]

_EXPONENT = [-2 * SCALE / math.log(2), -2 * SCALE * CUBIC / math.log(2)]  # -2u log₂e = x · (e₀ + e₁ x²)


def _argument(exponent: float) -> float:
    """Return the x for which -2u log₂e is `exponent`, by Newton's method."""
    x = math.copysign(1.0, -exponent)
    for _ in range(60):
        value, slope = x * (_EXPONENT[0] + _EXPONENT[1] * x * x), _EXPONENT[0] + 3 * _EXPONENT[1] * x * x
        x -= (value - exponent) / slope
    return x


_ZERO, _MINUS_ZERO, _ONE = constant(0.0), constant(-0.0), constant(1.0)
_EXPONENT_BY_X = polynomial(single=_EXPONENT, double=_EXPONENT)
_LEAST_EXPONENT = constant(-127.0, -1023.0)
_LARGEST = constant(normal.LARGEST["float32"], normal.LARGEST["float64"])
_LEAST_X = constant(_argument(128), _argument(1024))  # from here down the power is infinite and the result -0.0


@inlined
def _tanh_form(x: Any) -> Any:
    x = simd.maximum(_LEAST_X(x), x)
    exponent = x * _EXPONENT_BY_X(x * x)
    fraction, whole = power_of_two(simd.maximum(_LEAST_EXPONENT(x), exponent))
    return x / simd.fma(fraction, whole, _ONE(x))


@inlined
def _exact_form(x: Any) -> Any:
    magnitude = simd.minimum(_LARGEST(x), simd.maximum(x, _ZERO(x) - x))
    positive_part = simd.maximum(_MINUS_ZERO(x), x)  # in this order NaN and both zeros pass through
    return positive_part - magnitude * normal_tail(magnitude)


@intrinsic
def _boundary(typing_context: Any, y: Any) -> Any:
    """Return the number of elements from the start of an array to where its memory reaches a vector's boundary."""
    vector_bytes, element_bytes = simd.VECTOR_BITS // 8, y.dtype.bitwidth // 8

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        number = ir.IntType(64)
        start = context.make_array(y)(context, builder, arguments[0]).data
        beyond = builder.and_(builder.neg(builder.ptrtoint(start, number)), number(vector_bytes - 1))
        return builder.udiv(beyond, number(element_bytes))

    return types.int64(y), generate


@inlined
def _each(form: Any, x: Any, y: Any, around_caches: bool) -> None:
    """Write form(x) to `y`, by stores around the caches if asked to; both are contiguous."""
    lanes = simd.lane_count(y)
    first = min(_boundary(y), y.size)
    last = first + (y.size - first) // lanes * lanes
    for i in range(first, last, lanes):
        result = form(simd.load(x, i))
        if around_caches:
            simd.store_non_temporal(y, i, result)
        else:
            simd.store(y, i, result)
    simd.fence()
    buffer = np.zeros(lanes, y.dtype)
    for start, stop in ((0, first), (last, y.size)):
        for i in range(start, stop):
            buffer[i - start] = x[i]
        simd.store(buffer, 0, form(simd.load(buffer, 0)))
        for i in range(start, stop):
            y[i] = buffer[i - start]


@compiled
def fused(x: Any, y: Any, around_caches: bool) -> None:
    """Write the tanh form of `x` to `y`; the rest as in `_each`."""
    _each(_tanh_form, x, y, around_caches)


@compiled
def exact(x: Any, y: Any, around_caches: bool) -> None:
    """Write the exact form of `x` to `y`; the rest as in `_each`."""
    _each(_exact_form, x, y, around_caches)


@compiled
def bias_fused(x: Any, bias: Any, y: Any, start: int, stop: int, around_caches: bool) -> None:
    """Write gelu(x + bias) to elements start … stop of `y`; `bias` repeats. All three are contiguous."""
    lanes = simd.lane_count(y)
    boundary = _boundary(y)
    buffer = np.zeros(lanes, y.dtype)
    while start < stop:
        to_bias = start % bias.size - start
        row_end = min(stop, start + bias.size - start % bias.size)
        first = min(row_end, start + (boundary - start) % lanes)
        last = first + (row_end - first) // lanes * lanes
        for i in range(first, last, lanes):
            result = _tanh_form(simd.load(x, i) + simd.load(bias, i + to_bias))
            if around_caches:
                simd.store_non_temporal(y, i, result)
            else:
                simd.store(y, i, result)
        for begin, end in ((start, first), (last, row_end)):
            for i in range(begin, end):
                buffer[i - begin] = x[i] + bias[i + to_bias]
            simd.store(buffer, 0, _tanh_form(simd.load(buffer, 0)))
            for i in range(begin, end):
                y[i] = buffer[i - begin]
        start = row_end
    simd.fence()
