"""Sheets: machines known from their makers' specifications, and the bound that such figures give.

A specification names no cost of a call and no bandwidth that NumPy reaches, so all that follows from it is a bound:
arithmetic at peak, and what comes from beyond the last cache at the bandwidth of the memory (Williams et al., 2009,
doi:10.1145/1498765.1498785). Caches are taken to cost nothing.
"""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass
from importlib import resources
from typing import Any

from accel.records import Record

__all__ = ["Memory", "Sheet", "bound_seconds", "sheets"]


@dataclass(frozen=True)
class Memory(Record):
    """The memory behind the caches."""

    channels: int
    transfers_per_second: float
    bytes_per_transfer: int


@dataclass(frozen=True)
class Sheet(Record):
    """What a specification says of a machine."""

    name: str
    kind: str
    cores: int
    """Cores of a CPU, multiprocessors of a GPU."""
    clock_hertz: float
    """The base clock of a CPU; a GPU's makers state their peaks at its boost clock."""
    flops_per_cycle: dict[str, int]
    """Of one core, by dtype; a fused multiply-add counts as two."""
    caches: tuple[tuple[str, int, int], ...]
    """Name, bytes, and how many cores share one of this size."""
    memory: Memory
    sources: dict[str, str]
    """Where each value stands."""
    whole: bool = False
    """It is used as a whole, and not core by core."""

    def peak_flops_per_second(self, dtype: str, threads: int) -> float:
        """Return cores x clock x FLOP per cycle.

        >>> from accel.whatif import sheets
        >>> round(sheets()[2].peak_flops_per_second("float32", 4) / 1e9)
        512
        """
        return threads * self.clock_hertz * self.flops_per_cycle[dtype]

    @property
    def memory_bytes_per_second(self) -> float:
        """Channels x transfers per second x bytes per transfer."""
        memory = self.memory
        return memory.channels * memory.transfers_per_second * memory.bytes_per_transfer

    def cache_bytes(self, threads: int) -> int:
        """Return the size of the largest level of all caches that so many threads have."""
        return max(size * math.ceil(threads / shared) for _, size, shared in self.caches)

    @property
    def thread_counts(self) -> list[int]:
        """Powers of two up to all cores, and all of them; a machine used as a whole has one choice."""
        if self.whole:
            return [self.cores]
        powers = [2**i for i in range(math.ceil(math.log2(self.cores)))]
        return [*powers, self.cores]


@functools.cache
def sheets() -> tuple[Sheet, ...]:
    """Return the machines that come with the package."""
    text = resources.files("accel.whatif").joinpath("sheets.json").read_text(encoding="utf-8")
    return tuple(Sheet.from_dict(each) for each in json.loads(text))


def bound_seconds(
    described: dict[str, Any], sheet: Sheet, dtype: str, threads: int, *, peak: float = 1.0, bandwidth: float = 1.0
) -> float:
    """Return the least time in which a machine of this specification can make the described calls, one by one.

    Parameters
    ----------
    described : dict
        From `accel.whatif.describe`.
    peak, bandwidth : float
        Factors on the peak and on the bandwidth of the memory.
    """
    arithmetic = sheet.peak_flops_per_second(dtype, threads) * peak
    memory = sheet.memory_bytes_per_second * bandwidth
    largest = sheet.cache_bytes(threads)
    seconds = 0.0
    for call in described["calls"]:
        far = sum(moved for moved, away, *_ in call.get("t", []) if away is None or away > largest)
        seconds += call["x"] * max(call["w"] / arithmetic, far / memory)
    return seconds
