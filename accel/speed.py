"""Speed: how fast the machine runs now, against its best, and what it would cost at that speed.

Machines that share cores and caches with others run slower for seconds on end: a core by up to 1.9 times, the shared
cache and memory by less, and not at the same times. Small passes that were measured during calibration, measured again,
tell how much slower each is now. What a slower core does to work that waits for memory is a share found by experiment
on a machine with two hardware threads to a core: 1 in L1, half in L2, less further out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from accel.machine import Ceiling, FreshPages, Machine, MatmulRate, Rate, interpolate
from accel.records import Record

__all__ = ["FULL_SPEED", "Speed", "at_speed", "core_share", "probe_slowdown", "speed_from"]

CORE_SHARES = {"L1": 1.0, "L2": 0.45, "L3": 0.3}
"""How much of a slowdown of the core reaches a pass over a working set of this level."""
CORE_SHARE_BEYOND = 0.05
CALL_SHARE = 1.2
"""Calls of NumPy run through more code than the reference, which is a small loop of the interpreter."""
ARITHMETIC_SHARE = 0.8
UNIT_SHARES = {"sqrt": 0.5, "tanh": 0.65}
"""For operations that wait for one unit of the core more than the code around them does."""
PRODUCT_SHARES = ((2 * 16**3, 1.0), (2 * 128**3, 0.55), (2 * 512**3, 0.3))
"""(FLOPs of a matrix product, share): a large product keeps a unit busy that the neighbour seldom wants."""


@dataclass(frozen=True)
class Speed(Record):
    """How many times slower than at its calibration the machine runs."""

    core: float = 1.0
    """For work within a core: Python, dispatch, arithmetic, L1."""
    working_set_bytes: tuple[int, ...] = ()
    memory: tuple[float, ...] = ()
    """For passes over these working sets."""

    def at(self, working_set_bytes: float) -> float:
        """Return the slowdown of a pass over a working set."""
        if not self.memory:
            return self.core
        return interpolate(max(working_set_bytes, 1), self.working_set_bytes, self.memory)

    def share(self, share: float) -> float:
        """Return the slowdown of work that a share of the core's slowdown reaches."""
        return 1 + share * (self.core - 1)


FULL_SPEED = Speed()


def core_share(machine: Machine, working_set_bytes: float) -> float:
    """Return how much of a slowdown of the core reaches a pass over a working set."""
    return CORE_SHARES.get(machine.level_of(working_set_bytes), CORE_SHARE_BEYOND)


def product_share(flops: float) -> float:
    """Return how much of a slowdown of the core reaches a matrix product."""
    sizes, shares = zip(*PRODUCT_SHARES, strict=True)
    return interpolate(max(flops, 1), sizes, shares)


def speed_from(machine: Machine, core_slowdown: float, streams: Mapping[tuple[Any, ...], float] | None = None) -> Speed:
    """Return the speed from the reference's slowdown and the seconds that streams of the calibration take now.

    `streams` are best times by the key of their `Probe`. Where a level has none, it is as slow as the core lets it be.
    """
    if core_slowdown <= 1.0 and not streams:
        return FULL_SPEED
    core = max(core_slowdown, 1.0)
    calibrated = {probe.key: probe.best_seconds for probe in machine.roofs.probes}
    points = {
        cache.size_bytes // 2: 1 + core_share(machine, cache.size_bytes // 2) * (core - 1) for cache in machine.caches
    }
    if machine.caches:
        beyond = 4 * machine.caches[-1].size_bytes
        points[beyond] = 1 + CORE_SHARE_BEYOND * (core - 1)
    for key, seconds in (streams or {}).items():
        if key in calibrated:
            level = machine.level_of(key[2])
            for size in [size for size in points if machine.level_of(size) == level]:
                del points[size]
            points[key[2]] = seconds / calibrated[key]
    sizes = tuple(sorted(points))
    return Speed(core, sizes, tuple(points[size] for size in sizes))


