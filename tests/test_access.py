import numpy as np
import pytest
from access_curves import access_curve
from machines import LAPTOP

from accel import access
from accel.access import AccessCurve
from accel.kernels import fallback

SIZES = (4096, 64 << 10)


@pytest.fixture(scope="module")
def curves():
    """Measure every pattern at two small working sets."""
    found = {pattern: access.bandwidth(pattern, SIZES, machine=LAPTOP, seconds=0.005) for pattern in access.PATTERNS}
    if fallback._compiler_works():
        found["chase"] = access.latency(SIZES, machine=LAPTOP, seconds=0.005)
    return found


def test_every_pattern_is_measured_at_every_working_set(curves):
    for pattern, curve in curves.items():
        assert curve.pattern == pattern
        assert curve.working_set_bytes == SIZES
        assert (curve.line_bytes, curve.caches) == (64, LAPTOP.caches)
        assert all(1e-12 < seconds < 1e-3 for seconds in curve.seconds_per_access)


def test_counts_of_a_call_follow_from_the_pattern(curves):
    for pattern in access.PATTERNS:
        for row in curves[pattern].rows:
            assert row.lines == row.working_set_bytes // 64
            assert row.accesses == row.lines * (16 if pattern == "sequential" else 1)


def test_rates_are_those_of_the_times():
    curve = access_curve(nanoseconds=(2.0, 4.0, 100.0))
    assert curve.seconds_per_access == pytest.approx((2e-9, 4e-9, 1e-7))
    assert curve.bytes_per_second == pytest.approx((4e9, 2e9, 8e7))
    assert curve.line_bytes_per_second == pytest.approx((32e9, 16e9, 64e7))


def test_a_curve_survives_json_and_shows_itself():
    curve = access_curve()
    assert AccessCurve.from_json(curve.to_json()) == curve
    lines = repr(curve).splitlines()
    assert lines[0].startswith("chase access, compiled, on Some CPU")
    assert lines[2].split() == ["4", "KB", "L1", "1.50", "5.33", "42.7"]
    assert lines[4].split()[:3] == ["128", "MB", "DRAM"]
    assert "<table" in curve._repr_html_()
    assert "chase" in curve.plot(title="T").alt


@pytest.mark.parametrize("pattern", access.PATTERNS)
def test_without_numba_patterns_are_read_by_numpy(pattern, monkeypatch):
    monkeypatch.setattr(fallback, "compiled", lambda _name: None)
    curve = access.bandwidth(pattern, SIZES[:1], machine=LAPTOP, seconds=0.002)
    assert curve.method == "numpy"


@pytest.mark.parametrize("pattern", access.PATTERNS)
@pytest.mark.parametrize("compiled", [True, False])
def test_readers_read_what_they_say(pattern, compiled):
    code = fallback.compiled("access") if compiled else None
    if compiled and code is None:
        pytest.skip("Numba is not installed")
    x = np.arange(160, dtype=np.float32)
    expected = x.sum() if pattern == "sequential" else x[::16].sum()
    assert access._reader(pattern, x, 64, code)() == expected


def test_without_numba_a_chase_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(fallback, "compiled", lambda _name: None)
    with pytest.raises(RuntimeError, match=r"pip install numba.* works without it"):
        access.latency(SIZES, machine=LAPTOP)


def test_a_chase_goes_on_where_it_ended_and_sees_every_line():
    visited = set()

    def follow(links, place, steps):
        for _ in range(steps):
            place = int(links[place])
            visited.add(place)
        return place

    chase = access._Chase(follow, np.zeros(100 * 8, np.int64), 64)
    chase.steps = 7
    visited.clear()
    for _ in range(15):
        chase()
    assert visited == set(range(0, 800, 8))


def test_working_sets_reach_past_the_last_cache_and_stay_within_memory():
    sizes = access.working_sets(LAPTOP)
    assert (sizes[0], sizes[-1]) == (4096, 64 << 20)
    assert access.working_sets(LAPTOP, most_bytes=100) == (4096,)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: access.bandwidth("chase", SIZES, machine=LAPTOP), ValueError, "one of sequential.*got 'chase'"),
        (lambda: access.bandwidth("random", [32], machine=LAPTOP), ValueError, "at least 64 bytes; got 32"),
        (lambda: access.bandwidth("random", [4096.0], machine=LAPTOP), TypeError, "whole number; got 4096.0"),
        (lambda: access.bandwidth("random", SIZES, machine=LAPTOP, seconds=0), ValueError, "seconds must be above 0"),
        (lambda: access.latency([64], machine=LAPTOP), ValueError, "at least 128 bytes; got 64"),
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.speed
def test_memory_takes_longer_than_the_first_cache_and_waiting_longer_than_reading_ahead():
    sizes = (16 << 10, 128 << 20)
    waiting, ahead = access.latency(sizes, seconds=0.3), access.bandwidth("sequential", sizes, seconds=0.3)
    assert waiting.seconds_per_access[1] > 5 * waiting.seconds_per_access[0]
    assert waiting.rows[1].seconds_per_line > 3 * ahead.rows[1].seconds_per_line
