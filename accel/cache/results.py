"""Results: what a simulation counted, level by level and array by array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.cache.levels import Hierarchy
from accel.records import Record

if TYPE_CHECKING:
    from accel.tables import Table

__all__ = ["ArrayCounts", "LevelCounts", "Simulation"]


@dataclass(frozen=True)
class LevelCounts(Record):
    """What one level was asked for, did not have, and moved.

    An access that spans two lines counts once, and as a miss where either is absent.
    """

    name: str
    reads: int
    writes: int
    read_misses: int
    write_misses: int
    lines_filled: int
    bytes_filled: int
    """From the next level, or from memory behind the last."""
    bytes_written_back: int
    """To the next level, or to memory: lines that were written to, when they had to go."""
    bytes_dirty: int
    """In lines that were written to and are still there at the end."""

    @property
    def accesses(self) -> int:
        """Accesses that came to this level: those that missed in all levels before it."""
        return self.reads + self.writes

    @property
    def misses(self) -> int:
        """Accesses that had to go on to the next level."""
        return self.read_misses + self.write_misses

    @property
    def hits(self) -> int:
        """Accesses that ended here."""
        return self.accesses - self.misses

    @property
    def miss_rate(self) -> float:
        """Misses for each access that came to this level; 0 where none came."""
        return self.misses / self.accesses if self.accesses else 0.0

    @property
    def bytes_moved(self) -> int:
        """Bytes between this level and the next, in both directions."""
        return self.bytes_filled + self.bytes_written_back


@dataclass(frozen=True)
class ArrayCounts(Record):
    """The accesses to one array, and how many of them missed in each level."""

    name: str
    reads: int
    writes: int
    read_misses: tuple[int, ...]
    """By level, the nearest first."""
    write_misses: tuple[int, ...]

    @property
    def accesses(self) -> int:
        """Reads and writes."""
        return self.reads + self.writes

    @property
    def misses(self) -> tuple[int, ...]:
        """Misses of reads and writes, by level."""
        return tuple(read + write for read, write in zip(self.read_misses, self.write_misses, strict=True))


@dataclass(frozen=True, repr=False)
class Simulation(Record):
    """What `simulate` counted. It shows itself as a table; `array_table()` has a row for each array."""

    stream: str
    hierarchy: Hierarchy
    levels: tuple[LevelCounts, ...]
    arrays: tuple[ArrayCounts, ...]

    @property
    def accesses(self) -> int:
        """Accesses of the program: those that came to the first level."""
        return self.levels[0].accesses

    @property
    def bytes_from_memory(self) -> int:
        """Bytes that the last level fetched from memory."""
        return self.levels[-1].bytes_filled

    def level(self, name: str) -> LevelCounts:
        """Return the counts of one level; raise KeyError where there is none of that name."""
        return self.levels[self.hierarchy.index(name)]

    def array(self, name: str) -> ArrayCounts:
        """Return the counts of one array; raise KeyError where there is none of that name."""
        for array in self.arrays:
            if array.name == name:
                return array
        raise KeyError(f"no array is named {name!r}; there are {', '.join(array.name for array in self.arrays)}")

    def table(self) -> Table:
        """Return a table with a row for each level."""
        from accel.cache.tables import level_table

        return level_table(self)

    def array_table(self) -> Table:
        """Return a table with a row for each array."""
        from accel.cache.tables import array_table

        return array_table(self)

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
