"""The bar chart that grows by a bar at each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from accel.comparison import Comparison, Row
from accel.figure import BASELINE, INK, MEASURED, SMALL, Chart, blank, log_axis, log_ticks, settle, style
from accel.measurement import format_seconds
from accel.plot.marks import PREDICTED_MARK, SPREAD_NOTE, check_times, conditions_line, is_time, sentences
from accel.plot.numbers import comparison_numbers
from accel.units import TIME, format_number, unit_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["even_ticks", "steps", "swatch"]

LOG_BEYOND = 30
"""Ratio of the longest time to the shortest from which short bars would not show on a linear axis."""
BASELINE_BAR: dict[str, Any] = {"facecolor": "none", "edgecolor": BASELINE, "hatch": "////", "linewidth": 1.0}
"""Hatched, so that not color alone tells it from the others."""


@style()
def steps(
    comparison: Comparison,
    *,
    title: str,
    base: str | None = None,
    shown: int | None = None,
    alt: str | None = None,
) -> Chart:
    """Draw a bar for each row, in the order given, with its speed-up over the first.

    Parameters
    ----------
    base : str, optional
        Name of the row that speed-ups refer to; the first unless given. Its bar is grey and hatched.
    shown : int, optional
        How many rows to show; the axes stay those of all rows, so that bars can be added one by one.

    Raises
    ------
    ValueError
        If there is no row, `shown` is not between 1 and their number, or a measured time is none: zero, not finite.
    KeyError
        If no row is named `base`.
    """
    rows = comparison.rows
    count = len(rows) if shown is None else shown
    if not rows or not 1 <= count <= len(rows):
        raise ValueError(f"steps() shows between 1 and all rows of a comparison; got {count} of {len(rows)}.")
    check_times(rows, "steps")
    base_row = rows[0] if base is None else comparison.named(base)[0]
    names = _step_names(rows)
    figure, axes = blank(height=len(rows) * 27.0 + 46.0)
    seconds = [
        s for row in rows for s in (*row.measured.quartiles_seconds, row.measured_seconds, row.predicted_seconds)
    ]
    _time_scale(axes, [s for s in seconds if is_time(s)])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), names)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    key = _draw_bars(axes, rows[:count], base_row)
    for index, row in enumerate(rows):
        _write_step(axes, index, row, base_row)
    settle(figure, title=title, note=f"{conditions_line(comparison)}. {SPREAD_NOTE}", key=key)
    axes.set_yticks(range(count), names[:count])  # those of all rows had their say in the layout
    for text in axes.texts[count:]:
        text.remove()
    told = (_tell_step(name, row, base_row) for name, row in zip(names[:count], rows, strict=False))
    description = alt or sentences(title, *told)
    return Chart.from_figure(figure, title=title, alt=description, numbers=comparison_numbers(title, comparison))


def _step_names(rows: Sequence[Row]) -> list[str]:
    """Name the bars; with the size where one function has several."""
    times = Counter(row.name for row in rows)
    return [row.name if times[row.name] == 1 else f"{row.name}, {row.size:,}" for row in rows]


def _time_scale(axes: Axes, seconds: Sequence[float]) -> None:
    """Start the axis at zero, or make it logarithmic where the times are too far apart for that."""
    low, high = min(seconds), max(seconds)
    if high / low > LOG_BEYOND:
        ends = (low / 2.5, high * 1.2)
        log_axis(axes.xaxis, ends, log_ticks(*ends), format_seconds)
        axes.set_xlabel("time per call (log scale)")
        return
    unit, size = unit_for([high / 10], TIME)
    axes.set(xlim=(0, high * 1.05), xlabel=f"time per call ({unit})")
    ticks = [tick for tick in even_ticks(high / size) if tick * size <= high * 1.05]
    axes.set_xticks([tick * size for tick in ticks], [f"{tick:g}" for tick in ticks])


def even_ticks(high: float) -> Sequence[float]:
    """Return round numbers from zero to `high`, evenly apart."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(0, high)


def _draw_bars(axes: Axes, rows: Sequence[Row], base_row: Row) -> list[tuple[Any, str]]:
    """Draw the bars with their predictions; return the key."""
    from matplotlib.patches import Patch

    left = axes.get_xlim()[0]
    key: dict[str, Any] = {}
    for index, row in enumerate(rows):
        look = BASELINE_BAR if row is base_row else {"color": MEASURED}
        axes.barh(index, row.measured_seconds - left, left=left, height=0.56, zorder=2, **look)
        axes.hlines(index, *row.measured.quartiles_seconds, color=INK, linewidth=1.2, alpha=0.75, zorder=3)
        if is_time(row.predicted_seconds):
            (key["predicted"],) = axes.plot([row.predicted_seconds], [index], **PREDICTED_MARK, zorder=4)
    swatches = [(swatch(MEASURED), "measured"), (Patch(**BASELINE_BAR), "baseline")]
    return [*swatches, *((mark, word) for word, mark in key.items())]


def swatch(color: str) -> Any:
    """Return a square that stands for a bar in the key."""
    from matplotlib.lines import Line2D

    return Line2D([], [], marker="s", markersize=7, color=color, linestyle="none")


def _write_step(axes: Axes, index: int, row: Row, base_row: Row) -> None:
    """Write time and speed-up at the end of a bar."""
    ends = (row.measured_seconds, row.measured.quartiles_seconds[1], row.predicted_seconds)
    text = format_seconds(row.measured_seconds)
    if row is not base_row:
        text += f"\u2003{_speed_up(row, base_row, 'faster', 'slower')}"
    axes.annotate(
        text,
        (max(end for end in ends if is_time(end)), index),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=SMALL,
        annotation_clip=False,
    )


def _speed_up(row: Row, base_row: Row, faster: str, slower: str) -> str:
    """Say by how many times a row differs from the base, and which way."""
    ratio = base_row.measured_seconds / row.measured_seconds
    return f"{format_number(max(ratio, 1 / ratio), digits=2)}× {faster if ratio >= 1 else slower}"


def _tell_step(name: str, row: Row, base_row: Row) -> str:
    told = f"{name}: measured {format_seconds(row.measured_seconds)}"
    if is_time(row.predicted_seconds):
        told += f", predicted {format_seconds(row.predicted_seconds)}"
    return told if row is base_row else f"{told}, {_speed_up(row, base_row, 'faster', 'slower')} than {base_row.name}"
