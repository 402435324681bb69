"""Compilation: how long Numba has compiled in this process, so that it can be told from what the code itself takes."""

from __future__ import annotations

import sys
import time
from typing import Any

__all__ = ["listen", "seconds"]

_clock: Any = None


def seconds() -> float:
    """Return the seconds that Numba has spent compiling since it was first listened to; 0.0 where it is not imported.

    Machine code that is read from the disk was not compiled, and does not count. What is compiled before the first
    call of this function, or of `listen`, is not seen.

    >>> from accel import compilation
    >>> before = compilation.seconds()
    >>> compilation.seconds() - before
    0.0
    """
    if "numba" in sys.modules:
        listen()
    return 0.0 if _clock is None else _clock.seconds


def listen() -> None:
    """Begin to listen to Numba, which must be importable. Later calls do nothing."""
    global _clock
    if _clock is not None:
        return
    from numba.core import event

    class Clock(event.Listener):
        """Adds up the time of compilations; one that another one starts is part of it. Numba runs one at a time."""

        seconds = 0.0
        depth = 0
        started = 0.0

        def on_start(self, _event: Any) -> None:
            if self.depth == 0:
                self.started = time.perf_counter()
            self.depth += 1

        def on_end(self, _event: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                self.seconds += time.perf_counter() - self.started

    _clock = Clock()
    event.register("numba:compile", _clock)
