import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import threadpoolctl

from accel import hardware
from accel.hardware import parse_cpu_name, pick_blas, simd_bits
from accel.machine import Blas
from accel.topology import ASSUMED, Level, objection

VM_CPUINFO = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 1
model name\t: AMD EPYC
stepping\t: 1
cache size\t: 512 KB
flags\t\t: fpu vme de pse avx avx2

processor\t: 1
model name\t: AMD EPYC
"""
INTEL_CPUINFO = "processor\t: 0\nmodel name\t: 13th Gen Intel(R) Core(TM)  i7-1360P\n"
ARM_CPUINFO = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"
ARM_LSCPU = "Architecture:           aarch64\nCPU(s):                 4\nVendor ID:   ARM\nModel name:   Neoverse-N1\n"
POWER_CPUINFO = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800.0MHz\n"
RISCV_CPUINFO = "processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc\nuarch\t\t: sifive,u74-mc\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (VM_CPUINFO, "AMD EPYC"),
        (INTEL_CPUINFO, "13th Gen Intel(R) Core(TM) i7-1360P"),
        (ARM_CPUINFO, ""),
        (ARM_LSCPU, "Neoverse-N1"),
        (POWER_CPUINFO, "POWER9, altivec supported"),
        (RISCV_CPUINFO, "sifive,u74-mc"),
        ("Model name:  -\n", ""),
        ("", ""),
    ],
)
def test_cpu_name(text, name):
    assert parse_cpu_name(text) == name


@pytest.mark.parametrize(
    ("features", "bits"),
    [
        ({"AVX": True, "AVX2": True, "AVX512F": True}, 512),
        ({"AVX": True, "AVX2": True, "AVX512F": False}, 256),
        ({"AVX": True, "AVX2": False}, 256),
        ({"SSE2": True, "AVX": False}, 128),
        ({"NEON": True, "ASIMD": True}, 128),
        ({}, 128),
    ],
)
def test_simd_bits(features, bits):
    assert simd_bits(features) == bits


def library(path: str, **changes) -> dict[str, object]:
    found = {
        "user_api": "blas",
        "internal_api": "openblas",
        "filepath": path,
        "version": "0.3.31",
        "architecture": "Haswell",
        "num_threads": 4,
    }
    return found | changes


SITE = Path("/env/lib/python3.12/site-packages")
SCIPYS = library(f"{SITE}/scipy.libs/libscipy_openblas-1.so", version="0.3.20", num_threads=9)
OPENMP = library(f"{SITE}/torch/lib/libgomp.so", user_api="openmp", internal_api="openmp")


@pytest.mark.parametrize(
    "path",
    [
        f"{SITE}/numpy.libs/libscipy_openblas64_-2.so",
        f"{SITE}/numpy/.dylibs/libscipy_openblas64_.dylib",
        "/env/lib/libopenblasp-r0.3.31.so",
    ],
)
def test_the_blas_of_numpy_is_told_from_that_of_others(path):
    found = pick_blas([OPENMP, SCIPYS, library(path)], SITE / "numpy")
    assert found == Blas(name="OpenBLAS", version="0.3.31", kernel="Haswell", threads=4)


def test_a_blas_that_says_little():
    mkl = library("/env/lib/libmkl_rt.so.2", internal_api="mkl", version=None, architecture=None)
    assert pick_blas([mkl], SITE / "numpy") == Blas(name="MKL", version="", kernel="", threads=4)


def test_no_blas_loaded():
    assert pick_blas([OPENMP], SITE / "numpy") is None
    assert pick_blas([], SITE / "numpy") is None


def built(**blas) -> dict[str, object]:
    return {"Build Dependencies": {"blas": blas}}


@pytest.mark.parametrize(
    ("config", "environment", "blas"),
    [
        (built(found=True, name="accelerate", version="unknown"), {}, Blas("Accelerate", "unknown", "", 6)),
        (built(found=True, name="accelerate"), {"VECLIB_MAXIMUM_THREADS": "2"}, Blas("Accelerate", "", "", 2)),
        (built(found=True, name="blas", version="3.12"), {}, Blas("blas", "3.12", "", 1)),
        (built(found=False, name="auto"), {}, Blas("none", "", "", 1)),
        ({}, {}, Blas("none", "", "", 1)),
        (None, {}, Blas("none", "", "", 1)),
    ],
)
def test_a_blas_that_cannot_be_asked_is_the_one_numpy_was_built_with(config, environment, blas):
    found, notes = hardware._blas_as_built(config, environment, usable_cpus=6)
    assert found == blas
    assert len(notes) == 1
    assert notes[0].startswith(ASSUMED) == (blas.name != "none")


def test_this_computer():
    machine, notes = hardware.detect_with_notes()
    assert machine == hardware.detect()
    assert not machine.is_calibrated
    assert machine.cpu_name.strip() == machine.cpu_name != ""
    assert (machine.architecture, machine.system) == (platform.machine(), platform.system())
    assert machine.logical_cpus == os.cpu_count()
    assert 1 <= machine.usable_cpus <= machine.affinity_cpus <= machine.logical_cpus
    assert machine.memory_bytes <= psutil.virtual_memory().total
    assert machine.python_version == platform.python_version()
    assert machine.numpy_version == np.__version__
    levels = [Level(c.level, c.size_bytes, c.line_bytes, c.ways, c.shared_by_cpus) for c in machine.caches]
    assert objection(levels, machine.logical_cpus) == ""
    assert all(isinstance(note, str) and note for note in notes)


def test_versions_agree_with_the_packages():
    machine = hardware.detect()
    try:
        assert machine.numba_version == importlib.metadata.version("numba")
    except importlib.metadata.PackageNotFoundError:
        assert machine.numba_version is None


def test_a_package_that_is_missing_has_no_version():
    assert hardware._version("a-package-that-is-not-installed") is None


def test_the_blas_found_is_the_one_that_obeys():
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        assert hardware.detect().blas.threads == 1


@pytest.mark.skipif(sys.platform != "linux", reason="affinity is set by a call that only Linux has")
def test_affinity_is_obeyed():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        machine = hardware.detect()
    finally:
        os.sched_setaffinity(0, allowed)
    assert machine.affinity_cpus == machine.usable_cpus == 1
    assert machine.logical_cpus == os.cpu_count()


def run(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout.strip()


@pytest.mark.skipif(platform.machine() not in {"x86_64", "AMD64"}, reason="these features are those of x86")
def test_features_switched_off_in_numpy_are_not_counted():
    program = "from accel import hardware; print(hardware.detect().simd_bits)"
    assert run(program, NPY_DISABLE_CPU_FEATURES="AVX512_SPR AVX512_ICL X86_V4 X86_V3") in {"128", "256"}
    assert int(run(program)) == hardware.detect().simd_bits


@pytest.mark.skipif(sys.platform != "linux", reason="only there is detection promised to be quick")
def test_detection_loads_nothing_heavy():
    program = (
        "import sys; from accel import hardware; hardware.detect();"
        "print(sorted({'numba', 'cpuinfo', 'matplotlib', 'rich', 'typer', 'pandas'} & set(sys.modules)))"
    )
    assert run(program) == "[]"


@pytest.mark.speed
@pytest.mark.skipif(sys.platform != "linux", reason="only there is detection promised to be quick")
def test_detection_is_quick():
    hardware.detect()
    start = time.perf_counter()
    hardware.detect()
    assert time.perf_counter() - start < 0.3


def test_a_command_that_is_missing_or_fails_says_nothing():
    assert hardware._run("a-command-that-is-not-installed") == ""
    assert hardware._run(sys.executable, "-c", "raise SystemExit(3)") == ""
