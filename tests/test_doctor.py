import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from accel import doctor, report
from accel.doctor import Checkup, Conditions, Finding, ThreadVariable, diagnose
from accel.machine import Blas
from accel.topology import ASSUMED
from tests.machines import CALIBRATED, CALIBRATION, LAPTOP, QUICK

QUIET = Conditions(load_average=0.1, available_bytes=12 << 30, huge_pages="madvise", noise_fraction=0.02)


def warnings_of(machine=CALIBRATED, notes=(), conditions=QUIET, stale="") -> list[Finding]:
    return [found for found in diagnose(machine, notes, conditions, stale=stale) if found.level == "warning"]


def test_a_good_machine_has_no_warning():
    findings = diagnose(CALIBRATED, (), QUIET)
    assert [found.title for found in findings] == [
        "CPUs",
        "BLAS",
        "Threads",
        "Numba",
        "Calibration",
        "Noise",
        "Memory",
        "Huge pages",
    ]
    assert {found.level for found in findings} == {"ok"}
    assert all(found.detail for found in findings)


OPENBLAS = LAPTOP.blas
CASES = {
    "quota": ({"quota_cpus": 1.5, "blas": replace(OPENBLAS, threads=1)}, "quota of 1.5 CPUs below 4", "Run 1 thread"),
    "affinity": ({"affinity_cpus": 2, "blas": replace(OPENBLAS, threads=2)}, "affinity of 2 CPUs below 4", "all CPUs"),
    "no BLAS": ({"blas": Blas("none", "", "", 1)}, "unoptimized BLAS (none)", "pip install"),
    "reference BLAS": ({"blas": Blas("blas", "3.12", "", 1)}, "unoptimized BLAS (blas 3.12)", "pip install"),
    "old kernel": ({"blas": replace(OPENBLAS, kernel="Prescott")}, "BLAS uses old kernels (Prescott)", "CORETYPE"),
    "generic": ({"blas": replace(OPENBLAS, kernel="Generic")}, "BLAS uses old kernels (Generic)", "CORETYPE"),
    "threads": ({"blas": replace(OPENBLAS, threads=9)}, "BLAS starts 9 threads on 4 usable CPUs", "THREADS=4"),
    "no Numba": ({"numba_version": None}, "Numba is missing", "pip install numba"),
    "little memory": ({"memory_bytes": 2 << 30}, "low memory (2 GB)", "smaller arrays"),
    "Rosetta": ({"cpu_name": "VirtualApple @ 2.50GHz"}, "probably emulated by Rosetta 2", "own architecture"),
    "Rosetta, named": ({"cpu_name": "Apple M1"}, "probably emulated by Rosetta 2", "own architecture"),
    "QEMU": ({"cpu_name": "QEMU Virtual CPU version 2.5+"}, "probably emulated by QEMU", "own architecture"),
    "not calibrated": ({"calibration": None}, "not calibrated", "accel calibrate"),
    "noisy": ({"calibration": replace(CALIBRATION, spread_fraction=0.4)}, "machine was noisy while", "calibrate again"),
    "unsteady": ({"calibration": replace(CALIBRATION, steady=False)}, "machine was noisy while", "calibrate again"),
}


@pytest.mark.parametrize(("changes", "title", "fix"), CASES.values(), ids=CASES)
def test_each_fault_of_a_machine_is_one_warning_with_a_fix(changes, title, fix):
    (found,) = warnings_of(replace(CALIBRATED, **changes))
    assert found.title.startswith(title)
    assert fix in found.fix
    assert len(found.detail) > 20


CONDITIONS = {
    "busy": ({"load_average": 2.9}, "machine is busy"),
    "noisy": ({"noise_fraction": 0.16}, "machine is noisy"),
    "no huge pages": ({"huge_pages": "never"}, "transparent huge pages are off"),
    "memory in use": ({"available_bytes": 1 << 30}, "little memory is free (1 GB of 16 GB)"),
    "variable": (
        {"thread_variables": (ThreadVariable("OMP_NUM_THREADS", "16"),)},
        "OMP_NUM_THREADS=16 on 4 usable CPUs",
    ),
    "nested variable": (
        {"thread_variables": (ThreadVariable("OMP_NUM_THREADS", "8,2"),)},
        "OMP_NUM_THREADS=8,2 on 4 usable CPUs",
    ),
}


@pytest.mark.parametrize(("changes", "title"), CONDITIONS.values(), ids=CONDITIONS)
def test_each_fault_of_the_moment_is_one_warning(changes, title):
    (found,) = warnings_of(conditions=replace(QUIET, **changes))
    assert found.title == title
    assert found.fix


@pytest.mark.parametrize("value", ["4", "1", "", "many", "-3"])
def test_thread_variables_within_bounds_or_without_meaning_are_no_warning(value):
    assert not warnings_of(conditions=replace(QUIET, thread_variables=(ThreadVariable("MKL_NUM_THREADS", value),)))


def test_bounds_are_not_crossed_by_standing_on_them():
    on_the_edge = replace(QUIET, load_average=0.7 * 4, noise_fraction=0.15, available_bytes=2 << 30)
    edge = replace(CALIBRATED, memory_bytes=4 << 30, calibration=replace(CALIBRATION, spread_fraction=0.15))
    assert not warnings_of(edge, conditions=on_the_edge)


