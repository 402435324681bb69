"""Scaling: the same machine with faster or slower arithmetic and memory, as a question put to the model.

What the interpreter costs (calls, views) and what the operating system costs (fresh pages) stays as it was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from accel.machine import Bandwidth, Calibration, Ceiling, Machine, MatmulRate, Rate, Stream
from accel.pricing import LEAST_ARITHMETIC

__all__ = ["scaled"]


def scaled(machine: Machine, *, peak: float = 1.0, bandwidth: Mapping[str, float] | None = None) -> Machine:
    """Return a calibrated machine whose arithmetic and memory levels are so many times as fast.

    Parameters
    ----------
    peak : float
        Factor on the arithmetic: on the peaks, on the loops of NumPy's calls as far as they are no memory traffic, and
        on matrix products beyond the cost of their call.
    bandwidth : mapping of str to float
        Factor for each memory level by its name, such as ``{"DRAM": 2.0}``: on all curves at working sets that this
        level holds.

    Raises
    ------
    ValueError
        If a factor is not positive and finite, the machine has no such level, or it is not calibrated.

    Examples
    --------
    >>> import accel
    >>> from accel import whatif
    >>> machine = accel.this_machine()
    >>> faster = whatif.scaled(machine, bandwidth={"DRAM": 2.0})
    >>> bool(faster.level_bandwidths()["DRAM"] >= 1.99 * machine.level_bandwidths()["DRAM"])
    True
    """
    factors = dict(bandwidth or {})
    levels = [*(cache.name for cache in machine.caches), "DRAM"]
    unknown = [name for name in factors if name not in levels]
    if unknown:
        raise ValueError(f"{machine.cpu_name!r} has the memory levels {levels}; got a factor for {unknown}.")
    for name, factor in {"peak": peak, **factors}.items():
        if not (math.isfinite(factor) and factor > 0):
            raise ValueError(f"a factor is a positive, finite number; {name} is {factor!r}.")
    if peak == 1.0 and all(factor == 1.0 for factor in factors.values()):
        return machine
    return machine.with_calibration(_scaled(machine, peak, factors))


def _scaled(machine: Machine, peak: float, factors: Mapping[str, float]) -> Calibration:
    roofs = machine.roofs

    def memory(working_set_bytes: float, threads: int = 1) -> float:
        return factors.get(_level(machine, working_set_bytes, threads), 1.0)

    call = next((c.seconds for c in roofs.calls if (c.name, c.kind) == ("matmul", "ufunc")), 0.0)
    return replace(
        roofs,
        peaks=tuple(replace(each, flops_per_second=each.flops_per_second * peak) for each in roofs.peaks),
        bandwidths=tuple(_bandwidth(curve, memory) for curve in roofs.bandwidths),
        streams=tuple(_stream(curve, memory) for curve in roofs.streams),
        ceilings=tuple(_ceiling(ceiling, peak) for ceiling in roofs.ceilings),
        matmuls=tuple(_product(product, peak, call) for product in roofs.matmuls),
        rates=tuple(_rate(rate, peak, memory) for rate in roofs.rates),
    )


def _level(machine: Machine, working_set_bytes: float, threads: int) -> str:
    """Return the level that holds a working set which threads share out among their own caches."""
    for cache in machine.caches:
        if working_set_bytes <= cache.size_bytes * (threads if cache.shared_by_cpus == 1 else 1):
            return cache.name
    return "DRAM"


Factor = Callable[..., float]


def _bandwidth(curve: Bandwidth, memory: Factor) -> Bandwidth:
    points = zip(curve.working_set_bytes, curve.bytes_per_second, strict=True)
    return replace(curve, bytes_per_second=tuple(rate * memory(size, curve.threads) for size, rate in points))


def _stream(curve: Stream, memory: Factor) -> Stream:
    points = zip(curve.working_set_bytes, curve.seconds_per_byte, strict=True)
    return replace(curve, seconds_per_byte=tuple(seconds / memory(size) for size, seconds in points))


def _ceiling(ceiling: Ceiling, peak: float) -> Ceiling:
    return replace(ceiling, element_seconds=ceiling.element_seconds / peak)


def _product(product: MatmulRate, peak: float, call_seconds: float) -> MatmulRate:
    arithmetic = max(product.seconds - call_seconds, product.seconds * LEAST_ARITHMETIC)
    return replace(product, seconds=product.seconds - arithmetic + arithmetic / peak)


def _rate(rate: Rate, peak: float, memory: Factor) -> Rate:
    """Take what a function needs at its best working set for arithmetic, and what it needs beyond that for memory."""
    best = min(rate.seconds_per_unit)
    return replace(rate, seconds_per_unit=_split(rate.working_set_bytes, rate.seconds_per_unit, best, peak, memory))


def _split(
    sizes: Sequence[int], seconds: Sequence[float], best: float, peak: float, memory: Factor
) -> tuple[float, ...]:
    return tuple(best / peak + (each - best) / memory(size) for size, each in zip(sizes, seconds, strict=True))
