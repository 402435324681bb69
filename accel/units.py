"""Units: numbers written the way people read them."""

from __future__ import annotations

import math
from collections.abc import Iterable

__all__ = ["DECIMAL", "TIME", "format_bytes", "format_decimal", "format_number", "format_threads", "unit_for"]

DECIMAL = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
"""Prefixes and what they stand for, largest first."""
TIME = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
"""Units of time in seconds, largest first."""


def format_number(value: float, digits: int = 3) -> str:
    """Write a number with `digits` significant digits, thousands apart, and never with an exponent.

    >>> from accel.units import format_number
    >>> format_number(1234567.0), format_number(0.012345), format_number(2.0), format_number(0.0)
    ('1,234,567', '0.0123', '2.00', '0')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def format_bytes(count: float) -> str:
    """Write a size of memory in powers of two.

    >>> from accel.units import format_bytes
    >>> format_bytes(4096), format_bytes(1536 * 1024), format_bytes(2**30)
    ('4 KB', '1.5 MB', '1 GB')
    """
    for prefix, power in (("T", 40), ("G", 30), ("M", 20), ("K", 10)):
        if count >= 2**power * 0.9995:
            return f"{count / 2**power:.3g} {prefix}B"
    return f"{count:.3g} B"


def format_decimal(value: float, unit: str = "", digits: int = 3) -> str:
    """Write a count or a rate with the prefix that suits it; powers of ten.

    >>> from accel.units import format_decimal
    >>> format_decimal(12.4e9, "FLOP/s"), format_decimal(5e6), format_decimal(0.25, "FLOP/byte")
    ('12.4 GFLOP/s', '5 M', '0.25 FLOP/byte')
    """
    for prefix, size in DECIMAL:
        if abs(value) >= size * 0.9995 or size == 1:
            return f"{value / size:.{digits}g} {prefix}{unit}".rstrip()
    raise AssertionError("the last prefix stands for one, so the loop has returned")


def format_threads(count: int) -> str:
    """Write a number of threads.

    >>> from accel.units import format_threads
    >>> format_threads(1), format_threads(4)
    ('1 thread', '4 threads')
    """
    return f"{count} thread" if count == 1 else f"{count} threads"


def unit_for(values: Iterable[float], units: tuple[tuple[str, float], ...]) -> tuple[str, float]:
    """Return the one unit for a column of values: the largest in which its smallest value is at least 0.1.

    >>> from accel.units import TIME, unit_for
    >>> unit_for([2e-6, 0.5], TIME), unit_for([0.004, 2.0], TIME)
    (('µs', 1e-06), ('ms', 0.001))
    """
    smallest = min((abs(value) for value in values if value and math.isfinite(value)), default=1.0)
    for name, size in units:
        if smallest >= 0.0995 * size:
            return name, size
    return units[-1]
