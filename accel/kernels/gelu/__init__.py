"""GELU, the Gaussian error linear unit, computed in ever fewer passes over memory.

    gelu(x) = x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))    all forms but `exact`
    gelu(x) = x/2 · (1 + erf(x/√2)) = x · Φ(x)                `exact`, which the first stays within 5e-4 of

Source: Hendrycks and Gimpel, arXiv 1606.08415. All forms take float16, float32 or float64 arrays of any shape, strides
and byte order, keep the dtype, never change their input and never warn. They agree on the edges: gelu(inf) = inf,
gelu(-inf) = -0.0, gelu(±0) = ±0, NaN stays NaN, and overflow on the way to the tanh is harmless, since
tanh(±inf) = ±1.

`unfused`, `expression`, `in_place` and `blocked` are NumPy. `fused`, `exact` and `bias_fused` are compiled by Numba on
their first call, and run NumPy where Numba is missing.
"""

from __future__ import annotations

from accel.kernels.gelu.formula import CUBIC as CUBIC
from accel.kernels.gelu.formula import SCALE as SCALE
from accel.kernels.gelu.formula import exact_reference as exact_reference
from accel.kernels.gelu.formula import reference
from accel.kernels.gelu.fusion import bias_fused, exact, fused
from accel.kernels.gelu.passes import blocked, in_place
from accel.kernels.gelu.textbook import expression, unfused

__all__ = ["bias_fused", "blocked", "exact", "expression", "fused", "in_place", "reference", "unfused"]

for _form in (unfused, expression, in_place, blocked, fused, bias_fused, exact):
    _form.__module__ = __name__  # traces and tables call a form by its family, "gelu.fused", whatever file it is in
