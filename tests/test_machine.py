from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import CALIBRATED, LAPTOP

from accel.machine import interpolate


@pytest.mark.parametrize(
    ("affinity", "quota", "usable"),
    [(8, None, 8), (8, 2.0, 2), (8, 2.7, 2), (2, 16.0, 2), (4, 0.5, 1), (1, None, 1), (8, 3.9999999999, 4)],
)
def test_usable_cpus_is_the_smaller_of_affinity_and_quota(affinity, quota, usable):
    assert replace(LAPTOP, affinity_cpus=affinity, quota_cpus=quota).usable_cpus == usable


def test_an_uncalibrated_machine_has_no_roofs():
    assert not LAPTOP.is_calibrated
    with pytest.raises(ValueError, match=r"detected but not measured.*accel\.calibrate\(\)"):
        _ = LAPTOP.roofs
    assert "not calibrated" in str(LAPTOP)


def test_its_name_says_when_it_was_measured():
    assert str(CALIBRATED) == "Some CPU @ 3.00GHz, 4 CPUs, calibrated 2026-01-02 03:04"


def test_peaks_by_dtype_and_threads():
    assert CALIBRATED.peak_flops_per_second("float32") == 1.0e11
    assert CALIBRATED.peak_flops_per_second("float32", 4) == 3.9e11
    assert CALIBRATED.peak_flops_per_second(np.dtype(">f8")) == 5.0e10
    assert CALIBRATED.peak_flops_per_second("int32") == 1.0e11


@pytest.mark.parametrize(("dtype", "threads"), [("float32", 3), ("float64", 4), ("float16", 1)])
def test_a_peak_that_was_not_measured_is_refused(dtype, threads):
    with pytest.raises(ValueError, match=f"no peak was measured for {dtype} with {threads} threads"):
        CALIBRATED.peak_flops_per_second(dtype, threads)


def test_the_memory_roof_is_the_best_of_all_streams():
    assert CALIBRATED.bandwidth_bytes_per_second(16384) == 2.1e11
    assert CALIBRATED.bandwidth_bytes_per_second(1 << 20) == 9.0e10
    assert CALIBRATED.bandwidth_bytes_per_second(1 << 40) == 2.0e10
    assert CALIBRATED.bandwidth_bytes_per_second(1 << 22, threads=4) == 3.0e11


def test_a_thread_count_that_was_not_measured_is_refused():
    with pytest.raises(ValueError, match=r"with 3 threads.*\[1, 4\]"):
        CALIBRATED.bandwidth_bytes_per_second(1, threads=3)


@pytest.mark.parametrize(
    ("size", "level"),
    [(0, "L1"), (32 << 10, "L1"), ((32 << 10) + 1, "L2"), (1 << 20, "L2"), (16 << 20, "L3"), (17 << 20, "DRAM")],
)
def test_the_level_is_the_smallest_that_holds_the_working_set(size, level):
    assert CALIBRATED.level_of(size) == level


def test_level_bandwidths_name_every_level_in_order():
    assert list(CALIBRATED.level_bandwidths()) == ["L1", "L2", "L3", "DRAM"]
    assert CALIBRATED.level_bandwidths()["DRAM"] == 2.0e10


def test_a_cache_larger_than_anything_measured_is_no_level():
    huge = replace(CALIBRATED, caches=(*CALIBRATED.caches[:2], replace(CALIBRATED.caches[2], size_bytes=1 << 30)))
    assert list(huge.level_bandwidths()) == ["L1", "L2", "DRAM"]


@given(st.floats(1, 1e12))
def test_interpolation_stays_between_its_neighbors(x):
    xs, ys = (10.0, 100.0, 10_000.0), (3.0, 1.0, 2.0)
    assert min(ys) <= interpolate(x, xs, ys) <= max(ys)


def test_interpolation_is_linear_in_the_logarithm():
    xs, ys = (10.0, 1000.0), (0.0, 2.0)
    assert interpolate(100, xs, ys) == pytest.approx(1.0)
    assert interpolate(10, xs, ys) == 0.0
    assert interpolate(1, xs, ys) == 0.0
    assert interpolate(1e9, xs, ys) == 2.0


def test_no_level_is_slower_than_what_was_measured_in_it():
    for name, bandwidth in CALIBRATED.level_bandwidths().items():
        inside = [
            rate
            for curve in CALIBRATED.calibration.bandwidths
            if curve.threads == 1
            for size, rate in zip(curve.working_set_bytes, curve.bytes_per_second, strict=True)
            if CALIBRATED.level_of(size / 2) == name
        ]
        assert all(rate <= bandwidth for rate in inside)


def test_a_roof_between_two_measured_sizes_is_that_of_the_smaller():
    assert CALIBRATED.bandwidth_bytes_per_second(100_000) == 2.1e11
    assert CALIBRATED.bandwidth_bytes_per_second((1 << 27) - 1) == 9.0e10
