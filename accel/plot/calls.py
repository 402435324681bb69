"""The charts of an explanation: the time of each call, and the calls under the roof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from accel.figure import INK, MEASURED, PREDICTED, SMALL, Chart, blank, settle, style, text_width
from accel.measurement import format_seconds
from accel.plot.bars import even_ticks, swatch
from accel.plot.marks import PREDICTED_MARK, machine_line, sentences
from accel.plot.numbers import explanation_numbers
from accel.plot.roofline import roofline
from accel.roofline import Position, attainable, position
from accel.units import TIME, unit_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from accel.explained import ExplainedCall
    from accel.explanation import Explanation

__all__ = ["call_positions", "call_times"]

MOST_BARS = 12
MOST_POSITIONS = 6
"""With more kernels under the roof, their names would cover each other."""
GAP = ".\u2002"
"""Between the number of a call and its text."""
NAME_WIDTH = 128.0
"""Points that the name of a call may take beside its bar."""


@dataclass(frozen=True)
class _Bar:
    """One call on the chart."""

    name: str
    measured_seconds: float | None
    predicted_seconds: float
    low_seconds: float
    high_seconds: float

    @property
    def seconds(self) -> float:
        """What the call is judged by."""
        return self.predicted_seconds if self.measured_seconds is None else self.measured_seconds


@style()
def call_times(explanation: Explanation, *, title: str | None = None, alt: str | None = None) -> Chart:
    """Draw a bar for the measured time of each call, with the prediction and its interval on it.

    Of many calls the shortest are one bar.
    """
    bars = _bars(explanation)
    title = title or _longest(bars)
    figure, axes = blank(height=len(bars) * 23.0 + 44.0)
    _time_axis(axes, max(max(bar.seconds, bar.predicted_seconds) for bar in bars))
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_yticks(range(len(bars)), [_short(bar.name) for bar in bars])
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0, pad=9)  # room for the mark of a prediction close to zero
    key = _draw(axes, bars)
    right = axes.get_xlim()[1]
    for index, bar in enumerate(bars):
        axes.annotate(
            format_seconds(bar.seconds) if bar.seconds else "–",
            (max(bar.seconds, min(bar.high_seconds, right)), index),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            annotation_clip=False,
        )
    settle(figure, title=title, note=_note(explanation), key=key)
    description = alt or sentences(title, *map(_tell, bars))
    return Chart.from_figure(figure, title=title, alt=description, numbers=explanation_numbers(title, explanation))


def _bars(explanation: Explanation) -> list[_Bar]:
    bars = [
        _Bar(
            _name(number, call),
            call.measured_seconds,
            call.predicted_seconds,
            call.predicted_low_seconds,
            call.predicted_high_seconds,
        )
        for number, call in enumerate(explanation.calls, start=1)
    ]
    if len(bars) <= MOST_BARS:
        return bars
    kept = sorted(bars, key=lambda bar: -max(bar.seconds, bar.predicted_seconds))[: MOST_BARS - 1]
    others = [bar for bar in bars if bar not in kept]
    measured = [bar.measured_seconds for bar in others if bar.measured_seconds is not None]
    together = _Bar(
        f"{len(others)} shorter ones",
        sum(measured) if measured else None,
        sum(bar.predicted_seconds for bar in others),
        sum(bar.low_seconds for bar in others),
        sum(bar.high_seconds for bar in others),
    )
    return [*(bar for bar in bars if bar in kept), together]


def _name(number: int, call: ExplainedCall) -> str:
    from accel.explanation_table import call_text

    times = f"{call.count:,} × " if call.count > 1 else ""
    return f"{number}{GAP}{times}{call_text(call.call)}"


def _short(name: str) -> str:
    """Cut a name that leaves too little room for its bar."""
    short = name
    while text_width(short, SMALL) > NAME_WIDTH:
        short = f"{short.removesuffix('…')[:-1]}…"
    return short


def _longest(bars: Sequence[_Bar]) -> str:
    longest = max(bars, key=lambda bar: bar.seconds)
    share = longest.seconds / math.fsum(bar.seconds for bar in bars)
    name = longest.name.rpartition(GAP)[2].rpartition(" × ")[2]
    verb = "takes" if longest.measured_seconds is not None else "is predicted to take"
    return f"{name} {verb} {share:.0%} of the time"


def _time_axis(axes: Axes, longest: float) -> None:
    unit, size = unit_for([longest / 10], TIME)
    axes.set(xlim=(0, longest * 1.05), xlabel=f"time per run ({unit})")
    ticks = [tick for tick in even_ticks(longest / size) if tick * size <= longest * 1.05]
    axes.set_xticks([tick * size for tick in ticks], [f"{tick:g}" for tick in ticks])


def _draw(axes: Axes, bars: Sequence[_Bar]) -> list[tuple[Any, str]]:
    """Draw bars, predictions and their intervals; return the key."""
    right = axes.get_xlim()[1]
    key: list[tuple[Any, str]] = []
    for index, bar in enumerate(bars):
        if bar.measured_seconds:
            axes.barh(index, bar.measured_seconds, height=0.56, color=MEASURED, zorder=2)
        axes.hlines(index, bar.low_seconds, min(bar.high_seconds, right), color=INK, linewidth=3.0, zorder=3, alpha=0.3)
        axes.hlines(index, bar.low_seconds, min(bar.high_seconds, right), color=PREDICTED, linewidth=1.6, zorder=3)
        (mark,) = axes.plot([bar.predicted_seconds], [index], **PREDICTED_MARK, zorder=4)
    if any(bar.measured_seconds for bar in bars):
        key.append((swatch(MEASURED), "measured"))
    return [*key, (mark, "predicted, with its interval")]


def _note(explanation: Explanation) -> str:
    conditions = machine_line(explanation.machine, explanation.threads)
    whole = f"{explanation.signature}: predicted {format_seconds(explanation.predicted_seconds)}"
    if explanation.measured is not None:
        verdict = "steady" if explanation.measured.is_steady else "noisy"
        whole += f", measured {format_seconds(explanation.measured.best_seconds)}"
        whole += f" ({explanation.error_fraction:+.0%}, run {verdict})"
    return f"{whole}. {conditions}"


def _tell(bar: _Bar) -> str:
    told = f"{bar.name}: predicted {format_seconds(bar.predicted_seconds)}"
    return told if bar.measured_seconds is None else f"{told}, measured {format_seconds(bar.measured_seconds)}"


def call_positions(explanation: Explanation, *, title: str | None = None) -> Chart:
    """Draw the calls that do FLOPs, those that take longest, under the roofs of all levels.

    Calls that only move bytes or evaluate special functions have no place there.

    Raises
    ------
    ValueError
        If no call does any FLOPs.
    """
    able = [
        (_name(number, call), call)
        for number, call in enumerate(explanation.calls, start=1)
        if call.cost.flops and call.cost.bytes_algorithmic and not call.is_opaque
    ]
    if not able:
        raise ValueError(
            f"no call of {explanation.function} does any FLOPs, so none has a place on a roofline; plot() shows times."
        )
    shown = sorted(able, key=lambda pair: -pair[1].predicted_seconds)[:MOST_POSITIONS]
    points = [
        position(name, call.cost, measured_seconds=call.measured_seconds, predicted_seconds=call.predicted_seconds)
        for name, call in shown
    ]
    dtypes = {call.loop_dtype for _, call in shown} & set(explanation.peaks_flops_per_second)
    peaks = {f"{d} peak": explanation.peaks_flops_per_second[d] for d in sorted(dtypes or {"float32"})}
    title = title or _reach(explanation, points[0], shown[0][1], max(peaks.values()))
    chart = roofline(
        peaks,
        explanation.bandwidths_bytes_per_second,
        points,
        title=title,
        machine=explanation.machine,
        threads=explanation.threads,
    )
    return replace(chart, numbers=explanation_numbers(title, explanation))


def _reach(explanation: Explanation, point: Position, call: ExplainedCall, peak: float) -> str:
    """Say how close the longest of the calls comes to the roof of the level its bytes come from."""
    rate = point.measured_flops_per_second or point.predicted_flops_per_second or 0.0
    bandwidths = explanation.bandwidths_bytes_per_second
    level = call.level if call.level in bandwidths else min(bandwidths, key=lambda name: bandwidths[name])
    roof = attainable(point.intensity_flops_per_byte, peak, bandwidths[level])
    name = point.name.rpartition(GAP)[2].rpartition(" × ")[2]
    limit = "the peak" if roof == peak else f"what {level} bandwidth allows"
    return f"{name} reaches {rate / roof:.0%} of {limit}"
