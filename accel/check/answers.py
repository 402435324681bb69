"""Exercises in which the reader writes a formula or a clock: roofline, intensity, Amdahl, tile size, timer."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accel.check.exercise import graded
from accel.check.grades import Grade, Step
from accel.check.sandbox import ReaderError, call_reader

__all__ = ["FORMULAS", "Formula", "grade_formula", "grade_timer"]


@dataclass(frozen=True)
class Formula:
    """A function of numbers that the reader is to write."""

    name: str
    title: str
    contract: str
    answer: Callable[..., float]
    cases: tuple[tuple[float, ...], ...]
    mistakes: tuple[tuple[str, Callable[..., float]], ...] = ()
    """Wrong formulas that people write, with what to say of each."""
    tolerance: float = 1e-9


def _attainable(intensity: float, peak: float, bandwidth: float) -> float:
    return min(peak, intensity * bandwidth)


def _amdahl(share: float, factor: float) -> float:
    return 1 / (1 - share + share / factor)


def _tile_size(cache_bytes: float, itemsize: float) -> float:
    return math.isqrt(int(cache_bytes // (3 * itemsize)))


def _matmul_intensity(n: float, itemsize: float) -> float:
    return 2 * n**3 / (3 * n * n * itemsize)


FORMULAS: tuple[Formula, ...] = (
    Formula(
        name="roofline",
        title="The roofline in one line",
        contract="roofline(intensity, peak, bandwidth): attainable FLOP/s for an arithmetic intensity in FLOP/byte, a "
        "peak in FLOP/s and a bandwidth in byte/s.",
        answer=_attainable,
        cases=((0.1, 1e11, 2e10), (5.0, 1e11, 2e10), (100.0, 1e11, 2e10), (0.0, 1e11, 2e10)),
        mistakes=(
            ("That is the higher of the two limits; the lower one binds.", lambda i, p, b: max(p, i * b)),
            (
                "Intensity is FLOPs for each byte, so it multiplies the bandwidth.",
                lambda i, p, b: min(p, b / i if i else p),
            ),
        ),
    ),
    Formula(
        name="intensity",
        title="Arithmetic intensity of a matrix product",
        contract="intensity(n, itemsize): FLOP per byte of an n x n x n product, each matrix read or written once, a "
        "multiply-add being two FLOPs.",
        answer=_matmul_intensity,
        cases=((1, 4), (512, 4), (512, 8), (1000, 2)),
        mistakes=(
            ("A multiply-add is two FLOPs here.", lambda n, s: n / (3 * s)),
            ("That is FLOPs for each element; how many bytes has one?", lambda n, s: 2 * n / 3),  # noqa: ARG005
            ("The result is moved too: three matrices, not two.", lambda n, s: n / s),
        ),
    ),
    Formula(
        name="amdahl",
        title="What a part can give to the whole",
        contract="amdahl(share, factor): how many times as fast the whole gets when a part that takes `share` of the "
        "time is made `factor` times as fast. The factor may be infinite.",
        answer=_amdahl,
        cases=((0.8, 100.0), (0.5, 2.0), (0.0, 10.0), (1.0, 4.0), (0.9, math.inf)),
        mistakes=(
            ("That counts the part twice: the rest takes 1 - share.", lambda p, s: 1 / (1 + p / s)),
            ("The gain is not the share times the factor: the rest takes as long as before.", lambda p, s: p * s),
        ),
    ),
    Formula(
        name="tile_size",
        title="The largest tile that fits",
        contract="tile_size(cache_bytes, itemsize): the largest whole t such that three t x t tiles fit into the "
        "cache.",
        answer=_tile_size,
        cases=((32768, 4), (32768, 8), (524288, 4), (1000, 8), (12, 4)),
        mistakes=(
            ("One tile of that size fits, but a product works on three.", lambda c, s: math.isqrt(int(c // s))),
            (
                "A size has to be rounded down to a whole number: a little too large does not fit.",
                lambda c, s: math.sqrt(c / (3 * s)),
            ),
            ("Two of them fit; where does the result go?", lambda c, s: math.isqrt(int(c // (2 * s)))),
        ),
    ),
)


def grade_formula(formula: Formula, function: Any, time_limit_seconds: float) -> Grade:
    """Check a function of numbers on every case."""

    def take_steps(steps: list[Step]) -> None:
        steps.append(_right(formula, function))

    return graded(formula.name, formula.title, function, take_steps, time_limit_seconds)


def _right(formula: Formula, function: Callable[..., Any]) -> Step:
    for case in formula.cases:
        call = f"{formula.name}({', '.join(f'{value:g}' for value in case)})"
        expected = formula.answer(*case)
        try:
            found = call_reader(function, *case)
            value = float(found)
        except ReaderError as error:
            return Step("right", False, f"{call} raised {error}")
        except (TypeError, ValueError):
            return Step("right", False, f"{call} returned {found!r}, and a number is wanted.")
        if not math.isclose(value, expected, rel_tol=formula.tolerance, abs_tol=1e-12):
            return Step("right", False, f"{call} is {expected:.6g}; got {value:.6g}. {_explanation(formula, function)}")
    return Step("right", True, figures={"cases": float(len(formula.cases))})


def _explanation(formula: Formula, function: Callable[..., Any]) -> str:
    """Return what to say of a wrong formula that is known: one that gives the reader's values in every case."""
    for text, mistake in formula.mistakes:
        try:
            if all(
                math.isclose(float(function(*case)), mistake(*case), rel_tol=1e-9, abs_tol=1e-12)
                for case in formula.cases
            ):
                return text
        except Exception:  # the reader's function, once more; what is wrong with it was said
            continue
    return "Try the case by hand."


