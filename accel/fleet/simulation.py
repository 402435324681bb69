"""Simulation: a graph of tasks run by workers in simulated time, in the way in which Dask's scheduler places them.

The model, event by event:

* The scheduler is one server. Each finished task occupies it for `scheduler_seconds_per_task`; what depends on the task
  is placed after that. Its messages take no further time.
* A task without dependencies waits in a queue, in Dask's order, until a worker has room: 1.1 tasks for each thread, as
  Dask's default ``worker-saturation`` has it. The worker with the fewest tasks takes it.
* Any other task goes to the worker, among those that hold one of its inputs, where it could start soonest: tasks
  waiting there, and inputs that must still be moved. Where all of these have more than 0.1 s to do, the least busy of
  all workers is asked too: that stands for the work stealing that Dask does every 0.1 s.
* Inputs are moved as soon as a task is placed. A worker sends one message at a time and receives one at a time, while
  its threads compute. What was moved stays until the last task that needs it is done.
* A worker runs the tasks whose inputs it holds in Dask's order, one on each thread.

What the model leaves out: stealing that is decided late, spilling to disk, workers that wait for memory, a network
whose switches are shared by other traffic, processors that serialize messages instead of computing, and failures.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accel.fleet.graph import TaskGraph
from accel.records import Record

__all__ = ["Bounds", "Schedule", "bounds", "simulate"]

SATURATION = 1.1
"""Queued tasks without dependencies that a worker takes for each of its threads: Dask's ``worker-saturation``."""
STEALING_SECONDS = 0.1
"""How often Dask lets idle workers steal: its ``work-stealing-interval``."""


@dataclass(frozen=True)
class Bounds(Record):
    """Times below which no schedule can be, whatever the order of the tasks."""

    work_seconds: float
    """All tasks, each on the worker that is fastest at it, spread over all threads without a gap."""
    critical_path_seconds: float
    """The longest chain of tasks that need each other, the scheduler's time after each included."""
    scheduler_seconds: float
    """All tasks through the scheduler."""


@dataclass(frozen=True)
class Schedule(Record):
    """What happened in a simulated run."""

    seconds: float
    """Until the scheduler has heard of the last task."""
    places: tuple[int, ...]
    """The worker that ran each task, or held it as data."""
    busy_seconds: tuple[float, ...]
    """Time that the threads of each worker computed, added up."""
    transfers: int
    bytes_moved: int
    """Bytes that went from worker to worker, each transfer counted."""
    network_seconds: float
    """What the worker that received most, or sent most, spent on that: no schedule with these places is shorter."""
    peak_bytes: int
    """The most that any worker held of results at one time."""

    @property
    def busiest_seconds(self) -> float:
        """Computing time of the worker that computed most."""
        return max(self.busy_seconds)


def bounds(
    graph: TaskGraph, seconds: Callable[[int, int], float], threads: Sequence[int], *, scheduler_seconds_per_task: float
) -> Bounds:
    """Return lower bounds for any schedule of a graph; the arguments are those of `simulate`."""
    best = [min(seconds(kind, worker) for worker in range(len(threads))) for kind in range(len(graph.kinds))]
    real = [graph.kinds[task.kind].seen != "data" for task in graph.tasks]
    longest: list[float] = []
    for task, counts in zip(graph.tasks, real, strict=True):
        before = max((longest[each] for each in task.dependencies), default=0.0)
        longest.append(before + (best[task.kind] + scheduler_seconds_per_task if counts else 0.0))
    work = sum(best[task.kind] for task, counts in zip(graph.tasks, real, strict=True) if counts)
    return Bounds(work / sum(threads), max(longest, default=0.0), sum(real) * scheduler_seconds_per_task)


def simulate(
    graph: TaskGraph,
    seconds: Callable[[int, int], float],
    threads: Sequence[int],
    *,
    transfer_seconds: Callable[[float], float] | None = None,
    scheduler_seconds_per_task: float = 0.0,
    places: Sequence[int] | None = None,
) -> Schedule:
    """Run a graph on workers in simulated time, under the model that the module describes.

    Parameters
    ----------
    seconds : callable
        ``seconds(kind, worker)`` is the time of one task of a kind on a worker; both are indices.
    threads : sequence of int
        Tasks that each worker runs at once.
    transfer_seconds : callable, optional
        Time of moving so many bytes from one worker to another; nothing unless given.
    places : sequence of int, optional
        The worker of each task, where that is not for the simulation to decide.

    Raises
    ------
    ValueError
        If there is no worker, one has no thread, or `places` does not name a worker for each task.

    Examples
    --------
    Eight equal tasks that do not depend on each other, on three workers: three rounds.

    >>> import dask.array as da
    >>> from accel.fleet import simulate, task_graph
    >>> graph = task_graph(da.ones(8, chunks=1, dtype="float32").map_blocks(lambda x: x + 1))
    >>> simulate(graph, lambda kind, worker: 2.0, threads=[1, 1, 1]).seconds
    6.0
    """
    if not threads or min(threads) < 1:
        raise ValueError(f"simulate() needs one worker or more, each with a thread or more; got threads={threads!r}.")
    if places is not None and (len(places) != len(graph.tasks) or not all(0 <= p < len(threads) for p in places)):
        raise ValueError(
            f"places names one of the {len(threads)} workers for each of the {len(graph.tasks)} tasks; "
            f"got {len(places)} places."
        )
    move = transfer_seconds or (lambda _: 0.0)
    return _Run(graph, seconds, threads, move, scheduler_seconds_per_task, places).run()


