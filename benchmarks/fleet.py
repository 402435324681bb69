"""Predicted and measured times of Dask array expressions on this computer, and simulated ones on many.

    python benchmarks/fleet.py                      one and two workers, measured; 4 to 1,000 simulated
    python benchmarks/fleet.py --quick              fewer rounds
    python benchmarks/fleet.py --workers 2          only two workers

The expressions take turns, so that a slow phase of the machine falls on all of them. What is measured is
``wait(expression.persist())`` on data that the workers hold already. The simulated fleets consist of the machines that
are recorded in the package; nothing there is measured, and the last line says so.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import dask
import dask.array as da
from distributed import wait

import accel
from accel import fleet, storage
from accel.fleet.prediction import LIMITS, FleetPrediction
from accel.fleet.records import Fleet, FleetWorker
from accel.tables import Column, Table, counts_column, numbers_column

SIZE, DTYPE = 4096, "float32"
Build = Callable[[Any], Any]


def gelu(x: Any) -> Any:
    """Apply GELU, as one expression."""
    return 0.5 * x * (1.0 + da.tanh(0.7978846 * (x + 0.044715 * x * x * x)))


def softmax(x: Any) -> Any:
    """Apply softmax to the rows."""
    weights = da.exp(x - x.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


EXPRESSIONS: dict[str, tuple[Build, tuple[int, ...]]] = {
    "x @ x": (lambda x: x @ x, (512, 1024, 2048)),
    "gelu(x)": (gelu, (256, 512, 1024, 2048)),
    "softmax(x)": (softmax, (512, 1024, 2048)),
    "x.sum()": (lambda x: x.sum(), (256, 512, 1024, 2048)),
    "x.mean(axis=0)": (lambda x: x.mean(axis=0), (512, 1024, 2048)),
    "x + x.T": (lambda x: x + x.T, (512, 1024, 2048)),
}


def measured_fleet(client: Any, machine: accel.Machine) -> Fleet:
    """Return the workers of a client on this computer, with what its network and scheduler were measured to do."""
    seats = fleet.seats(client)
    workers = tuple(
        FleetWorker(seat.name, seat.address, seat.host, machine, seat.threads, seat.memory_limit_bytes, {})
        for seat in seats
    )
    network = fleet.measure_network(client) if len(seats) > 1 else None
    now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    return Fleet(workers, network, fleet.measure_scheduler(client), now)


def cases() -> Iterator[tuple[str, Build, int]]:
    """Go over expressions and lengths of chunks."""
    for name, (build, lengths) in EXPRESSIONS.items():
        for length in lengths:
            yield name, build, length


def run(
    client: Any, machine: accel.Machine, rounds: int
) -> tuple[Fleet, dict[tuple[str, int], tuple[FleetPrediction, float]]]:
    """Predict and measure all cases on the workers of a client."""
    there, overhead = measured_fleet(client, machine), fleet.measure_overhead(client)
    print(f"\n{overhead}; scheduler alone {there.scheduler_seconds_per_task * 1e6:.0f} µs a task")
    data = {}
    for length in sorted({length for _, _, length in cases()}):
        x = da.random.default_rng(0).standard_normal((SIZE, SIZE), chunks=length, dtype=DTYPE)
        data[length] = x.persist()
        wait(data[length])
    predicted = {
        (name, length): fleet.predict(build(data[length]), there, inputs=[data[length]], overhead=overhead)
        for name, build, length in cases()
    }
    times: dict[tuple[str, int], list[float]] = {key: [] for key in predicted}
    for _ in range(rounds):
        for name, build, length in cases():
            times[name, length].append(fleet.persisting_seconds(client, build(data[length])))
    return there, {key: (predicted[key], min(samples)) for key, samples in times.items()}


def compared(workers: int, found: dict[tuple[str, int], tuple[FleetPrediction, float]]) -> Table:
    """Return predicted beside measured times."""
    ratios = [told.seconds / seconds for told, seconds in found.values()]
    off = [max(ratio, 1 / ratio) for ratio in ratios]
    return Table(
        f"float32[{SIZE}, {SIZE}] on {workers} worker{'s' * (workers > 1)} of one thread, best time",
        (
            Column("expression", tuple(name for name, _ in found), is_text=True),
            Column("chunks", tuple(str(length) for _, length in found)),
            Column("tasks", tuple(f"{told.tasks:,}" for told, _ in found.values())),
            counts_column("moved", [told.schedule.bytes_moved for told, _ in found.values()], "B"),
            numbers_column("predicted (ms)", [told.seconds for told, _ in found.values()], 1e-3),
            numbers_column("measured (ms)", [seconds for _, seconds in found.values()], 1e-3),
            Column("ratio", tuple(f"{ratio:.2f}" for ratio in ratios)),
            Column("bound by", tuple(told.bound_by for told, _ in found.values()), is_text=True),
        ),
        f"Off by a factor of {statistics.median(off):.2f} in the median, {max(off):.2f} at most; within 1.5: "
        f"{sum(ratio <= 1.5 for ratio in off)} of {len(off)}.",
    )


def simulated(there: Fleet) -> Table:
    """Return predicted times on 4 to 1,000 workers of each recorded machine, one to a host."""
    rows = []
    for machine_name, machine in storage.references().items():
        for name, build, length in (
            ("x @ x", EXPRESSIONS["x @ x"][0], 2048),
            ("softmax(x)", softmax, 2048),
            ("gelu(x)", gelu, 2048),
        ):
            size = 32_768
            x = fleet.stored((size, size), length, DTYPE)
            graph = fleet.task_graph(build(x), inputs=[x])
            for workers in (1, 4, 16, 64, 256, 1000):
                many = fleet.fleet_of(
                    machine,
                    workers,
                    bandwidth_bytes_per_second=1.25e9,
                    latency_seconds=1e-3,
                    scheduler_seconds_per_task=there.scheduler_seconds_per_task,
                )
                rows.append((machine_name, name, workers, fleet.predict(graph, many)))
    return Table(
        "float32[32768, 32768] in chunks of 2048, one thread a host, 10 Gbit/s between hosts: simulated",
        (
            Column("machine", tuple(row[0] for row in rows), is_text=True),
            Column("expression", tuple(row[1] for row in rows), is_text=True),
            Column("workers", tuple(f"{row[2]:,}" for row in rows)),
            counts_column("moved", [row[3].schedule.bytes_moved for row in rows], "B"),
            numbers_column("predicted (s)", [row[3].seconds for row in rows], 1.0),
            Column("bound by", tuple(row[3].bound_by for row in rows), is_text=True),
        ),
        LIMITS,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two rounds")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2], help="workers to measure with")
    parser.add_argument("--no-simulation", action="store_true", help="only what is measured")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "Increasing number of chunks")
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"})
    machine = accel.this_machine()
    print(machine)
    there = None
    for workers in options.workers:
        with fleet.local(workers=workers) as client:
            there, found = run(client, machine, 2 if options.quick else 5)
            print(compared(workers, found), flush=True)
    if there is not None and not options.no_simulation:
        print(simulated(there))


if __name__ == "__main__":
    main()
