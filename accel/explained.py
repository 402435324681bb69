"""Explained calls: the rows of an explanation, from a trace, its prediction and its replay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from accel.cost import Cost
from accel.measurement import FAST_PHASE, format_seconds
from accel.prediction import OpPrediction, Prediction
from accel.records import Record
from accel.replay import Replay
from accel.tracing.operations import Op, Trace

__all__ = ["ExplainedCall", "Times", "notes_on", "rows"]

WORTH_A_NOTE = 0.98
"""A scale closer to one than this does not show in the figures."""
LEAST_SHARE = 0.8
"""Of the whole, where the trace saw no opaque code; with less, a note says so."""
MOST_CASTS = 3
"""Casts that are named; of more, the number is told."""
Counted = Literal["exact", "approximate", "upper bound", "unknown"]


@dataclass(frozen=True)
class ExplainedCall(Record):
    """One row of an explanation: a NumPy call, or all repetitions of one in a loop; counts and times are their sums."""

    name: str
    """``"add"``, ``"matmul"``…; ``"opaque"`` for time that no NumPy call explains."""
    call: str
    """As a reader would write it, such as ``"multiply(x, 0.5)"``."""
    count: int
    result_dtype: str
    """Empty where the call returns no number."""
    result_shape: tuple[int, ...] | None
    """None where the result is no array."""
    loop_dtype: str
    """What the call computes in."""
    casts: bool
    """Whether an operand or the result has another dtype than the loop."""
    cost: Cost
    counted: Counted
    level: str
    """The memory level that most of its bytes come from; empty where it moves none."""
    predicted_seconds: float
    predicted_low_seconds: float
    predicted_high_seconds: float
    pages_seconds: float
    """The part of the predicted time that fresh memory takes."""
    measured_seconds: float | None
    """None where nothing was run."""
    bound_by: str
    file: str = ""
    line: int = 0

    @property
    def is_opaque(self) -> bool:
        """Whether FLOPs are unknown, so that the time is all there is to go by."""
        return self.counted == "unknown"


@dataclass(frozen=True)
class Times:
    """Measured seconds of a trace's ops, and what no call accounts for."""

    of_ops: dict[int, float]
    """By position in `Trace.ops`; empty where nothing was run."""
    rest: float | None
    notes: tuple[str, ...]

    @classmethod
    def of(cls, traced: Trace, replayed: Replay | None) -> Times:
        """Share the measured time of the whole out among the calls: where they take more than it, by their times."""
        if replayed is None:
            return cls({}, None, ())
        visible = [i for i, op in enumerate(traced.ops) if op.kind != "opaque"]
        taken = replayed.call_seconds or tuple(traced.ops[i].seconds for i in visible)
        notes = []
        if visible and not replayed.call_seconds:
            notes.append("Its calls differ from run to run: their times are those of one run.")
        whole, together = replayed.measured.best_seconds, sum(taken)
        scale = min(1.0, whole / together) if together else 1.0
        if scale < WORTH_A_NOTE:
            notes.append(
                f"Recorded one by one the calls took {format_seconds(together)}, more than the whole: their measured "
                f"times were multiplied by {scale:.2f}."
            )
        elif visible and together < LEAST_SHARE * whole and len(visible) == len(traced.ops):
            notes.append(
                f"The calls take {format_seconds(together)} where the whole takes {format_seconds(whole)}: what is "
                "between them, or a machine that changes its speed. Another run may tell."
            )
        return cls(
            {i: seconds * scale for i, seconds in zip(visible, taken, strict=True)},
            max(0.0, whole - together),
            tuple(notes),
        )


def rows(traced: Trace, prediction: Prediction, times: Times) -> Iterator[ExplainedCall]:
    """Give a row for each call or loop, and one for the time between them, so that the rows add up to the whole."""
    places = {id(op): i for i, op in enumerate(traced.ops)}
    between = prediction.seconds - sum(op.seconds for op in prediction.ops)
    met_opaque = False
    for op, group in zip(traced.rows, traced.groups, strict=True):
        indices = [places[id(member)] for member in group]
        predicted = [prediction.ops[i] for i in indices]
        if op.kind == "opaque":
            yield _opaque(op, predicted[0], between, times.rest)
            met_opaque = True
        else:
            yield _call(op, predicted, sum(times.of_ops[i] for i in indices) if times.of_ops else None)
    if not met_opaque:
        yield _row(_BETWEEN, "opaque, between calls", "exact", between, between, between, times.rest, "opaque")


