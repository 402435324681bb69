"""Measured access patterns for tests, invented but plausible."""

from machines import LAPTOP

from accel.access import AccessCurve, AccessRow
from accel.measurement import Measurement


def access_curve(pattern: str = "chase", sizes=(4096, 1 << 20, 1 << 27), nanoseconds=(1.5, 9.0, 110.0)) -> AccessCurve:
    rows = tuple(
        AccessRow(
            size, 1000, 1000, Measurement(str(size), tuple(t * s * 1e-6 for s in (1, 1.05, 1.1, 1.2, 1.3)), 1, 1.2)
        )
        for size, t in zip(sizes, nanoseconds, strict=True)
    )
    return AccessCurve(pattern, "compiled", str(LAPTOP), "2026-01-02T03:04:05+00:00", 8, 64, LAPTOP.caches, rows)
