"""Comparisons for tests: invented times, of the shape that a run on a real machine has."""

from __future__ import annotations

import math
from dataclasses import dataclass

from accel.comparison import Comparison, Row
from accel.cost import Cost
from accel.measurement import Measurement

MACHINE = "Some CPU @ 3.00GHz, calibrated 2026-01-02"


def row(name: str, size: int, seconds: float, *, predicted: float | None = None, flops_each: int = 8, **changes) -> Row:
    """Return a row whose samples lie up to 4 % above `seconds`; a prediction 10 % too high unless given."""
    samples = tuple(seconds * (1 + 0.01 * (i % 5)) for i in range(15))
    guess = 1.1 * seconds if predicted is None else predicted
    values = {
        "cost": Cost(flops=flops_each * size, bytes_read=8 * size, bytes_written=8 * size, calls=8),
        "measured": Measurement(name, samples, 10, 1.2),
        "predicted_seconds": guess,
        "predicted_low_seconds": 0.9 * guess,
        "predicted_high_seconds": 1.1 * guess,
        "bound_by": "L2 bandwidth",
        "textbook_seconds": 0.5 * seconds,
    }
    return Row(name=name, size=size, **{**values, **changes})


def comparison(*rows: Row) -> Comparison:
    return Comparison(MACHINE, 2, "2026-01-02T03:04:05+01:00", 1.0, rows)


def sweep(names: tuple[str, ...] = ("unfused", "blocked"), exponents: range = range(10, 24, 2)) -> Comparison:
    """Return rows for each name over sizes of powers of two."""
    return comparison(
        *(row(name, 2**e, 5e-6 + 2**e * 1e-9 / (1 + i)) for i, name in enumerate(names) for e in exponents)
    )


def noisy(name: str = "shaky", size: int = 1024) -> Row:
    """Return a row whose best sample stands alone."""
    return row(name, size, 1e-3, measured=Measurement(name, (1e-3, *[2e-3] * 14), 1, 1.2))


@dataclass(frozen=True)
class Place:
    """A kernel's place under the roofs."""

    name: str
    intensity_flops_per_byte: float
    measured_flops_per_second: float | None
    predicted_flops_per_second: float | None


PEAKS = {"float32 peak": 9.6e10, "float64 peak": 4.8e10}
BANDWIDTHS = {"L1": 2.1e11, "L2": 8.8e10, "L3": 4.1e10, "DRAM": 1.4e10}
PLACES = (
    Place("add", 1 / 12, 2.2e9, 2.4e9),
    Place("triad", 1 / 8, 3.1e9, 3.0e9),
    Place("gelu, unfused", 0.22, 1.4e9, 1.6e9),
    Place("gelu, blocked", 0.9, 5e9, 5.6e9),
    Place("matmul", 85.3, 8.8e10, 9.1e10),
    Place("row-dot", 20, 3.1e9, None),
    Place("tiled", 60, None, 6.1e10),
)
NAN, INFINITE = math.nan, math.inf
