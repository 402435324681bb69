"""Browser: measure the memory of the machine that shows a page, inside that page, with no kernel.

Links are followed and bytes read in a Web Worker, by WebAssembly that book/build.py assembles from `streams.wat`; where
it has not (no npm), by plain JavaScript, and the page says so. Nothing leaves the browser.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anywidget import AnyWidget

    from accel.access import AccessCurve
    from accel.machine import Machine

__all__ = ["memory"]

_HERE = Path(__file__).parent
_MODULES = ("report.js", "charts.js", "widget.js")
"""One script in the page: a module made from widget state cannot import its neighbours."""
STREAMS = _HERE / "streams.wasm"
"""What the build assembles; not part of the repository."""


@functools.cache
def _widget_class() -> type[AnyWidget]:
    """Make the class when the first one is asked for: importing widgets takes longer than all of accel."""
    import anywidget
    import traitlets

    class MemoryInBrowser(anywidget.AnyWidget):
        """A button, and the curves beside the book's. Where there is a kernel, the result comes to `measured`."""

        _esm = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in _MODULES)
        _css = (_HERE / "widget.css").read_text(encoding="utf-8")
        worker = traitlets.Unicode((_HERE / "worker.js").read_text(encoding="utf-8")).tag(sync=True)
        streams = traitlets.Unicode().tag(sync=True)
        book = traitlets.Dict().tag(sync=True)
        measured = traitlets.Dict().tag(sync=True)

    return MemoryInBrowser


def memory(machine: Machine | None = None, latency: AccessCurve | None = None) -> AnyWidget:
    """Return a button that measures latency and bandwidth by working set in the reader's browser.

    A chase follows a random round of links through every cache line, and vectors of 128 bits read all bytes in order,
    from 4 KB to 128 MB: what `accel.access.latency` and the load curve of a calibration do in a process. It takes about
    ten seconds.

    Parameters
    ----------
    machine : Machine, optional
        A calibrated machine, whose load curve (one thread) is drawn beside what the browser reads.
    latency : AccessCurve, optional
        A chase on that machine, drawn beside the browser's.

    Raises
    ------
    ValueError
        If the machine is not calibrated, or `latency` is no chase, or one of another machine.

    Examples
    --------
    >>> from accel import browser
    >>> browser.memory().book
    {'machine': '', 'caches': [], 'latency': [], 'bandwidth': []}
    """
    if latency is not None and latency.pattern != "chase":
        raise ValueError(
            f"latency must be a chase; got a curve of pattern {latency.pattern!r}. accel.access.latency() measures one."
        )
    if machine is not None and latency is not None and latency.caches != machine.caches:
        raise ValueError(
            f"latency must have been measured on the machine given; {machine} has other caches than {latency.machine}."
        )
    recorded = machine or latency
    book = {
        "machine": str(machine) if machine is not None else latency.machine if latency is not None else "",
        "caches": [{"name": cache.name, "bytes": cache.size_bytes} for cache in (recorded.caches if recorded else ())],
        "latency": _points(latency.working_set_bytes, latency.seconds_per_access, 1e9) if latency is not None else [],
        "bandwidth": _load_curve(machine) if machine is not None else [],
    }
    return _widget_class()(book=book, streams=_assembled())


def _load_curve(machine: Machine) -> list[list[float]]:
    """Return what one thread reads in a second, in GB, by working set."""
    if machine.calibration is None:
        raise ValueError("memory() draws a measured curve, and this machine is not calibrated. Run accel.calibrate().")
    return next(
        (
            _points(curve.working_set_bytes, curve.bytes_per_second, 1e-9)
            for curve in machine.calibration.bandwidths
            if curve.operation == "load" and curve.threads == 1
        ),
        [],
    )


def _points(sizes: Sequence[int], values: Sequence[float], factor: float) -> list[list[float]]:
    """Return [bytes, value] of each working set, with four digits."""
    return [[size, float(f"{value * factor:.4g}")] for size, value in zip(sizes, values, strict=True)]


def _assembled() -> str:
    """Return the assembled WebAssembly as base64, or an empty string where the build had no npm."""
    return base64.b64encode(STREAMS.read_bytes()).decode() if STREAMS.exists() else ""
