"""Powers of two with a fraction for an exponent, on vectors: the exponential that the GELU kernels use. Needs Numba.

    2^z = 2ⁿ · 2^f    with n = z rounded to a whole number and f = z - n, so that |f| ≤ 1/2

2^f is a polynomial. Adding a large number whose last place is worth 1 rounds z and leaves n in the low bits of the sum;
moved to where a float has its exponent they are 2ⁿ (Cody and Waite, *Software Manual for the Elementary Functions*,
1980, has the reduction; the rest is common practice). Twelve instructions, all on whole vectors.

`accel.kernels.compiled.exponential` has exp for any float. This one leaves out what GELU does not need, results that
are subnormal and the two-step reduction by ln 2; with it the whole kernel takes two thirds of the time.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from accel.kernels import simd
from accel.kernels.compiled import inlined
from accel.kernels.compiled.polynomials import constant, polynomial

__all__ = ["power_of_two"]

_ROUND = constant(1.5 * 2**23 + 127, 1.5 * 2**52 + 1023)  # the low bits of the sum are n plus the exponent's bias

_FRACTION = polynomial(
    # (2^f - 1) / f interpolated at the Chebyshev nodes of |f| ≤ 1/2 by benchmarks/coefficients.py; the leading 1 makes
    # 2^0 exact.
    single=(
        1.0,
        0.69314718055994531,
        0.24022349038020361,
        0.055503810137964574,
        0.0096663685153854483,
        0.0013381302537320796,
    ),
    double=(
        1.0,
        0.69314718055994531,
        0.24022650695910098,
        0.055504108664821594,
        0.0096181291076068885,
        0.0013333558146416935,
        0.0001540353044173605,
        1.5252733829836118e-5,
        1.321544258792169e-6,
        1.0178062445845774e-7,
        7.0725859492692237e-9,
        4.4549605981865184e-10,
    ),
)


@intrinsic
def _whole_power(typing_context: Any, rounded: simd.Vector) -> Any:
    """Return 2ⁿ, where the low bits of `rounded` are n plus the exponent's bias."""
    bits, mantissa_bits = (32, 23) if rounded.dtype == types.float32 else (64, 52)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        whole = ir.VectorType(ir.IntType(bits), rounded.lanes)
        distance = ir.Constant(whole, [mantissa_bits] * rounded.lanes)
        moved = builder.shl(builder.bitcast(arguments[0], whole), distance)
        return builder.bitcast(moved, simd.llvm_vector(rounded))

    return rounded(rounded), generate


@inlined
def power_of_two(z: Any) -> tuple[Any, Any]:
    """Return 2^f and 2ⁿ, whose product is 2^z, for a vector z in [-127, 128] (float32) or [-1023, 1024] (float64).

    At the lower end 2ⁿ is 0, at the upper end infinity. NaN gives a first factor that is NaN. The caller bounds z.
    """
    rounded = z + _ROUND(z)
    fraction = z - (rounded - _ROUND(z))
    return _FRACTION(fraction), _whole_power(rounded)
