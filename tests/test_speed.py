"""The machine as it runs now: slower by what the references say."""

import pytest
from machines import CALIBRATED, DETAILED

import accel
from accel.speed import FULL_SPEED, Speed, at_speed, core_share, probe_slowdown, speed_from


def seconds(function, *shapes, machine=DETAILED):
    return accel.predict(function, *(accel.array_like(s, "float32") for s in shapes), machine=machine).seconds


def test_at_full_speed_nothing_changes():
    assert speed_from(DETAILED, 1.0) == FULL_SPEED
    assert at_speed(DETAILED, FULL_SPEED) is DETAILED


def test_a_slower_core_slows_small_work_by_as_much_and_streams_by_less():
    slow = at_speed(DETAILED, speed_from(DETAILED, 1.5))
    small = seconds(lambda x: x + x, 10, machine=slow) / seconds(lambda x: x + x, 10)
    large = seconds(lambda x, y: x + y, 10**8, 10**8, machine=slow) / seconds(lambda x, y: x + y, 10**8, 10**8)
    assert 1.45 < small < 1.7
    assert 1.0 < large < 1.2


def test_large_products_slow_down_less_than_small_ones():
    slow = at_speed(DETAILED, Speed(2.0))
    before, after = DETAILED.calibration.matmuls, slow.calibration.matmuls
    ratios = {old.m: new.seconds / old.seconds for old, new in zip(before, after, strict=True)}
    assert ratios[8] == pytest.approx(2.0)
    assert ratios[512] < ratios[64] < ratios[8]


@pytest.mark.parametrize("slowdown", [1.0, 1.3, 1.9])
def test_shares_fall_with_the_distance_from_the_core(slowdown):
    speed = speed_from(CALIBRATED, slowdown)
    factors = [speed.at(size) for size in (2**14, 2**19, 2**23, 2**27)]
    assert factors == sorted(factors, reverse=True)
    assert factors[0] == pytest.approx(slowdown)
    assert core_share(CALIBRATED, 2**14) == 1.0


def test_what_a_stream_takes_now_is_known_and_not_guessed():
    from dataclasses import replace

    from accel.machine import Probe

    key = ("stream", "1R1W", 2**23, 2**20)
    machine = CALIBRATED.with_calibration(replace(CALIBRATED.calibration, probes=(Probe(key, 1e-3, 1e-3, 1e-3),)))
    speed = speed_from(machine, 1.0, {key: 1.4e-3, ("stream", "unknown", 5, 5): 1.0})
    assert speed.at(2**23) == pytest.approx(1.4)
    assert speed.at(2**12) == 1.0


def test_a_probe_in_a_slow_phase_is_put_right_by_its_share():
    assert probe_slowdown(("call", "sum", "method"), CALIBRATED, 1.5) > 1.5
    assert probe_slowdown(("python call",), CALIBRATED, 1.5) == pytest.approx(1.5)
    assert probe_slowdown(("stream", "1R1W", 2**27, 2**24), CALIBRATED, 1.5) < 1.1
    assert probe_slowdown(("operation", "exp", "float32", 2048), CALIBRATED, 1.0) == 1.0
