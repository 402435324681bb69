"""Attention: short and long sequences, causal and not, beside torch's scaled_dot_product_attention."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from cases import Case, Target
from peers import peer

from accel.kernels import attention

SHAPES = ((8, 1024, 64), (1, 4096, 64), (1, 512, 64), (4, 1024, 128))
"""Heads, queries and keys, depth."""
CHECKED = 64
"""Queries of the first head whose error is looked at: the last ones, which see all keys."""


def cases(quick: bool) -> Iterator[Case]:
    """Yield each form on each shape, and the one that takes threads on two where there are two."""
    for shape in SHAPES[:1] if quick else SHAPES:
        for causal in (False, True):
            for form in (attention.plain, attention.tiled, attention.fused):
                yield _case(form, shape, causal)
            if (os.cpu_count() or 1) > 1:
                yield _case(attention.fused, shape, causal, threads=2)


def _case(form: Any, shape: tuple[int, int, int], causal: bool, threads: int = 1) -> Case:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(shape, dtype=np.float32) for _ in range(3))
    out = np.zeros(shape, np.float32)
    keywords: dict[str, Any] = {"causal": causal} | ({"threads": threads} if threads > 1 else {})
    peers = {}
    if torch := peer("torch"):
        tensors = [torch.from_numpy(array)[None] for array in (q, k, v)]

        def with_torch() -> Any:
            with torch.inference_mode():
                return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal)

        peers["torch"] = with_torch

    def error() -> float:
        expected = attention.reference(q[0, -CHECKED:], k[0], v[0], causal=causal)
        return float(np.abs(form(q, k, v, **keywords)[0, -CHECKED:] - expected).max())

    heads, n, d = shape
    return Case(
        family="attention",
        form=f"attention.{form.__name__}",
        size=f"float32 {heads} x {n} x {d}{', causal' if causal else ''}",
        run=lambda: form(q, k, v, out=out, **keywords),
        cost=form.cost(q, k, v, **keywords),
        error=error,
        peers=peers,
        threads=threads,
        targets=(Target(1.0, "torch"),) if form is attention.fused and peers else (),
        working_set_bytes=4 * out.nbytes,
        compulsory_bytes=4 * out.nbytes,
    )
