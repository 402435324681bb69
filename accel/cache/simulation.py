"""Simulation: a stream of accesses looked up in a hierarchy of caches, every hit and miss counted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accel.cache.levels import Hierarchy
from accel.cache.look_up import CompiledLevel, InterpretedLevel, Level, Rows
from accel.cache.nests import Block
from accel.cache.results import ArrayCounts, LevelCounts, Simulation
from accel.cache.streams import Stream
from accel.kernels import fallback

__all__ = ["Simulator", "simulate"]


def simulate(stream: Stream, hierarchy: Hierarchy) -> Simulation:
    """Go through a stream of accesses, from empty caches, and count the misses in each level.

    The model, which is that of cachegrind for its D1 and LL caches, with the lines written back counted as well:

    - a level is asked only for what all levels before it do not have (non-inclusive, non-exclusive: a line dropped by
      one level stays in the others);
    - of the lines of a set, the one used longest ago goes (LRU);
    - a write to an absent line fetches it first (write-allocate) and marks it in the first level; when it is driven
      out, it is written back to the next level, where it becomes marked if it is there, and else goes further on.
      Writing back changes the order of no level;
    - an access that spans two lines touches both, and misses where either is absent;
    - there is no prefetching, no victim buffer, no translation of addresses: virtual addresses choose the sets.

    Parameters
    ----------
    stream : Stream
        From `matmul`, `transpose`, `sequential`, `strided`, `random`, `elementwise` or `accesses`.
    hierarchy : Hierarchy
        One to three levels: your own, or those of a machine, `Hierarchy.of(accel.this_machine())`.

    Raises
    ------
    TypeError
        If the arguments are of other types.

    Notes
    -----
    With Numba some 50 to 150 million accesses a second, the fewer the more of them miss; without it, after one notice,
    about one million. `benchmarks/cache.py` measures it.

    Examples
    --------
    >>> from accel import cache
    >>> level = cache.CacheLevel("L1", 32 * 1024, ways=8)
    >>> [x] = cache.place({"x": 1_000_000})
    >>> cache.simulate(cache.sequential(x), cache.Hierarchy((level,)))
    x in order: 1,000,000 accesses
    level   accesses  misses  miss rate  bytes in  written back
    L1     1,000,000  62,500      6.25%   3.81 MB           0 B
    L1 32 KB 8-way, 64-byte lines
    """
    simulator = Simulator(stream, hierarchy)
    for block in stream:
        simulator.feed(block)
    return simulator.result()


class Simulator:
    """The caches of a hierarchy, and what was counted in them so far."""

    def __init__(self, stream: Stream, hierarchy: Hierarchy) -> None:
        if not isinstance(stream, Stream):
            raise TypeError(
                f"a simulation takes a stream; got {type(stream).__name__}. For addresses of your own pass "
                "cache.accesses(addresses)."
            )
        if not isinstance(hierarchy, Hierarchy):
            raise TypeError(
                f"a simulation takes a Hierarchy; got {type(hierarchy).__name__}. Pass Hierarchy((level, …)), or "
                "Hierarchy.of(accel.this_machine())."
            )
        self.stream, self.hierarchy = stream, hierarchy
        rows = Rows.of(stream.references, hierarchy)
        make: Callable[..., Level] = InterpretedLevel if fallback.compiled("cache") is None else CompiledLevel
        self.levels = [make(level, number, rows) for number, level in enumerate(hierarchy.levels)]
        self._no_starts = np.zeros(rows.count, np.int64)

    def feed(self, block: Block) -> list[Block]:
        """Look up a block of accesses; return what each level passed on, lines written back among it."""
        starts = self._no_starts.copy()
        starts[: block.starts.size] = block.starts
        block = Block(block.offsets, block.references, starts)
        passed = []
        for level in self.levels:
            block = Block(*level.look_up(block), self._no_starts)
            passed.append(block)
        return passed

    def result(self) -> Simulation:
        """Return what was counted."""
        references = self.stream.references
        return Simulation(
            self.stream.name,
            self.hierarchy,
            tuple(self._level_counts(number) for number in range(len(self.levels))),
            tuple(
                self._array_counts(name, [n for n, reference in enumerate(references) if reference.array == name])
                for name in dict.fromkeys(reference.array for reference in references)
            ),
        )

    def _level_counts(self, number: int) -> LevelCounts:
        level, kind = self.levels[number], self.hierarchy.levels[number]
        is_write = np.array([reference.is_write for reference in self.stream.references], bool)
        asked, misses = (counts[: is_write.size] for counts in (level.asked, level.misses))
        filled, dropped = map(int, level.traffic)
        # Lines that levels before this one wrote back, and this one did not have.
        forwarded = (
            int(level.misses[is_write.size + before]) * self.hierarchy.levels[before].line_bytes
            for before in range(number)
        )
        return LevelCounts(
            name=kind.name,
            reads=int(asked[~is_write].sum()),
            writes=int(asked[is_write].sum()),
            read_misses=int(misses[~is_write].sum()),
            write_misses=int(misses[is_write].sum()),
            lines_filled=filled,
            bytes_filled=filled * kind.line_bytes,
            bytes_written_back=dropped * kind.line_bytes + sum(forwarded),
            bytes_dirty=level.dirty_lines() * kind.line_bytes,
        )

    def _array_counts(self, name: str, rows: list[int]) -> ArrayCounts:
        writes = [row for row in rows if self.stream.references[row].is_write]
        reads = [row for row in rows if row not in writes]
        return ArrayCounts(
            name,
            int(self.levels[0].asked[reads].sum()),
            int(self.levels[0].asked[writes].sum()),
            tuple(int(level.misses[reads].sum()) for level in self.levels),
            tuple(int(level.misses[writes].sum()) for level in self.levels),
        )
