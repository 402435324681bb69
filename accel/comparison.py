"""Comparison: measured beside predicted, for one function or a sweep over sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from accel import allocator
from accel.cost import Cost
from accel.machine import Machine
from accel.measurement import FAST_PHASE, Measurement, measure_calls, reference_call
from accel.measurement import threads as limited
from accel.prediction import predict
from accel.records import Record

__all__ = ["Comparison", "Row", "compare", "measure_at_full_speed", "sweep"]

REFERENCE = "(reference)"
REFERENCE_REPEATS = 1000
"""Calls that fill a sample, about a millisecond."""


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

    @property
    def measured_seconds(self) -> float:
        """The best sample of the measurement."""
        return self.measured.best_seconds

    @property
    def error_fraction(self) -> float:
        """Signed error of the prediction, as a share of the measured time."""
        return self.predicted_seconds / self.measured_seconds - 1

    @property
    def flops_per_second(self) -> float:
        """Counted FLOPs over measured time."""
        return self.cost.flops / self.measured_seconds

    @property
    def bytes_per_second(self) -> float:
        """Algorithmic bytes over measured time."""
        return self.cost.bytes_algorithmic / self.measured_seconds


@dataclass(frozen=True)
class Comparison(Record):
    """Rows that were measured interleaved, on one machine."""

    machine: str
    """One line that names the machine: CPU and calibration."""
    threads: int
    taken_at: str
    """Local time, ISO 8601 with the UTC offset."""
    slowdown: float
    """How many times slower than at its calibration the machine was at best while this was measured."""
    rows: tuple[Row, ...]

    @property
    def is_at_full_speed(self) -> bool:
        """Whether the machine was seen as fast as when it was calibrated, which predictions are for."""
        return self.slowdown <= FAST_PHASE

    @property
    def speed_note(self) -> str:
        """Say how much slower than at its calibration the machine ran; empty where it did not."""
        return "" if self.is_at_full_speed else f"the machine ran {self.slowdown:.1f} times slower than when calibrated"

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
    functions: Mapping[str, Callable[..., Any]],
    *arrays: Any,
    size: int | None = None,
    machine: Machine | None = None,
    threads: int = 1,
    seconds: float = 0.4,
    patience_seconds: float = 1.5,
) -> Comparison:
    """Predict each function, then measure them interleaved, on the same arrays.

    Parameters
    ----------
    functions : dict of str to callable
        Each is called with `arrays`.
    size : int
        What to call the size of this problem; elements of the largest array if not given.
    seconds : float
        Time to spread the samples of each function over.
    patience_seconds : float
        How long to wait at most, at each size, for a machine that is slower than when it was calibrated.

    Examples
    --------
    >>> import accel, numpy as np
    >>> x = np.ones(10_000, np.float32)
    >>> comparison = accel.compare({"add": np.add, "multiply": np.multiply}, x, x, seconds=0.02)
    >>> comparison.names, comparison.rows[0].cost.flops
    (('add', 'multiply'), 10000)
    """
    return sweep(
        functions,
        lambda _size: arrays,
        [size if size is not None else max((getattr(a, "size", 1) for a in arrays), default=0)],
        machine=machine,
        threads=threads,
        seconds=seconds,
        patience_seconds=patience_seconds,
    )


def sweep(
    functions: Mapping[str, Callable[..., Any]],
    make_arrays: Callable[[int], Sequence[Any]],
    sizes: Sequence[int],
    *,
    machine: Machine | None = None,
    threads: int = 1,
    seconds: float = 0.2,
    patience_seconds: float = 1.5,
) -> Comparison:
    """Predict and measure functions over a range of sizes; `make_arrays(size)` returns their arguments.

    Predictions are made before anything of that size is measured.

    Examples
    --------
    >>> import accel, numpy as np
    >>> result = accel.sweep({"sqrt": np.sqrt}, lambda n: [np.ones(n, np.float32)], [100, 1000], seconds=0.02)
    >>> [(row.size, row.cost.flops) for row in result.named("sqrt")]
    [(100, 100), (1000, 1000)]
    """
    if machine is None:
        from accel.calibration import this_machine

        machine = this_machine()
    allocator.settle()
    rows: list[Row] = []
    slowdowns: list[float] = []
    for size in sizes:
        arrays = make_arrays(size)
        predictions = {
            name: predict(function, *arrays, machine=machine, threads=threads) for name, function in functions.items()
        }
        calls = {name: partial(function, *arrays) for name, function in functions.items()}
        measured, slowdown = measure_at_full_speed(calls, machine, threads, seconds, patience_seconds)
        slowdowns.append(slowdown)
        rows += [
            Row(
                name=name,
                size=size,
                cost=predicted.cost,
                measured=measured[name],
                predicted_seconds=predicted.seconds,
                predicted_low_seconds=predicted.low_seconds,
                predicted_high_seconds=predicted.high_seconds,
                bound_by=predicted.bound_by,
                textbook_seconds=predicted.textbook_seconds,
            )
            for name, predicted in predictions.items()
        ]
    taken_at = datetime.now().astimezone().isoformat(timespec="seconds")
    return Comparison(str(machine), threads, taken_at, max(slowdowns, default=1.0), tuple(rows))


def measure_at_full_speed(
    calls: Mapping[str, Callable[[], Any]],
    machine: Machine,
    thread_count: int,
    seconds: float,
    patience_seconds: float,
    *,
    repeats: Mapping[str, int] | None = None,
    **options: Any,
) -> tuple[dict[str, Measurement], float]:
    """Measure until the machine was seen at the speed it was calibrated at, or patience ends; return that slowdown.

    `repeats` and `options` are those of `measure_calls`.
    """
    all_calls = {**calls, REFERENCE: reference_call}
    full_speed = machine.roofs.reference_seconds
    if repeats is not None:
        repeats = {**repeats, REFERENCE: REFERENCE_REPEATS}
    start = time.perf_counter()
    with limited(thread_count):
        measured = measure_calls(all_calls, seconds=seconds, repeats=repeats, **options)
        repeats = {name: m.calls_per_sample for name, m in measured.items()}
        while (
            measured[REFERENCE].best_seconds > FAST_PHASE * full_speed
            and time.perf_counter() - start < patience_seconds
        ):
            again = measure_calls(all_calls, seconds=seconds, repeats=repeats, **options)
            if again[REFERENCE].best_seconds < measured[REFERENCE].best_seconds:
                measured = {name: m.joined(again[name]) for name, m in measured.items()}
    slowdown = measured.pop(REFERENCE).best_seconds / full_speed
    return measured, slowdown
