"""Explore: a slider over recorded results that measures afresh where there is a kernel to measure with."""

from __future__ import annotations

import html
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from accel.comparison import Comparison
from accel.figure import Chart
from accel.units import format_threads

if TYPE_CHECKING:
    import ipywidgets

__all__ = ["chooser", "explorer"]

Value = TypeVar("Value")


def explorer(
    run: Callable[[Value], Comparison],
    options: Iterable[Value],
    draw: Callable[[Comparison], Chart],
    *,
    name: str = "size",
    label: Callable[[Value], str] = str,
    start: Value | None = None,
    initial: Sequence[Comparison] | None = None,
) -> ipywidgets.VBox:
    """Return a slider over `options` above the chart of each.

    Every option is measured and drawn once, so the slider works in a page without a kernel. With a kernel, moving
    it measures that option again, on the machine it runs on, and redraws that chart; the line below each chart says
    when and where it was measured. An exception raised meanwhile is shown below the chart it concerns.

    Parameters
    ----------
    run : callable
        Measures one option.
    options : iterable
        The values of the slider, in order.
    draw : callable
        Draws what `run` returned; for example ``lambda comparison: plot.steps(comparison, title=…)``.
    name : str
        What the slider sets, written beside it.
    label : callable
        Writes an option on the slider.
    start : optional
        The option to begin with; the first unless given.
    initial : sequence of Comparison, optional
        Results already at hand, one for each option, to begin with instead of measuring.

    Raises
    ------
    ValueError
        If there are no options, two share a label, `start` is none of them, or `initial` has another length.
    TypeError
        If `run` does not return a `Comparison` or `draw` not a `Chart`.

    Examples
    --------
    >>> from accel import explore
    >>> explore.explorer(lambda size: None, [], lambda comparison: None)
    Traceback (most recent call last):
        ...
    ValueError: explorer() needs at least one option; got none.
    """
    options = list(options)  # whatever gives them: an array has no truth value, a generator gives them once
    initial = None if initial is None else list(initial)
    labels = [label(option) for option in options]
    at = _check_options(options, labels, start, initial)
    results = [run(option) for option in options] if initial is None else initial
    frames = [_Frame(*_drawn(draw, result)) for result in results]
    return _assemble(_Recording(run, options, draw, frames), labels, name, at)


def _check_options(
    options: Sequence[Any], labels: Sequence[str], start: Any, initial: Sequence[Comparison] | None
) -> int:
    """Return the index to begin with, or say what is wrong with the options."""
    if not options:
        raise ValueError("explorer() needs at least one option; got none.")
    if len(set(labels)) < len(labels):
        raise ValueError(f"each option needs a label of its own; got {labels}. Pass label=… to tell them apart.")
    if initial is not None and len(initial) != len(options):
        raise ValueError(f"initial needs a result for each of the {len(options)} options; got {len(initial)}.")
    if start is None:
        return 0
    if start not in options:
        raise ValueError(f"start must be one of the options {labels}; got {start!r}.")
    return options.index(start)


def _drawn(draw: Callable[[Comparison], Chart], result: Comparison) -> tuple[Chart, Comparison]:
    """Draw a result, having checked what it is and what comes back."""
    if not isinstance(result, Comparison):
        raise TypeError(f"run() must return a Comparison for draw(); got {type(result).__name__}.")
    chart = draw(result)
    if not isinstance(chart, Chart):
        raise TypeError(f"draw() must return a Chart, as the functions of accel.plot do; got {type(chart).__name__}.")
    return chart, result


@dataclass
class _Frame:
    """What one position of the slider shows."""

    chart: Chart
    result: Comparison
    here: bool = False
    """Whether it was measured since the slider was made, and not when the page was."""
    busy: bool = False
    error: str = ""

    def html(self) -> str:
        """Return the chart with a line on its origin, and the error where there was one."""
        note = "measuring…" if self.busy else _origin(self.result, self.here)
        parts = [
            self.chart._repr_html_(),
            f'<p class="accel-frame-note" role="status" style="margin:.2em 0;font-size:13px">{html.escape(note)}</p>',
        ]
        if self.error:
            parts.append(
                '<pre class="accel-frame-error" role="alert" style="overflow-x:auto;white-space:pre-wrap">'
                f"The new measurement failed; the chart shows the one before.\n{html.escape(self.error)}</pre>"
            )
        return f'<div class="accel-frame" style="line-height:1.4">{"".join(parts)}</div>'


