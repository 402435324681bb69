"""Predictions beside what real workers on this computer report, and their own arithmetic."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from machines import CALIBRATION, LAPTOP

from accel import fleet
from accel.fleet.prediction import FleetPrediction

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

MACHINE = LAPTOP.with_calibration(CALIBRATION)
NETWORK = {"bandwidth_bytes_per_second": 1e9, "latency_seconds": 1e-3, "scheduler_seconds_per_task": 1e-3}


def test_bytes_moved_are_those_that_workers_report() -> None:
    """Where each chunk was and where each task ran is asked of Dask; the bytes then follow from the graph alone."""
    with fleet.local(workers=2) as client:
        x = da.random.default_rng(0).standard_normal((2000, 2000), chunks=500).persist()
        distributed.wait(x)
        expression = x + x.T
        graph = fleet.task_graph(expression, inputs=[x])
        before = {str(key): where for key, where in client.who_has(x).items()}
        done = expression.persist()
        distributed.wait(done)
        after = {str(key): where for key, where in client.who_has(done).items()}
        logs = client.run(lambda dask_worker: [entry["total"] for entry in dask_worker.transfer_incoming_log])
        received = sum(map(sum, logs.values()))
    homes = before | after
    moved = graph.bytes_moved([homes[task.key][0] for task in graph.tasks])
    assert moved > 0
    assert moved <= received <= 1.25 * moved, "a task that was stolen has its inputs sent twice"


def test_a_run_finds_no_result_of_the_one_before() -> None:
    """Each chunk takes at least so long, and the same expression is computed again each time."""

    def slow(block: Any) -> Any:
        time.sleep(0.05)
        return block + 1

    with fleet.local(workers=1) as client:
        expression = da.ones(4, chunks=1).map_blocks(slow, dtype=float)
        assert all(fleet.persisting_seconds(client, expression) >= 4 * 0.05 for _ in range(4))


def test_equal_workers_share_the_work_and_the_scheduler_is_there_once() -> None:
    x = fleet.stored((4000, 4000), 500, "float32")
    graph = fleet.task_graph(x + 1, inputs=[x])
    told = {n: fleet.predict(graph, fleet.fleet_of(MACHINE, n, **NETWORK)) for n in (1, 4, 64)}
    assert told[4].bounds.work_seconds <= told[1].bounds.work_seconds / 4 * 1.001, "less data on each: nearer caches"
    assert told[64].bounds.scheduler_seconds == told[1].bounds.scheduler_seconds == pytest.approx(0.064)
    assert told[64].bound_by == "scheduler"
    assert all(each.seconds >= max(each.parts.values()) for each in told.values())


def test_workers_of_one_host_share_its_processors() -> None:
    x = fleet.stored((4000, 4000), 500, "float32")
    graph = fleet.task_graph(x + 1, inputs=[x])
    apart = fleet.predict(graph, fleet.fleet_of(MACHINE, 8, **NETWORK))
    together = fleet.predict(graph, fleet.fleet_of(MACHINE, 8, workers_per_host=8, **NETWORK))
    assert (apart.hosts, together.hosts) == (8, 1)
    assert together.bounds.work_seconds >= apart.bounds.work_seconds * 8 / MACHINE.usable_cpus * 0.999


def test_slow_workers_are_told_apart() -> None:
    x = fleet.stored((4000, 4000), 500, "float32")
    graph = fleet.task_graph(x + 1, inputs=[x])
    slow = MACHINE.with_calibration(
        replace(
            CALIBRATION,
            streams=tuple(
                replace(s, seconds_per_byte=tuple(9 * t for t in s.seconds_per_byte)) for s in CALIBRATION.streams
            ),
        )
    )
    pair = fleet.fleet_of(MACHINE, 2, **NETWORK | {"scheduler_seconds_per_task": 1e-6})
    uneven = replace(pair, workers=(pair.workers[0], replace(pair.workers[1], machine=slow)))
    assert fleet.predict(graph, uneven).seconds > fleet.predict(graph, pair).seconds


def test_overhead_takes_the_place_of_the_fleets_own() -> None:
    x = fleet.stored((100,), 10)
    graph = fleet.task_graph(x + 1, inputs=[x])
    overhead = fleet.Overhead(start_seconds=0.5, seconds_per_task=0.1, workers=1)
    told = fleet.predict(graph, fleet.fleet_of(MACHINE, 1, **NETWORK), overhead=overhead)
    assert told.seconds == pytest.approx(0.5 + 10 * 0.1 + 0.1, rel=0.01)
    assert told.bound_by == "scheduler"


def test_tasks_that_compute_cost_what_was_measured_beside_work() -> None:
    x = fleet.stored((100,), 10)
    graph = fleet.task_graph(x + 1, inputs=[x])
    overhead = fleet.Overhead(start_seconds=0.5, seconds_per_task=0.1, workers=1, working_seconds_per_task=0.3)
    assert overhead.seconds(10) == pytest.approx(1.5)
    told = fleet.predict(graph, fleet.fleet_of(MACHINE, 1, **NETWORK), overhead=overhead)
    assert told.seconds == pytest.approx(0.5 + 10 * 0.3 + 0.1, rel=0.01)


@pytest.mark.parametrize("operations", [1, 5])
def test_each_operation_that_dask_fuses_into_a_task_adds_its_own_cost(operations) -> None:
    x = fleet.stored((100,), 10)
    y = x
    for _ in range(operations):
        y = y + 1
    graph = fleet.task_graph(y, inputs=[x])
    assert [kind.steps for kind in graph.kinds if kind.traces] == [operations]
    overhead = fleet.Overhead(start_seconds=0.0, seconds_per_task=1e-6, workers=1)
    one = fleet.fleet_of(MACHINE, 1, **NETWORK)
    plain, told = (
        fleet.predict(graph, one, overhead=replace(overhead, seconds_per_step=each)).seconds for each in (0.0, 0.2)
    )
    assert told - plain == pytest.approx(10 * (operations - 1) * 0.2, rel=1e-6)


def test_several_workers_need_a_network() -> None:
    x = fleet.stored((100,), 10)
    without = replace(fleet.fleet_of(MACHINE, 2, **NETWORK), network=None)
    with pytest.raises(ValueError, match="no measured network"):
        fleet.predict(x + 1, without, inputs=[x])
    with pytest.raises(ValueError, match="one worker or more"):
        fleet.fleet_of(MACHINE, 0, **NETWORK)


def test_prediction_survives_saving_and_reads_as_a_table() -> None:
    x = fleet.stored((100,), 10)
    told = fleet.predict(x + 1, fleet.fleet_of(MACHINE, 2, **NETWORK), inputs=[x])
    assert FleetPrediction.from_json(told.to_json()) == told
    assert "No schedule takes less than" in repr(told)


def test_small_chunks_are_advised_against_and_good_ones_kept() -> None:
    four = fleet.fleet_of(MACHINE, 4, **NETWORK)
    how = {"dtype": "float32", "candidates": [250, 500, 1000], "overhead": fleet.Overhead(0.0, 1e-3, 4)}
    small = fleet.advise_chunks(lambda x: x + 1, (2000, 2000), 100, four, **how)
    assert small.best.chunks > (100, 100)
    assert small.gain > 2
    assert "Take chunks of" in small.advice
    kept = fleet.advise_chunks(lambda x: x + 1, (2000, 2000), small.best.chunks, four, **how)
    assert kept.advice.startswith("Keep")
    with pytest.raises(ValueError, match="one positive length for each axis"):
        fleet.advise_chunks(lambda x: x + 1, (2000, 2000), (5,), four)


def test_chunks_that_do_not_fit_are_not_advised() -> None:
    four = fleet.fleet_of(MACHINE, 4, **NETWORK)
    limited = replace(four, workers=tuple(replace(w, memory_limit_bytes=12_000_000) for w in four.workers))
    advice = fleet.advise_chunks(lambda x: x + 1, (2000, 2000), 2000, limited, dtype="float32")
    assert not advice.asked.fits
    assert advice.best.fits
    assert "do not fit" in advice.advice
