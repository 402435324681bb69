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

from accel.kernels import access, attention, convolution, elementwise, gelu, layer_norm, matmul, mlp, softmax

__all__ = [
    "KERNELS",
    "access",
    "attention",
    "convolution",
    "elementwise",
    "gelu",
    "layer_norm",
    "matmul",
    "mlp",
    "softmax",
]


KERNELS: tuple[Callable[..., Any], ...] = (
    elementwise.add,
    elementwise.multiply,
    elementwise.triad,
    gelu.unfused,
    gelu.expression,
    gelu.in_place,
    gelu.blocked,
    gelu.fused,
    gelu.bias_fused,
    gelu.exact,
    matmul.triple_loop,
    matmul.row_dot,
    matmul.outer_product,
    matmul.vectorized,
    matmul.tiled,
    matmul.tiled_loops,
    matmul.packed,
    softmax.three_pass,
    softmax.in_place,
    softmax.online,
    softmax.blocked,
    softmax.fused,
    layer_norm.textbook,
    layer_norm.two_pass,
    layer_norm.welford,
    layer_norm.blocked,
    layer_norm.fused,
    convolution.direct_loops,
    convolution.im2col,
    convolution.window_view,
    convolution.shifted,
    convolution.tiled,
    convolution.fused,
    attention.plain,
    attention.tiled,
    attention.fused,
    mlp.plain,
    mlp.accelerated,
    access.sequential_sum,
    access.strided_sum,
    access.gathered_sum,
)
"""Every kernel, family by family, from the plainest form to the best: for tests and benchmarks that go over all."""
