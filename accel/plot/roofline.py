"""The roofline chart: kernels under a roof for each memory level and each peak."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from accel.figure import (
    BASELINE,
    INK,
    MEASURED,
    SMALL,
    Chart,
    binary_ticks,
    blank,
    level_colors,
    log_axis,
    log_ticks,
    settle,
    style,
)
from accel.labels import Labels
from accel.machine import Machine
from accel.plot.marks import PREDICTED_MARK, drawable, limits, machine_line, prefix_for, sentences
from accel.plot.numbers import roofline_numbers
from accel.units import format_decimal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["NETWORK_COLOR", "Position", "roofline"]

NETWORK_COLOR = {"network": "#B0578A"}
"""The reddish purple of the Okabe-Ito palette, darker, so that it stands out from white as from black."""


class Position(Protocol):
    """Where a kernel stands under the roofs, as `accel.roofline` finds it."""

    @property
    def name(self) -> str:
        """The kernel."""

    @property
    def intensity_flops_per_byte(self) -> float:
        """FLOPs over bytes."""

    @property
    def measured_flops_per_second(self) -> float | None:
        """None where it was not run."""

    @property
    def predicted_flops_per_second(self) -> float | None:
        """None where it was not predicted."""


@style()
def roofline(
    peaks: Mapping[str, float],
    bandwidths: Mapping[str, float],
    points: Sequence[Position],
    *,
    title: str,
    machine: str | Machine,
    threads: int,
    room_for: Sequence[Position] = (),
    network: float | None = None,
    alt: str | None = None,
) -> Chart:
    """Draw kernels under a roof for each memory level and each peak, and for the network where there is one.

    Parameters
    ----------
    peaks : mapping of str to float
        Label, such as ``"float32 peak"``, to FLOP/s.
    bandwidths : mapping of str to float
        Memory level, such as ``"L1"`` or ``"DRAM"``, to bytes/s.
    points : sequence of Position
        Kernels: name, FLOP/byte, and FLOP/s measured, predicted or both.
    machine : Machine or str
        What was measured on. With no more than its name, the numbers of the chart have the time of drawing.
    room_for : sequence of Position, optional
        Places that the axes include and the chart does not show, so that the frames of a slider share their axes.
    network : float, optional
        Bytes/s between workers. Its roof is slanted over the FLOPs for each byte that is moved between them: a kernel
        has one place by its bytes of memory and another by its bytes of network, and the lower of the two roofs counts.

    Raises
    ------
    ValueError
        If a roof is missing or is not a positive number, or a kernel has no place on logarithmic axes.
    """
    _check_roofs(peaks, bandwidths, network)
    _check_positions([*points, *room_for])
    levels = dict(sorted(bandwidths.items(), key=lambda item: -item[1]))
    top = max(peaks.values())
    prefix, scale = prefix_for(top)
    figure, axes = blank()
    included = [*points, *room_for]
    xlim = limits(
        [p.intensity_flops_per_byte for p in included] + [top / b for b in (*levels.values(), *_given(network))],
        below=3.0,
        above=5.0,
    )
    ylim = limits([top, *_rates(included)], below=2.5, above=2.2)
    log_axis(axes.xaxis, xlim, binary_ticks(*xlim), _fraction)
    log_axis(axes.yaxis, ylim, log_ticks(*ylim), lambda rate: f"{rate / scale:g}")
    per = "byte" if network is None else "byte of memory, or of network"
    axes.set(xlabel=f"arithmetic intensity (FLOP/{per})", ylabel=f"performance ({prefix}FLOP/s)")
    colors = dict(zip(levels, level_colors(len(levels)), strict=True))
    _draw_roofs(axes, peaks, levels, colors)
    key = _draw_positions(axes, points)
    key.append((_ring(axes), "ridge point"))
    if network is not None:
        key.append((_draw_network(axes, peaks.values(), network), "network ridge"))
    settle(figure, title=title, note=machine_line(str(machine), threads), key=key)
    slanted = levels if network is None else levels | {"network": network}
    _label_roofline(axes, peaks, slanted, colors | NETWORK_COLOR, points)
    description = alt or sentences(title, _tell_roofs(peaks, levels, top, network), *map(_tell_position, points))
    rates = dict(bandwidths) if network is None else {**bandwidths, "network": network}
    numbers = roofline_numbers(title, peaks, rates, points, machine, threads)
    return Chart.from_figure(figure, title=title, alt=description, numbers=numbers)


def _given(network: float | None) -> list[float]:
    return [] if network is None else [network]


def _check_roofs(peaks: Mapping[str, float], bandwidths: Mapping[str, float], network: float | None) -> None:
    if network is not None and not drawable(network):
        raise ValueError(f"a network's bandwidth is a positive number; got {network!r}.")
    for what, roofs in (("peak", peaks), ("bandwidth", bandwidths)):
        if not roofs:
            raise ValueError(f"roofline() needs at least one {what}; got none. Calibrate the machine first.")
        for label, value in roofs.items():
            if not drawable(value):
                raise ValueError(f"a {what} is a positive number; {label!r} is {value!r}.")


def _check_positions(points: Sequence[Position]) -> None:
    for point in points:
        if not drawable(point.intensity_flops_per_byte):
            raise ValueError(
                f"a roofline has room for kernels with FLOPs and bytes; {point.name!r} has an intensity of "
                f"{point.intensity_flops_per_byte!r} FLOP/byte. Leave it out, or draw it with plot.scaling()."
            )
        if not (drawable(point.measured_flops_per_second) or drawable(point.predicted_flops_per_second)):
            raise ValueError(
                f"{point.name!r} has no performance to draw: measured {point.measured_flops_per_second!r}, "
                f"predicted {point.predicted_flops_per_second!r} FLOP/s."
            )


def _rates(points: Sequence[Position]) -> list[float]:
    both = [rate for p in points for rate in (p.measured_flops_per_second, p.predicted_flops_per_second)]
    return [rate for rate in both if drawable(rate)]


def _fraction(value: float) -> str:
    """Write a power of two, as a fraction where it is below one."""
    return f"{value:g}" if value >= 1 else f"1/{1 / value:g}"


def _roof_ends(axes: Axes, bandwidth: float, peaks: Iterable[float]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return where a level's slanted roof enters the axes, and its ridge point with the highest peak."""
    x = max(axes.get_xlim()[0], axes.get_ylim()[0] / bandwidth)
    top = max(peaks)
    return (x, x * bandwidth), (top / bandwidth, top)


