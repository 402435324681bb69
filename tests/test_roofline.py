import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import CALIBRATED

from accel import Cost
from accel.roofline import attainable, position, ridge_points, textbook_seconds

rates = st.floats(1e6, 1e15)


@given(st.floats(0, 1e6), rates, rates)
def test_attainable_is_below_both_roofs_and_touches_one(intensity, peak, bandwidth):
    found = attainable(intensity, peak, bandwidth)
    assert found <= peak
    assert found <= bandwidth * intensity
    assert found in (peak, bandwidth * intensity)


@given(rates, rates)
def test_the_roofs_meet_at_the_ridge(peak, bandwidth):
    assert attainable(peak / bandwidth, peak, bandwidth) == pytest.approx(peak)


@pytest.mark.parametrize("arguments", [(-1, 1, 1), (1, -1, 1), (1, 1, -1), (math.nan, 1, 1)])
def test_negative_inputs_are_refused(arguments):
    with pytest.raises(ValueError, match="at least 0"):
        attainable(*arguments)


def test_ridge_points_are_peak_over_bandwidth():
    ridges = ridge_points(CALIBRATED)
    assert list(ridges) == ["L1", "L2", "L3", "DRAM"]
    assert ridges["DRAM"] == pytest.approx(1.0e11 / 2.0e10)


def test_the_textbook_time_is_the_longer_of_arithmetic_and_memory():
    arithmetic = textbook_seconds(Cost(flops=10**11), 8, CALIBRATED)
    assert arithmetic == pytest.approx(1.0)
    memory = textbook_seconds(Cost(flops=1), 2 * 10**10, CALIBRATED)
    assert memory == pytest.approx(1.0)


def test_position_of_an_addition():
    add = Cost(flops=1000, bytes_read=8000, bytes_written=4000)
    found = position("add", add, measured_seconds=1e-6, predicted_seconds=2e-6)
    assert found.intensity_flops_per_byte == pytest.approx(1 / 12)
    assert found.measured_flops_per_second == pytest.approx(1e9)
    assert found.predicted_flops_per_second == pytest.approx(5e8)


def test_a_copy_has_no_place_on_a_roofline():
    with pytest.raises(ValueError, match="copy does no FLOPs"):
        position("copy", Cost(bytes_read=8, bytes_written=8))
