"""Access table: measured times and rates of one access pattern, a working set in each row."""

from __future__ import annotations

from accel.access import AccessCurve
from accel.tables import Column, Table
from accel.units import format_bytes, format_number

__all__ = ["access_table"]


def access_table(curve: AccessCurve) -> Table:
    """Return a row for each working set: the level that holds it, time, and bytes in a second."""
    rows = curve.rows
    levels = tuple(
        next((cache.name for cache in curve.caches if row.working_set_bytes <= cache.size_bytes), "DRAM")
        for row in rows
    )
    unsteady = sum(not row.measured.is_steady for row in rows)
    return Table(
        f"{curve.pattern} access, {curve.method}, on {curve.machine}",
        (
            Column("working set", tuple(format_bytes(row.working_set_bytes) for row in rows)),
            Column("fits in", levels, is_text=True),
            Column("per access (ns)", tuple(format_number(row.seconds_per_access * 1e9) for row in rows)),
            Column("asked for (GB/s)", tuple(format_number(rate / 1e9) for rate in curve.bytes_per_second)),
            Column("lines moved (GB/s)", tuple(format_number(rate / 1e9) for rate in curve.line_bytes_per_second)),
        ),
        f"{unsteady} of {len(rows)} measurements are not steady" if unsteady else "",
    )
