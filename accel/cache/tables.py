"""Tables: a simulation's counts, level by level and array by array."""

from __future__ import annotations

from accel.cache.results import Simulation
from accel.tables import NOTHING, Column, Table
from accel.units import format_bytes

__all__ = ["array_table", "level_table"]


def level_table(simulation: Simulation) -> Table:
    """Return a row for each level: what came to it, what missed, and the bytes between it and the next."""
    levels = simulation.levels
    return Table(
        f"{simulation.stream}: {simulation.accesses:,} accesses",
        (
            Column("level", tuple(level.name for level in levels), is_text=True),
            Column("accesses", tuple(f"{level.accesses:,}" for level in levels)),
            Column("misses", tuple(f"{level.misses:,}" for level in levels)),
            Column("miss rate", tuple(_rate(level.misses, level.accesses) for level in levels)),
            Column("bytes in", tuple(format_bytes(level.bytes_filled) for level in levels)),
            Column("written back", tuple(format_bytes(level.bytes_written_back) for level in levels)),
        ),
        str(simulation.hierarchy),
    )


def array_table(simulation: Simulation) -> Table:
    """Return a row for each array: its reads and writes, and its misses in each level as a share of them."""
    arrays = simulation.arrays
    by_level = [
        Column(f"{name} misses", tuple(f"{array.misses[index]:,}" for array in arrays))
        for index, name in enumerate(simulation.hierarchy.names)
    ]
    first = simulation.hierarchy.names[0]
    return Table(
        f"{simulation.stream}, by array",
        (
            Column("array", tuple(array.name for array in arrays), is_text=True),
            Column("reads", tuple(f"{array.reads:,}" for array in arrays)),
            Column("writes", tuple(f"{array.writes:,}" for array in arrays)),
            *by_level,
            Column(f"{first} miss rate", tuple(_rate(array.misses[0], array.accesses) for array in arrays)),
        ),
        str(simulation.hierarchy),
    )


def _rate(misses: int, accesses: int) -> str:
    return f"{misses / accesses:.2%}" if accesses else NOTHING
