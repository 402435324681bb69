"""The bandwidth chart: what each level of memory delivers, against the working set."""

from __future__ import annotations

from collections.abc import Sequence

from accel.figure import MEASURED, Chart, binary_ticks, blank, log_axis, log_ticks, settle, style
from accel.machine import Bandwidth, Machine
from accel.plot.marks import end_label, level_lines, limits, machine_line, prefix_for, sentences, shapes, space_ends
from accel.plot.numbers import bandwidth_numbers
from accel.units import format_bytes, format_decimal, format_threads

__all__ = ["bandwidth"]


@style()
def bandwidth(machine: Machine, *, title: str, threads: int | None = None, alt: str | None = None) -> Chart:
    """Draw every measured bandwidth curve of a calibrated machine, with the sizes of its caches.

    Parameters
    ----------
    threads : int, optional
        Only the curves measured with this many threads; all of them unless given.

    Raises
    ------
    ValueError
        If the machine is not calibrated, or has no curve for that number of threads.
    """
    curves = _curves(machine, threads)
    figure, axes = blank()
    rates = [rate for curve in curves for rate in curve.bytes_per_second]
    xlim = limits((size for curve in curves for size in curve.working_set_bytes), below=1.25, above=1.25)
    ylim = limits(rates, below=1.4, above=1.4)
    prefix, scale = prefix_for(max(rates))
    log_axis(axes.xaxis, xlim, binary_ticks(*xlim, most=6), format_bytes)
    log_axis(axes.yaxis, ylim, log_ticks(*ylim), lambda rate: f"{rate / scale:g}")
    axes.set(xlabel="working set (bytes)", ylabel=f"bandwidth ({prefix}B/s)")
    level_lines(axes, {cache.name: cache.size_bytes for cache in machine.caches})
    names = _names(curves)
    for curve, marker in zip(curves, shapes(len(curves)), strict=True):
        axes.plot(
            curve.working_set_bytes,
            curve.bytes_per_second,
            marker=marker,
            markersize=4.5,
            color=MEASURED,
            clip_on=False,
        )
    ends = [
        end_label(axes, name, curve.working_set_bytes[-1], curve.bytes_per_second[-1], MEASURED)
        for name, curve in zip(names, curves, strict=True)
    ]
    settle(figure, title=title, note=_note(machine, curves))
    space_ends(axes, ends)
    told = (_tell_curve(name, curve) for name, curve in zip(names, curves, strict=True))
    numbers = bandwidth_numbers(title, machine, curves)
    return Chart.from_figure(figure, title=title, alt=alt or sentences(title, *told), numbers=numbers)


def _curves(machine: Machine, threads: int | None) -> list[Bandwidth]:
    """Return the curves to draw, or say why there are none."""
    if machine.calibration is None:
        raise ValueError(
            "bandwidth() draws measured curves, and this machine is not calibrated. Run accel.calibrate()."
        )
    curves = [curve for curve in machine.calibration.bandwidths if threads in (None, curve.threads)]
    if not curves:
        measured = sorted({curve.threads for curve in machine.calibration.bandwidths})
        raise ValueError(f"no bandwidth was measured with {threads} thread(s); there are curves for {measured}.")
    return curves


def _names(curves: Sequence[Bandwidth]) -> list[str]:
    """Name the curves; with the threads where those differ."""
    if len({curve.threads for curve in curves}) == 1:
        return [curve.operation for curve in curves]
    return [f"{curve.operation}, {format_threads(curve.threads)}" for curve in curves]


def _note(machine: Machine, curves: Sequence[Bandwidth]) -> str:
    """Name the machine, and the threads where all curves share them."""
    counts = {curve.threads for curve in curves}
    return machine_line(machine.cpu_name, counts.pop()) if len(counts) == 1 else machine.cpu_name


def _tell_curve(name: str, curve: Bandwidth) -> str:
    ends = zip(curve.working_set_bytes, curve.bytes_per_second, strict=True)
    first, *_, last = (f"{format_decimal(rate, 'B/s')} at {format_bytes(size)}" for size, rate in ends)
    return f"{name}: {first}, {last}"
