"""Traces in several threads, nested and overlapping in every order."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from accel import cost
from accel.cost import Cost, costs
from accel.tracing import array_like, trace

ORIGINALS = {name: getattr(np, name) for name in ("zeros", "empty", "asarray", "array", "arange", "eye")}


@pytest.fixture(autouse=True)
def restored():
    yield
    assert {name: getattr(np, name) for name in ORIGINALS} == ORIGINALS
    assert all(getattr(np, name) is original for name, original in ORIGINALS.items())
    assert cost.observer is None
    assert type(np.zeros(2)) is np.ndarray


def names(found):
    return [op.name for op in found.ops if op.kind != "opaque"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("x", [np.ones(9), array_like(9)], ids=["real", "shapes"])
def test_overlapping_traces_end_in_any_order(order, x):
    inside = threading.Barrier(3)
    leave = [threading.Event() for _ in range(3)]

    def work(number, x):
        inside.wait(10)
        made = np.zeros(9) if type(x) is not np.ndarray else x
        for _ in range(number + 1):
            made = made + x
        assert leave[number].wait(10)
        return made * np.ones(9)

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(trace, work, number, x) for number in range(3)]
        for number in order:
            leave[number].set()
            running[number].result(10)
    for number, found in enumerate(running):
        assert names(found.result()) == ["zeros", *["add"] * (number + 1), "ones", "multiply"]


def test_other_threads_are_left_alone():
    @costs(lambda x: Cost(flops=x.size, calls=1), opaque=True)
    def kernel(x):
        return np.exp(x)

    def bystander():
        made = np.zeros(4)
        return type(made + 1), type(kernel(made)), type(np.asarray(made))

    def function(x):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(bystander).result() == (np.ndarray,) * 3
        return x + 1

    assert names(trace(function, np.ones(4))) == ["add"]


def test_threads_that_get_traced_arrays_report_to_their_trace():
    def function(x, times):
        inside.wait(10)
        with ThreadPoolExecutor(1) as pool:
            for _ in range(times):
                x = pool.submit(lambda x: np.sqrt(x) + 1, x).result()
        return x

    inside = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(trace, function, np.ones(9), times) for times in (2, 3)]
        found = [names(f.result(10)) for f in running]
    assert found == [["sqrt", "add"] * 2, ["sqrt", "add"] * 3]


def test_a_trace_in_a_thread_of_a_traced_function():
    def function(x):
        with ThreadPoolExecutor(1) as pool:
            inner = pool.submit(trace, lambda y: np.zeros(3) + y, np.ones(3)).result(10)
        return x * 2, len(names(inner))

    found = trace(function, np.ones(3))
    assert names(found) == ["ones", "multiply"]
    assert found.result[1] == 2


def test_a_nested_trace_keeps_its_calls_to_itself():
    def function(x):
        inner = trace(lambda y: np.ones(3) * y, np.ones(3))
        shaped = trace(lambda y: np.ones(3) - y, array_like(3))
        return np.zeros(3) + x, names(inner), names(shaped)

    found = trace(function, np.ones(3))
    assert names(found) == ["ones", "zeros", "add"]
    assert found.result[1:] == (["ones", "multiply"], ["ones", "subtract"])


def test_stand_ins_are_gone_after_an_error():
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: 1 // 0, np.ones(3))
