"""Replay: a function run again and again on the same arguments, timed as a whole and call by call."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from accel.argument_copies import Arguments
from accel.comparison import measure_at_full_speed
from accel.machine import Machine
from accel.measurement import Measurement
from accel.speed import Speed
from accel.tracing.timing import clock_seconds, time_calls

__all__ = ["Arguments", "Replay", "replay"]

WHOLE, CALLS = "(whole)", "(calls)"
FASTEST_RUNS = 3
LONG_SECONDS = 0.25
"""Of a function that takes longer, three samples are taken where the time is up, and not five."""
PATIENCE_SECONDS = 1.5


@dataclass(frozen=True)
class Replay:
    """What a function took."""

    measured: Measurement
    """Untraced."""
    call_seconds: tuple[float, ...]
    """The median time of each recorded call in the three fastest recorded runs, in order; empty where no run made as
    many calls. The best of every call would add up to less than any run took, and one run alone may have an outlier.
    """
    speed: Speed
    """How fast the machine ran meanwhile."""


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
    measured, speeds = measure_at_full_speed(
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
    return Replay(taken, tuple(map(statistics.median, zip(*fastest, strict=True))), speeds[WHOLE])
