"""Prediction: how long the NumPy calls of a function will take on a calibrated machine.

For each call: dispatch overhead, plus the longer of its arithmetic and its memory traffic (as far as the two overlap),
plus fresh pages. The traffic of an operand is timed at the bandwidth of its *reuse distance*, read off the curve that
was measured for passes of the same shape.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from accel.argument_copies import Arguments
from accel.cost import Cost
from accel.machine import Machine
from accel.measurement import format_seconds
from accel.pricing import Price, PriceList
from accel.records import Record
from accel.reuse import Piece, ReuseStack, piece_of
from accel.roofline import textbook_seconds
from accel.tracing import trace
from accel.tracing.operations import Buffer, Op, Trace
from accel.tracing.timing import clock_seconds

Result = TypeVar("Result")

REPEATED_RUNS = 5
REPEATED_SECONDS = 0.1
LONG_TRACE_OPS = 5000
"""So many calls average the noise out by themselves, and describing each again takes longer than running it."""
FOLLOWED_OPS = 1000
TIMED_KINDS = frozenset({"opaque", "declared", "compiled"})
"""Calls whose price has in it what they took or what they state, each its own."""

__all__ = ["OpPrediction", "Prediction", "predict", "predict_trace", "steady_distances", "timed_trace", "touched_bytes"]


@dataclass(frozen=True)
class OpPrediction(Record):
    """Predicted time of one NumPy call, or of all repetitions of one in a loop."""

    index: int
    name: str
    count: int
    seconds: float
    low_seconds: float
    high_seconds: float
    overhead_seconds: float
    arithmetic_seconds: float
    memory_seconds: float
    pages_seconds: float
    level: str
    """The memory level most of its bytes come from."""
    bound_by: str


@dataclass(frozen=True)
class Prediction(Record):
    """Predicted time of a function: the sum of its calls. What `accel.predict` returns."""

    function: str
    machine: str
    threads: int
    ops: tuple[OpPrediction, ...]
    cost: Cost
    seconds: float
    low_seconds: float
    high_seconds: float
    textbook_seconds: float
    """What the plain roofline says: FLOPs at peak, or arguments and result at DRAM bandwidth."""

    @property
    def bound_by(self) -> str:
        """What the largest share of the time is bound by."""
        shares: dict[str, float] = {}
        for op in self.ops:
            shares[op.bound_by] = shares.get(op.bound_by, 0.0) + op.seconds
        return max(shares, key=lambda name: shares[name]) if shares else "nothing"

    def __repr__(self) -> str:
        return (
            f"Prediction({self.function}: {format_seconds(self.seconds)}, between {format_seconds(self.low_seconds)} "
            f"and {format_seconds(self.high_seconds)}, bound by {self.bound_by}; "
            f"textbook roofline {format_seconds(self.textbook_seconds)}; on {self.machine})"
        )


def predict(
    function: Callable[..., Any], *arrays: Any, machine: Machine | None = None, threads: int = 1, **keywords: Any
) -> Prediction:
    """Predict how long `function(*arrays)` takes when it is called again and again.

    The function is run once to see its NumPy calls, and a few times more where time goes by that no call explains.
    It is not run on data at all where the arrays are `accel.array_like(shape, dtype)`.

    Parameters
    ----------
    machine : Machine
        Where it is to run; this machine if not given.
    threads : int
        Threads that BLAS may use.

    Raises
    ------
    ValueError
        If the machine is not calibrated, or was not calibrated for this many threads.

    Examples
    --------
    >>> import accel, numpy as np
    >>> small = accel.predict(np.add, accel.array_like(1_000, "float32"), accel.array_like(1_000, "float32"))
    >>> small.bound_by
    'dispatch overhead'
    """
    if machine is None:
        from accel.calibration import this_machine

        machine = this_machine()
    return predict_trace(timed_trace(function, arrays, keywords), machine, threads=threads)


def timed_trace(function: Callable[..., Any], arrays: tuple[Any, ...], keywords: dict[str, Any]) -> Trace:
    """Trace, and time what no call of the trace explains."""
    return with_opaque_timed(trace(function, *arrays, **keywords), function, arrays, keywords)


def _with_ops(traced: Trace, ops: tuple[Op, ...]) -> Trace:
    """Return the trace with other ops, and the result that it has."""
    found = replace(traced, ops=ops)
    if traced.has_result:
        found.__dict__["_result"] = traced.result
    return found


def with_opaque_timed(
    traced: Trace, function: Callable[..., Any], arrays: tuple[Any, ...], keywords: dict[str, Any]
) -> Trace:
    """Time a few untraced runs to learn how much time goes by that no NumPy call of the trace explains.

    The traced run says only that there is such time: tracing makes everything around the calls slower as well, and
    a first run is slower than all others. Each run of a function that changes its arguments begins from the values
    that they had after the first, and they have them again in the end. A function that changes arrays it was not given
    is not run again.
    """
    unknown = any(op.kind == "opaque" or op.opaque for op in traced.ops)
    if traced.shapes_only or not unknown or _changes_others(traced):
        return traced
    names = [str(i) for i in range(len(arrays))]
    kept = Arguments(names, arrays, keywords) if _changes_arguments(traced) else None

    def restored() -> None:
        if kept is not None:
            kept.restore()

    def run() -> float:
        restored()
        return _seconds(function, arrays, keywords)

    def run_traced() -> Trace:
        restored()
        return replace(trace(function, *arrays, **keywords))  # without its result, which may be large

    before = _repeated(run)
    traces = _repeated(run_traced) if len(traced.ops) < LONG_TRACE_OPS else [run_traced()]
    after = _repeated(run)  # a slow phase may lie on one of them
    restored()
    calls = _fastest_calls(traced, traces)
    # What a slow phase adds to a whole run is not hidden work: no traced run had less between its calls than there is.
    hidden = min(min(before + after) - sum(calls), *(_between_calls(each) for each in traces))
    return _with_hidden(traced, calls, hidden)


def _repeated(run: Callable[[], Result]) -> list[Result]:
    """Return what a few runs give; fewer of those that take long, which average the noise out by themselves."""
    start, results = time.perf_counter(), [run()]
    while len(results) < REPEATED_RUNS and time.perf_counter() - start < REPEATED_SECONDS:
        results.append(run())
    return results


def _between_calls(traced: Trace) -> float:
    return sum(op.seconds for op in traced.ops if op.kind == "opaque")


def _fastest_calls(traced: Trace, traces: Sequence[Trace]) -> list[float]:
    """Return the least time of each call that a trace saw; the calls of the fastest run where the runs differ."""
    own = clock_seconds()
    times = [[max(op.seconds - own, 0.0) for op in each.ops if op.kind != "opaque"] for each in (traced, *traces)]
    if len({len(each) for each in times}) > 1:
        return min(times[1:], key=sum)
    return [min(each) for each in zip(*times, strict=True)]


def _with_hidden(traced: Trace, calls: Sequence[float], seconds: float) -> Trace:
    """Return the trace with the times of its calls, and the unexplained time in the row where most of it was found."""
    opaque = max((op for op in traced.ops if op.kind == "opaque"), key=lambda op: op.seconds, default=None)
    visible = [op for op in traced.ops if op.kind != "opaque"]
    if len(calls) == len(visible):
        visible = [replace(op, seconds=least) if op.opaque else op for op, least in zip(visible, calls, strict=True)]
    rest = [replace(opaque, seconds=seconds)] if opaque is not None and seconds > 0 else []
    return _with_ops(traced, (*visible, *rest))


def _written(traced: Trace) -> Iterator[Buffer]:
    return (traced.buffers[r.buffer] for op in traced.ops for r in op.results if not traced.buffers[r.buffer].created)


def _changes_arguments(traced: Trace) -> bool:
    return any(True for _ in _written(traced))


def _changes_others(traced: Trace) -> bool:
    """Whether arrays are written that are no arguments."""
    return any(buffer.label.startswith("array ") for buffer in _written(traced))


def _seconds(function: Callable[..., Any], arrays: tuple[Any, ...], keywords: dict[str, Any]) -> float:
    start = time.perf_counter_ns()
    function(*arrays, **keywords)
    return (time.perf_counter_ns() - start) * 1e-9


def predict_trace(traced: Trace, machine: Machine, *, threads: int = 1) -> Prediction:
    """Predict the time of a trace that is at hand."""
    prices = PriceList(machine, threads)
    distances = steady_distances(traced.ops, limit_bytes=prices.largest_working_set_bytes)
    ops = tuple(_predictions(traced.ops, distances, prices))
    python = machine.roofs.python_call_seconds
    return Prediction(
        function=traced.signature,
        machine=str(machine),
        threads=threads,
        ops=ops,
        cost=traced.cost,
        seconds=python + sum(op.seconds for op in ops),
        low_seconds=python + sum(op.low_seconds for op in ops),
        high_seconds=python + sum(op.high_seconds for op in ops),
        textbook_seconds=_textbook(traced, machine, threads),
    )


def _predictions(ops: Sequence[Op], distances: Sequence[Sequence[float]], prices: PriceList) -> Iterator[OpPrediction]:
    """Give the prediction of each call; calls that a loop repeats at equal distances are priced once."""
    known: dict[tuple[Any, ...], OpPrediction] = {}
    for op, found in zip(ops, distances, strict=True):
        if op.opaque or op.kind in TIMED_KINDS:
            yield _predicted(op, prices.price(op, found))
            continue
        key = id(op.loop_key), op.count, op.fresh_bytes, op.views, *found  # repetitions share the object
        if key not in known:
            known[key] = _predicted(op, prices.price(op, found))
        yield known[key] if known[key].index == op.index else replace(known[key], index=op.index)


def _predicted(op: Op, price: Price) -> OpPrediction:
    return OpPrediction(
        index=op.index,
        name=op.name,
        count=op.count,
        seconds=price.seconds,
        low_seconds=price.seconds / (1 + price.uncertainty_fraction),
        high_seconds=price.seconds * (1 + price.uncertainty_fraction),
        overhead_seconds=price.overhead_seconds,
        arithmetic_seconds=price.arithmetic_seconds,
        memory_seconds=price.memory_seconds,
        pages_seconds=price.pages_seconds,
        level=price.level,
        bound_by=price.bound_by,
    )


def steady_distances(ops: Sequence[Op], *, limit_bytes: float) -> list[list[float]]:
    """Return each op's reuse distance by operand and result, for a function that has run before.

    Of a long trace the first ops are followed; the others are as far from their last use as the same calls before them.
    """
    stack = ReuseStack(limit_bytes)
    for op in ops[-FOLLOWED_OPS:]:
        stack.touch(_pieces(op))
    distances = [stack.touch(_pieces(op)) for op in ops[:FOLLOWED_OPS]]
    latest = {_call_site(op): found for op, found in zip(ops, distances, strict=False)}
    distances += (
        latest.get(_call_site(op)) or [piece.footprint_bytes for piece in _pieces(op)] for op in ops[FOLLOWED_OPS:]
    )
    return distances


def _pieces(op: Op) -> list[Piece]:
    return [piece_of(array) for array in (*op.operands, *op.results)]


def _call_site(op: Op) -> tuple[Any, ...]:
    """Identify the same call in a loop."""
    return op.name, op.function, op.line, op.instruction, len(op.operands), len(op.results)


def _textbook(traced: Trace, machine: Machine, threads: int) -> float:
    """Return the plain roofline's time: what is touched of arguments and result, once."""
    return textbook_seconds(traced.cost, touched_bytes(traced), machine, main_dtype(traced), threads)


def touched_bytes(traced: Trace) -> int:
    """Return the bytes of arguments and result that the calls touch, each once."""
    windows: dict[int, dict[Any, int]] = {}
    for op in traced.ops:
        for array in (*op.operands, *op.results):
            buffer = traced.buffers[array.buffer]
            if not buffer.created or buffer.label == "result":
                windows.setdefault(array.buffer, {})[array.offset_bytes, array.shape, array.strides] = array.nbytes
    return sum(min(traced.buffers[number].nbytes, sum(seen.values())) for number, seen in windows.items())


def main_dtype(traced: Trace) -> str:
    """Return the floating dtype whose peak the calls can reach."""
    return next((op.dtype for op in traced.ops if op.dtype in ("float32", "float64")), "float32")
