"""The matrix product: the ladder at sizes each form can bear, the packed form from tiny to large, ragged and skinny."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from accel.kernels import matmul
from benchmarks.cases import Case, Target

LADDER = (
    (matmul.triple_loop, 32),
    (matmul.row_dot, 64),
    (matmul.outer_product, 256),
    (matmul.tiled, 512),
    (matmul.tiled_loops, 512),
    (matmul.vectorized, 512),
)
SQUARE = {64: 0.8, 128: None, 256: 0.95, 512: 0.95, 1024: 0.95, 2048: 0.95}
"""Size -> share of OpenBLAS's speed that performance.md asks for."""
RAGGED = ((255, 255, 255), (1000, 17, 333), (517, 519, 521), (1000, 1000, 1000))
SKINNY = ((1024, 1024, 1), (1024, 1024, 8), (8, 1024, 1024), (2048, 16, 2048), (32, 2048, 32))
"""(m, k, n), as in a[m, k] @ b[k, n]."""
QUICK_FLOPS = 3e8


def cases(quick: bool) -> Iterator[Case]:
    """Yield a case for each form and size; a quick run leaves the large ones out."""
    for form, n in LADDER:
        yield _case(form, (n, n, n), "float32")
    for n, ratio in SQUARE.items():
        yield from _unless_long(quick, (n, n, n), "float32", ratio)
    for shape in RAGGED:
        yield from _unless_long(quick, shape, "float32", 0.9)
    for shape in SKINNY:
        yield from _unless_long(quick, shape, "float32", None)
    for n in (64, 256, 512, 1024):
        yield from _unless_long(quick, (n, n, n), "float64", SQUARE[n])
    for n in (256, 512, 1024, 2048):
        yield from _unless_long(quick, (n, n, n), "float32", 0.9, threads=2)


def _unless_long(
    quick: bool, shape: tuple[int, int, int], dtype: str, ratio: float | None, threads: int = 1
) -> Iterator[Case]:
    m, k, n = shape
    if not (quick and 2 * m * k * n > QUICK_FLOPS):
        yield _case(partial(matmul.packed, threads=threads), shape, dtype, ratio, threads)


def _case(
    form: Callable[..., Any], shape: tuple[int, int, int], dtype: str, ratio: float | None = None, threads: int = 1
) -> Case:
    """Make a case; `ratio` is the least share of NumPy's speed that is asked for."""
    m, k, n = shape
    rng = np.random.default_rng(m + n)
    a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    out, numpy_out = np.empty((m, n), dtype), np.empty((m, n), dtype)
    kernel = form.func if isinstance(form, partial) else form
    run = partial(form, a, b, out=out)
    run()
    size = f"{m}^3" if m == k == n else f"{m} x {k} x {n}"
    return Case(
        family="matmul",
        form=f"matmul.{kernel.__name__}",
        size=f"{dtype} {size}",
        run=run,
        cost=kernel.cost(a, b),
        error=partial(_relative_error, run, a, b),
        peers={"numpy": partial(np.matmul, a, b, out=numpy_out), **_torch(a, b)},
        threads=threads,
        targets=() if ratio is None else (Target(1 / ratio, "numpy"),),
        working_set_bytes=a.nbytes + b.nbytes + out.nbytes,
        compulsory_bytes=a.nbytes + b.nbytes + out.nbytes,
    )


def _relative_error(run: Callable[[], Any], a: Any, b: Any) -> float:
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return float(np.max(np.abs(run() - exact)) / np.max(np.abs(exact)))


def _torch(a: Any, b: Any) -> dict[str, Callable[[], Any]]:
    """Return torch's product of the same memory, where torch is installed; the caller sets its number of threads."""
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    left, right = torch.from_numpy(a), torch.from_numpy(b)
    out = torch.empty((a.shape[0], b.shape[1]), dtype=left.dtype)
    return {"torch": partial(torch.matmul, left, right, out=out)}
