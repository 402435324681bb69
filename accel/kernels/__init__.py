"""The computations under study, one module a family, each a ladder of forms of the same computation.

A form is named for what it does: `gelu.in_place`, `matmul.tiled`. Each carries its closed-form `accel.Cost` as
`form.cost(*arguments)`. Costs count NumPy calls on inputs that do not overlap `out`, and never allocations alone.

>>> import numpy as np
>>> from accel.kernels import gelu
>>> gelu.in_place.cost(np.ones(1000, np.float32)).flops
7000
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accel.kernels import elementwise, gelu, matmul

__all__ = ["KERNELS", "elementwise", "gelu", "matmul"]

KERNELS: tuple[Callable[..., Any], ...] = (
    elementwise.add,
    elementwise.multiply,
    elementwise.triad,
    gelu.unfused,
    gelu.expression,
    gelu.in_place,
    gelu.blocked,
    matmul.triple_loop,
    matmul.row_dot,
    matmul.outer_product,
    matmul.vectorized,
    matmul.tiled,
)
"""Every kernel, family by family, from the plainest form to the best: for tests and benchmarks that go over all."""
