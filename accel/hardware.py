"""Hardware: what this computer is and which libraries it runs, found out without measuring anything."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from accel import cgroups, topology
from accel.machine import Blas, Cache, Machine

__all__ = ["detect", "detect_with_notes", "parse_cpu_name", "pick_blas", "simd_bits"]

_COMMAND_SECONDS = 5.0
_BLAS_NAMES = {
    "openblas": "OpenBLAS",
    "mkl": "MKL",
    "blis": "BLIS",
    "flexiblas": "FlexiBLAS",
    "accelerate": "Accelerate",
}


def detect() -> Machine:
    """Describe this computer, uncalibrated. Takes under 0.3 s on Linux and macOS, about 2 s on Windows.

    >>> from accel.hardware import detect
    >>> machine = detect()
    >>> machine.is_calibrated, machine.caches[0].name
    (False, 'L1')
    """
    return detect_with_notes()[0]


def detect_with_notes() -> tuple[Machine, tuple[str, ...]]:
    """Describe this computer, and say which sources were dropped, outvoted or missing.

    A note that begins with `topology.ASSUMED` names something that could not be found and was assumed.
    """
    logical_cpus = os.cpu_count() or 1
    affinity = _affinity(logical_cpus)
    limits = cgroups.limits()
    caches, cache_notes = _caches(affinity, logical_cpus)
    blas, blas_notes = _blas(len(affinity))
    name, name_notes = _cpu_name()
    machine = Machine(
        cpu_name=name,
        architecture=platform.machine(),
        system=platform.system(),
        simd_bits=simd_bits(_numpy_cpu_features()),
        logical_cpus=logical_cpus,
        affinity_cpus=len(affinity),
        quota_cpus=limits.cpus,
        caches=caches,
        memory_bytes=_memory_bytes(limits.memory_bytes),
        blas=blas,
        python_version=platform.python_version(),
        numpy_version=importlib.metadata.version("numpy"),
        numba_version=_version("numba"),
    )
    return machine, (*name_notes, *cache_notes, *blas_notes)


# ------------------------------------------------------------------------------------------------------------- CPU


def _cpu_name() -> tuple[str, tuple[str, ...]]:
    if sys.platform == "linux":
        name = parse_cpu_name(_text("/proc/cpuinfo")) or parse_cpu_name(_run("lscpu"))
    elif sys.platform == "darwin":
        name = _run("sysctl", "-n", "machdep.cpu.brand_string").strip()
    else:
        name = str(_cpuinfo().get("brand_raw", ""))
    if name:
        return name, ()
    name = platform.processor() or f"{platform.machine()} CPU"
    return name, (f"{topology.ASSUMED}the CPU does not tell its name; it is called {name!r}",)


def parse_cpu_name(text: str) -> str:
    """Return the processor's name from the text of ``/proc/cpuinfo`` or ``lscpu``; empty where there is none.

    >>> from accel.hardware import parse_cpu_name
    >>> parse_cpu_name("model name : AMD EPYC 9R14")
    'AMD EPYC 9R14'
    """
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and value.strip() not in {"", "-", "unknown"}:
            fields.setdefault(key.strip().lower(), " ".join(value.split()))
    # x86 and lscpu (which also knows the names of ARM cores), then PowerPC, then RISC-V.
    return next((fields[key] for key in ("model name", "cpu", "uarch") if key in fields), "")


def simd_bits(features: Mapping[str, bool]) -> int:
    """Return the width of the vector registers NumPy may use, from its table of CPU features.

    NumPy asks the CPU and the operating system at import, and obeys ``NPY_DISABLE_CPU_FEATURES``.

    >>> from accel.hardware import simd_bits
    >>> simd_bits({"AVX": True, "AVX2": True, "AVX512F": False})
    256
    """
    if features.get("AVX512F"):
        return 512
    if features.get("AVX2") or features.get("AVX"):
        return 256
    return 128


def _numpy_cpu_features() -> Mapping[str, bool]:
    # Private but stable since NumPy 1.17 (moved to _core in 2.0); its public face, numpy.show_runtime, only prints.
    from numpy._core._multiarray_umath import __cpu_features__

    features: Mapping[str, bool] = __cpu_features__
    return features


def _affinity(logical_cpus: int) -> tuple[int, ...]:
    """Return the CPUs this process may run on; macOS has no such limit."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    import psutil

    process = psutil.Process()
    if hasattr(process, "cpu_affinity"):
        return tuple(process.cpu_affinity())
    return tuple(range(logical_cpus))


# ---------------------------------------------------------------------------------------------------------- caches


