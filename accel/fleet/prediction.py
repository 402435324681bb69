"""Prediction: how long a Dask array expression takes on a fleet, before anything is computed.

Each kind of task is priced from its trace on the machine of each worker, with inputs that come from memory, because
other tasks ran in between, and with results in fresh pages, because Dask's workers give memory back at once. Threads
that share a host share its memory bandwidth. `accel.fleet.simulation` then runs the graph in simulated time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from accel.cost import Cost
from accel.fleet.graph import TaskGraph, TaskKind, task_graph
from accel.fleet.overhead import Overhead
from accel.fleet.records import Fleet, FleetWorker, Network
from accel.fleet.simulation import Bounds, Schedule, bounds, simulate
from accel.machine import Machine
from accel.measurement import format_seconds
from accel.pricing import Price, PriceList
from accel.records import Record
from accel.reuse import ReuseStack, piece_of
from accel.tables import Column, Table, numbers_column
from accel.tracing import Trace
from accel.units import TIME, format_bytes, format_decimal, unit_for

__all__ = ["LIMITS", "FleetPrediction", "KindTime", "fleet_of", "predict"]

LIMITS = (
    "Simulated, not measured: every worker is as fast as the machine measured, every link as fast as was said, "
    "and nothing fails, spills, or is used by others."
)
SIZES_BYTES = tuple(2**exponent for exponent in range(3, 29, 5))


@dataclass(frozen=True)
class KindTime(Record):
    """Predicted time of one task of a kind, on the fastest of the workers' machines."""

    name: str
    count: int
    seconds: float
    arithmetic_seconds: float
    memory_seconds: float
    """Traffic, and fresh pages."""
    overhead_seconds: float
    """Dispatch of the NumPy calls."""
    bound_by: str
    """``"arithmetic"``, ``"memory"``, ``"dispatch overhead"``; ``"opaque"`` where nothing is known."""


@dataclass(frozen=True)
class FleetPrediction(Record):
    """Predicted time of an array expression on a fleet; what `accel.fleet.predict` returns."""

    name: str
    workers: int
    threads: int
    """Of all workers together."""
    hosts: int
    tasks: int
    opaque_tasks: int
    """Of whose work nothing is known: they are taken to cost nothing but their scheduling."""
    cost: Cost
    kinds: tuple[KindTime, ...]
    schedule: Schedule
    bounds: Bounds
    worker_seconds_per_task: float
    """What each task keeps a worker from computing."""
    preparing_seconds: float
    """Before the first task: optimizing and ordering the graph, as it was measured here, or what any graph costs."""
    embedded_seconds: float
    """Sending the arrays that are part of the graph to the scheduler and on to workers."""
    seconds: float
    """All of it: preparing, embedded data, and the schedule."""

    @property
    def network_seconds(self) -> float:
        """What the busiest link takes for its transfers."""
        return self.schedule.network_seconds

    @property
    def parts(self) -> dict[str, float]:
        """Lower bounds of the time by cause: the largest is what bounds it."""
        shares = {"computing": 0.0, "memory": 0.0, "scheduler": self.tasks * self.worker_seconds_per_task}
        for kind in self.kinds:
            shares["memory" if kind.bound_by == "memory" else "computing"] += kind.seconds * kind.count
        found = {
            "critical path": self.bounds.critical_path_seconds,
            "network": self.network_seconds,
            "scheduler": self.bounds.scheduler_seconds + self.preparing_seconds,
        }
        largest = max(shares, key=lambda name: shares[name])
        return found | {largest: max(self.bounds.work_seconds, found.get(largest, 0.0))}

    @property
    def bound_by(self) -> str:
        """The largest of the parts: computing, memory, network, scheduler or critical path."""
        return max(self.parts, key=lambda name: self.parts[name])

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def table(self) -> Table:
        """Return the prediction as a table: a row for each kind of task."""
        time = unit_for([kind.seconds for kind in self.kinds], TIME)
        whole = unit_for([kind.seconds * kind.count for kind in self.kinds], TIME)
        parts = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in self.parts.items())
        opaque = f" {self.opaque_tasks} tasks are opaque and count as nothing." if self.opaque_tasks else ""
        return Table(
            f"{self.name} on {self.workers} worker{'s' * (self.workers > 1)}: "
            f"predicted {format_seconds(self.seconds)}, bound by {self.bound_by}",
            (
                Column("task", tuple(kind.name for kind in self.kinds), is_text=True),
                Column("tasks", tuple(f"{kind.count:,}" for kind in self.kinds)),
                numbers_column(f"one ({time[0]})", [kind.seconds for kind in self.kinds], time[1]),
                numbers_column(f"all ({whole[0]})", [kind.seconds * kind.count for kind in self.kinds], whole[1]),
                Column("bound by", tuple(kind.bound_by for kind in self.kinds), is_text=True),
            ),
            f"No schedule takes less than: {parts}. {format_bytes(self.schedule.bytes_moved)} moved in "
            f"{self.schedule.transfers:,} transfers; {format_decimal(self.cost.flops, 'FLOP')}; "
            f"at most {format_bytes(self.schedule.peak_bytes)} held by a worker.{opaque}",
        )


