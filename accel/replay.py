"""Replay: a function run again and again on the same arguments, timed as a whole and call by call."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accel.comparison import measure_at_full_speed
from accel.machine import Machine
from accel.measurement import Measurement
from accel.tracing.timing import clock_seconds, time_calls

__all__ = ["Arguments", "Replay", "replay"]

WHOLE, CALLS = "(whole)", "(calls)"
FASTEST_RUNS = 3
LONG_SECONDS = 0.25
"""Of a function that takes longer, three samples are taken where the time is up, and not five."""
PATIENCE_SECONDS = 1.5


class Arguments:
    """The arguments of a function, and copies of the arrays among them, to begin every run from the same values."""

    def __init__(self, names: list[str], arrays: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.arrays, self.keywords = arrays, keywords
        named = (*zip(names, arrays, strict=True), *keywords.items())
        found = (pair for name, value in named for pair in _writable(name, value))
        self._copies = [(name, array, array.copy(order="K")) for name, array in found]

    def changed(self) -> tuple[str, ...]:
        """Return the names of arrays that no longer have the values they began with."""
        return tuple(name for name, array, copy in self._copies if _differs(array, copy))

    def forget_unchanged(self) -> None:
        """Drop the copies that are equal to their originals: what did not change in a run need not be restored."""
        self._copies = [kept for kept in self._copies if _differs(*kept[1:])]

    def restore(self) -> None:
        """Give the arrays their first values back."""
        for _, array, copy in self._copies:
            np.copyto(array, copy)

    @property
    def must_be_restored(self) -> bool:
        """Whether there is anything to restore."""
        return bool(self._copies)


def _writable(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    if type(value) is tuple:
        for i, item in enumerate(value):
            yield from _writable(f"{name}[{i}]", item)
    elif type(value) is np.ndarray and value.flags.writeable and value.dtype.kind in "biufc":
        yield name, value


def _differs(array: np.ndarray, copy: np.ndarray) -> bool:
    return not np.array_equal(array, copy, equal_nan=array.dtype.kind in "fc")


@dataclass(frozen=True)
class Replay:
    """What a function took."""

    measured: Measurement
    """Untraced."""
    call_seconds: tuple[float, ...]
    """The median time of each recorded call in the three fastest recorded runs, in order; empty where no run made as
    many calls. The best of every call would add up to less than any run took, and one run alone may have an outlier.
    """
    slowdown: float
    """How many times slower than at its calibration the machine was at best."""


def replay(
    function: Callable[..., Any],
    arguments: Arguments,
    machine: Machine,
    *,
    calls: int,
    threads: int,
    seconds: float,
    run_seconds: float,
    patient: bool = True,
    after_round: Callable[[float], Any] | None = None,
) -> Replay:
    """Time untraced and recorded runs of a function in turn; each begins from the arguments' first values.

    Parameters
    ----------
    calls : int
        How many recorded calls a run makes.
    seconds : float
        Time to spread the samples over, both kinds together.
    run_seconds : float
        About how long one run takes.
    patient : bool
        Whether to wait for a machine that is slower than when it was calibrated.
    """
    latest: list[float] = []
    fastest: list[list[float]] = []

    def whole() -> None:
        function(*arguments.arrays, **arguments.keywords)

    def recorded() -> None:
        latest[:] = time_calls(function, arguments.arrays, arguments.keywords)

    def keep(elapsed: float) -> None:
        """Consider one recorded run for each untraced sample: neither kind has better chances of a quiet time."""
        if len(latest) == calls:
            fastest.append(latest.copy())
            fastest.sort(key=sum)
            del fastest[FASTEST_RUNS:]
        if after_round is not None:
            after_round(elapsed)

    runs: dict[str, Callable[[], Any]] = {WHOLE: whole, CALLS: recorded} if calls else {WHOLE: whole}
    restored = arguments.must_be_restored
    measured, slowdown = measure_at_full_speed(
        runs,
        machine,
        threads,
        seconds / (len(runs) + 1),
        PATIENCE_SECONDS if patient else 0.0,
        repeats=dict.fromkeys(runs, 1) if restored else None,
        before=dict.fromkeys(runs, arguments.restore) if restored else None,
        least=5 if run_seconds < LONG_SECONDS else 3,
        after_round=keep,
    )
    taken = measured[WHOLE]
    if restored:
        own = clock_seconds()
        taken = replace(taken, samples_seconds=tuple(max(s - own, 1e-9) for s in taken.samples_seconds))
    return Replay(taken, tuple(map(statistics.median, zip(*fastest, strict=True))), slowdown)
