"""The fit is pure, so it is tested on totals made up from known costs; the measuring is tested on the real machine."""

import itertools
import math
import mmap
import warnings
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import CALIBRATION, LAPTOP

import accel
from accel import hardware, storage
from accel.calibration import CHUNK, PUT_RIGHT, _Chunk, _parts, _summaries, fit, merged, never_falling
from accel.function_probes import NARROW_ELEMENTS, function_batch
from accel.machine import RAMP_ELEMENTS, Probe
from accel.operation_probes import ROWS, aligned, branching_batch, element_counts
from accel.probes import (
    HUGE_PAGE_BYTES,
    MIB,
    STREAM_BYTES_PER_ELEMENT,
    STREAM_OPERANDS,
    STREAM_SHAPES,
    batches,
    fresh_array,
    plan_for,
    stream_batch,
)
from accel.speed import probe_slowdown


def exactly(seconds):
    return Probe((), seconds, seconds, seconds)


def made_up(call=1e-6, element=2e-10, row=3e-8, per_byte=5e-11, exponent=2.0):
    """Return the totals of a machine whose costs are known."""
    raw = {}
    operations = ("add", "add:scalar", "multiply:scalar", "minimum", "maximum.reduce", "exp")
    for operation in operations:
        for n in element_counts("float32"):
            raw["operation", operation, "float32", n] = exactly(call + n * element)
    whole = ROWS[0] * ROWS[1]
    raw["rows", "add", "float32"] = exactly(call + whole * element + ROWS[0] * row)
    raw["rows", "maximum.reduce:axis0", "float32"] = exactly(call + whole * element + ROWS[0] * row * 2)
    for shape in STREAM_SHAPES:
        for working_set in (2**12, 2**20, 2**27):
            count = working_set // 8
            moved = count * STREAM_BYTES_PER_ELEMENT[shape]
            raw["stream", shape, working_set, count] = exactly(call + moved * per_byte)
    raw["roof", "load", 1, 2**14, 2**20] = exactly(1e-5)
    raw["roof", "load", 1, 2**27, 2**27] = exactly(1e-2)
    raw["peak", "float32", 1, "fma probe", 10**9] = exactly(0.01)
    raw["pages", "fresh", 2**20] = exactly(2e-3)
    raw["pages", "used", 2**20] = exactly(1e-3)
    raw["pages", "new", 2**20] = exactly(1.5e-3)
    raw["product", "float32", 1, 64, 32, 16] = exactly(1e-5)
    raw["interpreter", 512] = exactly(512 * 3e-7)
    raw["python call",] = exactly(5e-8)
    raw["call", "mean", "method"] = exactly(6e-6)
    raw["reference",] = exactly(1e-6)
    raw["view",] = exactly(2e-7)
    count = 2**24
    arithmetic, memory = count * element, count * 8 * per_byte
    raw["overlap", "exp", count] = exactly((arithmetic**exponent + memory**exponent) ** (1 / exponent))
    return {key: replace(probe, key=key) for key, probe in raw.items()}


def fitted(**costs):
    return fit(made_up(**costs), quick=False, duration_seconds=1.0)


@settings(max_examples=50, deadline=None)
@given(st.floats(1e-7, 1e-5), st.floats(1e-11, 1e-7), st.floats(0, 1e-6))
def test_the_fit_gives_back_the_costs_of_calls_elements_and_rows(call, element, row):
    ceilings = {c.operation: c for c in fitted(call=call, element=element, row=row).ceilings}
    add = ceilings["add"]
    assert add.call_seconds == pytest.approx(call, rel=1e-6, abs=1e-15)
    assert add.element_seconds == pytest.approx(element, rel=1e-6)
    assert add.row_seconds == pytest.approx(row, rel=1e-4, abs=1e-12)
    assert ceilings["maximum.reduce:axis0"].row_seconds == pytest.approx(2 * row, rel=1e-4, abs=1e-12)


@pytest.mark.parametrize("per_byte", [1e-11, 7e-11])
def test_the_fit_takes_the_call_out_of_the_streams(per_byte):
    # The call is a tenth of the smallest pass at most, so none is cut off as noise.
    for stream in fitted(call=1e-9, per_byte=per_byte).streams:
        assert stream.seconds_per_byte == pytest.approx([per_byte] * 3, rel=1e-6)
        assert stream.working_set_bytes == (2**12, 2**20, 2**27)


@pytest.mark.parametrize("exponent", [1.0, 1.5, 2.0, 4.0])
def test_the_fit_finds_how_well_arithmetic_and_memory_overlap(exponent):
    [overlap] = fitted(element=4e-10, exponent=exponent).overlaps
    assert overlap.operation == "exp"
    assert overlap.exponent == pytest.approx(exponent, abs=0.06)


