"""Elementwise kernels on one thread: what a NumPy pass reaches of the memory roof, and what a fused one would."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from cases import Case
from peers import peer

from accel.kernels import elementwise

SIZES = {"4K": 2**12, "256K": 2**18, "16M": 2**24}
SCALAR = 1.5


def cases(quick: bool) -> Iterator[Case]:
    """Yield each kernel at sizes that live in L1, L2 or L3, and DRAM."""
    for label, size in list(SIZES.items())[:: 2 if quick else 1]:
        rng = np.random.default_rng(size)
        a, b = (rng.random(size, dtype=np.float32) for _ in range(2))
        out = np.zeros_like(a)
        for kernel, extra in ((elementwise.add, ()), (elementwise.multiply, ()), (elementwise.triad, (SCALAR,))):
            yield _case(kernel, (a, b, *extra), out, f"float32[{label}]")


def _case(kernel: Any, arguments: tuple[Any, ...], out: np.ndarray, size: str) -> Case:
    name = kernel.__name__
    exact = {"add": np.add, "multiply": np.multiply, "triad": lambda a, b, s: a + s * b}[name]

    def error() -> float:
        wide = [x.astype(np.float64) if isinstance(x, np.ndarray) else x for x in arguments]
        return float(np.abs(kernel(*arguments, out=out) - exact(*wide)).max())

    return Case(
        family="elementwise",
        form=f"elementwise.{name}",
        size=size,
        run=lambda: kernel(*arguments, out=out),
        cost=kernel.cost(*arguments, out=out),
        error=error,
        peers=_peers(name, arguments, out),
        working_set_bytes=3 * out.nbytes,
        compulsory_bytes=3 * out.nbytes,
    )


def _peers(name: str, arguments: tuple[Any, ...], out: np.ndarray) -> Mapping[str, Callable[[], Any]]:
    """Return the same with other libraries, on the same memory."""
    a, b, *_ = arguments
    found: dict[str, Callable[[], Any]] = {}
    if name != "triad":  # NumPy has no triad of its own
        ufunc = getattr(np, name)
        found["numpy"] = lambda: ufunc(a, b, out=out)
    if numexpr := peer("numexpr"):
        formula = {"add": "a + b", "multiply": "a * b", "triad": "a + s * b"}[name]
        names = {"a": a, "b": b} | ({"s": np.float32(SCALAR)} if name == "triad" else {})
        found["numexpr"] = lambda: numexpr.evaluate(formula, local_dict=names, global_dict={}, out=out)
    if torch := peer("torch"):
        ta, tb, tout = map(torch.from_numpy, (a, b, out))
        found["torch"] = {
            "add": lambda: torch.add(ta, tb, out=tout),
            "multiply": lambda: torch.mul(ta, tb, out=tout),
            "triad": lambda: torch.add(ta, tb, alpha=SCALAR, out=tout),
        }[name]
    return found
