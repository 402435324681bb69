"""Constants and polynomials as building blocks of compiled kernels, on vectors of either dtype. Needs Numba.

Each is made once, from Python numbers, and is then called with a `simd.Vector`, whose dtype decides which numbers are
used. So a formula is written once and means float32 or float64 by what it is given:

    _one = constant(1.0)
    _series = polynomial(single=[1.0, 0.5], double=[1.0, 0.5, 1 / 6])

    @inlined
    def formula(x):
        return _one(x) / _series(x)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from accel.kernels import simd

__all__ = ["constant", "polynomial"]


def constant(single: float, double: float | None = None) -> Any:
    """Make a function that returns a vector like its argument with `single` (or `double`, in float64) in each lane."""
    numbers = {types.float32: single, types.float64: single if double is None else double}

    @intrinsic
    def filled(typing_context: Any, like: simd.Vector) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
            return _filled(like, numbers[like.dtype])

        return like(like), generate

    return filled


def polynomial(single: Sequence[float], double: Sequence[float]) -> Any:
    """Make a function that evaluates the polynomial with these coefficients, from the constant up.

    Estrin's scheme (1960): pairs of neighbouring terms are joined by one fused multiply-add each, all pairs at once,
    then pairs of pairs, each time with the square of the last power. That is as many steps one after the other as the
    number of terms has binary digits, where Horner's rule takes as many as there are terms: a processor that works on
    several steps at once then waits less.
    """
    coefficients = {types.float32: list(single), types.float64: list(double)}

    @intrinsic
    def evaluated(typing_context: Any, x: simd.Vector) -> Any:
        def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
            return _estrin(builder, [_filled(x, c) for c in coefficients[x.dtype]], arguments[0])

        return x(x), generate

    return evaluated


def _filled(vector: simd.Vector, number: float) -> ir.Constant:
    return ir.Constant(simd.llvm_vector(vector), [float(number)] * vector.lanes)


def _estrin(builder: ir.IRBuilder, terms: list[ir.Value], power: ir.Value) -> ir.Value:
    """Join neighbours until one term is left; an odd one out at the end waits for the next round."""
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        left_over = terms[len(terms) - len(terms) % 2 :]
        terms = [simd.call_fma(builder, high, power, low) for low, high in pairs] + left_over
        power = builder.fmul(power, power)
    return terms[0]