def test_the_fit_of_everything_else():
    calibration = fitted()
    assert calibration.peaks[0].flops_per_second == pytest.approx(1e11)
    [load] = calibration.bandwidths
    assert load.bytes_per_second == pytest.approx((2**20 / 1e-5, 2**27 / 1e-2))
    assert calibration.fresh_pages.seconds_per_byte == pytest.approx((1e-3 / 2**20,))
    assert calibration.allocations.seconds_per_byte == pytest.approx((0.5e-3 / 2**20,))
    assert calibration.interpreted_seconds == pytest.approx(3e-7)
    assert calibration.matmuls[0].k == 32
    assert calibration.calls[0].seconds == pytest.approx(6e-6)
    assert calibration.steady
    assert calibration.spread_fraction == 0


def test_a_noisy_run_is_not_called_steady():
    raw = {key: Probe(key, p.best_seconds, p.best_seconds * 2, p.best_seconds * 1.5) for key, p in made_up().items()}
    calibration = fit(raw, quick=False, duration_seconds=1.0)
    assert not calibration.steady
    assert calibration.spread_fraction == pytest.approx(1.0)


def test_costs_are_never_negative_however_noisy():
    raw = made_up()
    for n, seconds in zip(element_counts("float32"), (3e-6, 2e-6, 1e-6), strict=True):  # larger operands were "faster"
        raw["operation", "add", "float32", n] = exactly(seconds)
    raw["pages", "fresh", 2**20] = exactly(1e-4)
    calibration = fit(raw, quick=False, duration_seconds=1.0)
    add = next(c for c in calibration.ceilings if c.operation == "add")
    assert add.element_seconds == 0
    assert add.row_seconds >= 0
    assert calibration.fresh_pages.seconds_per_byte == (0.0,)


