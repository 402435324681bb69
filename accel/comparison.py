"""Comparison: measured beside predicted, for one function or a sweep over sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel.cost import Cost
from accel.measurement import Measurement
from accel.records import Record

__all__ = ["Comparison", "Row"]


@dataclass(frozen=True)
class Row(Record):
    """One function at one size: what it does, how long it was predicted to take, how long it took."""

    name: str
    size: int
    """The variable of the sweep: elements of the largest argument unless the caller chose otherwise."""
    cost: Cost
    measured: Measurement
    predicted_seconds: float
    predicted_low_seconds: float
    predicted_high_seconds: float
    bound_by: str
    """What limits the call: ``"L2 bandwidth"``, ``"tanh"``, ``"peak"``, ``"dispatch overhead"``, ``"interpreter"``…"""
    textbook_seconds: float
    """The plain roofline: max(FLOPs / peak, bytes of arguments and result / DRAM bandwidth)."""

    @property
    def measured_seconds(self) -> float:
        """The best sample of the measurement."""
        return self.measured.best_seconds

    @property
    def error_fraction(self) -> float:
        """Signed error of the prediction, as a share of the measured time."""
        return self.predicted_seconds / self.measured_seconds - 1

    @property
    def flops_per_second(self) -> float:
        """Counted FLOPs over measured time."""
        return self.cost.flops / self.measured_seconds

    @property
    def bytes_per_second(self) -> float:
        """Algorithmic bytes over measured time."""
        return self.cost.bytes_algorithmic / self.measured_seconds


@dataclass(frozen=True)
class Comparison(Record):
    """Rows that were measured interleaved, on one machine."""

    machine: str
    """One line that names the machine: CPU and calibration."""
    threads: int
    taken_at: str
    """Local time, ISO 8601 with the UTC offset."""
    rows: tuple[Row, ...]

    def named(self, name: str) -> tuple[Row, ...]:
        """Return the rows of one function, in order of size; raise KeyError where there are none."""
        rows = tuple(sorted((row for row in self.rows if row.name == name), key=lambda row: row.size))
        if not rows:
            raise KeyError(f"no row is named {name!r}; there are {sorted({row.name for row in self.rows})}")
        return rows

    @property
    def names(self) -> tuple[str, ...]:
        """The functions compared, in the order given."""
        return tuple(dict.fromkeys(row.name for row in self.rows))
