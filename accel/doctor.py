"""Doctor: what about this computer makes NumPy slower, or its timings less believable, than they need be."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from accel.machine import Machine
from accel.records import Record
from accel.topology import ASSUMED
from accel.units import format_bytes, format_threads

__all__ = ["Checkup", "Conditions", "Finding", "ThreadVariable", "diagnose", "examine", "measure_noise", "observe"]

NOISY_SPREAD_FRACTION = 0.15
"""Above this spread a difference between two timings means little."""
BUSY_LOAD_FRACTION = 0.7
"""Load per usable CPU above which another program will share a core with what is measured."""
LEAST_MEMORY_BYTES = 4 << 30
"""The largest comparisons of the book keep a few arrays of 400 MB alive."""
LEAST_AVAILABLE_BYTES = 2 << 30

_GOOD_BLAS = {"OpenBLAS", "MKL", "BLIS", "FlexiBLAS", "Accelerate"}
# What OpenBLAS calls the processors it treats as older than AVX.
_OLD_KERNELS = {"generic", "katmai", "coppermine", "northwood", "banias", "prescott", "core2", "penryn", "dunnington"}
_OLD_KERNELS |= {"nehalem", "atom", "athlon", "opteron", "opteron_sse3", "barcelona", "bobcat", "nano"}
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)


@dataclass(frozen=True)
class Finding(Record):
    """One thing the doctor looked at."""

    level: Literal["ok", "warning"]
    title: str
    detail: str
    fix: str = ""
    """What to do about a warning."""


@dataclass(frozen=True)
class ThreadVariable(Record):
    """An environment variable that sets a number of threads."""

    name: str
    value: str


@dataclass(frozen=True)
class Conditions(Record):
    """What the computer is doing right now; None where the system does not tell."""

    load_average: float | None = None
    """Processes running or waiting to run, averaged over the last minute."""
    available_bytes: int | None = None
    huge_pages: str | None = None
    """Transparent huge pages of Linux: ``"always"``, ``"madvise"`` or ``"never"``."""
    noise_fraction: float | None = None
    """(median - best) / best of one small NumPy call, from `measure_noise`."""
    thread_variables: tuple[ThreadVariable, ...] = ()


@dataclass(frozen=True)
class Checkup(Record):
    """Everything that ``python -m accel doctor`` prints."""

    machine: Machine
    notes: tuple[str, ...]
    """How the hardware was detected: sources dropped, outvoted or missing."""
    conditions: Conditions
    findings: tuple[Finding, ...]

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that ask for something to be done."""
        return tuple(finding for finding in self.findings if finding.level == "warning")


def examine(noise_seconds: float = 0.5) -> Checkup:
    """Detect this computer, load its calibration if one holds, watch it for `noise_seconds`, and diagnose it."""
    from accel import hardware, storage

    detected, notes = hardware.detect_with_notes()
    kept, reason = storage.find(detected)
    machine, conditions = kept or detected, observe(noise_seconds)
    return Checkup(machine, notes, conditions, diagnose(machine, notes, conditions, stale=reason))


def observe(noise_seconds: float = 0.5) -> Conditions:
    """Look at what the computer is doing now; takes about `noise_seconds`."""
    import psutil

    # Before the noise is measured, because measuring it is a load too.
    load_average = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return Conditions(
        load_average=load_average,
        available_bytes=psutil.virtual_memory().available,
        huge_pages=_huge_pages(Path("/sys/kernel/mm/transparent_hugepage/enabled")),
        noise_fraction=measure_noise(noise_seconds),
        thread_variables=_thread_variables(os.environ),
    )


def measure_noise(seconds: float = 0.5) -> float:
    """Return the spread, (median - best) / best, of an addition of 4,096 float32 numbers that stays in L1.

    The call never changes and waits for nothing but the CPU, so its spread is what the rest of the computer does to it.
    """
    import numpy as np

    from accel.measurement import measure

    x, out = np.ones(4096, np.float32), np.empty(4096, np.float32)
    return measure(np.add, x, x, out, seconds=seconds).spread_fraction


def diagnose(
    machine: Machine, notes: Iterable[str] = (), conditions: Conditions | None = None, *, stale: str = ""
) -> tuple[Finding, ...]:
    """Return what was looked at, each as well or as a warning with a fix; reads nothing but its arguments.

    Parameters
    ----------
    machine : Machine
        Calibrated or not.
    notes : iterable of str
        From `hardware.detect_with_notes`.
    conditions : Conditions, optional
        From `observe`; without them only the machine itself is judged.
    stale : str
        Why a kept calibration does not hold, from `storage.find`.
    """
    conditions = conditions or Conditions()
    return (
        *_cpus(machine),
        *_emulation(machine),
        *_blas(machine),
        *_threads(machine, conditions),
        *_numba(machine),
        *_calibration(machine, stale),
        *_noise(machine, conditions),
        *_memory(machine, conditions),
        *_huge_page_setting(conditions),
        *_assumptions(notes),
    )


