"""The model, on a machine with invented costs: what it adds up, what it is bound by, and when it runs a function."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import DETAILED, LAPTOP

import accel
from accel.kernels import matmul
from accel.prediction import Prediction, predict_trace, steady_distances
from accel.pricing import PriceList
from accel.product_model import ProductModel

COSTS = DETAILED.calibration


def predicted(function, *arrays, **options):
    return accel.predict(function, *arrays, machine=DETAILED, **options)


def vector(n, dtype="float32"):
    return accel.array_like(n, dtype)


def test_the_whole_is_the_sum_of_the_calls_and_one_call_of_the_function():
    found = predicted(lambda x: np.tanh(x * 2.0) + x, vector(100_000))
    assert [op.name for op in found.ops] == ["multiply", "tanh", "add"]
    assert found.seconds == pytest.approx(COSTS.python_call_seconds + sum(op.seconds for op in found.ops))
    assert found.low_seconds <= found.seconds <= found.high_seconds


def test_a_small_array_costs_the_call_and_a_large_one_its_bytes():
    assert predicted(np.add, vector(10), vector(10)).bound_by == "dispatch overhead"
    large = vector(10**8)
    assert predicted(lambda a, b, out: np.add(a, b, out=out), large, large, large).bound_by == "DRAM bandwidth"
    assert predicted(np.add, large, large).bound_by == "fresh pages"  # the invented allocator maps each result
    assert predicted(np.tanh, vector(10_000)).bound_by == "tanh"


def test_from_dram_time_grows_with_the_size():
    once = predicted(np.add, vector(10**8), vector(10**8)).seconds
    twice = predicted(np.add, vector(2 * 10**8), vector(2 * 10**8)).seconds
    assert twice == pytest.approx(2 * once, rel=0.01)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10**6), st.sampled_from(["float32", "float64"]))
def test_shapes_and_arrays_give_the_same_prediction(n, dtype):
    def function(x):
        return (x * x + 1.0).sum()

    from_shape = predicted(function, vector(n, dtype))
    calls = [op for op in predicted(function, np.ones(n, dtype)).ops if op.name != "opaque"]
    assert [op.seconds for op in calls] == pytest.approx([op.seconds for op in from_shape.ops])


def test_a_second_pass_over_little_data_finds_it_in_cache():
    in_cache = predicted(lambda x: np.sqrt(np.sqrt(x)), vector(1_000)).ops[1]
    from_memory = predicted(lambda x: np.sqrt(np.sqrt(x)), vector(10**8)).ops[1]
    assert in_cache.level == "L1"
    assert from_memory.level == "DRAM"


def test_promotion_costs_twice_the_bytes():
    narrow = predicted(lambda x: x * 2.0, vector(10**7))
    wide = predicted(lambda x: x * np.float64(2.0), vector(10**7))
    assert wide.seconds > 1.3 * narrow.seconds


def test_reserving_memory_costs_a_call_and_no_traffic():
    small, large = (predicted(lambda x: np.empty_like(x), vector(n)).ops[0] for n in (10, 10**8))
    assert large.memory_seconds == small.memory_seconds == 0
    assert large.arithmetic_seconds == 0


def test_a_python_loop_is_priced_by_its_declared_steps():
    a = np.ones((8, 8), np.float32)
    found = predicted(matmul.triple_loop, a, a)
    assert found.bound_by == "interpreter"
    assert found.ops[0].arithmetic_seconds == pytest.approx(8**3 * COSTS.interpreted_seconds, rel=0.01)


def test_time_that_no_call_explains_is_timed():
    found = predicted(lambda x: time.sleep(0.02) or x + 1, np.ones(10))
    assert 0.02 <= found.seconds < 0.2
    assert found.bound_by == "opaque"


def test_a_function_that_changes_its_arguments_leaves_them_as_one_run_does():
    def function(x):
        time.sleep(0.02)
        x += 1

    x = np.zeros(100)
    found = predicted(function, x)
    assert (x == 1).all()
    assert found.bound_by == "opaque"
    assert 0.02 <= found.seconds < 0.2


def test_the_first_run_of_a_function_that_changes_its_arguments_does_not_count():
    slept = []

    def function(x):
        time.sleep(0.01 if slept else 0.2)
        slept.append(1)
        x += 1

    assert predicted(function, np.zeros(100)).seconds < 0.15


def test_a_function_that_changes_what_it_was_not_given_runs_once():
    hidden, runs = np.zeros(100), []

    def function(x):
        runs.append(1)
        time.sleep(0.01)
        np.add(hidden, x, out=hidden)

    predicted(function, np.ones(100))
    assert len(runs) == 1
    assert (hidden == 1).all()


def test_a_machine_without_roofs_is_refused():
    with pytest.raises(ValueError, match="detected but not measured"):
        accel.predict(np.add, vector(3), vector(3), machine=LAPTOP)


def test_an_exception_of_the_function_is_the_users_own():
    with pytest.raises(KeyError, match="mine"):
        predicted(lambda x: {}["mine"], np.ones(3))


def test_a_prediction_survives_json():
    found = predicted(lambda x: x + 1, vector(1000))
    assert Prediction.from_json(found.to_json()) == found


@pytest.mark.parametrize("rate", COSTS.matmuls, ids=lambda rate: f"{rate.dtype}-{rate.m}x{rate.k}x{rate.n}")
def test_a_measured_product_is_predicted_as_measured(rate):
    model = ProductModel(COSTS.matmuls, rate.threads)
    assert model.seconds(rate.dtype, rate.m, rate.k, rate.n) == pytest.approx(rate.seconds, rel=0.2)


def test_an_empty_product_takes_no_time():
    assert ProductModel(COSTS.matmuls, 1).seconds("float32", 0, 5, 5) == 0.0


def test_the_textbook_roofline_stands_beside():
    n = 10**7
    found = predicted(np.add, vector(n), vector(n))
    assert found.textbook_seconds == pytest.approx(12 * n / DETAILED.level_bandwidths()["DRAM"], rel=0.01)


def test_a_slow_phase_in_the_untraced_runs_is_no_hidden_work():
    """Other work that slows the machine down is stood in for by a wait that only untraced runs meet."""

    def disturbed(x):
        if type(x) is np.ndarray:
            time.sleep(0.1)
        return np.sqrt(x) + sum(range(200_000))

    assert predicted(disturbed, np.ones(200_000)).seconds < 0.1


def test_calls_of_a_loop_cost_what_each_costs_alone():
    """Calls that repeat are priced once: each still has its own place, and the same price."""

    def rows(x, y):
        out = np.empty_like(x)
        for i in range(len(x)):
            out[i] = x[i] * 2.0 + y[i]
        return out

    traced = accel.trace(rows, np.ones((40, 100), np.float32), np.ones((40, 100), np.float32))
    found = predict_trace(traced, DETAILED)
    assert [op.index for op in found.ops] == [op.index for op in traced.ops]
    prices = PriceList(DETAILED, 1)
    distances = steady_distances(traced.ops, limit_bytes=prices.largest_working_set_bytes)
    alone = [prices.price(op, each).seconds for op, each in zip(traced.ops, distances, strict=True)]
    assert [op.seconds for op in found.ops] == pytest.approx(alone)


@pytest.mark.speed
def test_a_long_loop_is_predicted_faster_than_it_is_traced():
    def loop(x):
        for _ in range(20_000):
            np.add(x, x, out=x)

    start = time.perf_counter()
    traced = accel.trace(loop, np.zeros(4, np.float32))
    middle = time.perf_counter()
    found = predict_trace(traced, DETAILED)
    assert time.perf_counter() - middle < 2 * (middle - start)
    assert len({op.seconds for op in found.ops if op.name == "add"}) <= 2
