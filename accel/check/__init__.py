"""Check: grades a reader's own function: whether it is right, works the way that was asked for, and is fast enough.

    >>> from accel import check
    >>> print(check.contract("amdahl"))  # doctest: +ELLIPSIS
    amdahl(share, factor): how many times as fast the whole gets when a part that takes `share` of the time is...
    >>> check.amdahl(lambda share, factor: 1 / (1 - share + share / factor)).passed
    True

Every checker takes the function and returns a `Grade`. An exception or an endless loop in the function is part of the
grade, and never of the notebook. Speed is judged beside a baseline in the same run; where the machine is too noisy to
tell, `passed` is None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from accel.check.answers import FORMULAS, TIMER_CONTRACT, Formula, grade_formula, grade_timer
from accel.check.exercise import Exercise, grade
from accel.check.grades import Grade, Step
from accel.check.kernels import EXERCISES
from accel.check.progress import Attempt, Progress, progress

__all__ = ["CHECKERS", "Attempt", "Grade", "Progress", "Step", "contract", "progress"]

TIME_LIMIT_SECONDS = 60.0

Checker = Callable[..., Grade]


def _checker(exercise: Exercise | Formula) -> Checker:
    def check(function: Callable[..., Any], *, time_limit_seconds: float = TIME_LIMIT_SECONDS) -> Grade:
        if isinstance(exercise, Formula):
            return grade_formula(exercise, function, time_limit_seconds)
        return grade(exercise, function, time_limit_seconds)

    check.__name__ = check.__qualname__ = exercise.name
    check.__doc__ = f"Grade a reader's function: {exercise.title}.\n\n{exercise.contract}"
    return check


def timer(function: Callable[..., Any], *, time_limit_seconds: float = TIME_LIMIT_SECONDS) -> Grade:
    """Grade a reader's clock on functions whose time is known."""
    return grade_timer(function, time_limit_seconds)


_ALL: tuple[Exercise | Formula, ...] = (*EXERCISES, *FORMULAS)

CHECKERS: dict[str, Checker] = {exercise.name: _checker(exercise) for exercise in _ALL}
CHECKERS["timer"] = timer
"""Every checker by the name of its exercise; each is an attribute of this module as well."""

_CONTRACTS = {exercise.name: exercise.contract for exercise in _ALL} | {"timer": TIMER_CONTRACT}


def contract(name: str) -> str:
    """Return what an exercise asks for.

    Raises
    ------
    KeyError
        If there is no exercise of that name; the message lists those that there are.
    """
    if name not in _CONTRACTS:
        raise KeyError(f"there is no exercise {name!r}; there are {', '.join(sorted(_CONTRACTS))}")
    return _CONTRACTS[name]


def __getattr__(name: str) -> Checker:
    if name in CHECKERS:
        return CHECKERS[name]
    raise AttributeError(f"module 'accel.check' has no checker {name!r}; there are {', '.join(sorted(CHECKERS))}")


def __dir__() -> list[str]:
    return sorted([*globals(), *CHECKERS])
