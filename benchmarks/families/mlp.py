"""MLP block: a transformer's two linear layers with GELU between them, beside the same in torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from cases import Case, Target
from peers import peer

from accel.kernels import mlp

SIZES = ((512, 768), (2048, 512), (1024, 256))
"""Rows and their length; the hidden layer is four times as wide."""
CHECKED = 64
"""Rows whose error is looked at."""


def cases(quick: bool) -> Iterator[Case]:
    """Yield both forms at each size, and the one that takes threads on two where there are two."""
    for size in SIZES[:1] if quick else SIZES:
        yield _case(mlp.plain, size)
        yield _case(mlp.accelerated, size)
        if (os.cpu_count() or 1) > 1:
            yield _case(mlp.accelerated, size, threads=2)


def _case(form: Any, size: tuple[int, int], threads: int = 1) -> Case:
    rows, d = size
    rng = np.random.default_rng(0)
    x, b1, b2 = (rng.standard_normal(shape, dtype=np.float32) for shape in (size, 4 * d, d))
    w1, w2 = (rng.standard_normal(shape, dtype=np.float32) / shape[0] ** 0.5 for shape in ((d, 4 * d), (4 * d, d)))
    layers = tuple(array.astype(np.float32) for array in (w1, b1, w2, b2))
    keywords: dict[str, Any] = {"threads": threads} if threads > 1 else {}
    into = {"out": np.zeros_like(x)} if form is mlp.accelerated else {}
    peers = {}
    if torch := peer("torch"):
        rows_there = torch.from_numpy(x)
        # torch keeps the weights of a linear layer transposed
        first, bias1, second, bias2 = (torch.from_numpy(np.ascontiguousarray(array.T)) for array in layers)

        def with_torch() -> Any:
            functional = torch.nn.functional
            with torch.inference_mode():
                hidden = functional.gelu(functional.linear(rows_there, first, bias1), approximate="tanh")
                return functional.linear(hidden, second, bias2)

        peers["torch"] = with_torch

    def error() -> float:
        expected = mlp.reference(x[:CHECKED], *layers)
        return float(np.abs(form(x, *layers, **keywords)[:CHECKED] - expected).max() / np.abs(expected).max())

    moved = 2 * x.nbytes + sum(array.nbytes for array in layers)
    return Case(
        family="mlp",
        form=f"mlp.{form.__name__}",
        size=f"float32 {rows} x {d}, hidden {4 * d}",
        run=lambda: form(x, *layers, **into, **keywords),
        cost=form.cost(x, *layers, **keywords),
        error=error,
        peers=peers,
        threads=threads,
        targets=(Target(1.0, "torch"),) if form is mlp.accelerated and peers else (),
        working_set_bytes=moved + 4 * x.nbytes,
        compulsory_bytes=moved,
    )
