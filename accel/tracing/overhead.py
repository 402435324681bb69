"""Overhead: what the tracer itself adds to a run, so that the rest can be told from time nobody accounts for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from time import perf_counter_ns as clock
from typing import Any

import numpy as np

from accel.tracing.assembly import Unexplained
from accel.tracing.recording import Event, Recorder
from accel.tracing.traced import ArrayRecorder, TracedArray, recording

__all__ = ["find_unexplained"]

SHARE = 0.05
SECONDS = 20e-6
"""Time that no call explains gets a row where it is more than both this share of the run and this long."""

SLOWEST = 2.5
"""The most that a busy machine is taken to slow the tracer down; a first call of anything takes longer than that."""

ITEM_NANOSECONDS = 20
"""The least that an interpreter takes to read or write one element, tracer or not: however the tracer's own share was
measured, that much is the loop's."""
RELEASED_BYTES = 128 * 1024
RELEASE_NANOSECONDS_PER_BYTE = 0.5
"""Giving a dead array of this size back to the system takes time between calls, at most about this much a byte. It is
part of what fresh memory costs and not unexplained."""


def find_unexplained(recorder: Recorder, started: int, ended: int, code: Any) -> Unexplained | None:
    """Return the time between the recorded calls, less the tracer's own, or None where it does not matter.

    It is what a compiled function, a loop over single elements or any other Python code took.
    """
    events = [entry for entry in recorder.log if isinstance(entry, Event)]
    call_ns, view_ns, item_ns, visible_ns = hidden_nanoseconds()
    numpy_ns = sum(event.ended - event.started for event in events)
    visible = sum(event.left - event.entered for event in events) - numpy_ns
    slowness = min(max(1.0, visible / (len(events) * visible_ns)), SLOWEST) if events else 1.0
    gaps = list(_gaps(recorder, started, ended))
    views = sum(event.views for event in events) + recorder.views
    hidden = slowness * (len(events) * call_ns + views * view_ns + recorder.items * item_ns)
    seconds = max(sum(gaps) - hidden, recorder.items * ITEM_NANOSECONDS) * 1e-9
    if seconds < SECONDS or seconds < SHARE * (seconds + numpy_ns * 1e-9):
        return None
    return Unexplained(seconds, gaps.index(max(gaps)), code, recorder.items)


def _gaps(recorder: Recorder, started: int, ended: int) -> Iterator[float]:
    """Give the nanoseconds before each event and after the last, less what releasing memory in them may have taken."""
    edge, released = started, 0
    for entry in recorder.log:
        if isinstance(entry, Event):
            gap = entry.entered - edge
            yield gap - min(gap, released * RELEASE_NANOSECONDS_PER_BYTE)
            edge, released = entry.left, 0
        elif entry < 0 and recorder.buffers[~entry][0] >= RELEASED_BYTES:
            released += recorder.buffers[~entry][0]
    gap = ended - edge
    yield gap - min(gap, released * RELEASE_NANOSECONDS_PER_BYTE)


@cache
def hidden_nanoseconds() -> tuple[float, float, float, float]:
    """Return the tracer's cost outside its own clock readings, for each call, view and single element; and inside them.

    The last tells how much slower a run is than this calibration was, when the machine is busy.
    """
    x = np.ones(8)
    _traced(lambda x: np.sort(x * 2 + x).sum(), x, 20)  # an interpreter's first calls of anything are slower
    call, visible = min(_traced(lambda x: np.add(x, x, x), x) for _ in range(5))
    view = min(_traced(lambda x: x[1:], x)[0] for _ in range(5)) - min(_plain(lambda x: x[1:], x) for _ in range(5))
    item = min(_traced(lambda x: x[1], x)[0] for _ in range(5)) - min(_plain(lambda x: x[1], x) for _ in range(5))
    return call, max(view, 0.0), max(item, 0.0), visible


def _traced(step: Callable[[Any], Any], x: np.ndarray, times: int = 200) -> tuple[float, float]:
    recorder = ArrayRecorder()
    with recording(recorder), np.errstate(all="ignore"):
        total = _plain(step, x.view(TracedArray), times) * times
    events = [entry for entry in recorder.log if isinstance(entry, Event)]
    inside = sum(event.left - event.entered for event in events)
    numpy = sum(event.ended - event.started for event in events)
    return (total - inside) / times, (inside - numpy) / times


def _plain(step: Callable[[Any], Any], x: np.ndarray, times: int = 200) -> float:
    started = clock()
    for _ in range(times):
        step(x)
    return (clock() - started) / times