_ARRIVED, _FINISHED, _DECIDED = range(3)


class _Worker:
    """State of one worker."""

    __slots__ = ("busy", "free", "held", "occupancy", "peak", "ready", "received", "receives", "sends", "sent", "tasks")

    def __init__(self, threads: int) -> None:
        self.free = threads
        self.tasks = 0
        """Tasks placed here that are not finished."""
        self.occupancy = 0.0
        """Their time."""
        self.ready: list[int] = []
        self.sends = self.receives = 0.0
        """When the link is free again."""
        self.sent = self.received = self.busy = 0.0
        self.held = self.peak = 0


class _Run:
    def __init__(
        self,
        graph: TaskGraph,
        seconds: Callable[[int, int], float],
        threads: Sequence[int],
        move: Callable[[float], float],
        scheduler_seconds: float,
        places: Sequence[int] | None,
    ) -> None:
        self._graph, self._seconds, self._threads, self._move = graph, seconds, threads, move
        self._scheduler_seconds = scheduler_seconds
        self._forced = places
        self._workers = [_Worker(count) for count in threads]
        self._room = [math.ceil(SATURATION * count) for count in threads]
        self._idlest: list[tuple[float, int, int]] = [(0.0, 0, index) for index in range(len(threads))]
        self._events: list[tuple[float, int, int, int]] = []
        self._scheduler_free = self._end = 0.0
        self._transfers = self._bytes_moved = 0
        count = len(graph.tasks)
        self._places = [0] * count
        self._holders: list[set[int]] = [set() for _ in range(count)]
        self._moving: dict[tuple[int, int], float] = {}
        self._dependents: list[list[int]] = [[] for _ in range(count)]
        self._uses = [0] * count
        self._waiting = [0] * count
        self._missing = [0] * count
        self._roots: list[int] = []
        self._durations: dict[tuple[int, int], float] = {}

    def run(self) -> Schedule:
        self._begin()
        events = self._events
        while events:
            now, what, task, worker = heapq.heappop(events)
            if what == _ARRIVED:
                self._arrive(now, task, worker)
            elif what == _FINISHED:
                self._finish(now, task, worker)
            else:
                self._decide(now, task)
        return Schedule(
            seconds=self._end,
            places=tuple(self._places),
            busy_seconds=tuple(worker.busy for worker in self._workers),
            transfers=self._transfers,
            bytes_moved=self._bytes_moved,
            network_seconds=max(max(worker.sent, worker.received) for worker in self._workers),
            peak_bytes=max(worker.peak for worker in self._workers),
        )

    def _begin(self) -> None:
        """Put the data in place, count who waits for what, and fill the workers."""
        outputs, data = set(self._graph.outputs), 0
        for index, task in enumerate(self._graph.tasks):
            for source in task.dependencies:
                self._dependents[source].append(index)
                self._uses[source] += 1
            self._waiting[index] = len(task.dependencies)
        for index, task in enumerate(self._graph.tasks):
            self._uses[index] += index in outputs
            if self._graph.kinds[task.kind].seen == "data":
                worker = self._forced[index] if self._forced else data % len(self._workers)
                data += 1
                self._keep(index, worker)
                self._places[index] = worker
                for each in self._dependents[index]:
                    self._waiting[each] -= 1
        is_data = [self._graph.kinds[task.kind].seen == "data" for task in self._graph.tasks]
        # Those that need only data are placed where it is; those that need nothing wait for room.
        for index, task in enumerate(self._graph.tasks):
            if not is_data[index] and not self._waiting[index] and task.dependencies:
                self._place(0.0, index)
        self._roots = [i for i, task in enumerate(self._graph.tasks) if not is_data[i] and not task.dependencies]
        self._roots.reverse()
        self._fill(0.0)

    def _duration(self, task: int, worker: int) -> float:
        key = self._graph.tasks[task].kind, worker
        if key not in self._durations:
            self._durations[key] = self._seconds(*key)
        return self._durations[key]

    def _fill(self, now: float) -> None:
        """Give queued tasks to workers that have room."""
        while self._roots:
            if self._forced is not None:
                task = self._roots.pop()
                self._place_on(now, task, self._forced[task])
                continue
            worker = self._least_loaded()
            if self._workers[worker].tasks >= self._room[worker]:
                return
            self._place_on(now, self._roots.pop(), worker)

    def _least_loaded(self) -> int:
        """Return the worker with the fewest tasks for each thread; of those, the one that is done soonest."""
        heap = self._idlest
        while True:
            load, _, index = heap[0]
            current = self._workers[index].tasks / self._threads[index]
            if load == current:
                return index
            heapq.heapreplace(heap, (current, self._workers[index].tasks, index))

    def _place(self, now: float, task: int) -> None:
        """Choose the worker where a task could start soonest."""
        if self._forced is not None:
            return self._place_on(now, task, self._forced[task])
        sources = self._graph.tasks[task].dependencies
        candidates = set[int]().union(*(self._holders[source] for source in sources))
        backlog = min(self._workers[worker].occupancy / self._threads[worker] for worker in candidates)
        if backlog > STEALING_SECONDS:
            candidates.add(self._least_loaded())
        return self._place_on(now, task, min(candidates, key=lambda worker: self._objective(sources, worker)))

    def _objective(self, sources: Sequence[int], worker: int) -> tuple[float, int, int]:
        state = self._workers[worker]
        absent = [self._graph.bytes_of(source) for source in sources if worker not in self._holders[source]]
        return (
            state.occupancy / self._threads[worker] + sum(self._move(size) for size in absent),
            state.held,
            worker,
        )

    def _place_on(self, now: float, task: int, worker: int) -> None:
        state = self._workers[worker]
        self._places[task] = worker
        state.tasks += 1
        state.occupancy += self._duration(task, worker)
        for source in self._graph.tasks[task].dependencies:
            if worker not in self._holders[source]:
                self._missing[task] += 1
                heapq.heappush(self._events, (self._fetch(now, source, worker), _ARRIVED, task, source))
        if not self._missing[task]:
            heapq.heappush(state.ready, task)
            self._start(now, worker)

    def _fetch(self, now: float, source: int, worker: int) -> float:
        """Move a result to a worker, unless that is under way; return when it will be there."""
        if (source, worker) in self._moving:
            return self._moving[source, worker]
        giver = self._workers[min(self._holders[source], key=lambda holder: self._workers[holder].sends)]
        taker, size = self._workers[worker], self._graph.bytes_of(source)
        seconds = self._move(size)
        end = max(now, giver.sends, taker.receives) + seconds
        giver.sends = taker.receives = end
        giver.sent += seconds
        taker.received += seconds
        self._transfers += 1
        self._bytes_moved += size
        self._moving[source, worker] = end
        return end

    def _arrive(self, now: float, task: int, source: int) -> None:
        worker = self._places[task]
        if worker not in self._holders[source]:
            self._keep(source, worker)
        self._missing[task] -= 1
        if not self._missing[task]:
            heapq.heappush(self._workers[worker].ready, task)
            self._start(now, worker)

    def _start(self, now: float, worker: int) -> None:
        state = self._workers[worker]
        while state.free and state.ready:
            task = heapq.heappop(state.ready)
            duration = self._duration(task, worker)
            state.free -= 1
            state.busy += duration
            heapq.heappush(self._events, (now + duration, _FINISHED, task, worker))

    def _finish(self, now: float, task: int, worker: int) -> None:
        state = self._workers[worker]
        state.free += 1
        state.tasks -= 1
        state.occupancy = max(0.0, state.occupancy - self._duration(task, worker))
        heapq.heappush(self._idlest, (state.tasks / self._threads[worker], state.tasks, worker))
        self._keep(task, worker)
        for source in self._graph.tasks[task].dependencies:
            self._used(source)
        if not self._uses[task]:
            self._drop(task)
        self._start(now, worker)
        self._scheduler_free = max(self._scheduler_free, now) + self._scheduler_seconds
        heapq.heappush(self._events, (self._scheduler_free, _DECIDED, task, worker))

    def _decide(self, now: float, task: int) -> None:
        """Place what waited for a task of which the scheduler has now heard, then what is queued."""
        self._end = now
        for each in self._dependents[task]:
            self._waiting[each] -= 1
            if not self._waiting[each]:
                self._place(now, each)
        self._fill(now)

    def _keep(self, task: int, worker: int) -> None:
        state = self._workers[worker]
        self._holders[task].add(worker)
        state.held += self._graph.bytes_of(task)
        state.peak = max(state.peak, state.held)

    def _used(self, task: int) -> None:
        self._uses[task] -= 1
        if not self._uses[task]:
            self._drop(task)

    def _drop(self, task: int) -> None:
        for worker in self._holders[task]:
            self._workers[worker].held -= self._graph.bytes_of(task)
        self._holders[task] = set()