_BETWEEN = Op(
    index=-1, name="opaque", kind="opaque", operands=(), results=(), scalars=(), dtype="", loop_dtypes=(), cost=Cost()
)


def _opaque(op: Op, predicted: OpPrediction, between: float, measured: float | None) -> ExplainedCall:
    low, high = predicted.low_seconds + between, predicted.high_seconds + between
    name = f"opaque code in {op.function}" if op.function.isidentifier() else "opaque code"
    return _row(op, name, "unknown", predicted.seconds + between, low, high, measured, "opaque")


def _call(op: Op, predicted: Sequence[OpPrediction], measured: float | None) -> ExplainedCall:
    counted: Counted = "exact"
    if op.opaque:
        counted = "unknown"
    elif op.masked or op.approximate:
        counted = "upper bound" if op.masked else "approximate"
    return _row(
        op,
        op.call,
        counted,
        sum(p.seconds for p in predicted),
        sum(p.low_seconds for p in predicted),
        sum(p.high_seconds for p in predicted),
        measured,
        _most((p.bound_by, p.seconds) for p in predicted),
        _most((p.level, p.memory_seconds) for p in predicted) if op.cost.bytes_traffic else "",
        sum(p.pages_seconds for p in predicted),
    )


def _row(
    op: Op, call: str, counted: Counted, seconds: float, low: float, high: float, measured: float | None,
    bound_by: str, level: str = "", pages_seconds: float = 0.0,
) -> ExplainedCall:  # fmt: skip
    result = op.results[0] if op.results else None
    return ExplainedCall(
        name=op.name,
        call=call,
        count=op.count,
        result_dtype=result.dtype if result else op.loop_dtypes[-1] if op.loop_dtypes else op.dtype,
        result_shape=result.shape if result else None,
        loop_dtype=op.dtype,
        casts=op.casts,
        cost=op.cost,
        counted=counted,
        level=level,
        predicted_seconds=seconds,
        predicted_low_seconds=low,
        predicted_high_seconds=high,
        pages_seconds=pages_seconds,
        measured_seconds=measured,
        bound_by=bound_by,
        file=op.file,
        line=op.line,
    )


def _most(weighted: Iterable[tuple[str, float]]) -> str:
    """Return the name with the largest sum."""
    sums: dict[str, float] = {}
    for name, weight in weighted:
        sums[name] = sums.get(name, 0.0) + weight
    return max(sums, key=lambda name: sums[name])


def notes_on(traced: Trace, calls: Sequence[ExplainedCall], slowdown: float) -> Iterator[str]:
    """Give what a reader must know of the figures, a sentence each."""
    if not any(op.kind != "opaque" for op in traced.ops):
        yield "No NumPy call could be seen."
    yield from _casts(calls)
    unknown = sum(call.is_opaque for call in calls)
    if unknown:
        yield f"Opaque time was timed beforehand and not predicted; FLOPs of {_rows(unknown)} are not known."
    if any(call.counted == "approximate" for call in calls):
        yield "Counts with ~ are leading-order formulas."
    if any(call.counted == "upper bound" for call in calls):
        yield "Counts with ≤ take every element, though where= left some out."
    if slowdown > FAST_PHASE:
        yield f"The machine ran {slowdown:.1f} times slower than when it was calibrated, and is predicted to."


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _casts(calls: Sequence[ExplainedCall]) -> Iterator[str]:
    """Say where converting takes place: a float64 that slipped in is the usual reason."""
    found = [f"{call.call} computes in {call.loop_dtype}" for call in calls if call.casts]
    if found:
        more = f" and {len(found) - MOST_CASTS} others do" if len(found) > MOST_CASTS else ""
        yield f"Converted on the way: {', '.join(found[:MOST_CASTS])}{more}."
