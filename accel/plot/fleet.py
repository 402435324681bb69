"""Charts of a fleet: the roofs of all its workers in one chart, and what its network takes by size of message."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from accel.figure import (
    BASELINE,
    MEASURED,
    PREDICTED,
    SMALL,
    Chart,
    binary_ticks,
    blank,
    log_axis,
    log_ticks,
    settle,
    style,
)
from accel.labels import Labels
from accel.plot.marks import drawable, limits, prefix_for, sentences
from accel.plot.roofline import NETWORK_COLOR
from accel.units import TIME, format_bytes, format_decimal, unit_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from accel.fleet.records import Fleet, FleetWorker, Network

__all__ = ["fleet_rooflines", "network"]

LOOKS: tuple[tuple[str, Any], ...] = ((MEASURED, (4, 1.5)), (PREDICTED, (1.5, 1.5)), ("#008F67", (6, 1.5, 1.5, 1.5)))
"""Color and dashes of workers that stand out; further ones have the last look."""


@style()
def fleet_rooflines(
    fleet: Fleet,
    *,
    title: str,
    dtype: str = "float32",
    highlight: Sequence[str] | None = None,
    alt: str | None = None,
) -> Chart:
    """Draw the hierarchical rooflines of all workers over each other, one thread each, and the network's roof.

    Most workers are grey and lie on each other. Those that stand out have a color, dashes and their name.

    Parameters
    ----------
    highlight : sequence of str, optional
        Names of the workers to tell apart; by default those with a slow processor or memory, as
        `accel.fleet.outliers` finds them.

    Raises
    ------
    KeyError
        If a name to highlight is none of a worker.
    """
    from accel.fleet.comparison import outliers

    if highlight is None:
        slow = (found for found in outliers(fleet) if found.what in ("slow compute", "slow memory"))
        highlight = tuple(dict.fromkeys(found.worker for found in slow))
    marked = [fleet.worker(name) for name in highlight]
    usual = [worker for worker in fleet.workers if worker not in marked]
    rate = fleet.network.bandwidth_bytes_per_second if fleet.network else None
    figure, axes = blank()
    peaks = {worker.name: worker.machine.peak_flops_per_second(dtype) for worker in fleet.workers}
    _frame(axes, fleet, peaks, rate)
    key: list[tuple[Any, str]] = []
    for worker in usual:
        line = _draw(axes, worker, peaks[worker.name], color=BASELINE, linewidth=1.0)
        key = [(line, _counted(len(usual), "other" if marked else "worker"))]
    looks = [LOOKS[min(place, len(LOOKS) - 1)] for place in range(len(marked))]
    for worker, (color, dashes) in zip(marked, looks, strict=True):
        key.append((_draw(axes, worker, peaks[worker.name], color=color, linewidth=1.6, dashes=dashes), worker.name))
    if rate is not None:
        key.append((_draw_network(axes, max(peaks.values()), rate), "network"))
    note = f"{_counted(len(fleet.workers), 'worker')} on {_counted(len(fleet.hosts), 'host')}, 1 thread, {dtype}"
    settle(figure, title=title, note=note, key=key)
    _label(axes, usual or marked, peaks, rate)
    told = [_tell(worker, peaks[worker.name]) for worker in (*marked, *usual[:1])]
    return Chart.from_figure(figure, title=title, alt=alt or sentences(title, *told, *_tell_network(fleet, peaks)))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _frame(axes: Axes, fleet: Fleet, peaks: Mapping[str, float], rate: float | None) -> None:
    """Set the axes so that every ridge shows."""
    ridges = [peaks[w.name] / b for w in fleet.workers for b in w.machine.level_bandwidths().values()]
    ridges += [max(peaks.values()) / rate] if rate else []
    prefix, scale = prefix_for(max(peaks.values()))
    xlim = limits(ridges, below=8.0, above=4.0)
    ylim = limits(peaks.values(), below=30.0, above=2.2)
    log_axis(axes.xaxis, xlim, binary_ticks(*xlim), lambda x: f"{x:g}" if x >= 1 else f"1/{1 / x:g}")
    log_axis(axes.yaxis, ylim, log_ticks(*ylim), lambda y: f"{y / scale:g}")
    per = "byte of memory, or of network" if rate else "byte"
    axes.set(xlabel=f"arithmetic intensity (FLOP/{per})", ylabel=f"performance ({prefix}FLOP/s)")


def _slant(axes: Axes, rate: float, peak: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return where a slanted roof enters the axes, and its ridge point."""
    x = max(axes.get_xlim()[0], axes.get_ylim()[0] / rate)
    return (x, x * rate), (peak / rate, peak)