# ------------------------------------------------------------------------------------------------------------ the timer

TIMER_CONTRACT = (
    "timer(function): the seconds that one call of function() takes at its best, without the cost of a first call and "
    "of interruptions, right within 25 % for functions of 1 microsecond to 5 milliseconds."
)
TIMER_TITLE = "An honest timer"


_FIRST_CALL = "The first call pays for things that later calls find done. Call the function before you time it."
_INTERRUPTIONS = (
    "A first call is slow, and other work interrupts: both only ever add time. Take the smallest of many samples, not "
    "the mean."
)
_SHORT = "A single reading of the clock costs a good part of a microsecond. Time a loop of many calls and divide."

# How far from the truth an answer may be, and how often a clock that is off is tried.
_LOW, _HIGH = 0.75, 1.25
TRIES = 3


class _Work:
    """A function that takes a known time, slower the first time and now and then."""

    def __init__(self, seconds: float, *, first: float = 0.0, every: int = 0, extra: float = 0.0) -> None:
        self.seconds, self.first, self.every, self.extra, self.calls = seconds, first, every, extra, 0

    def __call__(self) -> None:
        self.calls += 1
        interrupted = self.every and self.calls % self.every == 0
        _busy(self.seconds + (self.first if self.calls == 1 else 0.0) + (self.extra if interrupted else 0.0))


def _busy(seconds: float) -> None:
    end = time.perf_counter_ns() + int(seconds * 1e9)
    while time.perf_counter_ns() < end:
        pass


def _short() -> None:
    """Take about a microsecond, by work and not by the clock: reading the clock would cost as much."""
    sum(range(40))


def grade_timer(function: Any, time_limit_seconds: float) -> Grade:
    """Check a reader's clock on functions whose time is known."""

    def take_steps(steps: list[Step]) -> None:
        try:
            _time_steps(function, steps)
        except (TypeError, ValueError) as error:
            steps.append(Step("runs", False, f"It should return seconds, a number ({error})."))

    return graded("timer", TIMER_TITLE, function, take_steps, time_limit_seconds)


def _time_steps(function: Callable[..., Any], steps: list[Step]) -> None:
    trials = (
        ("leaves out the first call", _Work(1e-3, first=0.05)),
        ("is not fooled by interruptions", _Work(1e-3, every=2, extra=4e-3)),
    )
    for name, work in trials:
        found = float(call_reader(function, work))
        steps.append(_timed(name, found, work.seconds, _FIRST_CALL if work.calls == 1 else _INTERRUPTIONS))
        if not steps[-1].passed:
            return
    steps.append(_short_step(function))


def _short_step(function: Callable[..., Any]) -> Step:
    """Time a microsecond's work with the reader's clock, between two measurements of our own.

    A machine that changes its speed in between can make an honest clock look wrong, so a clock that is off is tried
    again. Where our own samples reach as far as the reader's answer, nothing can be concluded.
    """
    from accel.measurement import measure_calls

    for _ in range(TRIES):
        before = measure_calls({"short": _short}, seconds=0.3)["short"]
        found = float(call_reader(function, _short))
        after = measure_calls({"short": _short}, seconds=0.3)["short"]
        known = min(before.best_seconds, after.best_seconds)
        step = _timed("times what is shorter than the clock", found, known, _SHORT)
        if step.passed:
            return step
    seen = [*before.samples_seconds, *after.samples_seconds]
    if _LOW * min(seen) <= found <= _HIGH * statistics.quantiles(seen, n=20)[-1]:
        return Step(
            step.name,
            None,
            f"Inconclusive: machine too noisy. The same work took between {min(seen) * 1e6:.3g} and "
            f"{max(seen) * 1e6:.3g} µs here, and you say {found * 1e6:.3g} µs. Close what else is running and check "
            "again.",
            step.figures,
        )
    return step


def _timed(name: str, found: float, known: float, hint: str) -> Step:
    figures = {"your microseconds": found * 1e6, "true microseconds": known * 1e6}
    if _LOW <= found / known <= _HIGH:
        return Step(name, True, figures=figures)
    factor = found / known
    unit = " Is it in milliseconds? Seconds are wanted." if 700 < factor < 1400 else ""
    return Step(name, False, f"It says {found * 1e6:.3g} µs where {known * 1e6:.3g} µs is true. {hint}{unit}", figures)
