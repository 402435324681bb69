"""The latency chart: the time of one access against the working set, as measured."""

from __future__ import annotations

from accel.access import AccessCurve
from accel.figure import MEASURED, Chart, binary_ticks, blank, log_axis, log_ticks, settle, style
from accel.measurement import format_seconds
from accel.plot.marks import (
    SPREAD_NOTE,
    drawable,
    end_label,
    level_lines,
    limits,
    machine_line,
    sentences,
    shapes,
    space_ends,
)
from accel.plot.numbers import latency_numbers
from accel.units import format_bytes

__all__ = ["latency"]


@style()
def latency(*curves: AccessCurve, title: str, alt: str | None = None) -> Chart:
    """Draw the time of one access against the working set, for one pattern or several, with the sizes of the caches.

    Parameters
    ----------
    *curves : AccessCurve
        From `accel.access.latency` and `accel.access.bandwidth`, measured on one machine, each at two working sets or
        more.
    title : str
        The finding.

    Raises
    ------
    ValueError
        If there is no curve, one of fewer than two working sets, two of one pattern, or curves of several machines.
    """
    _check(curves)
    figure, axes = blank()
    xlim = limits((size for curve in curves for size in curve.working_set_bytes), below=1.25, above=1.25)
    ylim = limits((seconds * 1e9 for curve in curves for seconds in _all_seconds(curve)), below=1.4, above=1.6)
    log_axis(axes.xaxis, xlim, binary_ticks(*xlim, most=6), format_bytes)
    log_axis(axes.yaxis, ylim, log_ticks(*ylim), lambda value: f"{value:g}")
    axes.set(xlabel="working set (bytes)", ylabel="time per access (ns)")
    level_lines(axes, {cache.name: cache.size_bytes for cache in curves[0].caches})
    ends = []
    for curve, marker in zip(curves, shapes(len(curves)), strict=True):
        sizes, times = curve.working_set_bytes, [seconds * 1e9 for seconds in curve.seconds_per_access]
        middle = [[s * 1e9 / row.accesses for s in row.measured.quartiles_seconds] for row in curve.rows]
        axes.vlines(sizes, *zip(*middle, strict=True), color=MEASURED, alpha=0.4, linewidth=3.5, zorder=3)
        axes.plot(sizes, times, marker=marker, markersize=5.0, linewidth=0.8, color=MEASURED, clip_on=False, zorder=5)
        if len(curves) > 1:
            ends.append(end_label(axes, curve.pattern, sizes[-1], times[-1], MEASURED))
    settle(figure, title=title, note=f"{machine_line(curves[0].machine, 1)}. {SPREAD_NOTE}")
    space_ends(axes, ends)
    description = alt or sentences(title, *map(_tell, curves))
    return Chart.from_figure(figure, title=title, alt=description, numbers=latency_numbers(title, curves))


def _check(curves: tuple[AccessCurve, ...]) -> None:
    """Say what cannot be drawn."""
    if not curves:
        raise ValueError("latency() needs at least one curve; got none. Measure one with accel.access.latency().")
    patterns = [curve.pattern for curve in curves]
    if len(set(patterns)) < len(patterns):
        raise ValueError(f"latency() draws each pattern once; got {', '.join(patterns)}.")
    if len({(curve.machine, curve.caches) for curve in curves}) > 1:
        raise ValueError("latency() draws curves of one machine; got several.")
    for curve in curves:
        if len(curve.rows) < 2:
            raise ValueError(f"latency() needs two working sets or more; {curve.pattern!r} has {len(curve.rows)}.")
        if not all(drawable(seconds) for seconds in curve.seconds_per_access):
            raise ValueError(f"latency() draws times above zero; {curve.pattern!r} has one that is not.")


def _all_seconds(curve: AccessCurve) -> list[float]:
    """Return every time for one access that is drawn."""
    return [
        s / row.accesses for row in curve.rows for s in (row.measured.best_seconds, *row.measured.quartiles_seconds)
    ]


def _tell(curve: AccessCurve) -> str:
    """Tell the time of an access in the largest working set measured that each cache holds, and in the largest."""
    told = {
        size: f"{format_seconds(seconds)} at {format_bytes(size)}"
        for size, seconds in zip(curve.working_set_bytes, curve.seconds_per_access, strict=True)
    }
    held = [[size for size in told if size <= cache.size_bytes] for cache in curve.caches]
    shown = dict.fromkeys([*(sizes[-1] for sizes in held if sizes), curve.working_set_bytes[-1]])
    return f"{curve.pattern}: " + ", ".join(told[size] for size in shown)
