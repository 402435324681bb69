"""What tracing costs: per call, in steps of the interpreter and in time, and over long runs."""

from __future__ import annotations

import gc
import sys
import time
import weakref

import numpy as np
import pytest

from accel.tracing import trace

STEPS = {
    "ufunc": lambda x, y: np.add(x, y, y),
    "operator": lambda x, y: x + y,
    "scalar": lambda x, y: x * 2.0,
    "method": lambda x, y: y.sum(),
    "views": lambda x, y: x[1:] + y[1:],
    "function": lambda x, y: np.concatenate([x, y]),
    "gather": lambda x, y: x[[0, 1]],
}


def loop(x, y, step, times):
    for _ in range(times):
        step(x, y)


def chain(x, times):
    """A loop whose arrays are all new: every repetition has buffers of its own."""
    kept = []
    for i in range(times):
        x = np.maximum(x * 0.5 + 1.0, x)
        if i % 7 == 0:
            kept.append(x)
    return kept


def steps_of(function):
    """Run a function and count the calls that the interpreter makes in it, built-in ones included."""
    count = 0

    def watch(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    previous = sys.getprofile()
    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(previous)
    return count


def test_the_work_per_call_does_not_grow_with_the_calls():
    """Counted and not timed: recording, assembling, totalling and merging loops, all together."""

    def work(times):
        return steps_of(lambda: trace(chain, np.ones(8), times).rows)

    work(10)  # what is worked out once
    few, more, many = work(100), work(200), work(1600)
    per_repetition = (more - few) / 100
    assert (many - more) / 1400 <= 1.1 * per_repetition


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_call_takes_few_steps(step):
    """Each step is of the order of 0.1 µs, so that a recorded call takes some microseconds."""

    def recorded(times):
        return steps_of(lambda: trace(loop, np.ones(8), np.zeros(8), step, times))

    recorded(10)
    assert (recorded(300) - recorded(100)) / 200 < 130


def test_a_long_trace_loses_nothing():
    times = 3_000
    found = trace(chain, np.ones(8), times)
    assert sum(op.kind != "opaque" for op in found.ops) == 3 * times
    assert [row.count for row in found.rows if row.kind != "opaque"] == [times] * 3
    assert found.cost.flops == 3 * 8 * times
    assert len({op.index for op in found.ops}) == len(found.ops)
    assert found.peak_temporaries >= times // 7


@pytest.mark.parametrize("thresholds", [(700, 10, 10), (0, 0, 0), (50, 5, 7)])
def test_the_collector_is_left_as_it_was_found(thresholds):
    class FailedError(Exception):
        pass

    def fails(x):
        raise FailedError

    before = gc.get_threshold()
    gc.set_threshold(*thresholds)
    try:
        trace(lambda x: trace(np.negative, x + 1).result, np.ones(3))
        assert gc.get_threshold() == thresholds
        with pytest.raises(FailedError):
            trace(fails, np.ones(3))
        assert gc.get_threshold() == thresholds
        trace(lambda x: (gc.set_threshold(123, 4, 5), x)[1], np.ones(3))
        assert gc.get_threshold() == (123, 4, 5)
    finally:
        gc.set_threshold(*before)
    assert gc.isenabled()


def test_young_cycles_are_collected_while_a_trace_runs():
    class Node:
        pass

    def makes_cycles(x):
        references = []
        for _ in range(3_000):
            node = Node()
            node.itself = node
            references.append(weakref.ref(node))
            x = x + 1
        return sum(reference() is not None for reference in references)

    assert trace(makes_cycles, np.ones(3)).result < 2_500


@pytest.mark.speed
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_overhead(step):
    x, y = np.ones(8), np.zeros(8)

    def untraced():
        started = time.perf_counter()
        loop(x, y, step, 200)
        return time.perf_counter() - started

    pairs = [(untraced(), trace(loop, x, y, step, 200).seconds) for _ in range(60)]
    best, traced = (min(times) for times in zip(*pairs, strict=True))
    assert (traced - best) / 200 < 20e-6  # 5 to 10 µs on a machine that is not busy
    assert traced < 25 * best


@pytest.mark.speed
def test_long_traces_take_as_long_per_call_as_short_ones():
    def seconds(times):
        started = time.perf_counter()
        trace(chain, np.ones(8), times)
        return (time.perf_counter() - started) / times

    seconds(100)
    few, many = (min(seconds(times) for _ in range(3)) for times in (300, 10_000))
    assert many < 4 * few
