"""The simulator against closed forms and schedules worked out by hand."""

from __future__ import annotations

import itertools
import math

import pytest
from graphs import by_hand, costing
from hypothesis import given
from hypothesis import strategies as st

from accel.fleet.simulation import bounds, simulate


@pytest.mark.parametrize(("tasks", "workers"), list(itertools.product([1, 3, 8, 100], [1, 2, 3, 7])))
def test_equal_independent_tasks_take_whole_rounds(tasks: int, workers: int) -> None:
    graph = by_hand([(0, ())] * tasks)
    assert simulate(graph, costing(2.0), [1] * workers).seconds == pytest.approx(2.0 * math.ceil(tasks / workers))


def test_threads_count_like_workers_where_nothing_moves() -> None:
    graph = by_hand([(0, ())] * 12)
    assert simulate(graph, costing(1.0), [4]).seconds == simulate(graph, costing(1.0), [1] * 4).seconds == 3.0


@pytest.mark.parametrize("scheduler", [0.0, 0.25])
def test_a_chain_gains_nothing_from_workers(scheduler: float) -> None:
    graph = by_hand([(0, () if i == 0 else (i - 1,)) for i in range(10)], [1000])
    ran = simulate(
        graph, costing(1.0), [1] * 5, transfer_seconds=lambda size: size, scheduler_seconds_per_task=scheduler
    )
    assert ran.seconds == pytest.approx(10 * (1.0 + scheduler))
    assert ran.bytes_moved == 0, "a chain stays where it began"


def tree(leaves: int) -> list[tuple[int, tuple[int, ...]]]:
    tasks: list[tuple[int, tuple[int, ...]]] = [(0, ())] * leaves
    level = list(range(leaves))
    while len(level) > 1:
        pairs = [tuple(level[i : i + 2]) for i in range(0, len(level), 2)]
        level = []
        for pair in pairs:
            level.append(len(tasks))
            tasks.append((1, pair))
    return tasks


@pytest.mark.parametrize("leaves", [2, 8, 64])
def test_a_tree_takes_its_depth_where_the_network_is_free(leaves: int) -> None:
    ran = simulate(by_hand(tree(leaves), [8, 8]), costing({0: 5.0, 1: 1.0}), [1] * leaves)
    assert ran.seconds == pytest.approx(5.0 + math.log2(leaves))


def test_a_tree_on_as_many_workers_moves_one_result_for_each_pair() -> None:
    leaves = 16
    ran = simulate(
        by_hand(tree(leaves), [100, 100]), costing({0: 5.0, 1: 1.0}), [1] * leaves, transfer_seconds=lambda _: 0.5
    )
    assert ran.bytes_moved == (leaves - 1) * 100
    assert ran.seconds == pytest.approx(5.0 + 1.5 * math.log2(leaves))


def test_the_scheduler_serves_one_task_at_a_time() -> None:
    ran = simulate(by_hand([(0, ())] * 1000), costing(1e-9), [1] * 50, scheduler_seconds_per_task=0.01)
    assert ran.seconds == pytest.approx(10.0, rel=1e-3)


def test_transfers_to_one_worker_follow_each_other() -> None:
    """Four results lie on four workers; the task that needs them all must fetch three, one after the other."""
    graph = by_hand([(0, ())] * 4 + [(1, (0, 1, 2, 3))], [100, 0])
    ran = simulate(graph, costing({0: 1.0, 1: 1.0}), [1] * 4, transfer_seconds=lambda size: size / 100)
    assert (ran.seconds, ran.bytes_moved, ran.transfers, ran.network_seconds) == (5.0, 300, 3, 3.0)


def test_what_was_moved_once_is_used_twice() -> None:
    graph = by_hand([(0, ()), (1, (0,)), (1, (0,))], [100, 1])
    ran = simulate(graph, costing(1.0), [1, 1], transfer_seconds=lambda size: size / 100, places=[0, 1, 1])
    assert (ran.bytes_moved, ran.transfers) == (100, 1)
    assert ran.seconds == pytest.approx(1.0 + 1.0 + 2.0)


def test_transfers_hide_behind_computing() -> None:
    """While a worker computes for 3 s, the next input, of 2 s, arrives."""
    graph = by_hand([(0, ()), (1, ()), (2, ()), (3, (1,))], [0, 100, 0, 0])
    ran = simulate(
        graph,
        costing({0: 0.0, 1: 1.0, 2: 3.0, 3: 1.0}),
        [1, 1],
        transfer_seconds=lambda size: size / 50,
        places=[1, 0, 1, 1],
    )
    assert ran.seconds == pytest.approx(4.0)