# --------------------------------------------------------------------------------------------------------- the checks


def _cpus(machine: Machine) -> Iterator[Finding]:
    quota, allowed, there = machine.quota_cpus, machine.affinity_cpus, machine.logical_cpus
    if quota is not None and quota < allowed:
        yield Finding(
            "warning",
            f"quota of {quota:g} CPUs below {allowed}",
            f"This container sees {allowed} CPUs and is stopped for the rest of each period once it has used "
            f"{quota:g} CPUs' worth of time: more than {format_threads(machine.usable_cpus)} make it slower and "
            "its timings ragged.",
            f"Run {format_threads(machine.usable_cpus)}, or start the container with a larger CPU limit.",
        )
    if allowed < there:
        yield Finding(
            "warning",
            f"affinity of {allowed} CPUs below {there}",
            f"This process may run on {allowed} of {there} CPUs (taskset, a container or a batch system set this).",
            "Nothing, if that is meant; else start it with all CPUs, or ask the batch system for more.",
        )
    if machine.usable_cpus == there:
        yield Finding("ok", "CPUs", f"all {there} can be used")


def _emulation(machine: Machine) -> Iterator[Finding]:
    name = machine.cpu_name.lower()
    rosetta = "virtualapple" in name or (name.startswith("apple") and machine.architecture == "x86_64")
    emulator = "Rosetta 2" if rosetta else "QEMU" if "qemu" in name or "tcg cpu" in name else ""
    if emulator:
        yield Finding(
            "warning",
            f"probably emulated by {emulator}",
            f"The CPU calls itself {machine.cpu_name!r}: instructions may be translated, vector instructions missing.",
            "Install a Python built for this computer's own architecture, or pass the host's CPU to the guest.",
        )


def _blas(machine: Machine) -> Iterator[Finding]:
    blas = machine.blas
    label = " ".join(part for part in (blas.name, blas.version) if part)
    if blas.name not in _GOOD_BLAS:
        yield Finding(
            "warning",
            f"unoptimized BLAS ({label})",
            "Matrix products run 10 to 100 times slower than this CPU allows.",
            "Install NumPy's wheel with `pip install --force-reinstall numpy`, or NumPy from conda-forge.",
        )
    elif blas.kernel.lower() in _OLD_KERNELS and machine.simd_bits >= 256:
        yield Finding(
            "warning",
            f"BLAS uses old kernels ({blas.kernel})",
            f"{label} took this CPU for one without AVX, though it has {machine.simd_bits}-bit vectors: matrix "
            "products run at half their speed or less.",
            "Unset OPENBLAS_CORETYPE, or upgrade NumPy; OPENBLAS_CORETYPE=Haswell forces AVX2 kernels.",
        )
    else:
        yield Finding("ok", "BLAS", f"{label}{f', kernels for {blas.kernel}' if blas.kernel else ''}")


def _threads(machine: Machine, conditions: Conditions) -> Iterator[Finding]:
    usable, oversubscribed = machine.usable_cpus, False
    if machine.blas.threads > usable:
        oversubscribed = True
        yield Finding(
            "warning",
            f"BLAS starts {machine.blas.threads} threads on {usable} usable CPUs",
            "Threads wait for each other to get a CPU: matrix products become slower and their times ragged.",
            f"Set OPENBLAS_NUM_THREADS={usable} (MKL_NUM_THREADS, OMP_NUM_THREADS) before Python starts.",
        )
    for variable in conditions.thread_variables:
        count = _thread_count(variable.value)
        if count is not None and count > usable:
            oversubscribed = True
            yield Finding(
                "warning",
                f"{variable.name}={variable.value} on {usable} usable CPUs",
                f"Libraries that obey it start {format_threads(count)}, more than can run.",
                f"Set {variable.name}={usable}, or unset it.",
            )
    if not oversubscribed:
        yield Finding("ok", "Threads", f"BLAS uses {format_threads(machine.blas.threads)} on {usable} usable CPUs")


def _numba(machine: Machine) -> Iterator[Finding]:
    if machine.numba_version is None:
        yield Finding(
            "warning",
            "Numba is missing",
            "Compiled kernels fall back to NumPy, and the arithmetic peak and the memory roofs are measured through "
            "NumPy, which gives a lower bound of both.",
            "Install it with `pip install numba`.",
        )
    else:
        yield Finding("ok", "Numba", machine.numba_version)


