"""Layer norm along rows of three lengths: in L1, in L2, and longer, on arrays that fit in L3 or in DRAM alone.

The forms write to an array that is there; torch has no such call and makes a new one each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from cases import Case, Target
from peers import peer

from accel.kernels import layer_norm

LENGTHS = (64, 1024, 16384)
SIZES = {"1M": 1_000_000, "16M": 16_000_000}
THREADS = {"textbook": (1,), "two_pass": (1,), "welford": (1,), "blocked": (1, 2), "fused": (1, 2)}

Arguments = tuple[np.ndarray, np.ndarray, np.ndarray]


def cases(quick: bool) -> Iterator[Case]:
    """Yield every form at every size; `quick` leaves out the large arrays and all but the two best forms."""
    for label in list(SIZES)[: 1 if quick else None]:
        for length in LENGTHS:
            generator = np.random.default_rng(length)
            x = generator.standard_normal((SIZES[label] // length, length), np.float32)
            scale, shift = generator.standard_normal((2, length), np.float32)
            out = np.zeros_like(x)
            for name in list(THREADS)[3 if quick else 0 :]:
                for threads in THREADS[name]:
                    yield _case(name, (x, scale, shift), out, f"float32[{label}] in rows of {length}", threads)


def _case(name: str, given: Arguments, out: np.ndarray, size: str, threads: int) -> Case:
    form: Any = getattr(layer_norm, name)
    keywords: dict[str, Any] = {} if name == "textbook" else {"out": out}
    if threads > 1:
        keywords["threads"] = threads
    moved = 2 * out.nbytes + given[1].nbytes + given[2].nbytes
    return Case(
        family="layer_norm",
        form=f"layer_norm.{name}",
        size=size,
        run=partial(form, *given, **keywords),
        cost=form.cost(*given, **keywords),
        error=lambda: _error(form(*given, **keywords), *given),
        peers=_peers(*given),
        threads=threads,
        targets=(Target(1.0, "torch"),) if name == "fused" and threads == 1 else (),
        working_set_bytes=moved,
        compulsory_bytes=moved,
    )


def _error(result: np.ndarray, x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> float:
    """Largest error in a hundred rows or so: a reference of all of them takes longer than all else."""
    some = slice(None, None, max(1, len(x) // 100))
    return float(np.abs(result[some] - layer_norm.reference(x[some], scale, shift)).max())


def _peers(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Return torch's layer norm, and NumPy's as textbooks write it."""
    found: dict[str, Callable[[], Any]] = {"numpy": partial(layer_norm.textbook, x, scale, shift)}
    if torch := peer("torch"):
        source, weight, bias = map(torch.from_numpy, (x, scale, shift))
        shape = (x.shape[1],)
        found["torch"] = partial(torch.nn.functional.layer_norm, source, shape, weight, bias, layer_norm.EPSILON)
    return found
