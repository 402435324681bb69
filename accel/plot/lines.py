"""The line chart: quantities over a variable, each measured, predicted, or a limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from accel.figure import (
    BASELINE,
    INK,
    MEASURED,
    PREDICTED,
    Chart,
    binary_ticks,
    blank,
    log_axis,
    log_ticks,
    settle,
    style,
)
from accel.machine import Machine
from accel.measurement import format_seconds
from accel.plot.marks import drawable, end_label, limits, sentences, shapes, space_ends
from accel.plot.numbers import line_numbers
from accel.records import Record
from accel.units import format_bytes

__all__ = ["Line", "lines"]

_LOOKS: dict[str, dict[str, Any]] = {
    "measured": {"color": MEASURED, "linewidth": 1.2},
    "predicted": {"color": PREDICTED, "linestyle": (0, (4, 2)), "markerfacecolor": "none", "markeredgewidth": 1.3},
    "limit": {"color": INK, "linewidth": 0.8},
    "baseline": {"color": BASELINE, "linewidth": 1.2},
}


@dataclass(frozen=True)
class Line(Record):
    """Points of one line, and what they are."""

    name: str
    points: tuple[tuple[float, float], ...]
    role: str
    """``"measured"``, ``"predicted"``, ``"limit"`` or ``"baseline"``."""


@style()
def lines(
    drawn: Sequence[Line],
    *,
    title: str,
    xlabel: str,
    ylabel: str = "time",
    note: str = "",
    machine: str | Machine = "",
    threads: int = 1,
    x_text: Callable[[float], str] = lambda x: f"{x:,.0f}",
    y_text: Callable[[float], str] = format_seconds,
    alt: str | None = None,
) -> Chart:
    """Draw lines on two logarithmic axes, each with its name at its end.

    Parameters
    ----------
    note : str
        The small line below: where and when, and what the lines leave out.
    machine : Machine or str, optional
        What the numbers were measured on, or are predicted for; with it, they can be downloaded. In the CSV the columns
        have the labels of the axes as names, with times in seconds.
    x_text, y_text : callable
        Write a value on an axis.

    Raises
    ------
    ValueError
        If there is no line, one has no point or another role, or a value is not above zero.

    Examples
    --------
    >>> from accel.plot import Line, lines
    >>> chart = lines([Line("GELU", ((1, 2.0), (10, 0.3)), "predicted")], title="Faster", xlabel="workers")
    >>> chart.alt
    'Faster. GELU, predicted: 2 s at 1, 300 ms at 10.'
    """
    points = [point for line in drawn for point in line.points]
    if not drawn or not all(line.points for line in drawn):
        raise ValueError("lines() draws one line or more, each with a point or more.")
    if wrong := [line.role for line in drawn if line.role not in _LOOKS]:
        raise ValueError(f"a line is one of {', '.join(_LOOKS)}; got {wrong[0]!r}.")
    if not all(drawable(x) and drawable(y) for x, y in points):
        raise ValueError("lines() has logarithmic axes, so all values are finite and above zero.")
    figure, axes = blank()
    xlim, ylim = (limits((point[axis] for point in points), below=1.25, above=1.25) for axis in (0, 1))
    log_axis(axes.xaxis, xlim, _ticks([x for x, _ in points], xlim), x_text)
    in_bytes = y_text is format_bytes  # which writes powers of two, so the ticks are such
    log_axis(axes.yaxis, ylim, binary_ticks(*ylim) if in_bytes else log_ticks(*ylim), y_text)
    axes.set(xlabel=xlabel, ylabel=f"{ylabel} (log scale)")
    key: dict[str, Any] = {}
    for line, marker in zip(drawn, shapes(len(drawn)), strict=True):
        mark: dict[str, Any] = {} if line.role == "limit" else {"marker": marker, "markersize": 5.0}
        (key[line.role],) = axes.plot(*zip(*line.points, strict=True), **_LOOKS[line.role], **mark, clip_on=False)
    ends = [end_label(axes, line.name, *line.points[-1], _LOOKS[line.role]["color"]) for line in drawn]
    settle(figure, title=title, note=note, key=[(mark, role) for role, mark in key.items()])
    space_ends(axes, ends)
    told = (_tell(line, x_text, y_text) for line in drawn)
    labels = xlabel, "time (seconds)" if y_text is format_seconds else ylabel
    numbers = line_numbers(title, drawn, labels, machine, threads) if machine else None
    return Chart.from_figure(figure, title=title, alt=alt or sentences(title, *told), numbers=numbers)


def _ticks(values: Sequence[float], ends: tuple[float, float]) -> Sequence[float]:
    """Return the values themselves where they are few, and round numbers otherwise."""
    distinct = sorted(set(values))
    return distinct if len(distinct) <= 7 else log_ticks(*ends)


def _tell(line: Line, x_text: Callable[[float], str], y_text: Callable[[float], str]) -> str:
    ends = dict.fromkeys([line.points[0], line.points[-1]])
    return f"{line.name}, {line.role}: " + ", ".join(f"{y_text(y)} at {x_text(x)}" for x, y in ends)
