"""The chart of measured times against predicted times."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from accel.comparison import Comparison, Row
from accel.figure import BASELINE, INK, MEASURED, Chart, blank, log_axis, log_ticks, settle, style
from accel.labels import Labels
from accel.measurement import format_seconds
from accel.plot.marks import check_times, conditions_line, is_time, limits, sentences, shapes
from accel.plot.numbers import comparison_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["measured_against_predicted"]

MOST_NAMES = 8
"""With more functions than this, their names would cover the points."""


@style()
def measured_against_predicted(comparison: Comparison, *, title: str, alt: str | None = None) -> Chart:
    """Draw each measured time against its predictions: the closer to the line, the better.

    The textbook roofline (FLOPs or DRAM bytes, whichever takes longer) is drawn beside the project's own model.

    Raises
    ------
    ValueError
        If there are fewer than two rows with a positive, finite prediction, or a measured time of theirs is none.
    """
    rows = [row for row in comparison.rows if is_time(row.predicted_seconds)]
    if len(rows) < 2:
        raise ValueError(
            f"measured_against_predicted() needs two rows or more with a positive, finite prediction; got {len(rows)} "
            f"among {len(comparison.rows)}."
        )
    check_times(rows, "measured_against_predicted")
    figure, axes = blank(height=255.0)
    seconds = [s for row in rows for s in (row.measured_seconds, row.predicted_seconds, row.textbook_seconds)]
    span = limits(filter(is_time, seconds))
    for axis in (axes.xaxis, axes.yaxis):
        log_axis(axis, span, log_ticks(*span), format_seconds)
    axes.set(xlabel="predicted time per call", ylabel="measured time per call")
    key = _draw_agreement(axes, rows, comparison.names)
    finding = _tell_errors(rows)
    note = f"{finding}. {conditions_line(comparison)}"
    settle(figure, title=title, note=note, key=key)
    _label_agreement(axes, rows, comparison.names)
    description = alt or sentences(title, finding, *map(_tell_row, rows))
    return Chart.from_figure(figure, title=title, alt=description, numbers=comparison_numbers(title, comparison))


def _draw_agreement(axes: Axes, rows: Sequence[Row], names: Sequence[str]) -> list[tuple[Any, str]]:
    low, high = axes.get_xlim()
    (line,) = axes.plot([low, high], [low, high], color=INK, linewidth=0.9, zorder=2)
    axes.fill_between([low, high], [low / 1.2, high / 1.2], [low * 1.2, high * 1.2], color=INK, alpha=0.1, linewidth=0)
    textbook = [row for row in rows if is_time(row.textbook_seconds)]
    (cross,) = axes.plot(
        [row.textbook_seconds for row in textbook],
        [row.measured_seconds for row in textbook],
        "x",
        color=BASELINE,
        markersize=5,
        zorder=3,
    )
    for name, marker in zip(names, shapes(len(names)), strict=True):
        own = [row for row in rows if row.name == name]
        axes.plot(
            [row.predicted_seconds for row in own],
            [row.measured_seconds for row in own],
            marker,
            color=MEASURED,
            markersize=6.5,
            zorder=4,
        )
    (dot,) = axes.plot([], [], "o", color=MEASURED, markersize=6.5)
    return [(dot, "this model"), (cross, "textbook roofline"), (line, "equal, ±20 %")]


def _label_agreement(axes: Axes, rows: Sequence[Row], names: Sequence[str]) -> None:
    """Name each function beside its largest size."""
    labels = Labels(axes)
    low, high = axes.get_xlim()
    labels.avoid_line((low, high), (low, high))
    for row in rows:
        labels.avoid_marker(row.predicted_seconds, row.measured_seconds)
        if is_time(row.textbook_seconds):
            labels.avoid_marker(row.textbook_seconds, row.measured_seconds, radius=3)
    if 1 < len(names) <= MOST_NAMES:
        for name in names:
            own = [row for row in rows if row.name == name]
            for row in sorted(own, key=lambda row: row.size)[-1:]:
                labels.beside(name, row.predicted_seconds, row.measured_seconds)


def _tell_errors(rows: Sequence[Row]) -> str:
    errors = sorted(abs(row.error_fraction) for row in rows)
    within = sum(error <= 0.2 for error in errors)
    return f"Median error {statistics.median(errors):.0%}; {within} of {len(rows)} predictions within 20 %"


def _tell_row(row: Row) -> str:
    told = f"{row.name} at {row.size}: measured {format_seconds(row.measured_seconds)}"
    if is_time(row.predicted_seconds):
        told += f", predicted {format_seconds(row.predicted_seconds)} ({row.error_fraction:+.0%}, {row.bound_by})"
    return told
