"""Exercise: a function that the reader is to write, what it is checked for, and the run of all checks in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from accel.check import progress
from accel.check.correctness import Input, check_right
from accel.check.grades import Grade, Step
from accel.check.mechanism import Evidence, Rule
from accel.check.sandbox import ReaderError, TimeUp, within
from accel.check.speed import check_speed

__all__ = ["Exercise", "Speed", "grade", "graded"]


@dataclass(frozen=True)
class Speed:
    """How fast a function has to be, beside a baseline."""

    least_ratio: float
    baseline: Callable[..., Any]
    baseline_name: str
    """As in a sentence: "the loop"."""
    arrays: Callable[[], tuple[Any, ...]]


@dataclass(frozen=True)
class Exercise:
    """What a checker knows about its exercise."""

    name: str
    title: str
    task: str
    """What the function takes and gives, and what is asked of the way it works."""
    reference: Callable[..., Any]
    """The result in float64."""
    inputs: Callable[[], Iterable[Input]]
    large: Callable[[], tuple[Any, ...]]
    """Input on which the mechanism is looked at."""
    small: Callable[[], tuple[Any, ...]]
    """The same in small, to see what grows."""
    rules: tuple[Rule, ...] = ()
    speed: Speed | None = None

    @property
    def contract(self) -> str:
        """The task, and how fast the function has to be."""
        if self.speed is None:
            return self.task
        return f"{self.task} At least {self.speed.least_ratio:g} times as fast as {self.speed.baseline_name}."


def grade(exercise: Exercise, function: Any, time_limit_seconds: float) -> Grade:
    """Check a function: right, then the mechanism, then the speed; a step that fails ends it."""
    return graded(
        exercise.name,
        exercise.title,
        function,
        lambda steps: _take_steps(exercise, function, steps),
        time_limit_seconds,
        on_time_up=" Is there a loop that does not end, or one over single elements?",
        on_error="runs on a large input",
    )


def graded(
    name: str,
    title: str,
    function: Any,
    take_steps: Callable[[list[Step]], None],
    time_limit_seconds: float,
    *,
    on_time_up: str = "",
    on_error: str = "runs",
) -> Grade:
    """Run a check where neither an exception nor an endless loop of the reader's can do harm; keep the grade.

    `take_steps` fills a list as it goes, so that what was seen in time is part of the grade.

    Raises
    ------
    TypeError
        If `function` cannot be called: most often its result was passed.
    ValueError
        If the time limit is not positive.
    """
    if not callable(function):
        raise TypeError(
            f"check.{name}() takes your function itself; got {type(function).__name__}. Leave the brackets off: "
            f"check.{name}(my_function)."
        )
    if not time_limit_seconds > 0:
        raise ValueError(f"time_limit_seconds must be positive; got {time_limit_seconds!r}.")
    steps: list[Step] = []
    try:
        within(time_limit_seconds, lambda: take_steps(steps))
    except TimeUp:
        said = f"It was not done after {time_limit_seconds:g} s, so it was stopped."
        steps.append(Step("in time", False, said + on_time_up))
    except ReaderError as error:
        steps.append(Step(on_error, False, f"It raised {error}"))
    found = Grade(name, title, tuple(steps), datetime.now().astimezone().isoformat(timespec="seconds"))
    progress.keep(found)
    return found


def _take_steps(exercise: Exercise, function: Callable[..., Any], steps: list[Step]) -> None:
    """Append a step after the other, up to the first that fails."""
    steps.append(check_right(function, exercise.reference, exercise.inputs(), exercise.name))
    if not steps[-1].passed:
        return
    evidence = Evidence(function, exercise.large(), exercise.small())
    for rule in exercise.rules:
        steps.append(rule(evidence))
        if not steps[-1].passed:
            return
    if exercise.speed is not None:
        speed = exercise.speed
        steps.append(
            check_speed(
                function,
                speed.baseline,
                speed.arrays(),
                least_ratio=speed.least_ratio,
                baseline_name=speed.baseline_name,
            )
        )