def _calibration(machine: Machine, stale: str) -> Iterator[Finding]:
    fix = "Run `python -m accel calibrate` (20 s, or 4 s with --quick)."
    if machine.calibration is not None:
        kind = "quick" if machine.calibration.quick else "full"
        yield Finding("ok", "Calibration", f"{kind}, taken {machine.calibration.taken_at}")
    elif stale:
        yield Finding("warning", "the kept calibration cannot be used", _sentence(stale), fix)
    else:
        yield Finding("warning", "not calibrated", "Nothing can be predicted until the roofs are measured.", fix)


def _noise(machine: Machine, conditions: Conditions) -> Iterator[Finding]:
    quiet, fix = True, "Close other programs, plug in the power supply, and calibrate again when it is quiet."
    taken = machine.calibration
    if taken is not None and (taken.spread_fraction > NOISY_SPREAD_FRACTION or not taken.steady):
        quiet = False
        yield Finding(
            "warning",
            "machine was noisy while calibrating",
            f"The median probe lay {taken.spread_fraction:.0%} above its best time.",
            fix,
        )
    load = conditions.load_average
    if load is not None and load > BUSY_LOAD_FRACTION * machine.usable_cpus:
        quiet = False
        yield Finding(
            "warning",
            "machine is busy",
            f"Over the last minute {load:.1f} processes wanted to run on {machine.usable_cpus} usable CPUs.",
            "Wait until it is quiet, or close what keeps it busy.",
        )
    noise = conditions.noise_fraction
    if noise is not None and noise > NOISY_SPREAD_FRACTION:
        quiet = False
        yield Finding(
            "warning",
            "machine is noisy",
            f"One and the same small call takes {noise:.0%} longer in the median than at best.",
            "Close other programs, plug in the power supply; on a shared machine compare only within one run.",
        )
    if quiet and noise is not None:
        yield Finding("ok", "Noise", f"the median of a small call lies {noise:.1%} above its best")


def _memory(machine: Machine, conditions: Conditions) -> Iterator[Finding]:
    total, available = machine.memory_bytes, conditions.available_bytes
    fix = "Close other programs, give the container more memory, or use smaller arrays."
    if total < LEAST_MEMORY_BYTES:
        detail = f"The largest comparisons need {format_bytes(LEAST_MEMORY_BYTES)}."
        yield Finding("warning", f"low memory ({format_bytes(total)})", detail, fix)
    elif available is not None and available < LEAST_AVAILABLE_BYTES:
        title = f"little memory is free ({format_bytes(available)} of {format_bytes(total)})"
        yield Finding("warning", title, "Large arrays may be swapped to disk, which no prediction covers.", fix)
    else:
        free = "" if available is None else f", {format_bytes(available)} free"
        yield Finding("ok", "Memory", f"{format_bytes(total)}{free}")


def _huge_page_setting(conditions: Conditions) -> Iterator[Finding]:
    if conditions.huge_pages == "never":
        yield Finding(
            "warning",
            "transparent huge pages are off",
            "Large new arrays are handed over in 4 KB pages: the first write to each costs several times more.",
            "As root: `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` (NumPy asks for them itself).",
        )
    elif conditions.huge_pages is not None:
        yield Finding("ok", "Huge pages", f"transparent huge pages: {conditions.huge_pages}")


def _assumptions(notes: Iterable[str]) -> Iterator[Finding]:
    for note in notes:
        if note.startswith(ASSUMED):
            yield Finding(
                "warning",
                "something was assumed",
                f"{_sentence(note.removeprefix(ASSUMED))}",
                "Take predictions that depend on it with care.",
            )


# ------------------------------------------------------------------------------------------------------ small readers


def _huge_pages(path: Path) -> str | None:
    """Return the setting that the file marks with brackets, as in ``always [madvise] never``."""
    if sys.platform != "linux":
        return None
    try:
        text = path.read_text()
    except OSError:
        return None
    return text.partition("[")[2].partition("]")[0] or None


def _thread_variables(environment: Mapping[str, str]) -> tuple[ThreadVariable, ...]:
    return tuple(ThreadVariable(name, environment[name]) for name in _THREAD_VARIABLES if name in environment)


def _thread_count(value: str) -> int | None:
    """Return the threads that a variable asks for: OpenMP allows a list, outermost level first."""
    first = value.split(",")[0].strip()
    return int(first) if first.isdecimal() else None


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
