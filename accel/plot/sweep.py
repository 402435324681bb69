"""The scaling chart: a sweep over sizes, measured beside predicted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from accel.comparison import Comparison, Row
from accel.figure import BASELINE, MEASURED, PREDICTED, Chart, binary_ticks, blank, log_axis, log_ticks, settle, style
from accel.measurement import format_seconds
from accel.plot.marks import (
    SPREAD_NOTE,
    check_times,
    conditions_line,
    drawable,
    end_label,
    is_time,
    level_lines,
    limits,
    prefix_for,
    sentences,
    shapes,
    space_ends,
)
from accel.plot.numbers import comparison_numbers
from accel.units import format_bytes, format_decimal, format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["scaling"]

_PREDICTED_LINE: dict[str, Any] = {"color": PREDICTED, "linestyle": (0, (4, 2)), "linewidth": 1.6}
_TEXTBOOK_LINE: dict[str, Any] = {"color": BASELINE, "linestyle": ":", "linewidth": 1.2}


@dataclass(frozen=True)
class _Quantity:
    """What a scaling chart can show of a row, given how long it took."""

    label: str
    unit: str
    of: Callable[[Row, float], float]
    needs: str = ""

    def axis(self, values: Sequence[float]) -> tuple[str, Callable[[float], str]]:
        """Return the axis label and how its ticks are written."""
        if self.unit == "s":
            return f"{self.label} (log scale)", format_seconds
        prefix, scale = ("", 1.0) if self.unit == "ns" else prefix_for(max(values))
        return f"{self.label} ({prefix}{self.unit})", lambda value: f"{value / scale:g}"

    def tell(self, value: float) -> str:
        """Write one value with its unit."""
        if self.unit == "s":
            return format_seconds(value)
        return f"{format_number(value)} ns" if self.unit == "ns" else format_decimal(value, self.unit)


_QUANTITIES = {
    "seconds": _Quantity("time per call", "s", lambda _, seconds: seconds),
    "flops_per_second": _Quantity("performance", "FLOP/s", lambda row, seconds: row.cost.flops / seconds, "FLOPs"),
    "bytes_per_second": _Quantity(
        "bandwidth", "B/s", lambda row, seconds: row.cost.bytes_algorithmic / seconds, "bytes"
    ),
    "nanoseconds_per_element": _Quantity("time per element", "ns", lambda row, seconds: seconds / row.size * 1e9),
}
_SIZE_LABELS: dict[str, Callable[[float], str]] = {
    "bytes": format_bytes,
    "elements": lambda size: format_decimal(size),
    "N": lambda size: f"{size:g}",
}


@style()
def scaling(
    comparison: Comparison,
    *,
    title: str,
    xlabel: str,
    quantity: str = "seconds",
    size_unit: str = "elements",
    caches: Mapping[str, float] | None = None,
    baseline: str | None = None,
    textbook: bool = True,
    alt: str | None = None,
) -> Chart:
    """Draw a sweep over sizes: measured, predicted and textbook, with a shape for each function.

    Parameters
    ----------
    quantity : {"seconds", "flops_per_second", "bytes_per_second", "nanoseconds_per_element"}
        What the vertical axis shows.
    size_unit : {"elements", "bytes", "N"}
        What `Row.size` counts, which decides how sizes are written: ``1 M``, ``1 MB``, ``1024``.
    caches : mapping of str to float, optional
        Level to the size, in the unit of the sweep, at which the working set fills that level.
    baseline : str, optional
        The function that the others are compared with; drawn in grey.
    textbook : bool
        Whether to draw the textbook roofline; without it the axis need not reach down to that bound.

    Raises
    ------
    ValueError
        If an option is unknown, no function has two sizes, a size is not positive, a measured time is none, or a row
        lacks what the quantity divides.
    """
    numbers = comparison_numbers(title, comparison)
    shown = _check_scaling(comparison, quantity, size_unit, baseline)
    if not textbook:
        comparison = replace(comparison, rows=tuple(replace(row, textbook_seconds=math.nan) for row in comparison.rows))
    figure, axes = blank()
    values = [value for row in comparison.rows for value in _all_values(shown, row)]
    xlim = limits((row.size for row in comparison.rows), below=1.25, above=1.25)
    ylim = limits(values, below=1.6, above=1.6)
    ylabel, tick_label = shown.axis(values)
    _, scale = prefix_for(max(values)) if shown.unit not in ("s", "ns") else ("", 1.0)
    log_axis(axes.xaxis, xlim, _size_ticks(comparison, size_unit, xlim), _SIZE_LABELS[size_unit])
    log_axis(axes.yaxis, ylim, [tick * scale for tick in log_ticks(ylim[0] / scale, ylim[1] / scale)], tick_label)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    level_lines(axes, caches or {})
    key = _draw_sweeps(axes, comparison, shown, baseline)
    ends = _write_ends(axes, comparison, shown, baseline)
    settle(figure, title=title, note=f"{conditions_line(comparison)}. {SPREAD_NOTE}", key=key)
    space_ends(axes, ends)
    told = (_tell_sweep(name, comparison.named(name), shown, size_unit) for name in comparison.names)
    return Chart.from_figure(figure, title=title, alt=alt or sentences(title, *told), numbers=numbers)


def _check_scaling(comparison: Comparison, quantity: str, size_unit: str, baseline: str | None) -> _Quantity:
    """Return the quantity, or say what cannot be drawn."""
    if quantity not in _QUANTITIES:
        raise ValueError(f"scaling() shows one of {', '.join(_QUANTITIES)}; got {quantity!r}.")
    if size_unit not in _SIZE_LABELS:
        raise ValueError(f"sizes are counted in one of {', '.join(_SIZE_LABELS)}; got {size_unit!r}.")
    if baseline is not None:
        comparison.named(baseline)
    if max((len(comparison.named(name)) for name in comparison.names), default=0) < 2:
        raise ValueError(
            f"scaling() needs a function measured at two sizes or more; got {len(comparison.rows)} row(s). "
            "Use plot.steps() to compare functions at one size."
        )
    shown = _QUANTITIES[quantity]
    check_times(comparison.rows, "scaling")
    for row in comparison.rows:
        if row.size < 1:
            raise ValueError(f"scaling() has a logarithmic axis of sizes; {row.name!r} has size {row.size}.")
        if not drawable(shown.of(row, row.measured_seconds)):
            raise ValueError(
                f"{quantity} needs a positive count of {shown.needs or 'elements'}; {row.name!r} at size {row.size} "
                "has none. Choose another quantity."
            )
    return shown


def _all_values(shown: _Quantity, row: Row) -> list[float]:
    """Return every drawable value that a row contributes to the vertical axis."""
    seconds = (row.measured_seconds, *row.measured.quartiles_seconds, row.predicted_seconds, row.textbook_seconds)
    return [shown.of(row, s) for s in seconds if is_time(s)]


def _size_ticks(comparison: Comparison, size_unit: str, xlim: tuple[float, float]) -> list[float]:
    """Return powers of two for bytes, and for N where every N is one; round decimals otherwise."""
    sizes = {row.size for row in comparison.rows}
    if size_unit == "bytes" or (size_unit == "N" and all(size & (size - 1) == 0 for size in sizes)):
        return binary_ticks(*xlim, most=6)
    return log_ticks(*xlim)


def _draw_sweeps(axes: Axes, comparison: Comparison, shown: _Quantity, baseline: str | None) -> list[tuple[Any, str]]:
    """Draw every function; return the key."""
    key: dict[str, Any] = {}
    textbooks: set[tuple[tuple[float, float], ...]] = set()
    for name, marker in zip(comparison.names, shapes(len(comparison.names)), strict=True):
        rows = comparison.named(name)
        word, color = ("baseline", BASELINE) if name == baseline else ("measured", MEASURED)
        key.setdefault(word, _draw_measured(axes, rows, shown, marker, color))
        predicted, textbook = (
            tuple((row.size, shown.of(row, s)) for row, s in zip(rows, seconds, strict=True) if is_time(s))
            for seconds in ([row.predicted_seconds for row in rows], [row.textbook_seconds for row in rows])
        )
        if predicted:
            (key["predicted"],) = axes.plot(*zip(*predicted, strict=True), zorder=4, **_PREDICTED_LINE)
        if textbook and textbook not in textbooks:
            (key["textbook roofline"],) = axes.plot(*zip(*textbook, strict=True), zorder=4, **_TEXTBOOK_LINE)
            textbooks.add(textbook)
    order = ("measured", "baseline", "predicted", "textbook roofline")
    return [(key[word], word) for word in order if word in key]


def _draw_measured(axes: Axes, rows: Sequence[Row], shown: _Quantity, marker: str, color: str) -> Any:
    """Draw the best sample at each size, and a bar over the middle half of the samples."""
    quartiles = [[shown.of(row, s) for s in row.measured.quartiles_seconds] for row in rows]
    sizes = [row.size for row in rows]
    best = [shown.of(row, row.measured_seconds) for row in rows]
    axes.vlines(sizes, *zip(*quartiles, strict=True), color=color, alpha=0.4, linewidth=3.5, zorder=3)
    look: dict[str, Any] = {"color": color, "marker": marker, "linewidth": 0.8, "markersize": 5.5, "clip_on": False}
    (line,) = axes.plot(sizes, best, zorder=5, **look)
    return line


def _write_ends(axes: Axes, comparison: Comparison, shown: _Quantity, baseline: str | None) -> list[Any]:
    """Name each function right of the axes, at the height of its last point."""
    if len(comparison.names) == 1:
        return []
    ends = []
    for name in comparison.names:
        last = comparison.named(name)[-1]
        color = BASELINE if name == baseline else MEASURED
        ends.append(end_label(axes, name, last.size, shown.of(last, last.measured_seconds), color))
    return ends


def _tell_sweep(name: str, rows: Sequence[Row], shown: _Quantity, size_unit: str) -> str:
    first, last = rows[0], rows[-1]
    ends = " to ".join(
        f"{shown.tell(shown.of(row, row.measured_seconds))} at {_SIZE_LABELS[size_unit](row.size)}"
        for row in (first, last)
    )
    predicted = [abs(row.error_fraction) for row in rows if is_time(row.predicted_seconds)]
    error = f", median error of the prediction {statistics.median(predicted):.0%}" if predicted else ""
    return f"{name}: measured {ends}{error}"
