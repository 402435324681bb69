"""Machine: what a computer is and what it was measured to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from accel.records import Record

__all__ = [
    "Bandwidth",
    "Blas",
    "Cache",
    "Calibration",
    "CallCost",
    "Ceiling",
    "FreshPages",
    "Machine",
    "MatmulRate",
    "Overlap",
    "Peak",
    "Probe",
    "Rate",
    "Stream",
    "interpolate",
]

RAMP_ELEMENTS = 512
"""Elements after which a vector loop runs at its full rate."""
SCHEMA = 6
"""Raised by one whenever a field of a saved machine changes its meaning, so that older files are measured anew."""


@dataclass(frozen=True)
class Cache(Record):
    """One level of data cache, as seen from one CPU."""

    level: int
    size_bytes: int
    line_bytes: int
    ways: int | None
    shared_by_cpus: int

    @property
    def name(self) -> str:
        """The level's usual name, such as ``"L2"``."""
        return f"L{self.level}"


@dataclass(frozen=True)
class Blas(Record):
    """The library behind `numpy.matmul`."""

    name: str
    version: str
    kernel: str
    """The processor type the library chose its kernels for, such as ``"Zen"``; empty where it does not say."""
    threads: int


@dataclass(frozen=True)
class Peak(Record):
    """The highest arithmetic rate seen for one dtype and number of threads."""

    dtype: str
    threads: int
    flops_per_second: float
    method: str
    """``"fma probe"`` (compiled, the true peak) or ``"matmul"`` (without Numba: a lower bound)."""


@dataclass(frozen=True)
class Bandwidth(Record):
    """Bandwidth of one compiled stream against its working set: algorithmic bytes per second."""

    operation: str
    """``"load"``, ``"copy"``, ``"triad"`` or ``"copy, non-temporal"``; ``"numpy copy"`` where Numba is missing."""
    threads: int
    working_set_bytes: tuple[int, ...]
    bytes_per_second: tuple[float, ...]


@dataclass(frozen=True)
class Stream(Record):
    """Time per byte of NumPy passes of one shape against the working set, dispatch overhead taken out."""

    shape: str
    """``"1R1W"``, ``"2R1W"``, ``"in place"``, ``"in place + read"`` or ``"reduce"``."""
    working_set_bytes: tuple[int, ...]
    seconds_per_byte: tuple[float, ...]
    """Per algorithmic byte: each distinct operand once, an updated one twice (read and written)."""
    spread_fraction: tuple[float, ...]
    """Interquartile range over the best time, at each working set."""


@dataclass(frozen=True)
class Ceiling(Record):
    """What one NumPy operation costs when its operands are in L1: the call, and each element."""

    operation: str
    """The ufunc's name; ``"add:scalar"`` with a scalar operand, ``"add.reduce"`` for a reduction…"""
    dtype: str
    call_seconds: float
    element_seconds: float
    row_seconds: float = 0.0
    """Extra for each inner loop started (each row of a broadcast or of a reduction)."""
    ramp_seconds: float = 0.0
    """What getting up to speed costs a loop of `RAMP_ELEMENTS` or more, beyond the call; shorter ones in proportion."""


@dataclass(frozen=True)
class CallCost(Record):
    """What it costs to call a NumPy function or method at all, on 16 elements."""

    name: str
    kind: str
    """``"function"`` or ``"method"``. Of the ufunc ``"multiply"``, what makes its call dearer than a plain one:
    ``"number"`` for a Python number, as in ``x * 2.0``, ``"scalar"`` for a NumPy scalar, ``"broadcast"`` for arrays of
    different shapes, ``"cast"`` for different dtypes."""
    seconds: float


@dataclass(frozen=True)
class Rate(Record):
    """What a NumPy function takes that is no plain pass over its operands, such as `sort` or `take`, by working set."""

    operation: str
    """Its name in a trace; ``"take:mask"`` and the like where it is called in ways that differ."""
    dtype: str
    call_seconds: float
    working_set_bytes: tuple[int, ...]
    """Bytes of operands and result."""
    seconds_per_unit: tuple[float, ...]
    """For each element of the largest operand or result; for each counted FLOP where the work grows otherwise."""


