"""Limits: how many threads BLAS and OpenMP may use in this process, where several threads say so at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["LIMITS"]


class Limits:
    """The limits of threads that are in force in this process.

    A limiter of threadpoolctl restores what it found: of two that overlap in two threads, the later one would restore
    the limit of the earlier one after that has gone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[tuple[int, Any]] = []
        self._first: Any = None

    @contextmanager
    def at(self, count: int) -> Iterator[None]:
        """Run the body with a limit of so many threads."""
        with self._lock:
            entry = count, _limited(count)
            if not self._held:
                self._first = entry[1]
            self._held.append(entry)
        try:
            yield
        finally:
            with self._lock:
                self._held.remove(entry)
                _let_this_thread_limit()
                entry[1].restore_original_limits()
                if self._held:
                    _limited(self._held[-1][0])
                else:
                    self._first.restore_original_limits()
                    _let_this_thread_limit()  # as threadpoolctl does after its last limit: then any thread may


def _limited(count: int) -> Any:
    import numpy  # noqa: F401  (threadpoolctl only sees libraries that are loaded)
    from threadpoolctl import threadpool_limits

    _let_this_thread_limit()
    return threadpool_limits(limits=count)


def _let_this_thread_limit() -> None:
    """Take the control of OpenBLAS from the thread that has it: from threadpoolctl 3.8 on, others do nothing."""
    from threadpoolctl import OpenBLASController

    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


LIMITS = Limits()
