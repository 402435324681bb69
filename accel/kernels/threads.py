"""Threads: running the parts of a kernel at once. NumPy and compiled code let go of the interpreter lock meanwhile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, SupportsIndex

from accel.kernels.arguments import positive_integer

__all__ = ["run_parts", "spans", "thread_count"]


def thread_count(threads: SupportsIndex) -> int:
    """Return the number of threads to use, as an int.

    Raises
    ------
    TypeError, ValueError
        Not a whole number, or below 1.
    """
    return positive_integer(threads, "threads")


def spans(length: int, parts: int, multiple: int = 1) -> list[tuple[int, int]]:
    """Cut range(length) into at most `parts` pieces (start, stop) of nearly equal size that start at a `multiple`.

    >>> from accel.kernels.threads import spans
    >>> spans(100, 2, multiple=16), spans(3, 8)
    ([(0, 48), (48, 100)], [(0, 1), (1, 2), (2, 3)])
    """
    units = -(-length // multiple)
    parts = min(parts, units)
    edges = [multiple * (units * part // parts) for part in range(parts)]
    return list(pairwise([*edges, length]))


def run_parts(run: Callable[..., Any], parts: Iterable[tuple[Any, ...]], threads: int) -> None:
    """Call ``run(*part)`` for each part, `threads` at a time. The first exception of a part is raised.

    One part, or one thread, is run by the calling thread: handing work over costs some 20 microseconds.
    """
    parts = list(parts)
    if threads == 1 or len(parts) <= 1:
        for part in parts:
            run(*part)
        return
    own, *others = parts
    pending = [_pool(threads - 1).submit(run, *part) for part in others]
    try:
        run(*own)
    finally:
        outcomes = [task.exception() for task in pending]
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return the pool of so many threads beside the calling one; pools live as long as the process."""
    return ThreadPoolExecutor(threads, thread_name_prefix="accel")
