"""Marks: what the charts share, from marker shapes to the words of their descriptions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from accel.figure import PREDICTED, SMALL, level_colors
from accel.labels import spread
from accel.units import DECIMAL, format_threads

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from accel.comparison import Comparison, Row

__all__ = [
    "PREDICTED_MARK",
    "SPREAD_NOTE",
    "check_times",
    "conditions_line",
    "drawable",
    "end_label",
    "is_time",
    "level_lines",
    "limits",
    "machine_line",
    "prefix_for",
    "sentences",
    "shapes",
    "space_ends",
]

MARKERS = "osv^Dphd<>"
"""Shapes that tell functions apart where they share a color."""
PREDICTED_MARK: dict[str, Any] = {
    "marker": "D",
    "color": PREDICTED,
    "markerfacecolor": "none",
    "markeredgewidth": 1.4,
    "markersize": 8.0,
    "clip_on": False,
    "linestyle": "none",
}
SHORTEST_SECONDS, LONGEST_SECONDS = 1e-15, 1e15
"""Beyond these a number of seconds is no time that anything took, and overflows on its way to an axis."""
SPREAD_NOTE = "Best sample; whiskers span the middle half."


def drawable(value: float | None) -> TypeGuard[float]:
    """Whether a value has a place on a logarithmic axis."""
    return value is not None and math.isfinite(value) and value > 0


def is_time(seconds: float | None) -> TypeGuard[float]:
    """Whether a number of seconds is one that a call can take."""
    return seconds is not None and SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS


def check_times(rows: Iterable[Row], caller: str) -> None:
    """Raise ValueError for a row whose measured time has no place in a chart."""
    for row in rows:
        for seconds in (row.measured_seconds, *row.measured.quartiles_seconds):
            if not is_time(seconds):
                raise ValueError(
                    f"{caller}() draws times of {SHORTEST_SECONDS:g} s and more; {row.name!r} at size {row.size} was "
                    f"measured at {seconds:g} s. Measure it again, or leave it out."
                )


def limits(values: Iterable[float], below: float = 1.5, above: float = 1.5) -> tuple[float, float]:
    """Return limits that leave a margin around the values and span a factor of four at least."""
    shown = [value for value in values if drawable(value)]
    low, high = min(shown) / below, max(shown) * above
    widen = max(1.0, math.sqrt(4 * low / high))
    return low / widen, high * widen


def prefix_for(largest: float) -> tuple[str, float]:
    """Return the decimal prefix that suits the largest value of an axis."""
    return next(((name, size) for name, size in DECIMAL if largest >= size), DECIMAL[-1])


def machine_line(machine: str, threads: int) -> str:
    """Name the machine and the threads, for the small line below a chart."""
    return f"{machine} · {format_threads(threads)}"


def conditions_line(comparison: Comparison) -> str:
    """Name the machine and threads, and say where it ran slower than when it was calibrated."""
    line = machine_line(comparison.machine, comparison.threads)
    return f"{line}; {comparison.speed_note}" if comparison.speed_note else line


def sentences(*parts: str) -> str:
    """Join parts into one description, each ending with a full stop."""
    return " ".join(part if part.endswith(".") else f"{part}." for part in parts if part)


def shapes(count: int) -> list[str]:
    """Return a marker for each of `count` functions; beyond ten they repeat."""
    return [MARKERS[i % len(MARKERS)] for i in range(count)]


def level_lines(axes: Axes, caches: Mapping[str, float]) -> None:
    """Draw a line where each cache is full, named at its top."""
    low, high = axes.get_xlim()
    for (level, size), color in zip(caches.items(), level_colors(max(4, len(caches))), strict=False):
        if low < size < high:
            axes.axvline(size, color=color, linewidth=1.0, zorder=1)
            axes.annotate(
                f"{level} ",
                (size, 1.0),
                xycoords=axes.get_xaxis_transform(),
                xytext=(-1, -1),
                textcoords="offset points",
                ha="right",
                va="top",
                fontsize=SMALL,
                fontweight="bold",
                color=color,
            )


def end_label(axes: Axes, text: str, x: float, y: float, color: str) -> Any:
    """Write a curve's name right of the axes, with a thin line to the curve's last point."""
    return axes.annotate(
        text,
        (x, y),
        xytext=(1.03, y),
        textcoords=axes.get_yaxis_transform(),
        va="center",
        color=color,
        fontsize=SMALL + 0.5,
        annotation_clip=False,
        arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.6, "alpha": 0.6, "shrinkA": 1, "shrinkB": 4},
    )


def space_ends(axes: Axes, ends: Sequence[Any]) -> None:
    """Move labels at the right apart, now that the layout is final."""
    to_points = axes.transData
    wanted = [to_points.transform(end.xy)[1] for end in ends]
    for end, height in zip(ends, spread(wanted, SMALL * 1.35), strict=True):
        end.set_position((1.03, to_points.inverted().transform((0, height))[1]))