def at_speed(machine: Machine, speed: Speed) -> Machine:
    """Return the machine with the costs that it has while it runs at this speed.

    >>> import accel
    >>> from accel.speed import FULL_SPEED, at_speed
    >>> machine = accel.this_machine()
    >>> at_speed(machine, FULL_SPEED) is machine
    True
    """
    if speed == FULL_SPEED:
        return machine
    roofs = machine.roofs
    arithmetic, calling = speed.share(ARITHMETIC_SHARE), speed.share(CALL_SHARE)

    def ceiling(cost: Ceiling) -> Ceiling:
        return replace(
            cost,
            call_seconds=cost.call_seconds * calling,
            element_seconds=cost.element_seconds * speed.share(UNIT_SHARES.get(cost.operation, ARITHMETIC_SHARE)),
            row_seconds=cost.row_seconds * speed.core,
            ramp_seconds=cost.ramp_seconds * speed.core,
        )

    def rate(cost: Rate) -> Rate:
        nearest = min(cost.seconds_per_unit)
        each = [
            seconds + nearest * (arithmetic - 1) + max(seconds - nearest, 0.0) * (speed.at(size) - 1)
            for size, seconds in zip(cost.working_set_bytes, cost.seconds_per_unit, strict=True)
        ]
        return replace(cost, call_seconds=cost.call_seconds * calling, seconds_per_unit=tuple(each))

    def product(cost: MatmulRate) -> MatmulRate:
        return replace(cost, seconds=cost.seconds * speed.share(product_share(2 * cost.m * cost.k * cost.n)))

    def scaled(sizes: Sequence[int], values: Sequence[float]) -> tuple[float, ...]:
        return tuple(value * speed.at(size) for size, value in zip(sizes, values, strict=True))

    def pages(cost: FreshPages) -> FreshPages:
        return replace(cost, seconds_per_byte=scaled(cost.allocation_bytes, cost.seconds_per_byte))

    return machine.with_calibration(
        replace(
            roofs,
            peaks=tuple(
                replace(peak, flops_per_second=peak.flops_per_second / speed.share(PRODUCT_SHARES[-1][1]))
                for peak in roofs.peaks
            ),
            bandwidths=tuple(
                replace(
                    band,
                    bytes_per_second=tuple(
                        value / speed.at(size)
                        for size, value in zip(band.working_set_bytes, band.bytes_per_second, strict=True)
                    ),
                )
                for band in roofs.bandwidths
            ),
            streams=tuple(
                replace(stream, seconds_per_byte=scaled(stream.working_set_bytes, stream.seconds_per_byte))
                for stream in roofs.streams
            ),
            ceilings=tuple(map(ceiling, roofs.ceilings)),
            calls=tuple(replace(call, seconds=call.seconds * calling) for call in roofs.calls),
            allocations=pages(roofs.allocations),
            fresh_pages=pages(roofs.fresh_pages),
            matmuls=tuple(map(product, roofs.matmuls)),
            interpreted_seconds=roofs.interpreted_seconds * speed.core,
            python_call_seconds=roofs.python_call_seconds * speed.core,
            view_seconds=roofs.view_seconds * calling,
            rates=tuple(map(rate, roofs.rates)),
        )
    )


def probe_slowdown(key: tuple[Any, ...], machine: Machine, core_slowdown: float) -> float:
    """Return how many times slower a probe of the calibration is on a core that is so much slower."""
    return 1 + _probe_share(key, machine) * (core_slowdown - 1)


def _probe_share(key: tuple[Any, ...], machine: Machine) -> float:
    kind = key[0]
    if kind == "product":
        return product_share(2 * key[3] * key[4] * key[5])
    if kind == "peak":
        return PRODUCT_SHARES[-1][1]
    sizes = {"stream": 2, "roof": 3, "function": 3, "pages": 2}
    if kind in sizes:
        return core_share(machine, key[sizes[kind]])
    if kind == "overlap" or (kind == "operation" and key[3] > 16):
        return ARITHMETIC_SHARE
    return CALL_SHARE if kind in ("call", "operation", "view") else 1.0