def predict(
    array: Any,
    fleet: Fleet,
    *,
    inputs: Iterable[Any] = (),
    overhead: Overhead | None = None,
    places: Sequence[int] | None = None,
) -> FleetPrediction:
    """Predict how long ``wait(array.persist())`` takes on a fleet: the result stays with the workers.

    Parameters
    ----------
    array : dask.array.Array or TaskGraph
        The expression, or its graph if that is at hand.
    inputs : iterable of dask.array.Array
        Arrays whose chunks the workers hold already.
    overhead : Overhead, optional
        What `accel.fleet.measure_overhead` found. Unless given, it is the fleet's own time per task, and what it took
        here to prepare the graph.
    places : sequence of int, optional
        The worker of each task, by index, where that is known; the simulation decides unless given.

    Raises
    ------
    ValueError
        If there are several workers and the network between them was not measured, or a machine was not calibrated.
    """
    graph = array if isinstance(array, TaskGraph) else task_graph(array, inputs=inputs)
    if fleet.network is None and len(fleet.workers) > 1:
        raise ValueError(
            f"the fleet has {len(fleet.workers)} workers and no measured network. Calibrate it with two workers or "
            "more, or say what its network does: accel.fleet.fleet_of(machine, workers, bandwidth_bytes_per_second=…)."
        )
    groups, classes = _classes(fleet.workers)
    held = sum(graph.bytes_of(index) for index in range(len(graph.tasks))) / len(fleet.workers)
    times = [[_kind_time(kind, worker, busy, held) for kind in graph.kinds] for worker, busy in groups]
    threads = [worker.threads for worker in fleet.workers]

    taking_up = overhead.worker_seconds_per_task if overhead else 0.0
    each_step = overhead.seconds_per_step if overhead else 0.0

    def seconds(kind: int, worker: int) -> float:
        return times[classes[worker]][kind].seconds + taking_up + (graph.kinds[kind].steps - 1) * each_step

    per_task = overhead.seconds_per_task if overhead else fleet.scheduler_seconds_per_task
    preparing = overhead.start_seconds if overhead else graph.preparing_seconds
    schedule = simulate(
        graph,
        seconds,
        threads,
        transfer_seconds=fleet.network.transfer_seconds if fleet.network else None,
        scheduler_seconds_per_task=per_task,
        places=places,
    )
    embedded = (
        2 * fleet.network.transfer_seconds(graph.embedded_bytes) if fleet.network and graph.embedded_bytes else 0.0
    )
    return FleetPrediction(
        name=graph.name,
        workers=len(fleet.workers),
        threads=sum(threads),
        hosts=len(fleet.hosts),
        tasks=sum(kind.count for kind in graph.kinds if kind.seen != "data"),
        opaque_tasks=graph.opaque_tasks,
        cost=graph.cost,
        kinds=tuple(min(alike, key=lambda time: time.seconds) for alike in zip(*times, strict=True)),
        schedule=schedule,
        bounds=bounds(graph, seconds, threads, scheduler_seconds_per_task=per_task),
        worker_seconds_per_task=taking_up,
        preparing_seconds=preparing,
        embedded_seconds=embedded,
        seconds=preparing + embedded + schedule.seconds,
    )


def _classes(workers: Sequence[FleetWorker]) -> tuple[list[tuple[FleetWorker, int]], list[int]]:
    """Return the workers that differ, each with the threads that are busy on its host, and the class of each worker."""
    busy: dict[str, int] = {}
    for worker in workers:
        busy[worker.host] = busy.get(worker.host, 0) + worker.threads
    found: dict[tuple[int, int], int] = {}
    groups: list[tuple[FleetWorker, int]] = []
    classes = []
    for worker in workers:
        key = id(worker.machine), busy[worker.host]
        if key not in found:
            found[key] = len(groups)
            groups.append((worker, busy[worker.host]))
        classes.append(found[key])
    return groups, classes


