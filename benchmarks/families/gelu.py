"""GELU: every form at three sizes, beside torch and numexpr."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from cases import Case, Target
from peers import peer

from accel.kernels import gelu

Call = Callable[[], Any]

SIZES = (10_000, 1_000_000, 10_000_000)
COLUMNS = 1000
CHECKED = 200_000
"""Elements whose error is looked at."""

FUSED_TARGETS = (Target(0.25, "torch"), Target(0.25, "torch, out="))


def cases(quick: bool) -> Iterator[Case]:
    """Yield each form on one thread, and those that take threads on two where there are two."""
    for size in SIZES[:2] if quick else SIZES:
        x = np.random.default_rng(0).normal(scale=2, size=size).astype(np.float32)
        out = np.zeros_like(x)
        tanh_form, exact_form = _peers(x, out, "tanh"), _peers(x, out, "none")
        large = size >= 1_000_000
        for form in (gelu.unfused, gelu.expression):
            yield _case(form, x, None, tanh_form)
        yield _case(gelu.in_place, x, out, tanh_form)
        yield _case(gelu.blocked, x, out, tanh_form, (Target(0.65, "torch, out="),) if large else ())
        yield _case(gelu.fused, x, out, tanh_form, FUSED_TARGETS if large else ())
        yield _case(gelu.exact, x, out, exact_form)
        yield _bias_case(x, out)
        if large and (os.cpu_count() or 1) > 1:
            roof = (Target(0.8, "roof"),) if size == SIZES[-1] else ()
            yield _case(gelu.blocked, x, out, tanh_form, threads=2)
            yield _case(gelu.fused, x, out, tanh_form, roof, threads=2)
            yield _case(gelu.exact, x, out, exact_form, threads=2)


def _case(
    form: Any,
    x: np.ndarray,
    out: np.ndarray | None,
    peers: Mapping[str, Call],
    targets: tuple[Target, ...] = (),
    threads: int = 1,
) -> Case:
    keywords: dict[str, Any] = {} if out is None else {"out": out}
    if threads > 1:
        keywords["threads"] = threads
    reference = gelu.exact_reference if form is gelu.exact else gelu.reference
    return Case(
        family="gelu",
        form=f"gelu.{form.__name__}",
        size=_label(x),
        run=lambda: form(x, **keywords),
        cost=form.cost(x, **keywords),
        error=lambda: _error(form(x, **keywords)[:CHECKED], reference(x[:CHECKED])),
        peers=peers,
        threads=threads,
        targets=tuple(target for target in targets if target.against in {"roof", *peers}),
        working_set_bytes=2 * x.nbytes,
        compulsory_bytes=2 * x.nbytes,
    )


def _bias_case(x: np.ndarray, out: np.ndarray) -> Case:
    rows, results = x.reshape(-1, COLUMNS), out.reshape(-1, COLUMNS)
    bias = np.linspace(-1, 1, COLUMNS, dtype=np.float32)
    shown = CHECKED // COLUMNS
    peers: dict[str, Call] = {}
    if torch := peer("torch"):
        tensors = [torch.from_numpy(a) for a in (rows, bias)]
        peers["torch"] = lambda: torch.nn.functional.gelu(tensors[0] + tensors[1], approximate="tanh")
    return Case(
        family="gelu",
        form="gelu.bias_fused",
        size=f"float32 {rows.shape[0]} x {COLUMNS}",
        run=lambda: gelu.bias_fused(rows, bias, out=results),
        cost=gelu.bias_fused.cost(rows, bias, out=results),
        error=lambda: _error(gelu.bias_fused(rows[:shown], bias), gelu.reference(rows[:shown] + bias)),
        peers=peers,
        working_set_bytes=2 * x.nbytes,
        compulsory_bytes=2 * x.nbytes + bias.nbytes,
    )


def _peers(x: np.ndarray, out: np.ndarray, approximate: str) -> dict[str, Call]:
    """Return what the installed peers call the same; `numexpr` has no error function."""
    calls: dict[str, Call] = {}
    if torch := peer("torch"):
        given, result = torch.from_numpy(x), torch.from_numpy(out)
        calls["torch"] = lambda: torch.nn.functional.gelu(given, approximate=approximate)
        calls["torch, out="] = lambda: torch.ops.aten.gelu.out(given, approximate=approximate, out=result)
    if approximate == "tanh" and (numexpr := peer("numexpr")):
        # x * x * x, since numexpr's power is slow; float32 constants, since a float64 one would promote.
        formula = "half * x * (one + tanh(scale * (x + cubic * x * x * x)))"
        numbers = {"half": 0.5, "one": 1.0, "scale": gelu.SCALE, "cubic": gelu.CUBIC}
        given_to = {"x": x, **{name: np.float32(value) for name, value in numbers.items()}}
        calls["numexpr"] = lambda: numexpr.evaluate(formula, local_dict=given_to, out=out)
    return calls


def _error(got: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(got - expected).max())


def _label(x: np.ndarray) -> str:
    thousands = x.size // 1000
    return f"float32[{thousands // 1000}M]" if thousands % 1000 == 0 else f"float32[{thousands}K]"
