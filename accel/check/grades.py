"""Grades: what a checker found out about a reader's answer."""

from __future__ import annotations

import html
from dataclasses import dataclass, field

from accel.records import Record
from accel.units import format_number

__all__ = ["WORDS", "Grade", "Step"]

WORDS = {True: "passed", False: "not yet", None: "inconclusive"}


@dataclass(frozen=True)
class Step(Record):
    """One thing that was looked at."""

    name: str
    """What, such as ``"right"``, ``"no full-size temporary"`` or ``"faster than the loop"``."""
    passed: bool | None
    """None where the machine was too noisy to tell."""
    feedback: str = ""
    """What is wrong and what to try next; empty where it passed."""
    figures: dict[str, float] = field(default_factory=dict)
    """What was counted or measured, by name with unit."""


@dataclass(frozen=True, repr=False)
class Grade(Record):
    """The outcome of a check: each step in order, up to the first that stands in the way of the next.

    >>> from accel.check import Grade, Step
    >>> Grade("gelu", "GELU", (Step("right", False, "gelu(1.0) is 0.8412; got 0.5.", {"error": 0.34}),), "2026-01-01")
    GELU: not yet
      not yet       right: gelu(1.0) is 0.8412; got 0.5.
                    error 0.340
    """

    exercise: str
    """Name of the checker."""
    title: str
    steps: tuple[Step, ...]
    graded_at: str
    """Local time, ISO 8601 with the UTC offset."""

    @property
    def passed(self) -> bool | None:
        """True where every step passed, False where one failed, None where one was inconclusive and none failed."""
        outcomes = [step.passed for step in self.steps]
        if False in outcomes:
            return False
        return None if None in outcomes else True

    @property
    def feedback(self) -> tuple[str, ...]:
        """What is wrong and what to try next, a sentence or two for each step that did not pass."""
        return tuple(step.feedback for step in self.steps if step.passed is not True)

    @property
    def figures(self) -> dict[str, float]:
        """Every figure that was counted or measured."""
        return {name: value for step in self.steps for name, value in step.figures.items()}

    def __repr__(self) -> str:
        lines = [f"{self.title}: {WORDS[self.passed]}"]
        for step in self.steps:
            lines.append(f"  {WORDS[step.passed]:13} {step.name}{': ' * bool(step.feedback)}{step.feedback}")
            if step.figures:
                lines.append(" " * 16 + _figures(step))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr class="accel-grade-{WORDS[step.passed].replace(" ", "-")}"><th scope="row" style="text-align:left">'
            f"{WORDS[step.passed]}</th>"
            f'<td style="text-align:left">{html.escape(step.name)}</td>'
            f'<td style="text-align:left">{html.escape(step.feedback)}</td>'
            f'<td style="text-align:left">{html.escape(_figures(step))}</td></tr>'
            for step in self.steps
        )
        heads = "".join(
            f'<th scope="col" style="text-align:left">{h}</th>' for h in ("outcome", "step", "feedback", "seen")
        )
        caption = html.escape(f"{self.title}: {WORDS[self.passed]}")
        return (
            '<div class="accel-table accel-grade" style="overflow-x:auto"><table class="dataframe">'
            f'<caption style="text-align:left">{caption}</caption><thead><tr>{heads}</tr></thead>'
            f"<tbody>{rows}</tbody></table></div>"
        )


def _figures(step: Step) -> str:
    return ", ".join(f"{name} {format_number(value)}" for name, value in step.figures.items())