def test_memory_is_given_back_when_the_last_task_is_done() -> None:
    chain = by_hand([(0, () if i == 0 else (i - 1,)) for i in range(6)], [100])
    assert simulate(chain, costing(1.0), [1]).peak_bytes == 200, "a result and the one it is made of"
    assert simulate(by_hand([(0, ())] * 6, [100]), costing(1.0), [1]).peak_bytes == 600, "results of the graph stay"


def test_data_is_neither_work_nor_scheduled() -> None:
    graph = by_hand([(0, ()), (0, ()), (1, (0,)), (1, (1,))], [100, 1], data=frozenset({0}))
    ran = simulate(
        graph, costing({0: 1e9, 1: 1.0}), [1, 1], transfer_seconds=lambda _: 9.0, scheduler_seconds_per_task=0.5
    )
    assert ran.seconds == pytest.approx(2.0)
    assert ran.bytes_moved == 0
    assert bounds(graph, costing({0: 1e9, 1: 1.0}), [1, 1], scheduler_seconds_per_task=0.5).work_seconds == 1.0


def test_a_slow_worker_takes_fewer_tasks() -> None:
    graph = by_hand([(0, ())] * 40)
    ran = simulate(graph, lambda _kind, worker: 3.0 if worker else 1.0, [1, 1])
    assert ran.places.count(0) == pytest.approx(30, abs=2)


@pytest.mark.parametrize("grid", [2, 3, 5])
def test_blocked_product_on_a_grid_moves_what_the_closed_form_says(grid: int) -> None:
    """Each worker (i, j) holds its blocks of A, B and C, and fetches p - 1 blocks of either: 2 (p - 1) n² numbers."""
    block = 1000
    at = {(i, j): i * grid + j for i in range(grid) for j in range(grid)}
    count = grid * grid
    tasks: list[tuple[int, tuple[int, ...]]] = [(0, ())] * (2 * count)
    places = [*range(count), *range(count)]
    for (i, j), worker in at.items():
        products = []
        for k in range(grid):
            products.append(len(tasks))
            tasks.append((1, (at[i, k], count + at[k, j])))
            places.append(worker)
        tasks.append((1, tuple(products)))
        places.append(worker)
    graph = by_hand(tasks, [block * block, block * block], data=frozenset({0}))
    moved = 2 * (grid - 1) * (grid * block) ** 2
    assert graph.bytes_moved(places) == moved
    assert simulate(graph, costing(1.0), [1] * count, places=places).bytes_moved == moved


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sets(st.integers(0, 30), max_size=3)), min_size=1, max_size=30),
    st.lists(st.integers(1, 3), min_size=1, max_size=5),
    st.floats(0, 2),
)
def test_no_schedule_is_shorter_than_its_bounds(raw, threads, scheduler) -> None:  # type: ignore[no-untyped-def]
    tasks = [(kind, tuple(sorted(d for d in needed if d < index))) for index, (kind, needed) in enumerate(raw)]
    graph = by_hand(tasks, [10, 20, 30])
    times = costing({0: 1.0, 1: 0.5, 2: 2.0})
    ran = simulate(graph, times, threads, transfer_seconds=lambda size: size / 10, scheduler_seconds_per_task=scheduler)
    least = bounds(graph, times, threads, scheduler_seconds_per_task=scheduler)
    longest = max(least.work_seconds, least.critical_path_seconds, least.scheduler_seconds, ran.network_seconds)
    assert ran.seconds >= longest - 1e-9
    assert ran.bytes_moved == graph.bytes_moved(ran.places)
    assert sum(ran.busy_seconds) == pytest.approx(sum(times(kind, 0) for kind, _ in tasks))


def test_wrong_arguments_are_named() -> None:
    graph = by_hand([(0, ())])
    with pytest.raises(ValueError, match="one worker or more"):
        simulate(graph, costing(1.0), [])
    with pytest.raises(ValueError, match="for each of the 1 tasks"):
        simulate(graph, costing(1.0), [1], places=[0, 1])
    with pytest.raises(ValueError, match="one of the 1 workers"):
        simulate(graph, costing(1.0), [1], places=[1])
