"""Comparison: measured beside predicted, for one function or a sweep over sizes."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from accel import allocator
from accel.cost import Cost
from accel.machine import Machine
from accel.measurement import (
    FAST_PHASE,
    Measurement,
    measure_calls,
    named_functions,
    positive_count,
    reference_call,
)
from accel.measurement import threads as limited
from accel.prediction import predict_trace, timed_trace
from accel.records import Record
from accel.speed import FULL_SPEED, Speed, at_speed, speed_from
from accel.tracing.operations import Trace

__all__ = [
    "Comparison",
    "Row",
    "arguments_of",
    "compare",
    "measure_at_full_speed",
    "sweep",
    "thinned",
    "whole_number",
]

REFERENCE: Final = ("reference",)
"""With the name of a function, the key of the reference measured beside it."""
SAMPLE_SECONDS = 2.5e-4
"""On a shared machine, times at full speed may last for less than a millisecond, but there are many of them."""
LONGEST_REFERENCE_SECONDS = 0.02
FEWEST_REFERENCES = 100
KEPT_SAMPLES = 201
AS_CALIBRATED = 1.03
"""A slowdown below this is within the spread of the reference itself."""


@dataclass(frozen=True)
class Row(Record):
    """One function at one size: what it does, how long it was predicted to take, how long it took."""

    name: str
    size: int
    """The variable of the sweep: elements of the largest argument unless the caller chose otherwise."""
    cost: Cost
    measured: Measurement
    predicted_seconds: float
    predicted_low_seconds: float
    predicted_high_seconds: float
    bound_by: str
    """What limits the call: ``"L2 bandwidth"``, ``"tanh"``, ``"peak"``, ``"dispatch overhead"``, ``"interpreter"``…"""
    textbook_seconds: float
    """The plain roofline: max(FLOPs / peak, bytes of arguments and result / DRAM bandwidth)."""
    slowdown: float = 1.0
    """How many times slower than at its calibration the machine ran while this was measured: `predicted_seconds` is for
    that speed."""
    full_speed_seconds: float | None = None
    """The prediction for the machine as fast as when it was calibrated."""

    @property
    def measured_seconds(self) -> float:
        """The best sample of the measurement."""
        return self.measured.best_seconds

    @property
    def error_fraction(self) -> float:
        """Signed error of the prediction, as a share of the measured time; NaN where that is zero."""
        return self.predicted_seconds / self.measured_seconds - 1 if self.measured_seconds else math.nan

    @property
    def flops_per_second(self) -> float:
        """Counted FLOPs over measured time; NaN where that is zero."""
        return self.cost.flops / self.measured_seconds if self.measured_seconds else math.nan

    @property
    def bytes_per_second(self) -> float:
        """Algorithmic bytes over measured time; NaN where that is zero."""
        return self.cost.bytes_algorithmic / self.measured_seconds if self.measured_seconds else math.nan


@dataclass(frozen=True)
class Comparison(Record):
    """Rows that were measured interleaved, on one machine."""

    machine: str
    """One line that names the machine: CPU and calibration."""
    threads: int
    taken_at: str
    """Local time, ISO 8601 with the UTC offset."""
    slowdown: float
    """How many times slower than at its calibration the machine was during the slowest of the rows."""
    rows: tuple[Row, ...]

    @property
    def is_at_full_speed(self) -> bool:
        """Whether the machine was seen as fast as when it was calibrated."""
        return self.slowdown <= FAST_PHASE

    @property
    def speed_note(self) -> str:
        """Say how much slower than when calibrated the machine ran, and is predicted to run; empty where it did not."""
        if self.is_at_full_speed:
            return ""
        return f"the machine ran {self.slowdown:.1f} times slower than when calibrated, and is predicted to"

    def named(self, name: str) -> tuple[Row, ...]:
        """Return the rows of one function, in order of size; raise KeyError where there are none."""
        rows = tuple(sorted((row for row in self.rows if row.name == name), key=lambda row: row.size))
        if not rows:
            raise KeyError(f"no row is named {name!r}; there are {sorted({row.name for row in self.rows})}")
        return rows

    @property
    def names(self) -> tuple[str, ...]:
        """The functions compared, in the order given."""
        return tuple(dict.fromkeys(row.name for row in self.rows))


def compare(
    functions: Callable[..., Any] | Mapping[str, Callable[..., Any]],
    *arrays: Any,
    size: int | None = None,
    machine: Machine | None = None,
    threads: int = 1,
    seconds: float = 0.4,
    patience_seconds: float = 0.25,
) -> Comparison:
    """Predict each function and measure them interleaved, on the same arrays.

    Predictions come from the calibration, and are for the machine at the speed it had meanwhile: a small reference call
    beside each function tells it. What they would be at full speed stands in `Row.full_speed_seconds`.

    Parameters
    ----------
    functions : dict of str to callable, or callable
        Each is called with `arrays`. One function alone goes by its own name.
    size : int
        What to call the size of this problem; elements of the largest array if not given.
    seconds : float
        Time to spread the samples of each function over.
    patience_seconds : float
        How long to wait at most, at each size, for a machine that is slower than when it was calibrated.

    Raises
    ------
    TypeError
        If something is not callable, a name is not a str, or `size` or `threads` is not a whole number.
    ValueError
        If there is no function, `seconds` or `threads` is not positive, or `patience_seconds` is negative.

    Examples
    --------
    >>> import accel, numpy as np
    >>> x = np.ones(10_000, np.float32)
    >>> comparison = accel.compare({"add": np.add, "multiply": np.multiply}, x, x, seconds=0.02)
    >>> comparison.names, comparison.rows[0].cost.flops
    (('add', 'multiply'), 10000)
    """
    return sweep(
        named_functions(functions, "compare"),
        lambda _size: arrays,
        [size if size is not None else max((getattr(a, "size", 1) for a in arrays), default=0)],
        machine=machine,
        threads=threads,
        seconds=seconds,
        patience_seconds=patience_seconds,
    )


def sweep(
    functions: Callable[..., Any] | Mapping[str, Callable[..., Any]],
    make_arrays: Callable[[int], Sequence[Any]],
    sizes: Sequence[int],
    *,
    machine: Machine | None = None,
    threads: int = 1,
    seconds: float = 0.2,
    patience_seconds: float = 0.25,
) -> Comparison:
    """Predict and measure functions over a range of sizes; `make_arrays(size)` returns their arguments.

    Functions are traced before anything of that size is measured, and predicted as `compare` says.

    Parameters
    ----------
    make_arrays : callable
        Returns a list or tuple with one entry for each argument.
    sizes : sequence of int
        Whole numbers, such as those of ``np.array([10, 20])``; `make_arrays` and the rows get them as int.
    functions, seconds, patience_seconds
        See `compare`.

    Raises
    ------
    TypeError
        As `compare`; or if `make_arrays` returns neither a list nor a tuple.
    ValueError
        As `compare`.

    Examples
    --------
    >>> import accel, numpy as np
    >>> result = accel.sweep({"sqrt": np.sqrt}, lambda n: [np.ones(n, np.float32)], [100, 1000], seconds=0.02)
    >>> [(row.size, row.cost.flops) for row in result.named("sqrt")]
    [(100, 100), (1000, 1000)]
    """
    named = named_functions(functions, "sweep")
    sizes = [whole_number(size) for size in sizes]
    threads = positive_count(threads, "threads")
    if not (seconds > 0 and patience_seconds >= 0):
        raise ValueError(
            f"a comparison needs seconds > 0 and patience_seconds >= 0; got seconds={seconds}, "
            f"patience_seconds={patience_seconds}."
        )
    if machine is None:
        from accel.calibration import this_machine

        machine = this_machine()
    allocator.settle()
    rows: list[Row] = []
    for size in sizes:
        arrays = arguments_of(make_arrays(size))
        traces = {name: timed_trace(function, tuple(arrays), {}) for name, function in named.items()}
        calls = {name: partial(function, *arrays) for name, function in named.items()}
        measured, speeds = measure_at_full_speed(calls, machine, threads, seconds, patience_seconds)
        rows += [_row(name, size, traces[name], measured[name], machine, threads, speeds[name]) for name in named]
    taken_at = datetime.now().astimezone().isoformat(timespec="seconds")
    slowest = max((row.slowdown for row in rows), default=1.0)
    return Comparison(str(machine), threads, taken_at, slowest, tuple(rows))


def _row(
    name: str, size: int, traced: Trace, measured: Measurement, machine: Machine, threads: int, speed: Speed
) -> Row:
    """Predict a function at the speed of its measurement, and put both together."""
    predicted = predict_trace(traced, at_speed(machine, speed), threads=threads)
    at_best = predicted if speed == FULL_SPEED else predict_trace(traced, machine, threads=threads)
    return Row(
        name=name,
        size=size,
        cost=predicted.cost,
        measured=measured,
        predicted_seconds=predicted.seconds,
        predicted_low_seconds=predicted.low_seconds,
        predicted_high_seconds=predicted.high_seconds,
        bound_by=predicted.bound_by,
        textbook_seconds=at_best.textbook_seconds,
        slowdown=speed.core,
        full_speed_seconds=at_best.seconds,
    )


def whole_number(size: Any) -> int:
    """Return a size as an int, so that rows sort, and can be saved and loaded."""
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise TypeError(f"a size is a whole number; got {size!r}. Pass an int, and let make_arrays() do the rest.")
    try:
        return operator.index(size)
    except TypeError as error:  # an array has __index__, which only works for one integer
        raise TypeError(f"a size is a whole number; got {size!r}. Pass an int.") from error


def arguments_of(arrays: Any) -> Sequence[Any]:
    """Return the arguments of one size, or say that they are none: an array would be taken apart, row by row."""
    if not isinstance(arrays, list | tuple):
        raise TypeError(
            f"make_arrays() must return a list or tuple of arguments; got {type(arrays).__name__}. "
            "For a single argument return [x]; for the rows of an array return list(x)."
        )
    return arrays


def measure_at_full_speed(
    calls: Mapping[str, Callable[[], Any]],
    machine: Machine,
    thread_count: int,
    seconds: float,
    patience_seconds: float,
    *,
    repeats: Mapping[str, int] | None = None,
    **options: Any,
) -> tuple[dict[str, Measurement], dict[str, Speed]]:
    """Measure until the machine was seen at the speed it was calibrated at, or patience ends; return the speed of each.

    Beside the samples of each call are samples of the reference that last as long: a short one may find the machine at
    full speed where a long one only finds a mixture. `repeats` and `options` are those of `measure_calls`.
    """
    full_speed = machine.roofs.reference_seconds
    start = time.perf_counter()
    with limited(thread_count):
        known = _sample_lengths(calls, full_speed, repeats, options.get("before"))
        beside: dict[Hashable, Callable[[], Any]] = {}
        for name, call in calls.items():
            beside[REFERENCE, name] = reference_call
            beside[name] = call
        measured = measure_calls(beside, seconds=seconds / 2, repeats=known, **options)
        while time.perf_counter() - start < patience_seconds and any(
            _slowdown(measured, name, full_speed) > FAST_PHASE for name in calls
        ):
            again = measure_calls(beside, seconds=seconds / 2, repeats=known, **options)
            measured = {name: m.joined(again[name]) for name, m in measured.items()}
    speeds = {name: speed_from(machine, _slowdown(measured, name, full_speed)) for name in calls}
    return {name: thinned(measured[name]) for name in calls}, speeds


def _slowdown(measured: Mapping[Hashable, Measurement], name: str, full_speed_seconds: float) -> float:
    """Return how slow the machine was at best beside a function; as calibrated where the difference is noise."""
    slowdown = measured[REFERENCE, name].best_seconds / full_speed_seconds
    return slowdown if slowdown > AS_CALIBRATED else 1.0


def _sample_lengths(
    calls: Mapping[str, Callable[[], Any]],
    reference_seconds: float,
    repeats: Mapping[str, int] | None,
    before: Mapping[str, Callable[[], Any]] | None,
) -> dict[Hashable, int]:
    """Return how many calls fill a sample of each function, and of the reference beside it."""
    known: dict[Hashable, int] = {}
    first = measure_calls(calls, seconds=0.0, least=1, sample_seconds=SAMPLE_SECONDS, repeats=repeats, before=before)
    for name, measurement in first.items():
        known[name] = measurement.calls_per_sample
        lasts = min(measurement.best_seconds * measurement.calls_per_sample, LONGEST_REFERENCE_SECONDS)
        known[REFERENCE, name] = max(math.ceil(lasts / reference_seconds), FEWEST_REFERENCES)
    return known


def thinned(measurement: Measurement) -> Measurement:
    """Return the measurement with at most as many samples as describe their distribution, best and worst among them."""
    samples = sorted(measurement.samples_seconds)
    if len(samples) <= KEPT_SAMPLES:
        return measurement
    places = (round(i * (len(samples) - 1) / (KEPT_SAMPLES - 1)) for i in range(KEPT_SAMPLES))
    return replace(measurement, samples_seconds=tuple(samples[place] for place in places))