@pytest.mark.parametrize("count", [1, 15, 16, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_probe_arrays_start_on_a_cache_line(count, dtype):
    array = aligned(count, dtype)
    assert array.ctypes.data % 64 == 0
    assert array.size == count
    assert (array == 1).all()


@pytest.mark.parametrize("quick", [True, False])
def test_plans_fit_the_memory(quick):
    small = plan_for(replace(LAPTOP, memory_bytes=512 * 2**20), quick=quick)
    assert max(small.working_sets + small.roof_working_sets) <= 64 * 2**20
    plan = plan_for(LAPTOP, quick=quick)
    assert list(plan.working_sets) == sorted(plan.working_sets)


@pytest.mark.parametrize("numba", [True, False])
def test_every_probe_of_a_quick_plan_runs(numba):
    if numba:
        pytest.importorskip("numba")
    plan = plan_for(hardware.detect(), quick=True)
    kinds = set()
    for _, make in batches(plan, numba=numba):
        for key, call in make().items():
            call()
            kinds.add(key[0])
    single = {"call", "interpreter", "python call", "view", "overlap"}
    assert kinds == single | {"peak", "operation", "rows", "product", "pages", "stream", "roof", "function"}


def test_probes_stay_finite_however_often_they_run():
    plan = plan_for(LAPTOP, quick=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _, make in batches(plan, numba=False):
            batch = make()
            if next(iter(batch))[0] in ("stream", "operation", "overlap") and next(iter(batch))[-1] < 2**16:
                for call in batch.values():
                    for _ in range(300):
                        call()


@pytest.mark.parametrize("mebibytes", [1, 4, 32])
def test_fresh_pages_lie_where_a_large_array_does_wherever_their_mapping_begins(mebibytes):
    kept = []
    for odd in range(1, 5):
        kept += [mmap.mmap(-1, odd * 28 * 4096), fresh_array(mebibytes * MIB)]
        assert kept[-1].nbytes == mebibytes * MIB
        assert kept[-1].ctypes.data % HUGE_PAGE_BYTES == HUGE_PAGE_BYTES // 2 + 16
        assert not kept[-1][:: mmap.PAGESIZE // 4].any()


@pytest.fixture(scope="module")
def calibrated():
    return accel.calibrate(quick=True, progress=False, save=False)


def test_a_real_calibration_is_physically_plausible(calibrated, tmp_path):
    assert storage.load(storage.save(calibrated, tmp_path / "machine.json")) == calibrated
    levels = calibrated.level_bandwidths()
    assert levels["L1"] > levels["DRAM"]
    assert calibrated.peak_flops_per_second("float32") > calibrated.peak_flops_per_second("float64") * 0.8


def test_the_memory_roof_is_above_what_numpy_reaches(calibrated):
    x = np.ones(2**23, np.float32)
    out = np.empty_like(x)
    copy = accel.measure(lambda: np.copyto(out, x), seconds=0.3)
    roof = calibrated.bandwidth_bytes_per_second(2 * x.nbytes)
    assert 2 * x.nbytes / copy.best_seconds < 2.0 * roof


def test_this_machine_measures_once_and_keeps(monkeypatch, tmp_path):
    from accel import calibration

    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(calibration, "_CURRENT", {})
    first = accel.this_machine(quick=True, progress=False)
    assert list(tmp_path.glob("*.json"))
    assert accel.this_machine() is first
    monkeypatch.setattr(calibration, "_CURRENT", {})
    # From the file: a second measurement would differ. Where a quick calibration is enough, a machine that has become
    # faster since is not calibrated further.
    assert accel.this_machine(quick=True, progress=False) == first


def test_a_machine_that_has_become_faster_is_calibrated_further_unless_quick_is_enough(monkeypatch, tmp_path):
    from accel import calibration

    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(calibration, "_CURRENT", {})
    seen_slow = replace(CALIBRATION, reference_seconds=60.0)
    storage.save(hardware.detect().with_calibration(seen_slow))
    assert accel.this_machine(quick=True, progress=False).calibration == seen_slow
    further = replace(CALIBRATION, reference_seconds=1e-9)
    monkeypatch.setattr(calibration, "calibrate", lambda **_: hardware.detect().with_calibration(further))
    monkeypatch.setattr(calibration, "_CURRENT", {})
    assert accel.this_machine(progress=False).calibration == further


@pytest.mark.parametrize(
    ("seconds", "hours", "again"), [(60.0, 2, True), (60.0, 0.5, False), (1e-9, 2, False), (None, 2, False)]
)
def test_memory_that_was_slow_is_measured_again_after_an_hour(monkeypatch, tmp_path, seconds, hours, again):
    from accel import calibration

    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(calibration, "_CURRENT", {})
    taken = (datetime.now() - timedelta(hours=hours)).astimezone().isoformat(timespec="seconds")
    probes = () if seconds is None else (replace(exactly(seconds), key=("stream", "1R1W", 2**22, 2**19)),)
    kept = replace(CALIBRATION, reference_seconds=1e-9, taken_at=taken, probes=probes)
    storage.save(hardware.detect().with_calibration(kept))
    further = replace(kept, taken_at=datetime.now().astimezone().isoformat(timespec="seconds"))
    monkeypatch.setattr(calibration, "calibrate", lambda **_: hardware.detect().with_calibration(further))
    assert (accel.this_machine(progress=False).calibration == further) == again


def test_this_machine_measures_again_where_the_file_was_edited_and_says_why(monkeypatch, tmp_path):
    from accel import calibration

    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(calibration, "_CURRENT", {})
    first = accel.this_machine(quick=True, progress=False)
    [path] = tmp_path.glob("*.json")
    path.write_text(path.read_text().replace('"quick": true', '"quick": false'))
    monkeypatch.setattr(calibration, "_CURRENT", {})
    with pytest.warns(UserWarning, match="again"):
        second = accel.this_machine(quick=True, progress=False)
    assert second != first
    assert second.calibration.quick


def test_a_loop_gets_up_to_speed_once():
    raw = made_up()
    for n in element_counts("float32"):
        raw["operation", "exp", "float32", n] = exactly(1e-6 + n * 1e-9 + (2e-7 if n >= RAMP_ELEMENTS else 0.0))
    exp = next(c for c in fit(raw, quick=False, duration_seconds=1.0).ceilings if c.operation == "exp")
    assert exp.call_seconds == pytest.approx(1e-6)
    assert exp.element_seconds == pytest.approx(1e-9)
    assert exp.ramp_seconds == pytest.approx(2e-7)


def test_a_rate_has_the_call_taken_out():
    raw = made_up()
    for working_set, units in ((2**7, 16), (2**14, 2048), (2**24, 2**21)):
        key = ("function", "sort", "float32", working_set, units)
        raw[key] = replace(exactly(3e-6 + units * 5e-9), key=key)
    [rate] = fit(raw, quick=False, duration_seconds=1.0).rates
    assert (rate.operation, rate.working_set_bytes) == ("sort", (2**14, 2**24))
    assert rate.call_seconds == pytest.approx(3e-6)
    assert rate.seconds_per_unit == pytest.approx((5e-9, 5e-9))


def test_rows_added_to_rows_cost_what_arrays_added_do():
    raw = made_up(element=2e-10)
    for n in element_counts("float32"):
        raw["operation", "maximum", "float32", n] = exactly(1e-6 + n * 1e-10)
    ceilings = {c.operation: c for c in fit(raw, quick=False, duration_seconds=1.0).ceilings}
    assert ceilings["maximum.reduce"].element_seconds == pytest.approx(2e-10)
    assert ceilings["maximum.reduce:axis0"].element_seconds == pytest.approx(1e-10)


@given(st.lists(st.floats(1e-12, 1e-9), min_size=1, max_size=30))
def test_a_curve_never_falls_and_keeps_what_already_rises(measured):
    curve = never_falling(measured)
    assert all(after >= before * (1 - 1e-12) for before, after in itertools.pairwise(curve))
    assert math.prod(c / m for c, m in zip(curve, measured, strict=True)) == pytest.approx(1.0)
    assert never_falling(sorted(measured)) == pytest.approx(sorted(measured))


def chunk(reference, **seconds):
    return _Chunk({("reference",): [reference] * 2, **{(kind,): [s] * 2 for kind, s in seconds.items()}})


def test_what_only_met_a_slow_phase_is_put_right():
    raw = _summaries([chunk(1e-6, call=2e-6), chunk(1.5e-6, view=3e-6)], LAPTOP)
    assert raw["call",].best_seconds == pytest.approx(2e-6)
    assert raw["view",].best_seconds == pytest.approx(3e-6 / probe_slowdown(("view",), LAPTOP, 1 + 0.5 * PUT_RIGHT))
    assert raw["reference",].best_seconds == 1e-6


def test_what_passes_through_memory_is_measured_alone():
    small = {("call", str(i), "method"): len for i in range(CHUNK + 1)}
    large = {("stream", "1R1W", 2**i, 2**i): len for i in range(3)}
    assert [len(part) for part in _parts(small)] == [CHUNK, 1]
    assert [len(part) for part in _parts(large)] == [1, 1, 1]


def test_passes_through_memory_have_the_mean_of_two_calibrations():
    key = ("stream", "1R1W", 2**20, 2**17)
    both = merged({key: Probe(key, 4.0, 5.0, 4.5)}, (Probe(key, 1.0, 1.5, 1.2),))
    assert both[key].best_seconds == pytest.approx(2.0)
    assert both[key].spread_fraction == pytest.approx(0.25)


def test_a_further_calibration_keeps_the_best_of_each_probe():
    fast = {("a",): Probe(("a",), 1.0, 1.5, 1.2), ("old",): Probe(("old",), 3.0, 3.0, 3.0)}
    slow = {("a",): Probe(("a",), 2.0, 2.5, 2.2), ("new",): Probe(("new",), 4.0, 4.0, 4.0)}
    both = merged(slow, tuple(fast.values()))
    assert both[("a",)] == Probe(("a",), 1.0, 2.5, 2.2)
    assert both[("old",)].best_seconds == 3.0
    assert both[("new",)].best_seconds == 4.0
    assert merged(fast, tuple(slow.values()))[("a",)] == fast[("a",)]


def test_a_merged_calibration_is_at_least_as_fast_in_every_probe(calibrated):
    probes = {probe.key: probe for probe in calibrated.calibration.probes}
    slower = tuple(replace(probe, best_seconds=probe.best_seconds * 2) for probe in probes.values())
    assert fit(merged(probes, slower), quick=True, duration_seconds=1.0).peaks == calibrated.calibration.peaks


def test_passes_of_one_working_set_share_arrays_and_fill_it():
    working_set = 3 * 2**14
    for (_, shape, of, count), call in stream_batch(STREAM_SHAPES, working_set).items():
        arrays = {id(a): a for a in (*call.args, *call.keywords.values()) if isinstance(a, np.ndarray) and a.size > 1}
        assert of == working_set
        assert {array.size for array in arrays.values()} == {count}
        distinct = {array.__array_interface__["data"][0] for array in arrays.values()}
        assert len(distinct) * count * 4 == working_set == STREAM_OPERANDS[shape] * count * 4


def test_branching_operations_have_a_cost_of_their_own_for_long_arrays():
    batch = branching_batch("float32")
    assert {key[1] for key in batch} >= {"cbrt:long", "log1p:long"}
    for run in batch.values():
        run()
    long = {("operation", "cbrt:long", "float32", n): exactly(1e-6 + n * 9e-9) for n in (16, 32768)}
    fitted = fit(made_up() | long, quick=False, duration_seconds=1.0)
    [ceiling] = [c for c in fitted.ceilings if c.operation == "cbrt:long"]
    assert ceiling.element_seconds == pytest.approx(9e-9)
    assert ceiling.call_seconds == pytest.approx(1e-6)


@pytest.mark.parametrize("name", ["matvec:narrow", "vecmat:narrow", "argmax:narrow"])
def test_narrow_rows_are_measured_as_functions_are(name):
    batch = function_batch("rows", name, "float32", 2**20)
    assert len(batch) > 2
    for (kind, found, _, working_set, units), run in batch.items():
        assert (kind, found, working_set) == ("function", name, 4 * units)
        assert units % NARROW_ELEMENTS == 0
        assert np.size(run()) in (units // NARROW_ELEMENTS, NARROW_ELEMENTS)


def test_rarer_functions_belong_to_full_calibrations():
    machine = hardware.detect()
    quick, full = (plan_for(machine, quick=quick) for quick in (True, False))
    assert "rows" in full.families
    assert "rows" not in quick.families
