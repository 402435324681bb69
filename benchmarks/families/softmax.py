"""Softmax along rows of three lengths: in L1, in L2, and longer, on arrays that fit in L3 or in DRAM alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from cases import Case, Target
from peers import peer

from accel.kernels import softmax

LENGTHS = (64, 1024, 16384)
SIZES = {"1M": 1_000_000, "16M": 16_000_000}
THREADS = {"three_pass": (1,), "in_place": (1,), "online": (1,), "blocked": (1, 2), "fused": (1, 2)}


def cases(quick: bool) -> Iterator[Case]:
    """Yield every form at every size; `quick` leaves out the large arrays and all but the two best forms."""
    for label in list(SIZES)[: 1 if quick else None]:
        for length in LENGTHS:
            x = np.random.default_rng(length).standard_normal((SIZES[label] // length, length), np.float32)
            out = np.zeros_like(x)
            for name in list(THREADS)[3 if quick else 0 :]:
                for threads in THREADS[name]:
                    yield _case(name, x, out, f"float32[{label}] in rows of {length}", threads)


def _case(name: str, x: np.ndarray, out: np.ndarray, size: str, threads: int) -> Case:
    form: Any = getattr(softmax, name)
    keywords: dict[str, Any] = {} if name == "three_pass" else {"out": out}
    if threads > 1:
        keywords["threads"] = threads
    return Case(
        family="softmax",
        form=f"softmax.{name}",
        size=size,
        run=partial(form, x, **keywords),
        cost=form.cost(x, **keywords),
        error=lambda: _error(form(x, **keywords), x),
        peers=_peers(x, None if name == "three_pass" else out),
        threads=threads,
        targets=(Target(1.0, "torch"),) if name == "fused" and threads == 1 else (),
        working_set_bytes=2 * x.nbytes,
        compulsory_bytes=2 * x.nbytes,
    )


def _error(result: np.ndarray, x: np.ndarray) -> float:
    """Largest error in a hundred rows or so: a reference of all of them takes longer than all else."""
    some = slice(None, None, max(1, len(x) // 100))
    return float(np.abs(result[some] - softmax.reference(x[some])).max())


def _peers(x: np.ndarray, out: np.ndarray | None) -> dict[str, Callable[[], Any]]:
    """Return torch's softmax, and NumPy's as textbooks write it, which has no ``out=``."""
    found: dict[str, Callable[[], Any]] = {"numpy": partial(softmax.three_pass, x)}
    if torch := peer("torch"):
        source = torch.from_numpy(x)
        keywords = {} if out is None else {"out": torch.from_numpy(out)}
        found["torch"] = partial(torch.softmax, source, -1, **keywords)
    return found
