"""Advice: what to change in a function, and how much faster that is predicted to make it on a machine.

Each rule of `accel.rewrites` gives the calls that a function would make if it were written in another way. They are
priced by the model that prices the calls it makes now; the ratio is the gain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from accel.machine import Machine
from accel.measurement import format_seconds
from accel.prediction import predict_trace, timed_trace
from accel.records import Record
from accel.rewrites import RULES, Rewrite, Situation, footprint_bytes
from accel.tracing.operations import Op, Trace, total_cost

__all__ = ["LEAST_GAIN", "Advice", "advise", "advise_trace"]

LEAST_GAIN = 1.02
"""Predicted gains below this are not worth a change."""


@dataclass(frozen=True)
class Advice(Record):
    """One way to write a function differently, and what that is predicted to bring."""

    rule: str
    where: str
    """The calls concerned, with their lines where those are known."""
    change: str
    """What to write instead of what."""
    predicted_gain: float
    """Predicted time of the whole function now, over its time after this change alone."""
    predicted_seconds: float
    """Of the whole function, after the change."""
    saves_bytes: int
    """Memory that the function no longer allocates at its peak."""
    note: str
    """What the gain assumes, or what else changes."""

    def __str__(self) -> str:
        return f"{self.change}: {self.predicted_gain:.2g}x ({self.where})"

    def __repr__(self) -> str:
        return (
            f"Advice({self.rule}, {self.where}: {self.change}; predicted {self.predicted_gain:.3g}x faster, "
            f"{format_seconds(self.predicted_seconds)})"
        )


def advise(
    function: Callable[..., Any], *arrays: Any, machine: Machine | None = None, threads: int = 1, **keywords: Any
) -> tuple[Advice, ...]:
    """Say what would make `function(*arrays)` faster, the largest predicted gain first.

    The function is run as by `accel.predict`: once to see its calls, a few times more where time goes by that no call
    explains, and not at all on data where the arrays are `accel.array_like(shape, dtype)`.

    Parameters
    ----------
    machine : Machine
        Where it is to run; this machine if not given.
    threads : int
        Threads that BLAS uses now.

    Returns
    -------
    tuple of Advice
        Each gain is that of one change alone: gains of several do not multiply. Empty where nothing is predicted to
        bring 2 %.

    Raises
    ------
    ValueError
        If the machine is not calibrated, or was not calibrated for this many threads.

    Examples
    --------
    >>> import accel, numpy as np
    >>> x = accel.array_like(4_000_000, "float32")
    >>> [advice.change for advice in accel.advise(lambda x: x**3, x) if advice.rule == "power as product"]
    ['x * x * x instead of x**3']
    """
    if machine is None:
        from accel.calibration import this_machine

        machine = this_machine()
    traced = timed_trace(function, arrays, keywords)
    return _advise(traced, machine, threads, (*arrays, *keywords.values()))


def advise_trace(traced: Trace, machine: Machine, *, threads: int = 1) -> tuple[Advice, ...]:
    """Give advice on a trace that is at hand."""
    return _advise(traced, machine, threads, None)


def _advise(traced: Trace, machine: Machine, threads: int, arrays: Sequence[Any] | None) -> tuple[Advice, ...]:
    now = predict_trace(traced, machine, threads=threads).seconds
    situation = Situation(_opaque_last(traced), machine, threads)
    best: dict[tuple[str, str], Advice] = {}
    for name, rule in RULES:
        for rewrite in rule(situation):
            if (
                arrays is not None
                and traced.has_result
                and rewrite.check is not None
                and not rewrite.check(traced.result, tuple(arrays))
            ):
                continue
            found = _priced(name, rewrite, situation, now)
            known = best.get((name, found.where))
            if known is None or known.predicted_gain < found.predicted_gain:
                best[name, found.where] = found
    worthwhile = [advice for advice in best.values() if advice.predicted_gain >= LEAST_GAIN]
    return tuple(sorted(worthwhile, key=lambda advice: -advice.predicted_gain))


def _opaque_last(traced: Trace) -> Trace:
    """Return the trace with unexplained time after its calls: it is no call that stands between two others."""
    found = replace(traced, ops=tuple(sorted(traced.ops, key=lambda op: op.kind == "opaque")))
    if traced.has_result:
        found.__dict__["_result"] = traced.result
    return found


def _priced(rule: str, rewrite: Rewrite, situation: Situation, now: float) -> Advice:
    after = predict_trace(
        rewritten(situation.trace, rewrite), situation.machine, threads=rewrite.threads or situation.threads
    ).seconds
    before_bytes = footprint_bytes(situation.trace.ops, situation.trace.buffers)
    return Advice(
        rule=rule,
        where=rewrite.where,
        change=rewrite.change,
        predicted_gain=now / after,
        predicted_seconds=after,
        saves_bytes=max(before_bytes - footprint_bytes(rewrite.ops, rewrite.buffers), 0),
        note=rewrite.note,
    )


def rewritten(traced: Trace, rewrite: Rewrite) -> Trace:
    """Return the trace of the function as it would be after a rewrite."""
    ops = tuple(_placed(op, i) for i, op in enumerate(rewrite.ops))
    return replace(traced, ops=ops, buffers=dict(rewrite.buffers), cost=total_cost(ops))


def _placed(op: Op, index: int) -> Op:
    """Return the op at another place. It shares its loop's key: calls with one key are priced once."""
    if op.index == index:
        return op
    moved = replace(op, index=index)
    moved.__dict__["loop_key"] = op.loop_key
    return moved
