"""Overhead: what a graph of arrays costs a scheduler and its workers, whatever the tasks compute."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from accel.fleet.cluster import distributed, seats
from accel.records import Record

__all__ = ["Overhead", "measure_overhead", "persisting_seconds"]

SHORT, LONG = 8, 256
"""Tasks of the graphs that compute nothing."""
FEW, MANY = 16, 128
"""Tasks of the graphs that share the same work."""
CALLS = 10
"""NumPy calls of about 0.2 ms that are the work of one of many tasks."""
STEPS = 17
"""Operations of a long fused task, which is compared with one of a single operation."""


@dataclass(frozen=True)
class Overhead(Record):
    """Time that a graph of array tasks takes beyond what they compute: a line over their number.

    >>> from accel.fleet.overhead import Overhead
    >>> Overhead(start_seconds=0.02, seconds_per_task=0.001).seconds(100)
    0.12000000000000001
    """

    start_seconds: float
    """What any graph costs: from `persist` to knowing that it is done, with hardly a task."""
    seconds_per_task: float
    """What each task adds, in the client, the scheduler and the worker together."""

    workers: int = 1
    """With how many workers it was measured: they shared what each task adds."""

    working_seconds_per_task: float | None = None
    """What each task adds where tasks compute, and messages come one by one; `seconds_per_task` where not measured."""

    seconds_per_step: float = 0.0
    """What a worker's Python adds for each further operation that Dask has fused into one task."""

    @property
    def worker_seconds_per_task(self) -> float:
        """What each task keeps a worker from computing: taking the task up, deserializing, reporting back.

        All of the measured time, since a worker's event loop and its computing thread take turns, and so do scheduler
        and workers where they have no CPU each.
        """
        each = self.seconds_per_task if self.working_seconds_per_task is None else self.working_seconds_per_task
        return each * self.workers

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
    """Measure graphs of more and of fewer tasks, best of several times.

    The first two, of 8 and of 256 tasks, add 1 to a single number. The next two do the same work in 16 tasks and in
    128: what the latter takes longer is what a task costs where the workers compute. Last, one worker runs a fused
    task of 17 operations, and of one.

    Unlike `accel.fleet.measure_scheduler`, which sends single functions, this goes the way of array expressions: a
    graph is optimized, sent, ordered, and each task has an input that a worker holds.

    Examples
    --------
    >>> from accel import fleet
    >>> with fleet.local(workers=1) as client:  # doctest: +SKIP
    ...     fleet.measure_overhead(client)
    """
    held = {tasks: _held(tasks) for tasks in (SHORT, LONG, FEW, MANY)}
    workers = len(seats(client))
    graphs = {tasks: held[tasks] + 1 for tasks in (SHORT, LONG)}
    graphs |= {n: held[n].map_blocks(_work, MANY // n * CALLS, dtype="float64", meta=held[n]) for n in (FEW, MANY)}
    best = dict.fromkeys(graphs, float("inf"))
    for _ in range(repeats):  # by turns, so that a slow phase of the machine falls on all of them
        for tasks, graph in graphs.items():
            best[tasks] = min(best[tasks], persisting_seconds(client, graph))
    each = max((best[LONG] - best[SHORT]) / (LONG - SHORT), 1e-6)
    working = (best[MANY] - best[FEW]) / (MANY - FEW)
    step = client.submit(_step_seconds, repeats, pure=False).result()
    return Overhead(max(best[SHORT] - SHORT * each, 0.0), each, workers, max(working, each), step)


def _held(count: int) -> Any:
    """Return an array of so many chunks of one number, which the workers hold."""
    import dask.array as da

    array = da.zeros(count, chunks=1).map_blocks(_fresh).persist()
    distributed().wait(array)
    return array


def _fresh(block: Any) -> Any:
    """Return a chunk that is no broadcast of one number."""
    return block.copy()


def _work(block: Any, calls: int) -> Any:
    """Compute for a while, in calls that other threads can run beside."""
    import numpy as np

    values = np.full(2**16, 0.5, np.float32)
    results = np.empty_like(values)
    for _ in range(calls):
        np.tanh(values, out=results)
    return block + results[0]


def _step_seconds(repeats: int) -> float:
    """Return what an operation costs that is one of many in a fused task, with nothing to compute."""
    import dask
    import dask.array as da
    from dask.local import get_sync

    def best(steps: int) -> float:
        array = da.zeros(1, chunks=1)
        for _ in range(steps):
            array = array + 1
        (fused,) = dask.optimize(array)
        graph, keys = dict(fused.__dask_graph__()), fused.__dask_keys__()

        def once() -> float:
            started = time.perf_counter()
            get_sync(graph, keys)
            return time.perf_counter() - started

        return min(once() for _ in range(10 * repeats))

    return max((best(STEPS) - best(1)) / (STEPS - 1), 0.0)