def _caches(affinity: Sequence[int], logical_cpus: int) -> tuple[tuple[Cache, ...], tuple[str, ...]]:
    """Return the caches and notes, from every source this system has, in order of preference."""
    notes: tuple[str, ...] = ()
    if sys.platform == "linux":
        sysfs, notes = topology.from_sysfs(Path("/"), affinity)
        lscpu = _run("lscpu", "-B", "-C", "-J") or _run("lscpu", "-C", "-J")
        sources = [
            ("sysfs", sysfs),
            ("lscpu", topology.from_lscpu(lscpu, logical_cpus)),
            ("getconf", topology.from_getconf(_run("getconf", "-a"))),
        ]
    elif sys.platform == "darwin":
        sysctl = _run("sysctl", "hw")
        sources = [
            ("sysctl hw.perflevel0", topology.from_sysctl(sysctl, "hw.perflevel0.")),
            ("sysctl hw", topology.from_sysctl(sysctl)),
        ]
    else:
        sources = [
            ("Windows", topology.from_windows(_windows_processor_information(), _pointer_bytes())),
            ("py-cpuinfo", topology.from_cpuinfo(_cpuinfo())),
        ]
    caches, reconciling = topology.reconcile(sources, logical_cpus)
    return caches, (*notes, *reconciling)


def _pointer_bytes() -> int:
    return 8 if sys.maxsize > 2**32 else 4


def _windows_processor_information() -> bytes:
    if sys.platform != "win32":
        return b""
    import ctypes

    function = ctypes.windll.kernel32.GetLogicalProcessorInformation
    length = ctypes.c_ulong(0)
    function(None, ctypes.byref(length))
    buffer = ctypes.create_string_buffer(length.value)
    return buffer.raw[: length.value] if function(buffer, ctypes.byref(length)) else b""


@cache
def _cpuinfo() -> Mapping[str, object]:
    """Ask py-cpuinfo, which starts a Python process of its own and takes a second: for Windows only."""
    import cpuinfo

    try:
        information: Mapping[str, object] = cpuinfo.get_cpu_info()
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return information


# ---------------------------------------------------------------------------------------------------------- memory


def _memory_bytes(limit_bytes: int | None) -> int:
    import psutil

    total: int = psutil.virtual_memory().total
    return total if limit_bytes is None else min(total, limit_bytes)


# ------------------------------------------------------------------------------------------------------------ BLAS


def _blas(usable_cpus: int) -> tuple[Blas, tuple[str, ...]]:
    import numpy as np  # threadpoolctl sees only libraries that are loaded
    import threadpoolctl

    loaded = pick_blas(threadpoolctl.threadpool_info(), Path(np.__file__).parent)
    if loaded is not None:
        return loaded, ()
    return _blas_as_built(np.show_config(mode="dicts"), os.environ, usable_cpus)


def pick_blas(libraries: Sequence[Mapping[str, Any]], numpy_directory: Path) -> Blas | None:
    """Return the BLAS that NumPy uses among those threadpoolctl found loaded, or None where it found none.

    SciPy, PyTorch and others bring their own. NumPy's wheel keeps its own in ``numpy.libs`` or ``numpy/.dylibs``;
    a NumPy without one there links a shared library, which is then none that another package brought.
    """
    found = [library for library in libraries if library.get("user_api") == "blas"]
    own = {numpy_directory.parent / "numpy.libs", numpy_directory / ".dylibs", numpy_directory / ".libs"}
    bundled = [library for library in found if Path(library["filepath"]).parent in own]
    shared = [library for library in found if "site-packages" not in Path(library["filepath"]).parts]
    for library in (*bundled, *shared, *found):
        api = str(library["internal_api"])
        return Blas(
            name=_BLAS_NAMES.get(api, api),
            version=str(library.get("version") or ""),
            kernel=str(library.get("architecture") or ""),
            threads=int(library["num_threads"]),
        )
    return None


def _blas_as_built(
    config: Mapping[str, Any] | None, environment: Mapping[str, str], usable_cpus: int
) -> tuple[Blas, tuple[str, ...]]:
    """Return the BLAS that NumPy was built with, for libraries that threadpoolctl cannot ask."""
    built = ((config or {}).get("Build Dependencies") or {}).get("blas") or {}
    if not built.get("found"):
        note = "NumPy was built without a BLAS library: it multiplies matrices with its own plain loops"
        return Blas(name="none", version="", kernel="", threads=1), (note,)
    name = str(built.get("name", "unknown"))
    known = _BLAS_NAMES.get(name.lower(), name)
    threads = 1
    if known == "Accelerate":
        limit = environment.get("VECLIB_MAXIMUM_THREADS", "")
        threads = int(limit) if limit.isdecimal() and int(limit) > 0 else usable_cpus
    note = f"{topology.ASSUMED}{known} does not tell its number of threads; {threads} is used"
    return Blas(name=known, version=str(built.get("version", "")), kernel="", threads=threads), (note,)


# --------------------------------------------------------------------------------------------------------- helpers


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _run(*command: str) -> str:
    """Return what a command prints in plain English, or nothing where it is missing or fails."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_COMMAND_SECONDS, env=environment
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    # `sysctl hw` and `getconf -a` print what they can and still fail on a name they cannot read.
    return done.stdout


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