def _kind_time(kind: TaskKind, worker: FleetWorker, busy: int, held_bytes: float) -> KindTime:
    """Price one task of a kind on a worker, while `busy` threads of its host compute."""
    if kind.seen in ("data", "opaque"):
        return KindTime(kind.name, kind.count, 0.0, 0.0, 0.0, 0.0, "–" if kind.seen == "data" else "opaque")
    machine = worker.machine
    # Dask starts workers so that free memory goes back to the system, and each large result needs fresh pages.
    roofs = replace(machine.roofs, allocations=machine.roofs.fresh_pages)
    prices = PriceList(machine.with_calibration(roofs), 1)
    crowd = max(1.0, busy / machine.usable_cpus)
    shared = _shared_bandwidth(machine, min(busy, machine.usable_cpus))
    found = [price for traced in kind.traces for price in _prices(traced, prices, held_bytes)]
    found = [replace(p, memory_seconds=p.memory_seconds * (shared if p.level == "DRAM" else 1.0)) for p in found]
    parts = {
        "arithmetic": sum(price.arithmetic_seconds for price in found),
        "memory": sum(price.memory_seconds + price.pages_seconds for price in found),
        "dispatch overhead": sum(price.overhead_seconds for price in found),
    }
    return KindTime(
        kind.name,
        kind.count,
        crowd * sum(price.seconds for price in found),
        parts["arithmetic"],
        parts["memory"],
        parts["dispatch overhead"],
        max(parts, key=lambda name: parts[name]) if found else "–",
    )


def _prices(traced: Trace, prices: PriceList, held_bytes: float) -> list[Price]:
    """Price the calls of a task whose inputs were last touched as long ago as all results of a worker are large."""
    stack = ReuseStack(prices.largest_working_set_bytes)
    found = []
    for op in traced.ops:
        touched = stack.touch([piece_of(array) for array in (*op.operands, *op.results)])
        found.append(prices.price(op, [held_bytes if math.isinf(distance) else distance for distance in touched]))
    return found


def _shared_bandwidth(machine: Machine, busy: int) -> float:
    """Return how many times as long memory traffic takes while so many threads use the memory at once."""
    counts = sorted({curve.threads for curve in machine.roofs.bandwidths if curve.threads <= busy})
    if busy < 2 or not counts or counts[-1] == 1:
        return 1.0
    largest = max(curve.working_set_bytes[-1] for curve in machine.roofs.bandwidths)
    alone, together = (machine.bandwidth_bytes_per_second(largest, count) for count in (1, counts[-1]))
    return max(1.0, busy * alone / (together * max(1.0, busy / counts[-1]) if busy > counts[-1] else together))


def fleet_of(
    machine: Machine,
    workers: int,
    *,
    bandwidth_bytes_per_second: float,
    latency_seconds: float,
    scheduler_seconds_per_task: float,
    threads: int = 1,
    workers_per_host: int = 1,
) -> Fleet:
    """Return a fleet of equal workers, to simulate what was not measured.

    Parameters
    ----------
    machine : Machine
        What each host is; for example one of `accel.storage.references()`.
    bandwidth_bytes_per_second, latency_seconds : float
        Of one message from worker to worker, serialization included. A 10 Gbit/s network has 1.25e9 bytes per second
        at best.

    Raises
    ------
    ValueError
        If a count is below 1, or a rate or time is not positive.

    Examples
    --------
    >>> from accel.fleet import fleet_of
    >>> from accel.storage import references
    >>> machine = next(iter(references().values()))  # doctest: +SKIP
    >>> fleet = fleet_of(machine, 1000, bandwidth_bytes_per_second=1e9, latency_seconds=1e-3,
    ...                  scheduler_seconds_per_task=2e-4)  # doctest: +SKIP
    """
    if min(workers, threads, workers_per_host) < 1:
        raise ValueError(
            "a fleet has one worker or more, each with a thread or more; got "
            f"workers={workers}, threads={threads}, workers_per_host={workers_per_host}."
        )
    if min(bandwidth_bytes_per_second, latency_seconds, scheduler_seconds_per_task) <= 0:
        raise ValueError("bandwidth, latency and the scheduler's time per task are above zero.")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    network = Network(
        sizes_bytes=SIZES_BYTES,
        seconds=tuple(latency_seconds + size / bandwidth_bytes_per_second for size in SIZES_BYTES),
        latency_seconds=latency_seconds,
        same_host=workers <= workers_per_host,
        taken_at=now,
    )
    members = tuple(
        FleetWorker(f"worker {index}", "", f"host {index // workers_per_host}", machine, threads, None, {})
        for index in range(workers)
    )
    return Fleet(
        workers=members,
        network=network if workers > 1 else None,
        scheduler_seconds_per_task=scheduler_seconds_per_task,
        taken_at=now,
    )
