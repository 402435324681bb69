"""Levels: the caches that accesses are looked up in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from accel.kernels.arguments import positive_integer
from accel.machine import Cache, Machine
from accel.records import Record
from accel.units import format_bytes

__all__ = ["CacheLevel", "Hierarchy"]

USUAL_WAYS = 16
"""Taken where a machine does not say how associative a cache is."""
MOST_LEVELS = 3


@dataclass(frozen=True)
class CacheLevel(Record):
    """A set-associative cache that drops, of the lines of a set, the one used longest ago.

    Line number n lies in set n mod `sets`. One way is a direct-mapped cache; see `fully_associative` for the other end.

    Raises
    ------
    TypeError, ValueError
        A size that is not a whole number or below 1; `line_bytes` that is not a power of two; `size_bytes` that is not
        a whole number of sets.

    Examples
    --------
    >>> from accel.cache import CacheLevel
    >>> CacheLevel("L1", 32 * 1024, ways=8).sets
    64
    >>> CacheLevel("L1", 32 * 1024, ways=7)
    Traceback (most recent call last):
      ...
    ValueError: L1 must be a whole number of sets of ways x line_bytes = 7 x 64 = 448 bytes; got 32768 bytes. Choose \
ways that divide its 512 lines.
    """

    name: str
    size_bytes: int
    ways: int
    line_bytes: int = 64

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"a cache level needs a name; got {self.name!r}. Pass a str such as 'L1'.")
        for field in ("size_bytes", "ways", "line_bytes"):
            object.__setattr__(self, field, positive_integer(getattr(self, field), field))
        if self.line_bytes & (self.line_bytes - 1):
            raise ValueError(
                f"line_bytes must be a power of two; {self.name} got {self.line_bytes}. Most processors have 64."
            )
        if self.size_bytes % (self.ways * self.line_bytes):
            lines = self.size_bytes / self.line_bytes
            raise ValueError(
                f"{self.name} must be a whole number of sets of ways x line_bytes = {self.ways} x {self.line_bytes} = "
                f"{self.ways * self.line_bytes} bytes; got {self.size_bytes} bytes. "
                f"Choose ways that divide its {lines:g} lines."
            )

    @classmethod
    def fully_associative(cls, name: str, size_bytes: int, line_bytes: int = 64) -> Self:
        """Return a cache of one set, in which a line can lie anywhere: only its size decides what it holds."""
        return cls(name, size_bytes, max(1, size_bytes // line_bytes), line_bytes)

    @property
    def lines(self) -> int:
        """Lines that the cache holds."""
        return self.size_bytes // self.line_bytes

    @property
    def sets(self) -> int:
        """Sets that the lines are divided into."""
        return self.lines // self.ways

    def __str__(self) -> str:
        """Name the level, its size and its associativity."""
        kind = "fully associative" if self.sets == 1 else "direct-mapped" if self.ways == 1 else f"{self.ways}-way"
        return f"{self.name} {format_bytes(self.size_bytes)} {kind}, {self.line_bytes}-byte lines"


@dataclass(frozen=True)
class Hierarchy(Record):
    """One to three cache levels, the nearest to the processor first, with memory behind the last.

    Raises
    ------
    TypeError, ValueError
        Something that is not a `CacheLevel`; no level, or more than three; two of one name; a level that is smaller, or
        has shorter lines, than the one before it.

    Examples
    --------
    >>> from accel.cache import CacheLevel, Hierarchy
    >>> print(Hierarchy((CacheLevel("L1", 32 * 1024, 8), CacheLevel("L2", 1024**2, 8))))
    L1 32 KB 8-way, 64-byte lines; L2 1 MB 8-way, 64-byte lines
    """

    levels: tuple[CacheLevel, ...]

    def __post_init__(self) -> None:
        levels = (self.levels,) if isinstance(self.levels, CacheLevel) else tuple(self.levels)
        object.__setattr__(self, "levels", levels)
        for level in levels:
            if not isinstance(level, CacheLevel):
                raise TypeError(f"a hierarchy is made of CacheLevel; got {type(level).__name__}.")
        if not 1 <= len(levels) <= MOST_LEVELS:
            raise ValueError(f"a hierarchy has one to {MOST_LEVELS} levels; got {len(levels)}.")
        if len(set(self.names)) < len(levels):
            raise ValueError(f"the levels of a hierarchy have names of their own; got {', '.join(self.names)}.")
        for near, far in pairwise(levels):
            if far.size_bytes < near.size_bytes or far.line_bytes < near.line_bytes:
                raise ValueError(
                    "each level must be as large as the one before it, with lines as long; "
                    f"got {near} before {far}. List the levels from the nearest to the farthest."
                )

    @classmethod
    def of(cls, machine: Machine, levels: int = MOST_LEVELS) -> Self:
        """Return the first data caches of a machine, such as `accel.this_machine()`, as seen by one thread alone.

        A shared level counts whole. Where a machine does not say how many ways a cache has, or says what does not
        divide its lines, it gets the largest number of ways up to that (or up to 16) that does.

        Raises
        ------
        ValueError
            If the machine knows of no cache, or `levels` is below 1.

        Examples
        --------
        >>> from accel.cache import Hierarchy
        >>> import accel
        >>> hierarchy = Hierarchy.of(accel.this_machine(), levels=2)
        >>> hierarchy.names
        ('L1', 'L2')
        """
        count = positive_integer(levels, "levels")
        caches = sorted(machine.caches, key=lambda cache: cache.level)[: min(count, MOST_LEVELS)]
        if not caches:
            raise ValueError(
                f"{machine.cpu_name!r} does not say what caches it has. Name them: "
                "Hierarchy((CacheLevel('L1', 32 * 1024, 8), CacheLevel('L2', 1024**2, 8)))."
            )
        return cls(tuple(_level(cache) for cache in caches))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the levels, the nearest first."""
        return tuple(level.name for level in self.levels)

    def index(self, name: str) -> int:
        """Return the place of a level; raise KeyError where there is none of that name."""
        if name not in self.names:
            raise KeyError(f"no level is named {name!r}; there are {', '.join(self.names)}")
        return self.names.index(name)

    def __str__(self) -> str:
        """Name each level in one line."""
        return "; ".join(map(str, self.levels))


def _level(cache: Cache) -> CacheLevel:
    """Return a machine's cache as one that can be simulated."""
    lines = max(1, cache.size_bytes // cache.line_bytes)
    wanted = min(lines, cache.ways or USUAL_WAYS)
    ways = next(count for count in range(wanted, 0, -1) if math.gcd(count, lines) == count)
    return CacheLevel(cache.name, lines * cache.line_bytes, ways, cache.line_bytes)
