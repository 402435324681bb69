"""The normal distribution's tail, on vectors, and so the error function: erf(s) = 1 - 2 Φ(-s√2). Needs Numba."""

from __future__ import annotations

import math
from typing import Any

from accel.kernels import normal
from accel.kernels.compiled import inlined
from accel.kernels.compiled.polynomials import constant, polynomial
from accel.kernels.compiled.powers import power_of_two

__all__ = ["normal_tail"]

_MIDDLE = constant(normal.MIDDLE)
_SCALED_TAIL = polynomial(single=normal.SCALED_TAIL["float32"], double=normal.SCALED_TAIL["float64"])
_HALF_LOG2E = constant(-0.5 / math.log(2))  # exp(-a²/2) = 2^(-a² / (2 ln 2))


@inlined
def normal_tail(a: Any) -> Any:
    """Return Φ(-a), half of erfc(a/√2), for a vector in [0, normal.LARGEST]; at the upper end it is 0."""
    scaled = _SCALED_TAIL((a - _MIDDLE(a)) / (a + _MIDDLE(a)))
    fraction, whole = power_of_two(_HALF_LOG2E(a) * a * a)
    return scaled * fraction * whole