def _origin(result: Comparison, here: bool) -> str:
    """Say when and on what a result was measured, and whether to trust it."""
    when = datetime.fromisoformat(result.taken_at).isoformat(" ", "minutes")
    said = f"{'measured here' if here else 'recorded'} {when} on {result.machine}, {format_threads(result.threads)}"
    noisy = sum(not row.measured.is_steady for row in result.rows)
    doubts = [result.speed_note] if result.speed_note else []
    if noisy:
        doubts.append(f"noisy run: {noisy} of {len(result.rows)} measurements are not steady")
    return " · ".join([said, *doubts])


@dataclass
class _Recording:
    """The frames, and how to measure one of them again."""

    run: Callable[[Any], Comparison]
    options: list[Any]
    draw: Callable[[Comparison], Chart]
    frames: list[_Frame]
    measuring: bool = field(default=False, init=False)

    def renew(self, index: int, show: Callable[[int], None]) -> None:
        """Measure and draw one frame again, unless a measurement is under way; call `show` at each change."""
        if self.measuring:
            show(index)
            return
        frame = self.frames[index]
        with self._busy(frame, lambda: show(index)):
            frame.chart, frame.result = _drawn(self.draw, self.run(self.options[index]))
            frame.here = True

    @contextmanager
    def _busy(self, frame: _Frame, show: Callable[[], None]) -> Iterator[None]:
        """Mark a frame as being measured; whatever its code raises is kept in the frame, where it can be read."""
        self.measuring = frame.busy = True
        frame.error = ""
        show()
        try:
            yield
        except Exception:
            # The code belongs to the reader, so it may raise anything; widget callbacks would swallow it unseen.
            frame.error = traceback.format_exc()
        finally:
            self.measuring = frame.busy = False
            show()


def _assemble(recording: _Recording, labels: Sequence[str], name: str, at: int) -> ipywidgets.VBox:
    """Put slider and frames together; the browser switches frames, Python renews them."""
    pages = [frame.html() for frame in recording.frames]

    def moved(index: int, show: Callable[[int, str], None]) -> None:
        recording.renew(index, lambda changed: show(changed, recording.frames[changed].html()))

    return _slider(pages, labels, name, at, moved)


def chooser(charts: Mapping[str, Chart], *, name: str, start: str | None = None, note: str = "") -> ipywidgets.VBox:
    """Return a slider over charts that were drawn before, for what is computed and not measured.

    Parameters
    ----------
    charts : mapping of str to Chart
        The value that the slider shows, and its chart.
    name : str
        What the slider sets, written beside it.
    start : str, optional
        The value to begin with; the first unless given.
    note : str
        A line below each chart.

    Raises
    ------
    ValueError
        If there is no chart, or `start` is none of the values.

    Examples
    --------
    >>> from accel import explore
    >>> explore.chooser({}, name="workers")
    Traceback (most recent call last):
        ...
    ValueError: chooser() needs at least one chart; got none.
    """
    labels = list(charts)
    if not labels:
        raise ValueError("chooser() needs at least one chart; got none.")
    if start is not None and start not in charts:
        raise ValueError(f"start must be one of the options {labels}; got {start!r}.")
    said = f'<p class="accel-frame-note" style="margin:.2em 0;font-size:13px">{html.escape(note)}</p>' if note else ""
    pages = [
        f'<div class="accel-frame" style="line-height:1.4">{chart._repr_html_()}{said}</div>'
        for chart in charts.values()
    ]
    at = labels.index(start) if start is not None else 0
    return _slider(pages, labels, name, at, lambda index, show: show(index, pages[index]))


def _slider(
    pages: Sequence[str],
    labels: Sequence[str],
    name: str,
    at: int,
    moved: Callable[[int, Callable[[int, str], None]], None],
) -> ipywidgets.VBox:
    """Put a slider above pages: the browser switches them; `moved` is called with a way to change one."""
    import ipywidgets as widgets

    full_width = widgets.Layout(width="100%")
    slider = widgets.SelectionSlider(
        options=list(labels),
        index=at,
        description=name,
        continuous_update=False,
        layout=full_width,
        style={"description_width": "initial"},
    )
    if hasattr(widgets, "Stack"):
        places = [widgets.HTML(page, layout=full_width) for page in pages]
        shown: Any = widgets.Stack(places, selected_index=at)
        widgets.jslink((slider, "index"), (shown, "selected_index"))
    else:  # ipywidgets 7, as on Colab: one page, which Python fills; without a kernel it stays as it is
        shown = widgets.HTML(pages[at], layout=full_width)
        places = [shown] * len(labels)

    def show(index: int, page: str) -> None:
        places[index].value = page

    slider.observe(lambda change: moved(change["new"], show), "index")
    box = widgets.VBox([slider, shown])
    box.add_class("accel-explorer")
    return box