def _draw_roofs(axes: Axes, peaks: Mapping[str, float], levels: Mapping[str, float], colors: Mapping[str, str]) -> None:
    for level, rate in levels.items():
        start, ridge = _roof_ends(axes, rate, peaks.values())
        axes.plot(*zip(start, ridge, strict=True), color=colors[level], linewidth=1.3, zorder=2)
        for peak in peaks.values():
            axes.plot([peak / rate], [peak], **_ring_style(colors[level]))
    fastest = max(levels.values())
    for peak in peaks.values():
        axes.plot([peak / fastest, axes.get_xlim()[1]], [peak, peak], color=INK, linewidth=1.1, zorder=2)


def _draw_network(axes: Axes, peaks: Iterable[float], network: float) -> Any:
    """Draw the roof that the network makes, and its ridges; return the mark that stands for those in the key."""
    color = NETWORK_COLOR["network"]
    mark: dict[str, Any] = {
        "marker": "s",
        "markersize": 5.0,
        "markerfacecolor": "none",
        "color": color,
        "linestyle": "none",
    }
    start, ridge = _roof_ends(axes, network, peaks)
    axes.plot(*zip(start, ridge, strict=True), color=color, linewidth=1.6, dashes=(5, 2), zorder=2)
    for peak in peaks:
        axes.plot([peak / network], [peak], **mark, zorder=4)
    return axes.plot([], [], **mark)[0]


