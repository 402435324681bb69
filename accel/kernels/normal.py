"""The normal distribution's tail, Φ(-a) for a ≥ 0: what the exact GELU takes from x, or leaves of it.

    Φ(-a) = 1/2 erfc(a/√2) = exp(-a²/2) · w(a)

w falls so smoothly, from 1/2 like 1/a, that one polynomial in t = (a - 4) / (a + 4), which takes 0 … ∞ to -1 … 1, is
right over the whole range: no pieces and no branch. The idea is that of Schonfelder, Mathematics of Computation 32
(1978), pages 1232-1240; the coefficients were fitted by benchmarks/coefficients.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST", "MIDDLE", "SCALED_TAIL", "subtract_tail"]

MIDDLE = 4.0
"""The a that the map takes to t = 0."""

SCALED_TAIL = {
    "float32": (
        0.094410640169678043,
        -0.17039772450335216,
        0.12437935805718045,
        -0.071707195186975818,
        0.030863400431108477,
        -0.008495479206730841,
        0.0005125489408967298,
        0.00065674114567364376,
        -0.00018389389557762154,
        -7.4288656221941819e-5,
    ),
    "float64": (
        0.094410641301968937,
        -0.17039772154845546,
        0.12437925533926318,
        -0.071707407337733415,
        0.030864804106335149,
        -0.0084920954822148816,
        0.00050756207463103215,
        0.00063881385302391271,
        -0.0001871842644665681,
        -4.5554903002674689e-5,
        2.8648307794877999e-5,
        4.6315893369846187e-6,
        -4.303384740476559e-6,
        -8.2945351718988736e-7,
        6.6099071022712917e-7,
        2.0592385053651814e-7,
        -9.3201291907098584e-8,
        -5.2389806599837065e-8,
        8.2563174206961e-9,
        1.1181333174480503e-8,
        8.6315149960200277e-10,
        -1.4344648393856625e-9,
        -3.9132381964765287e-10,
    ),
}
"""Coefficients of w in powers of t, from the constant up: within 6e-8 and 3e-16 of it, relative to it."""

LARGEST = {"float32": math.sqrt(2 * math.log(2) * 127), "float64": math.sqrt(2 * math.log(2) * 1023)}
"""Where exp(-a²/2) leaves the normal numbers of the dtype. The polynomials hold up to here; beyond it Φ(-a) is 0."""


def subtract_tail(x: NDArray[Any], y: NDArray[Any]) -> None:
    """Overwrite `y` with max(x, 0) - |x| · Φ(-|x|), by NumPy alone; the two may be the same array.

    The working arrays have the size of `x`, and its dtype save for float16, which is computed in float32.
    """
    dtype = np.dtype(np.float32 if x.dtype.itemsize == 2 else x.dtype.newbyteorder("="))
    a = np.abs(x, dtype=dtype)
    np.minimum(a, LARGEST[dtype.name], out=a)
    beyond = a >= LARGEST[dtype.name]
    t = (a - MIDDLE) / (a + MIDDLE)
    highest, *others = reversed(SCALED_TAIL[dtype.name])
    tail = np.full_like(t, highest)
    for coefficient in others:
        tail *= t
        tail += coefficient
    tail *= a
    np.multiply(a, a, out=a)
    np.multiply(a, -0.5, out=a)
    np.exp(a, out=a)
    tail *= a
    np.copyto(tail, 0.0, where=beyond)
    np.copyto(a, x)
    np.copyto(a, -0.0, where=x < 0)
    np.subtract(a, tail, out=y, casting="same_kind")