def _draw(axes: Axes, worker: FleetWorker, peak: float, **look: Any) -> Any:
    levels = worker.machine.level_bandwidths().values()
    for rate in levels:
        axes.plot(*zip(*_slant(axes, rate, peak), strict=True), **look)
    return axes.plot([peak / max(levels), axes.get_xlim()[1]], [peak, peak], **look)[0]


def _draw_network(axes: Axes, peak: float, rate: float) -> Any:
    color = NETWORK_COLOR["network"]
    start, ridge = _slant(axes, rate, peak)
    axes.plot(*zip(start, ridge, strict=True), color=color, linewidth=1.6, dashes=(5, 2))
    return axes.plot([ridge[0]], [ridge[1]], "s", color=color, markersize=5.0, markerfacecolor="none", zorder=4)[0]


def _label(axes: Axes, workers: Sequence[FleetWorker], peaks: Mapping[str, float], rate: float | None) -> None:
    """Name the levels on the lines of the typical worker, and the network on its own."""
    typical = sorted(workers, key=lambda worker: peaks[worker.name])[len(workers) // 2]
    peak, levels = peaks[typical.name], typical.machine.level_bandwidths()
    labels = Labels(axes)
    named = levels | ({"network": rate} if rate else {})
    for value in named.values():
        labels.avoid_line(*zip(*_slant(axes, value, peak), strict=True))
    right = (axes.get_xlim()[1], peak)
    labels.along(
        format_decimal(peak, "FLOP/s"), (peak / max(levels.values()), peak), right, from_end=True, fontsize=SMALL
    )
    for level, value in named.items():
        color = NETWORK_COLOR.get(level, BASELINE)
        text = f"{level} {format_decimal(value, 'B/s')}"
        labels.along(text, *_slant(axes, value, peak), fontsize=SMALL, color=color, fontweight="bold")


def _tell(worker: FleetWorker, peak: float) -> str:
    levels = worker.machine.level_bandwidths().items()
    roofs = ", ".join(f"{level} {format_decimal(rate, 'B/s')}" for level, rate in levels)
    return f"{worker.name}: peak {format_decimal(peak, 'FLOP/s')}, {roofs}"


def _tell_network(fleet: Fleet, peaks: Mapping[str, float]) -> list[str]:
    if fleet.network is None:
        return []
    rate = fleet.network.bandwidth_bytes_per_second
    ridge = max(peaks.values()) / rate
    return [f"Network {format_decimal(rate, 'B/s')} with its ridge at {ridge:.3g} FLOP/byte"]


@style()
def network(measured: Network, *, title: str, alt: str | None = None) -> Chart:
    """Draw what a message takes by its size: each link, and the median of all.

    Raises
    ------
    ValueError
        If a time is not a positive number.
    """
    curves = [link.seconds for link in measured.links] or [measured.seconds]
    values = [seconds for curve in curves for seconds in curve]
    if not all(map(drawable, values)):
        raise ValueError(f"network() draws times of transfers, which are positive; got {values}.")
    figure, axes = blank()
    unit, scale = unit_for(values, TIME)
    xlim, ylim = limits(measured.sizes_bytes), limits([s / scale for s in values])
    log_axis(axes.xaxis, xlim, binary_ticks(*xlim), format_bytes)
    log_axis(axes.yaxis, ylim, log_ticks(*ylim), lambda y: f"{y:g}")
    axes.set(xlabel="size of the message", ylabel=f"time from request to arrival ({unit})")
    for curve in curves:
        (each,) = axes.plot(measured.sizes_bytes, [s / scale for s in curve], color=BASELINE, linewidth=1.0)
    middle = [statistics.median(column) / scale for column in zip(*curves, strict=True)]
    (dots,) = axes.plot(measured.sizes_bytes, middle, "o", color=MEASURED)
    where = "workers on one host" if measured.same_host else "workers on different hosts"
    settle(
        figure,
        title=title,
        note=f"{_counted(len(curves), 'link')}, {where}",
        key=[(dots, "median link"), (each, "each link")],
    )
    told = [f"{format_bytes(size)}: {time:.3g} {unit}" for size, time in zip(measured.sizes_bytes, middle, strict=True)]
    return Chart.from_figure(figure, title=title, alt=alt or sentences(title, "Median link", *told))
