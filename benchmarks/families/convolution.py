"""Convolution: layers of a residual network and their like, beside torch, whose kernels are oneDNN's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from cases import Case, Target
from peers import peer

from accel.kernels import convolution

LAYERS = (
    # batch, c_in, h and w, c_out, k, stride, padding
    (1, 64, 56, 64, 3, 1, 1),
    (1, 3, 224, 64, 7, 2, 3),
    (1, 256, 14, 256, 3, 1, 1),
    (1, 256, 56, 64, 1, 1, 0),
    (1, 16, 256, 32, 5, 1, 2),
    (1, 64, 56, 128, 3, 2, 1),
)
WITH_OUT = (convolution.im2col, convolution.window_view, convolution.shifted, convolution.tiled, convolution.fused)


def cases(quick: bool) -> Iterator[Case]:
    """Yield each form but the Python loops on each layer, and those that take threads on two where there are two."""
    for layer in LAYERS[:2] if quick else LAYERS:
        for form in WITH_OUT:
            yield _case(form, layer)
        if (os.cpu_count() or 1) > 1:
            yield _case(convolution.fused, layer, threads=2)


def _case(form: Any, layer: tuple[int, ...], threads: int = 1) -> Case:
    batch, c_in, side, c_out, k, stride, padding = layer
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, c_in, side, side), dtype=np.float32)
    weight = rng.standard_normal((c_out, c_in, k, k), dtype=np.float32)
    moves = {"stride": stride, "padding": padding}
    keywords: dict[str, Any] = moves | ({"threads": threads} if threads > 1 else {})
    out = form(x, weight, **moves)
    peers = {}
    if torch := peer("torch"):
        tensors = [torch.from_numpy(array) for array in (x, weight)]

        def with_torch() -> Any:
            with torch.inference_mode():
                return torch.nn.functional.conv2d(*tensors, **moves)

        peers["torch"] = with_torch

    def error() -> float:
        expected = convolution.reference(x, weight, **moves)
        return float(np.abs(form(x, weight, **keywords) - expected).max() / np.abs(expected).max())

    moved = x.nbytes + weight.nbytes + out.nbytes
    strided = f", stride {stride}" if stride > 1 else ""
    return Case(
        family="convolution",
        form=f"convolution.{form.__name__}",
        size=f"float32 {c_in} x {side} x {side}, {c_out} of {k} x {k}{strided}",
        run=lambda: form(x, weight, out=out, **keywords),
        cost=form.cost(x, weight, **keywords),
        error=error,
        peers=peers,
        threads=threads,
        targets=(Target(1.0, "torch"),) if form is convolution.fused and peers else (),
        working_set_bytes=moved,
        compulsory_bytes=moved,
    )
