"""Roofline: what limits a kernel of a given arithmetic intensity on a given machine (Williams et al., 2009).

attainable FLOP/s = min(peak, bandwidth x intensity)        doi:10.1145/1498765.1498785
"""

from __future__ import annotations

from dataclasses import dataclass

from accel.cost import Cost
from accel.machine import Machine
from accel.records import Record

__all__ = [
    "Position",
    "attainable",
    "attainable_between",
    "network_ridge",
    "position",
    "ridge_points",
    "textbook_seconds",
]


@dataclass(frozen=True)
class Position(Record):
    """Where a kernel stands on the roofline chart."""

    name: str
    intensity_flops_per_byte: float
    measured_flops_per_second: float | None
    predicted_flops_per_second: float | None


def attainable(intensity: float, peak_flops_per_second: float, bytes_per_second: float) -> float:
    """Return the highest FLOP/s that the roofline allows at an arithmetic intensity in FLOP/byte.

    >>> from accel.roofline import attainable
    >>> attainable(0.25, peak_flops_per_second=100e9, bytes_per_second=20e9)
    5000000000.0
    >>> attainable(100, peak_flops_per_second=100e9, bytes_per_second=20e9)
    100000000000.0
    """
    for name, value in (("intensity", intensity), ("peak", peak_flops_per_second), ("bandwidth", bytes_per_second)):
        if not value >= 0:
            raise ValueError(f"the roofline needs a {name} of at least 0; got {value}.")
    return min(peak_flops_per_second, bytes_per_second * intensity)


def attainable_between(
    memory_intensity: float,
    network_intensity: float,
    peak_flops_per_second: float,
    memory_bytes_per_second: float,
    network_bytes_per_second: float,
) -> float:
    """Return the highest FLOP/s of a worker whose operands pass through memory, and some of them over the network.

    attainable FLOP/s = min(peak, memory bandwidth x FLOP/byte of memory, network bandwidth x FLOP/byte of network)

    Work that moves nothing has an infinite intensity for the network.

    >>> from accel.roofline import attainable_between
    >>> attainable_between(10, 50, 100e9, memory_bytes_per_second=20e9, network_bytes_per_second=1e9)
    50000000000.0
    """
    memory = attainable(memory_intensity, peak_flops_per_second, memory_bytes_per_second)
    return min(memory, attainable(network_intensity, peak_flops_per_second, network_bytes_per_second))


def network_ridge(machine: Machine, network_bytes_per_second: float, dtype: str = "float32", threads: int = 1) -> float:
    """Return the FLOPs that a worker must do for each byte it receives, so that the network does not slow it down.

    The second ridge of a fleet: some 100 to 1,000 FLOP/byte where that of the memory is 10.

    >>> from accel.roofline import network_ridge
    >>> from accel.fleet import Fleet
    >>> worker = Fleet.load("fleet.json").workers[0]  # doctest: +SKIP
    >>> network_ridge(worker.machine, 1e9)  # doctest: +SKIP
    109.5
    """
    if not network_bytes_per_second > 0:
        raise ValueError(f"a network's bandwidth is positive; got {network_bytes_per_second}.")
    return machine.peak_flops_per_second(dtype, threads) / network_bytes_per_second


def ridge_points(machine: Machine, dtype: str = "float32", threads: int = 1) -> dict[str, float]:
    """Return, for each memory level, the intensity in FLOP/byte at which its bandwidth roof meets the peak."""
    peak = machine.peak_flops_per_second(dtype, threads)
    return {level: peak / bandwidth for level, bandwidth in machine.level_bandwidths(threads).items()}


def textbook_seconds(
    cost: Cost, bytes_touched: int, machine: Machine, dtype: str = "float32", threads: int = 1
) -> float:
    """Return the time of the plain roofline: the longer of arithmetic at peak and memory at DRAM bandwidth.

    Parameters
    ----------
    bytes_touched : int
        Bytes of the arguments and the result, each once: what a perfectly fused kernel would move.
    """
    flops = cost.flops + cost.special
    arithmetic = flops / machine.peak_flops_per_second(dtype, threads)
    return max(arithmetic, bytes_touched / machine.level_bandwidths(threads)["DRAM"])


def position(
    name: str, cost: Cost, *, measured_seconds: float | None = None, predicted_seconds: float | None = None
) -> Position:
    """Return where a kernel with this cost and these times stands.

    >>> from accel import Cost
    >>> from accel.roofline import position
    >>> position("add", Cost(flops=10, bytes_read=80, bytes_written=40), measured_seconds=1e-9)
    Position(name='add', intensity_flops_per_byte=0.08333333333333333, measured_flops_per_second=10000000000.0, \
predicted_flops_per_second=None)
    """
    if not cost.flops:
        raise ValueError(
            f"{name} does no FLOPs, so it has no place on a roofline; compare its bytes per second instead."
        )
    return Position(
        name,
        cost.intensity,
        cost.flops / measured_seconds if measured_seconds else None,
        cost.flops / predicted_seconds if predicted_seconds else None,
    )
