"""Comparison: measured beside predicted, for one function or a sweep over sizes."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
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
from accel.prediction import predict
from accel.records import Record

__all__ = ["Comparison", "Row", "compare", "sweep"]

REFERENCE: Final = ("reference",)
"""Among the functions measured, the one that tells the machine's speed. No function has this name: theirs are str."""


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
    functions: Callable[..., Any] | Mapping[str, Callable[..., Any]],
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
    patience_seconds: float = 1.5,
) -> Comparison:
    """Predict and measure functions over a range of sizes; `make_arrays(size)` returns their arguments.

    Predictions are made before anything of that size is measured.

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
    sizes = [_whole_number(size) for size in sizes]
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
    slowdowns: list[float] = []
    for size in sizes:
        arrays = _arguments(make_arrays(size))
        predictions = {
            name: predict(function, *arrays, machine=machine, threads=threads) for name, function in named.items()
        }
        measured, slowdown = _measure_at_full_speed(named, arrays, machine, threads, seconds, patience_seconds)
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


def _whole_number(size: Any) -> int:
    """Return a size as an int, so that rows sort, and can be saved and loaded."""
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise TypeError(f"a size is a whole number; got {size!r}. Pass an int, and let make_arrays() do the rest.")
    try:
        return operator.index(size)
    except TypeError as error:  # an array has __index__, which only works for one integer
        raise TypeError(f"a size is a whole number; got {size!r}. Pass an int.") from error


def _arguments(arrays: Any) -> Sequence[Any]:
    """Return the arguments of one size, or say that they are none: an array would be taken apart, row by row."""
    if not isinstance(arrays, list | tuple):
        raise TypeError(
            f"make_arrays() must return a list or tuple of arguments; got {type(arrays).__name__}. "
            "For a single argument return [x]; for the rows of an array return list(x)."
        )
    return arrays


def _measure_at_full_speed(
    functions: Mapping[str, Callable[..., Any]],
    arrays: Sequence[Any],
    machine: Machine,
    thread_count: int,
    seconds: float,
    patience_seconds: float,
) -> tuple[dict[str, Measurement], float]:
    """Measure until the machine was seen at the speed it was calibrated at, or patience ends; return that slowdown."""
    calls: dict[Hashable, Callable[[], Any]] = {name: partial(f, *arrays) for name, f in functions.items()}
    calls[REFERENCE] = reference_call
    full_speed = machine.roofs.reference_seconds
    start = time.perf_counter()
    with limited(thread_count):
        measured = measure_calls(calls, seconds=seconds)
        repeats = {name: m.calls_per_sample for name, m in measured.items()}
        while (
            measured[REFERENCE].best_seconds > FAST_PHASE * full_speed
            and time.perf_counter() - start < patience_seconds
        ):
            again = measure_calls(calls, seconds=seconds, repeats=repeats)
            if again[REFERENCE].best_seconds < measured[REFERENCE].best_seconds:
                measured = {name: m.joined(again[name]) for name, m in measured.items()}
    slowdown = measured.pop(REFERENCE).best_seconds / full_speed
    return {name: measured[name] for name in functions}, slowdown