@dataclass(frozen=True)
class Overlap(Record):
    """How well the arithmetic of an operation hides behind its memory traffic, or the traffic behind the arithmetic."""

    operation: str
    exponent: float
    """p in (arithmetic^p + memory^p)^(1/p): 1 where the two add up, large where the longer is all that shows, below 1
    where they hinder each other."""
    working_set_bytes: int = 0
    """Where it was measured."""


@dataclass(frozen=True)
class FreshPages(Record):
    """What it costs to write a result to memory that is not in use yet, beyond a write to memory that is."""

    allocation_bytes: tuple[int, ...]
    seconds_per_byte: tuple[float, ...]


@dataclass(frozen=True)
class MatmulRate(Record):
    """Time of one measured matrix product (m x k) @ (k x n)."""

    dtype: str
    threads: int
    m: int
    k: int
    n: int
    seconds: float


@dataclass(frozen=True)
class Probe(Record):
    """What was measured for one small call, before anything is subtracted from it."""

    key: tuple[str | int, ...]
    best_seconds: float
    median_seconds: float
    quartile_seconds: float

    @property
    def spread_fraction(self) -> float:
        """How far the median lies above the best."""
        return self.median_seconds / self.best_seconds - 1


@dataclass(frozen=True)
class Calibration(Record):
    """Everything that was measured on a machine, and how well."""

    taken_at: str
    """Local time, ISO 8601 with the UTC offset."""
    duration_seconds: float
    quick: bool
    steady: bool
    spread_fraction: float
    """Median over all probes of (median - best) / best."""
    peaks: tuple[Peak, ...]
    bandwidths: tuple[Bandwidth, ...]
    streams: tuple[Stream, ...]
    ceilings: tuple[Ceiling, ...]
    calls: tuple[CallCost, ...]
    allocations: FreshPages
    """What a new result array costs while the allocator keeps memory (`accel.allocator.settle`)."""
    fresh_pages: FreshPages
    """What it costs where each new array is mapped by the operating system, as in a process without settling."""
    matmuls: tuple[MatmulRate, ...]
    interpreted_seconds: float
    """One step of a pure-Python loop: ``total += a[i, k] * b[k, j]`` on NumPy arrays."""
    reference_seconds: float
    """Best time of `measurement.reference_call`: where it takes longer, the machine is in a slow phase."""
    python_call_seconds: float
    """One call of an empty Python function."""
    view_seconds: float
    """One slice of an array that moves no data: ``x[i:j]``."""
    overlaps: tuple[Overlap, ...]
    """By operation, measured out of cache."""
    rates: tuple[Rate, ...] = ()
    probes: tuple[Probe, ...] = ()
    """The totals that all of the above was fitted to, so that a later calibration can add to them."""


