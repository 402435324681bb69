"""Overhead: what a graph of arrays costs a scheduler and its workers, whatever the tasks compute."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from accel.fleet.cluster import distributed, seats
from accel.records import Record

__all__ = ["Overhead", "measure_overhead", "persisting_seconds"]

SHORT, LONG = 8, 256


@dataclass(frozen=True)
class Overhead(Record):
    """Time of a graph of array tasks that compute next to nothing: a line over their number.

    >>> from accel.fleet.overhead import Overhead
    >>> Overhead(start_seconds=0.02, seconds_per_task=0.001).seconds(100)
    0.12000000000000001
    """

    start_seconds: float
    """What any graph costs: from `persist` to knowing that it is done, with hardly a task."""
    seconds_per_task: float
    """What each task adds, in the client, the scheduler and the worker together."""

    workers: int = 1
    """With how many workers it was measured: they shared what follows."""

    @property
    def worker_seconds_per_task(self) -> float:
        """What each task keeps a worker from computing: taking the task up, deserializing, reporting back.

        All of the measured time, since a worker's event loop and its computing thread take turns.
        """
        return self.seconds_per_task * self.workers

    def seconds(self, tasks: int) -> float:
        """Return the time of a graph of so many tasks that compute nothing."""
        return self.start_seconds + tasks * self.seconds_per_task


def persisting_seconds(client: Any, array: Any) -> float:
    """Return the seconds from ``array.persist()`` until all chunks are there; they are gone when it returns.

    Dask names a result after its computation. While one is still held, a second run of the same expression would find
    it, and take no time.

    Examples
    --------
    >>> from accel import fleet
    >>> import dask.array as da
    >>> with fleet.local(workers=1) as client:  # doctest: +SKIP
    ...     fleet.persisting_seconds(client, da.ones(1_000_000, chunks=100_000) + 1)
    """
    wait = distributed().wait
    started = time.perf_counter()
    result = array.persist()
    wait(result)
    taken = time.perf_counter() - started
    del result
    client.run(_idle)  # goes to the scheduler after the word that the result is given up
    return taken


def _idle() -> None:
    """Do nothing: an answer says that what was sent before has arrived."""


def measure_overhead(client: Any, *, repeats: int = 5) -> Overhead:
    """Measure graphs of 8 and of 256 tasks that each add 1 to a single number; take the best time of each.

    Unlike `accel.fleet.measure_scheduler`, which sends single functions, this goes the way of array expressions: a
    graph is optimized, sent, ordered, and each task has an input that a worker holds.

    Examples
    --------
    >>> from accel import fleet
    >>> with fleet.local(workers=1) as client:  # doctest: +SKIP
    ...     fleet.measure_overhead(client)
    """
    wait = distributed().wait
    import dask.array as da

    best: dict[int, float] = {}
    for tasks in (SHORT, LONG):
        x = da.zeros(tasks, chunks=1).map_blocks(_fresh).persist()
        wait(x)
        best[tasks] = min(persisting_seconds(client, x + 1) for _ in range(repeats))
    each = max((best[LONG] - best[SHORT]) / (LONG - SHORT), 1e-6)
    return Overhead(max(best[SHORT] - SHORT * each, 0.0), each, len(seats(client)))


def _fresh(block: Any) -> Any:
    """Return a chunk that is no broadcast of one number."""
    return block.copy()
