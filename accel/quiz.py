"""Quiz: questions that check themselves, and guesses that are compared with what was predicted and measured.

Everything happens in the browser, so it works in a page without a kernel, in JupyterLab and in Colab.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anywidget import AnyWidget

__all__ = ["choice", "guess", "number"]

_SCRIPT = Path(__file__).with_suffix(".js")
_STYLE = Path(__file__).with_suffix(".css")


@functools.cache
def _widget_class() -> type[AnyWidget]:
    """Make the class when the first question is asked: importing widgets takes longer than all of accel."""
    import anywidget
    import traitlets

    class Question(anywidget.AnyWidget):
        """A question in a page. Its answer stays in the browser, and comes to `answered` where there is a kernel."""

        _esm = _SCRIPT
        _css = _STYLE
        data = traitlets.Dict().tag(sync=True)
        answered = traitlets.Any(None, allow_none=True).tag(sync=True)

        def reveal(
            self,
            measured: float,
            predicted: float | None = None,
            *,
            because: str = "",
            too_low: str = "",
            too_high: str = "",
        ) -> None:
            """Give the answer to a guess: it is shown to a reader who has committed to one.

            Parameters
            ----------
            measured, predicted : float
                In the unit of the guess; what the model predicted is left out where there is no model.
            because : str
                Why it came out so.
            too_low, too_high : str
                What those overlook who guessed less than two thirds, or more than one and a half times, of it.

            Raises
            ------
            ValueError
                If this is no guess, or a value is not finite.
            """
            if self.data["kind"] != "guess":
                raise ValueError(
                    f"only a guess has an answer to reveal; this is a question of kind {self.data['kind']!r}."
                )
            outcome = {"measured": _finite(measured, "measured"), "because": because}
            outcome |= {"too_low": too_low, "too_high": too_high}
            if predicted is not None:
                outcome["predicted"] = _finite(predicted, "predicted")
            self.data = {**self.data, "outcome": outcome}

    return Question


def _ask(data: dict[str, Any]) -> AnyWidget:
    key = hashlib.sha256(repr(sorted(data.items())).encode()).hexdigest()[:12]
    return _widget_class()(data={**data, "id": key})


def _finite(value: float, name: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number; got {value!r}.")
    return number


def choice(question: str, options: Mapping[str, str], *, right: str | Sequence[str]) -> AnyWidget:
    """Ask for one of several answers; each has its own feedback.

    Parameters
    ----------
    question : str
        Plain text.
    options : dict of str to str
        Each answer, and what to say to a reader who chooses it.
    right : str or sequence of str
        The right ones among them.

    Raises
    ------
    ValueError
        If there are fewer than two options, one has no feedback, or `right` is none of them.

    >>> from accel import quiz
    >>> asked = quiz.choice("Which is faster?", {"a": "No: it waits.", "b": "Yes."}, right="b")
    >>> asked.data["kind"], [option["right"] for option in asked.data["options"]]
    ('choice', [False, True])
    """
    rights = [right] if isinstance(right, str) else list(right)
    missing = [name for name in rights if name not in options]
    if len(options) < 2 or missing or not rights:
        raise ValueError(
            f"a choice needs two options or more and a right one among them; got {list(options)}, {rights}."
        )
    silent = [name for name, feedback in options.items() if not feedback.strip()]
    if silent:
        raise ValueError(f"every answer needs feedback of its own; {silent} have none.")
    listed = [{"text": name, "feedback": text, "right": name in rights} for name, text in options.items()]
    return _ask({"kind": "choice", "question": question, "options": listed})


def number(
    question: str,
    answer: float,
    *,
    unit: str = "",
    tolerance: float = 0.02,
    because: str,
    mistakes: Mapping[float, str] | None = None,
) -> AnyWidget:
    """Ask for a number; it is right within a relative tolerance.

    Parameters
    ----------
    unit : str
        Written behind the field.
    because : str
        How to find the answer, shown once it is given or asked for.
    mistakes : dict of float to str
        Wrong numbers that people arrive at, and what they overlooked.

    Raises
    ------
    ValueError
        If the answer is not finite or the tolerance is negative.

    >>> from accel import quiz
    >>> quiz.number("2 + 2?", 4, because="Count.").data["answer"]
    4.0
    """
    if not tolerance >= 0:
        raise ValueError(f"the tolerance is a share of the answer, from 0; got {tolerance!r}.")
    known = [{"value": _finite(value, "a mistake"), "feedback": text} for value, text in (mistakes or {}).items()]
    return _ask(
        {
            "kind": "number",
            "question": question,
            "answer": _finite(answer, "the answer"),
            "unit": unit,
            "tolerance": tolerance,
            "because": because,
            "mistakes": known,
        }
    )


def guess(question: str, low: float, high: float, *, unit: str = "", start: float | None = None) -> AnyWidget:
    """Ask for a guess on a logarithmic slider, before the answer is measured; `reveal` gives the answer.

    In the built page, cells tagged ``after-guess`` that follow are hidden until the reader commits to a guess or skips
    it. In a notebook they are run when the reader gets there.

    Parameters
    ----------
    low, high : float
        Ends of the slider, above zero.
    unit : str
        Written behind the number, such as ``"times"``.
    start : float
        Where the slider stands first; in the middle unless given.

    Raises
    ------
    ValueError
        If the ends are not in order and above zero, or the start lies outside.

    >>> from accel import quiz
    >>> asked = quiz.guess("How many times as fast?", 1, 100, unit="times")
    >>> asked.reveal(measured=30.0, predicted=28.0)
    >>> asked.data["outcome"]["measured"]
    30.0
    """
    low, high = _finite(low, "low"), _finite(high, "high")
    if not 0 < low < high:
        raise ValueError(f"a guess lies between two numbers above zero, the lower one first; got {low:g} and {high:g}.")
    first = math.sqrt(low * high) if start is None else _finite(start, "start")
    if not low <= first <= high:
        raise ValueError(f"the slider starts between {low:g} and {high:g}; got {first:g}.")
    return _ask({"kind": "guess", "question": question, "low": low, "high": high, "start": first, "unit": unit})
