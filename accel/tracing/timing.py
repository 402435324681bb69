"""Timing: how long each recorded call of a function takes, with as little of the tracer around it as possible."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from time import perf_counter_ns as clock
from typing import Any

import numpy as np

from accel.tracing.recording import Event, Traced
from accel.tracing.traced import ArrayRecorder, recording

__all__ = ["clock_seconds", "time_calls"]


def time_calls(function: Callable[..., Any], arrays: tuple[Any, ...], keywords: dict[str, Any]) -> list[float]:
    """Run a function once and return the seconds of each NumPy call that `accel.trace` would record, in order.

    Nothing is described or counted. The clock's own share is taken off each time.
    """
    recorder = ArrayRecorder()
    given = [_wrapped(array, recorder) for array in arrays]
    options = {name: _wrapped(value, recorder) for name, value in keywords.items()}
    with recording(recorder):
        function(*given, **options)
    own = clock_seconds()
    seconds = [
        max((entry.ended - entry.started) * 1e-9 - own, 0.0) for entry in recorder.log if isinstance(entry, Event)
    ]
    recorder.log.clear()
    recorder.owners.clear()  # breaks the cycles: the collector is off while calls are timed
    return seconds


@cache
def clock_seconds() -> float:
    """Return the time between two readings of the clock with nothing in between."""
    readings = [clock() for _ in range(2000)]
    return min(later - earlier for earlier, later in pairwise(readings)) * 1e-9


def _wrapped(value: Any, recorder: ArrayRecorder) -> Any:
    """Turn arrays into traced ones where `accel.trace` does."""
    if type(value) is tuple:
        return tuple(_wrapped(item, recorder) for item in value)
    if isinstance(value, np.ndarray) and not isinstance(value, Traced):
        return recorder.wrap(value)[0]
    return value