@dataclass(frozen=True)
class Machine(Record):
    """A computer: its hardware, its libraries and, once calibrated, its measured roofs.

    Get the one you are on with `accel.this_machine()`; load another with `accel.Machine.load(path)`.
    """

    cpu_name: str
    architecture: str
    """As `platform.machine()` names it: ``"x86_64"``, ``"arm64"``…"""
    system: str
    simd_bits: int
    """Width of the vector registers that kernels use, in bits."""
    logical_cpus: int
    affinity_cpus: int
    quota_cpus: float | None
    """CPUs' worth of time that the container may use, or None where there is no quota."""
    caches: tuple[Cache, ...]
    memory_bytes: int
    blas: Blas
    python_version: str
    numpy_version: str
    numba_version: str | None
    calibration: Calibration | None = None
    schema: int = SCHEMA

    @classmethod
    def load(cls, path: str | Path) -> Machine:
        """Return the machine saved in a file; raise `accel.storage.MachineFileError` where it cannot be trusted."""
        from accel import storage

        return storage.load(Path(path))

    @property
    def usable_cpus(self) -> int:
        """CPUs this process can keep busy: the smaller of affinity and quota, at least 1."""
        quota = self.affinity_cpus if self.quota_cpus is None else math.floor(self.quota_cpus + 1e-9)
        return max(1, min(self.affinity_cpus, quota))

    @property
    def is_calibrated(self) -> bool:
        """Whether the roofs of this machine were measured."""
        return self.calibration is not None

    @property
    def roofs(self) -> Calibration:
        """The calibration; raises `ValueError` where this machine was not measured."""
        if self.calibration is None:
            raise ValueError(
                f"{self.cpu_name!r} was detected but not measured, so it has no roofs. Call accel.calibrate(), "
                "or accel.this_machine() for a calibrated machine."
            )
        return self.calibration

    def __str__(self) -> str:
        """Name the machine in one line."""
        when = (
            f", calibrated {self.calibration.taken_at[:16].replace('T', ' ')}"
            if self.calibration
            else ", not calibrated"
        )
        return f"{self.cpu_name}, {self.usable_cpus} CPU{'s' * (self.usable_cpus > 1)}{when}"

    def peak_flops_per_second(self, dtype: str = "float32", threads: int = 1) -> float:
        """Return the highest arithmetic rate measured for a dtype and number of threads.

        A dtype without a measured peak of its own has the peak of the measured dtype with the same element size.
        """
        return _closest(self.roofs.peaks, dtype, threads).flops_per_second

    def bandwidth_bytes_per_second(self, working_set_bytes: float, threads: int = 1) -> float:
        """Return the memory roof for a working set: the best of all streams measured at that size or a larger one.

        Between two measured sizes the roof is that of the smaller: a roof must not lie below what can be reached.
        """
        curves = [curve for curve in self.roofs.bandwidths if curve.threads == threads]
        if not curves:
            raise ValueError(
                f"no bandwidth was measured with {threads} threads on {self.cpu_name}; "
                f"there are {sorted({curve.threads for curve in self.roofs.bandwidths})}."
            )
        return max(_roof(working_set_bytes, curve) for curve in curves)

    def level_of(self, working_set_bytes: float) -> str:
        """Return the name of the smallest memory level that holds a working set: ``"L1"`` … ``"DRAM"``."""
        for cache in self.caches:
            if working_set_bytes <= cache.size_bytes:
                return cache.name
        return "DRAM"

    def level_bandwidths(self, threads: int = 1) -> dict[str, float]:
        """Return each memory level's roof in bytes per second: the best that the level above cannot explain.

        A level counts from working sets of twice the size of the level above, DRAM at the largest working set measured.
        """
        largest = max(curve.working_set_bytes[-1] for curve in self.roofs.bandwidths)
        levels, above = {}, 0.0
        for cache in self.caches:
            if cache.size_bytes <= largest:
                share = threads if cache.shared_by_cpus == 1 else 1
                levels[cache.name] = self.bandwidth_bytes_per_second(max(2.0 * above, 1.0) * share, threads)
                above = cache.size_bytes
        return levels | {"DRAM": self.bandwidth_bytes_per_second(largest, threads)}

    def with_calibration(self, calibration: Calibration) -> Self:
        """Return this machine with its measured roofs."""
        return replace(self, calibration=calibration)


def _closest(peaks: Sequence[Peak], dtype: str, threads: int) -> Peak:
    """Return the peak of this dtype, or of one as wide, for a number of threads."""
    import numpy as np

    name, width = str(np.dtype(dtype)), np.dtype(dtype).itemsize
    with_threads = [peak for peak in peaks if peak.threads == threads]
    for peak in with_threads:
        if peak.dtype == name:
            return peak
    for peak in with_threads:
        if np.dtype(peak.dtype).itemsize == width:
            return peak
    raise ValueError(
        f"no peak was measured for {name} with {threads} threads; there are "
        f"{sorted((peak.dtype, peak.threads) for peak in peaks)}."
    )


def _roof(working_set_bytes: float, curve: Bandwidth) -> float:
    """Return the highest bandwidth at the measured size just below, or at any larger one."""
    import bisect

    first = max(0, bisect.bisect_right(curve.working_set_bytes, working_set_bytes) - 1)
    return max(curve.bytes_per_second[first:])


def interpolate(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """Read a measured curve at `x`: linear in log x, flat beyond both ends."""
    import bisect

    if x <= xs[0]:
        return ys[0]
    if x >= xs[-1]:
        return ys[-1]
    i = bisect.bisect_right(xs, x)
    share = math.log(x / xs[i - 1]) / math.log(xs[i] / xs[i - 1])
    return ys[i - 1] + share * (ys[i] - ys[i - 1])