def _ring_style(color: str) -> dict[str, Any]:
    return {"marker": "o", "markersize": 3.6, "color": color, "linestyle": "none", "zorder": 3}


def _ring(axes: Axes) -> Any:
    """Return the mark that stands for ridge points in the key."""
    return axes.plot([], [], **_ring_style(INK))[0]


def _draw_positions(axes: Axes, points: Sequence[Position]) -> list[tuple[Any, str]]:
    """Draw the kernels; return the key."""
    marks: dict[str, Any] = {}
    for point in points:
        x, measured, predicted = (
            point.intensity_flops_per_byte,
            point.measured_flops_per_second,
            point.predicted_flops_per_second,
        )
        if drawable(measured) and drawable(predicted):
            axes.plot([x, x], [measured, predicted], color=BASELINE, linewidth=1.0, zorder=4)
        if drawable(measured):
            (marks["measured"],) = axes.plot([x], [measured], "o", color=MEASURED, markersize=7, zorder=5)
        if drawable(predicted):
            (marks["predicted"],) = axes.plot([x], [predicted], **PREDICTED_MARK, zorder=6)
    return [(marks[name], name) for name in ("measured", "predicted") if name in marks]


def _label_roofline(
    axes: Axes,
    peaks: Mapping[str, float],
    levels: Mapping[str, float],
    colors: Mapping[str, str],
    points: Sequence[Position],
) -> None:
    """Name every roof on its line and every kernel beside its mark."""
    labels = Labels(axes)
    fastest, right = max(levels.values()), axes.get_xlim()[1]
    for rate in levels.values():
        labels.avoid_line(*zip(*_roof_ends(axes, rate, peaks.values()), strict=True))
        for peak in peaks.values():
            labels.avoid_marker(peak / rate, peak, radius=2.5)
    for peak in peaks.values():
        labels.avoid_line([peak / fastest, right], [peak, peak])
    for point in points:
        for rate in _rates([point]):
            labels.avoid_marker(point.intensity_flops_per_byte, rate)
    for label, peak in peaks.items():
        text = f"{label} {format_decimal(peak, 'FLOP/s')}"
        labels.along(text, (peak / fastest, peak), (right, peak), from_end=True, fontsize=SMALL)
    places = [(point.intensity_flops_per_byte, _rates([point])[0]) for point in points]
    # The lowest first: it has the least room, between its roof and the axis.
    for group in sorted(labels.together(places), key=lambda group: min(places[index][1] for index in group)):
        labels.beside("\n".join(points[index].name for index in group), *places[group[len(group) // 2]])
    for level, rate in levels.items():
        text = f"{level} {format_decimal(rate, 'B/s')}"
        labels.along(
            text, *_roof_ends(axes, rate, peaks.values()), fontsize=SMALL, color=colors[level], fontweight="bold"
        )


def _tell_roofs(peaks: Mapping[str, float], levels: Mapping[str, float], top: float, network: float | None) -> str:
    roofs = [f"{label} {format_decimal(peak, 'FLOP/s')}" for label, peak in peaks.items()]
    slants = [
        f"{level} {format_decimal(rate, 'B/s')} with its ridge at {top / rate:.3g} FLOP/byte"
        for level, rate in [*levels.items(), *(("the network between workers", rate) for rate in _given(network))]
    ]
    return f"Roofs: {'; '.join(roofs + slants)}"


def _tell_position(point: Position) -> str:
    measured, predicted = point.measured_flops_per_second, point.predicted_flops_per_second
    rates = [
        f"{word} {format_decimal(rate, 'FLOP/s')}"
        for word, rate in (("measured", measured), ("predicted", predicted))
        if drawable(rate)
    ]
    return f"{point.name}: {point.intensity_flops_per_byte:.3g} FLOP/byte, {', '.join(rates)}"
