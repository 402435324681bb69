"""Comparison: workers that differ from the rest of their fleet, and in what."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from accel import doctor
from accel.fleet.records import Fleet, FleetWorker
from accel.machine import Machine
from accel.records import Record
from accel.units import format_decimal

__all__ = ["Outlier", "outliers", "product_efficiency"]

TOLERANCE = 0.75
"""Below this share of what is typical a worker is an outlier; quick calibrations of equal machines differ by less."""


@dataclass(frozen=True)
class Outlier(Record):
    """One way in which one worker differs from its fleet."""

    worker: str
    what: str
    """``"slow compute"``, ``"slow memory"``, ``"throttled"``, ``"quota"``, ``"unoptimised BLAS"``, ``"mixed versions"``
    or ``"not measured"``."""
    detail: str


def outliers(fleet: Fleet, *, tolerance: float = TOLERANCE) -> tuple[Outlier, ...]:
    """Return what sets workers apart, worker by worker; nothing is measured.

    Typical is the median of the fleet, the upper of the two in a fleet of even size: of two workers the slower one is
    judged by the faster one. Versions are compared with those that most workers have.

    Parameters
    ----------
    tolerance : float
        A worker that reaches less than this share of what is typical is named.

    Examples
    --------
    >>> from accel import fleet
    >>> [outlier.what for outlier in fleet.outliers(fleet.Fleet.load("fleet.json"))]  # doctest: +SKIP
    ['throttled']
    """
    if not 0 < tolerance < 1:
        raise ValueError(f"a tolerance is a share between 0 and 1; got {tolerance}.")
    found = [
        *_slow(fleet, "slow compute", "float32 peak", _peak, "FLOP/s", tolerance),
        *_slow(fleet, "slow memory", "DRAM bandwidth", _memory, "B/s", tolerance),
        *_slow(fleet, "throttled", "share of a CPU while busy", lambda w: w.cpu_share_fraction, "", tolerance),
        *_slow(fleet, "unoptimised BLAS", "share of the peak in products", _efficiency, "", tolerance),
        *_diagnosed(fleet),
        *_versions(fleet),
        *(Outlier(worker.name, "not measured", worker.reason) for worker in fleet.unmeasured),
    ]
    order = {name: place for place, name in enumerate(worker.name for worker in fleet.workers)}
    return tuple(sorted(found, key=lambda outlier: order.get(outlier.worker, len(order))))


def _peak(worker: FleetWorker) -> float:
    return worker.machine.peak_flops_per_second("float32")


def _memory(worker: FleetWorker) -> float:
    return worker.machine.level_bandwidths()["DRAM"]


def _efficiency(worker: FleetWorker) -> float:
    return product_efficiency(worker.machine)


def product_efficiency(machine: Machine, dtype: str = "float32") -> float:
    """Return the best rate of a matrix product on one thread, as a share of the measured peak; 0.0 where none was."""
    rates = [2.0 * p.m * p.k * p.n / p.seconds for p in machine.roofs.matmuls if (p.dtype, p.threads) == (dtype, 1)]
    return max(rates, default=0.0) / machine.peak_flops_per_second(dtype)


def _slow(
    fleet: Fleet, what: str, label: str, value: Callable[[FleetWorker], float], unit: str, tolerance: float
) -> Iterator[Outlier]:
    """Name workers that reach less than the others."""
    values = {worker.name: value(worker) for worker in fleet.workers}
    typical = statistics.median_high(values.values())
    for name, reached in values.items():
        if reached < tolerance * typical:
            amounts = [format_decimal(x, unit) if unit else f"{x:.0%}" for x in (reached, typical)]
            yield Outlier(name, what, f"{label} {amounts[0]}, typical {amounts[1]}: {_times(typical, reached)}")


def _times(typical: float, reached: float) -> str:
    return f"{typical / reached:.1f} times slower" if reached else "nothing at all"


def _diagnosed(fleet: Fleet) -> Iterator[Outlier]:
    """Pass on what the doctor warns of in a machine by itself, whatever the others are."""
    for worker in fleet.workers:
        for finding in doctor.diagnose(worker.machine):
            title = finding.title
            if finding.level != "warning":
                continue
            if title.startswith("quota"):
                yield Outlier(worker.name, "quota", f"{title}: it is stopped once its time is used up")
            elif title.startswith(("unoptimized BLAS", "BLAS uses old kernels")):
                yield Outlier(worker.name, "unoptimised BLAS", title)


def _versions(fleet: Fleet) -> Iterator[Outlier]:
    libraries = dict.fromkeys(library for worker in fleet.workers for library in worker.versions)
    for library in libraries:
        common = _most_common([worker.versions.get(library, "missing") for worker in fleet.workers])
        for worker in fleet.workers:
            version = worker.versions.get(library, "missing")
            if version != common:
                yield Outlier(worker.name, "mixed versions", f"{library} {version}, most have {common}")


def _most_common(versions: Sequence[str]) -> str:
    return Counter(versions).most_common(1)[0][0]  # of equally many, the first
