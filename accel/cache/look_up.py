"""Look-up: the lines that one level holds, as compiled code and as plain Python follow them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from accel.cache.levels import CacheLevel, Hierarchy
from accel.cache.nests import Block, Reference

__all__ = ["CompiledLevel", "InterpretedLevel", "Level", "Passed", "Rows"]

Passed = tuple[NDArray[np.int64], NDArray[np.uint16]]
"""The accesses that go on to the next level: first bytes, and references."""
NO_LINE = -1


@dataclass(frozen=True)
class Rows:
    """What is known of each reference, and then of the lines that each level writes back, which travel like accesses.

    A line written back marks the line that it finds, and lies within it: lines do not get shorter from level to level.
    """

    sizes: NDArray[np.int64]
    writes: NDArray[np.uint8]
    """Whether an access marks its line in the first level."""
    write_backs: int
    """The row of what the first level writes back; that of the next follows."""

    @classmethod
    def of(cls, references: Sequence[Reference], hierarchy: Hierarchy) -> Self:
        """Return the rows of a stream in a hierarchy."""
        lines = [level.line_bytes for level in hierarchy.levels]
        sizes = [*(reference.size_bytes for reference in references), *lines]
        writes = [*(reference.is_write for reference in references), *(False for _ in lines)]
        return cls(np.array(sizes, np.int64), np.array(writes, np.uint8), len(references))

    def marks(self, number: int) -> NDArray[np.uint8]:
        """Return whether an access of each reference marks its line in a level: writes do in the first level only."""
        return self.writes if number == 0 else np.zeros_like(self.writes)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.sizes.size


class Level(Protocol):
    """One level and the lines in it."""

    asked: NDArray[np.int64]
    """Accesses that came, by row."""
    misses: NDArray[np.int64]
    """Accesses that did not find all their lines, by row."""
    traffic: NDArray[np.int64]
    """Lines that came in, and dirty lines driven out."""

    def look_up(self, block: Block) -> Passed:
        """Look up accesses in order; return those that go on, each after the dirty lines that it drove out."""
        ...

    def dirty_lines(self) -> int:
        """Return how many lines were written to since they came, and are still here."""
        ...


class InterpretedLevel:
    """A level as a list of dicts, one for each set: line number -> whether it is dirty, in order of last use."""

    def __init__(self, level: CacheLevel, number: int, rows: Rows) -> None:
        self.level, self.rows = level, rows
        self.asked, self.misses = np.zeros(rows.count, np.int64), np.zeros(rows.count, np.int64)
        self.traffic = np.zeros(2, np.int64)
        self._sets: list[dict[int, bool]] = [{} for _ in range(level.sets)]
        self._own_write_back = rows.write_backs + number
        self._marks = rows.marks(number).astype(bool).tolist()

    def look_up(self, block: Block) -> Passed:
        """See `Level`."""
        sizes = self.rows.sizes.tolist()
        passed: list[tuple[int, int]] = []
        for address, row in zip(block.addresses.tolist(), block.references.tolist(), strict=True):
            self.asked[row] += 1
            first, last = address // self.level.line_bytes, (address + sizes[row] - 1) // self.level.line_bytes
            if row >= self.rows.write_backs:
                hit = self._mark(first)
            else:
                found = [self._touch(line, self._marks[row], passed) for line in range(first, last + 1)]
                hit = all(found)
            if not hit:
                self.misses[row] += 1
                passed.append((address, row))
        addresses, references = zip(*passed, strict=True) if passed else ((), ())
        return np.array(addresses, np.int64), np.array(references, np.uint16)

    def dirty_lines(self) -> int:
        """See `Level`."""
        return sum(sum(lines.values()) for lines in self._sets)

    def _mark(self, line: int) -> bool:
        """Make a line dirty where it is, in its place; whether it is here."""
        lines = self._sets[line % self.level.sets]
        if line in lines:
            lines[line] = True
        return line in lines

    def _touch(self, line: int, write: bool, passed: list[tuple[int, int]]) -> bool:
        """Make a line the one of its set that was used last; whether it was here."""
        lines = self._sets[line % self.level.sets]
        hit = line in lines
        if not hit:
            self.traffic[0] += 1
            if len(lines) == self.level.ways:
                self._drop(next(iter(lines)), lines, passed)
        lines[line] = lines.pop(line, False) or write
        return hit

    def _drop(self, line: int, lines: dict[int, bool], passed: list[tuple[int, int]]) -> None:
        """Drive out a line, back to the next level where it is dirty."""
        if lines.pop(line):
            self.traffic[1] += 1
            passed.append((line * self.level.line_bytes, self._own_write_back))


class CompiledLevel:
    """A level as arrays, for `accel.kernels.compiled.cache`, which says what they hold."""

    def __init__(self, level: CacheLevel, number: int, rows: Rows) -> None:
        from accel.kernels.compiled import cache

        self.asked, self.misses = np.zeros(rows.count, np.int64), np.zeros(rows.count, np.int64)
        self.traffic = np.zeros(2, np.int64)
        self._sizes, self._line_bytes = rows.sizes, level.line_bytes
        self._within_lines = int(rows.sizes.max()) <= level.line_bytes
        self._look_up = cache.look_up
        in_words = level.ways <= cache.MOST_ORDERED_WAYS
        slots = -(-level.ways // cache.LANES) * cache.LANES if in_words else level.ways
        self._dirty = np.zeros(level.sets * slots, np.uint8)
        self._state = (
            rows.sizes,
            rows.marks(number),
            level.line_bytes.bit_length() - 1,
            level.ways,
            slots,
            np.full(level.sets * slots, NO_LINE, np.int64),
            np.full(level.sets, cache.FIRST_ORDER if in_words else 0, np.int64),
            self._dirty,
            rows.write_backs,
            rows.write_backs + number,
            self.asked,
            self.misses,
            self.traffic,
        )
        self._buffers: Passed = (np.empty(0, np.int64), np.empty(0, np.uint16))

    def look_up(self, block: Block) -> Passed:
        """See `Level`. The arrays returned are overwritten by the next call."""
        most = self._most_passed(block)
        if self._buffers[0].size < most:
            self._buffers = (np.empty(most, np.int64), np.empty(most, np.uint16))
        count = self._look_up(*block, *self._state, *self._buffers)
        addresses, references = self._buffers
        return addresses[:count], references[:count]

    def dirty_lines(self) -> int:
        """See `Level`."""
        return int(np.count_nonzero(self._dirty))

    def _most_passed(self, block: Block) -> int:
        """Return how many accesses can be passed on: each that came, and a line driven out by each line it touches."""
        if self._within_lines:
            return 3 * block.offsets.size
        touched = self._sizes[block.references] // self._line_bytes + 2
        return block.offsets.size + int(touched.sum())
