from dataclasses import replace

import numpy as np
import pytest
from comparisons import row
from machines import CALIBRATED

import accel
from accel.comparison import Comparison, Row, thinned
from accel.measurement import Measurement

QUICK = {"machine": CALIBRATED, "seconds": 1e-3, "patience_seconds": 0}


def ones(n: int) -> list[np.ndarray]:
    return [np.ones(n)]


def unfitted(**changes):
    return {**QUICK, **changes}


@pytest.mark.parametrize("sizes", [[10, 20], np.array([10, 20]), (np.uint8(10), np.int64(20)), range(10, 21, 10)])
def test_sizes_become_ints_that_are_saved_and_loaded(sizes):
    given = []

    def make_arrays(size):
        given.append(size)
        return ones(size)

    result = accel.sweep({"sqrt": np.sqrt}, make_arrays, sizes, **QUICK)
    assert Comparison.from_json(result.to_json()) == result
    assert [type(size) for size in given] == [int, int]
    assert [row.size for row in result.rows] == given == [10, 20]


@pytest.mark.parametrize("size", [(2, 3), 10.0, "10", True, None, np.float64(8), np.array([1, 2])])
def test_other_sizes_are_refused(size):
    with pytest.raises(TypeError, match="a size is a whole number"):
        accel.sweep({"sqrt": np.sqrt}, lambda _: ones(4), [size], **QUICK)
    if size is not None:
        with pytest.raises(TypeError, match="a size is a whole number"):
            accel.compare({"sqrt": np.sqrt}, np.ones(4), size=size, **QUICK)


def test_any_name_will_do():
    names = ("(reference)", "reference", "('reference',)", "")
    result = accel.compare(dict.fromkeys(names, np.sqrt), np.ones(9), **QUICK)
    assert result.names == names


def test_one_function_goes_by_its_own_name():
    assert accel.compare(np.sqrt, np.ones(9), **QUICK).names == ("sqrt",)
    assert accel.sweep(np.sqrt, ones, [4], **QUICK).names == ("sqrt",)


@pytest.mark.parametrize(
    ("functions", "error", "message"),
    [
        ([np.sqrt], TypeError, "takes a function or a dict"),
        ({}, ValueError, "at least one function"),
        ({"a": 3}, TypeError, "'a' is int"),
        ({1: np.sqrt}, TypeError, "takes a dict with names; 1 is int"),
    ],
)
def test_what_is_no_function_is_refused(functions, error, message):
    with pytest.raises(error, match=f"compare.*{message}"):
        accel.compare(functions, np.ones(4), **QUICK)
    with pytest.raises(error, match=f"sweep.*{message}"):
        accel.sweep(functions, ones, [4], **QUICK)


@pytest.mark.parametrize(
    "option",
    [{"seconds": 0}, {"seconds": -1}, {"seconds": float("nan")}, {"patience_seconds": -1}, {"threads": 0}],
)
def test_times_and_threads_that_cannot_be_are_refused(option):
    with pytest.raises(ValueError, match=r"seconds > 0|at least 1"):
        accel.compare({"sqrt": np.sqrt}, np.ones(4), **unfitted(**option))


@pytest.mark.parametrize("arguments", [np.ones(3), np.ones((2, 3)), 3, None, (x for x in [np.ones(3)])])
def test_arguments_come_in_a_list_or_tuple(arguments):
    with pytest.raises(TypeError, match=r"return \[x\]"):
        accel.sweep({"add": np.add}, lambda _: arguments, [3], **QUICK)


def test_rates_over_no_time_are_not_a_number():
    instant: Row = row("a", 8, 1.0, measured=Measurement("a", (0.0,) * 9, 1, 1.0))
    assert np.isnan([instant.error_fraction, instant.flops_per_second, instant.bytes_per_second]).all()


def test_predictions_are_for_the_speed_of_the_run():
    slow = replace(CALIBRATED, calibration=replace(CALIBRATED.calibration, reference_seconds=1e-7))
    [row] = accel.compare(np.sqrt, np.ones(16), machine=slow, seconds=0.01, patience_seconds=0).rows
    assert row.slowdown > 2
    assert row.predicted_seconds > 1.5 * row.full_speed_seconds


def test_at_full_speed_both_predictions_are_the_same():
    fast = replace(CALIBRATED, calibration=replace(CALIBRATED.calibration, reference_seconds=1.0))
    comparison = accel.compare(np.sqrt, np.ones(16), machine=fast, seconds=0.01, patience_seconds=0)
    assert comparison.slowdown == 1.0
    assert comparison.speed_note == ""
    assert comparison.rows[0].predicted_seconds == comparison.rows[0].full_speed_seconds


def test_a_slow_machine_is_named():
    note = replace(compared(), slowdown=1.44).speed_note
    assert note == "the machine ran 1.4 times slower than when calibrated, and is predicted to"


def compared():
    return accel.compare(np.sqrt, np.ones(16), **QUICK)


def test_many_samples_are_thinned_to_their_distribution():
    samples = tuple(float(i) for i in range(1, 5001))
    thin = thinned(Measurement("f", samples[::-1], 1, 1.0))
    assert len(thin.samples_seconds) == 201
    assert (thin.best_seconds, max(thin.samples_seconds)) == (1.0, 5000.0)
    assert thin.median_seconds == pytest.approx(2500.5, rel=1e-3)
    few = Measurement("f", samples[:7], 1, 1.0)
    assert thinned(few) is few