def test_an_old_kernel_on_an_old_cpu_is_right():
    old = replace(CALIBRATED, simd_bits=128, blas=replace(OPENBLAS, kernel="Nehalem"))
    assert not warnings_of(old)


def test_a_calibration_that_no_longer_holds_says_why():
    (found,) = warnings_of(LAPTOP, stale="numpy 2.4.5 then, 2.4.6 now")
    assert found.title == "the kept calibration cannot be used"
    assert found.detail == "Numpy 2.4.5 then, 2.4.6 now."


def test_only_assumptions_among_the_notes_are_warnings():
    notes = ("L3 size: one says 1 MB, other says 2 MB; 1 MB is used", f"{ASSUMED}no cache sizes; guesses are used")
    (found,) = warnings_of(notes=notes)
    assert found.detail == "No cache sizes; guesses are used."


def test_without_conditions_only_the_machine_is_judged():
    assert [found.title for found in diagnose(CALIBRATED)] == [
        "CPUs", "BLAS", "Threads", "Numba", "Calibration", "Memory",
    ]  # fmt: skip


def test_everything_at_once():
    worst = replace(
        LAPTOP, quota_cpus=1.0, affinity_cpus=2, numba_version=None, memory_bytes=1 << 30, cpu_name="QEMU TCG CPU"
    )
    conditions = Conditions(9.0, 1 << 20, "never", 0.9, (ThreadVariable("NUMBA_NUM_THREADS", "64"),))
    found = warnings_of(worst, (f"{ASSUMED}much",), conditions)
    assert len(found) == 12
    assert len({warning.title for warning in found}) == 12


def test_the_setting_of_huge_pages(tmp_path):
    path = tmp_path / "enabled"
    for text, setting in (("always [madvise] never\n", "madvise"), ("[always] madvise never", "always"), ("", None)):
        path.write_text(text)
        assert doctor._huge_pages(path) == (setting if sys.platform == "linux" else None)
    assert doctor._huge_pages(tmp_path / "missing") is None


def test_noise_is_a_share():
    assert 0 <= doctor.measure_noise(0.05) < 100


def test_this_computer(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "4096")
    checkup = doctor.examine(noise_seconds=0.05)
    assert not checkup.machine.is_calibrated
    titles = [found.title for found in checkup.warnings]
    assert "not calibrated" in titles
    assert f"OMP_NUM_THREADS=4096 on {checkup.machine.usable_cpus} usable CPUs" in titles
    assert ThreadVariable("OMP_NUM_THREADS", "4096") in checkup.conditions.thread_variables
    assert Checkup.from_json(checkup.to_json()) == checkup
    assert json.loads(checkup.to_json())["machine"]["cpu_name"] == checkup.machine.cpu_name


# ------------------------------------------------------------------------------------------------------- the report


def printed(machine, conditions=QUIET, notes=(), width=report.WIDTH) -> str:
    checkup = Checkup(machine, notes, conditions, diagnose(machine, notes, conditions))
    stream = io.StringIO()
    report.print_checkup(checkup, Console(file=stream, width=width, color_system=None))
    return stream.getvalue()


@pytest.mark.parametrize("machine", [CALIBRATED, QUICK, LAPTOP], ids=["full", "quick", "uncalibrated"])
def test_the_report_holds_everything_and_fits(machine):
    long = replace(machine, cpu_name="A CPU with a [bold] name " + "that never seems to end " * 8, numba_version=None)
    text = printed(long, replace(QUIET, load_average=50.0), ("a note on [how] things were found " * 6,))
    assert max(map(len, text.splitlines())) <= 100
    for part in (
        "A CPU with a [bold] name",
        "[how]",
        "OpenBLAS 0.3.31",
        "2.4.6",
        "Haswell",
        "16 MB",
        "4 CPUs",
        "not told",
    ):
        assert part in text
    assert "Findings: " in text
    assert "Numba is missing" in text
    assert "machine is busy" in text
    assert ("Measured roofs" in text) == machine.is_calibrated


def test_the_report_shows_the_roofs_as_measured():
    lines = {" ".join(line.split()) for line in printed(CALIBRATED).splitlines()}
    assert "peak, float32 100 GFLOP/s 390 GFLOP/s" in lines
    assert "peak, float64 50 GFLOP/s –" in lines
    # In the middle of L1, 16 KB: the better of load and copy as measured there; DRAM: at the largest working set.
    assert "bandwidth, L1 210 GB/s 750 GB/s" in lines
    assert "bandwidth, DRAM 20 GB/s 35 GB/s" in lines
    assert "ridge, float32 on DRAM 5 FLOP/byte 11.1 FLOP/byte" in lines
    assert "ridge, float32 on L1 0.476 FLOP/byte 0.52 FLOP/byte" in lines
    assert "add, float32 410 ns dispatch overhead" in lines
    assert "Findings: no warnings" in lines


def test_a_thread_count_without_measured_bandwidth_has_none_in_the_report():
    # Without Numba the copy is measured on one thread only.
    alone = tuple(band for band in CALIBRATION.bandwidths if band.threads == 1)
    text = printed(replace(CALIBRATED, calibration=replace(CALIBRATION, bandwidths=alone)))
    lines = {" ".join(line.split()) for line in text.splitlines()}
    assert "bandwidth, L1 210 GB/s –" in lines
    assert "ridge, float32 on DRAM 5 FLOP/byte –" in lines


def test_the_report_names_no_folder_of_the_package():
    assert str(Path(doctor.__file__).parent) not in printed(CALIBRATED)
