"""Speed: whether a reader's function is fast enough beside a baseline, in one interleaved run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable
from typing import Any

from accel import allocator
from accel.check.grades import Step
from accel.check.sandbox import call_reader
from accel.measurement import Measurement, measure_calls, single_threaded

__all__ = ["check_speed", "judged"]

TRIES = 3


def check_speed(
    function: Callable[..., Any],
    baseline: Callable[..., Any],
    arrays: tuple[Any, ...],
    *,
    least_ratio: float,
    baseline_name: str,
    seconds: float = 0.4,
) -> Step:
    """Measure both in turn; the baseline must take at least `least_ratio` times as long as the function.

    Where the middle half of the ratios has the limit inside it, it measures again, and after three tries says so.
    """
    allocator.settle()
    jobs: dict[Hashable, Callable[[], Any]] = {
        "yours": lambda: call_reader(function, *arrays),
        "baseline": lambda: baseline(*arrays),
    }
    with single_threaded():
        for _ in range(TRIES):
            measured = measure_calls(jobs, seconds=seconds)
            step = judged(measured["yours"], measured["baseline"], least_ratio, baseline_name)
            if step.passed is not None:
                break
    return step


def judged(yours: Measurement, baseline: Measurement, least_ratio: float, baseline_name: str) -> Step:
    """Judge two runs that took their samples in turn, by the quartiles of the ratio of each pair of samples."""
    ratios = [
        slow / fast for slow, fast in zip(baseline.samples_seconds, yours.samples_seconds, strict=False) if fast > 0
    ]
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    best = baseline.best_seconds / yours.best_seconds
    figures = {
        f"times as fast as {baseline_name}": best,
        "lower quartile": low,
        "upper quartile": high,
        "your milliseconds": yours.best_seconds * 1e3,
    }
    name = f"fast beside {baseline_name}"
    if min(low, best) >= least_ratio:
        return Step(name, True, figures=figures)
    if max(high, best) < least_ratio:
        return Step(
            name,
            False,
            f"It is {best:.2f} times as fast as {baseline_name}; {least_ratio:g} times is wanted. Run accel.explain "
            "on it to see which call takes the time.",
            figures,
        )
    return Step(
        name,
        None,
        f"Inconclusive: machine too noisy. Half of the samples lie between {low:.2f} and {high:.2f} times as fast as "
        f"{baseline_name}, and {least_ratio:g} is wanted. Close what else is running and check again.",
        figures,
    )
