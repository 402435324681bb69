"""Maps: which elements of an array missed, and how often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accel.cache.levels import Hierarchy
from accel.cache.places import ArrayPlace
from accel.cache.simulation import Simulator
from accel.cache.streams import Stream
from accel.kernels.arguments import positive_integer
from accel.records import Record

__all__ = ["MissMap", "miss_map"]


@dataclass(frozen=True)
class MissMap(Record):
    """How often the accesses to each cell of an array missed in one level. `accel.plot.miss_map` draws it."""

    stream: str
    level: str
    """The level in words: ``"L1 32 KB 8-way, 64-byte lines"``."""
    array: ArrayPlace
    cell: tuple[int, int]
    """Rows and columns of elements that a cell stands for; at the edges fewer."""
    misses: tuple[tuple[int, ...], ...]
    """By row and column of cells."""

    @property
    def total(self) -> int:
        """Misses in all cells."""
        return sum(map(sum, self.misses))


def miss_map(
    stream: Stream,
    hierarchy: Hierarchy,
    array: str,
    *,
    level: str | None = None,
    cell: tuple[int, int] | None = None,
) -> MissMap:
    """Simulate, and count the misses of one array by where in it they were.

    Parameters
    ----------
    stream, hierarchy
        See `simulate`.
    array : str
        Name of one of the stream's arrays.
    level : str, optional
        Name of the level that misses; the first unless given.
    cell : (int, int), optional
        Rows and columns of elements to count together. Unless given, as many neighbors in a row (for column-major
        arrays, in a column) as fill a line of the level: where rows begin on lines, a cell is then a line.

    Raises
    ------
    KeyError
        If there is no array or level of that name.
    TypeError, ValueError
        As `simulate`; a cell whose sides are not whole numbers above zero.

    Examples
    --------
    >>> from accel import cache
    >>> [x] = cache.place({"x": (2, 64)})
    >>> level = cache.CacheLevel("L1", 1024, ways=2)
    >>> cache.miss_map(cache.sequential(x), cache.Hierarchy((level,)), "x").misses
    ((1, 1, 1, 1), (1, 1, 1, 1))
    """
    simulator = Simulator(stream, hierarchy)
    place = next((place for place in stream.arrays if place.name == array), None)
    if place is None:
        names = ", ".join(place.name for place in stream.arrays)
        raise KeyError(f"no array is named {array!r}; there are {names or 'none'}")
    number = 0 if level is None else hierarchy.index(level)
    rows, columns = _cell(place, hierarchy.levels[number].line_bytes) if cell is None else _checked(cell)
    shape = (-(-place.shape[0] // rows), -(-place.shape[1] // columns))
    counts = np.zeros(shape, np.int64)
    own = np.array([reference.array == array for reference in stream.references] + [False] * len(hierarchy.levels))
    for block in stream:
        passed = simulator.feed(block)[number]
        counts += _counted(passed.offsets[own[passed.references]], place, rows, columns, shape)
    misses = tuple(map(tuple, counts.tolist()))
    return MissMap(stream.name, str(hierarchy.levels[number]), place, (rows, columns), misses)


def _counted(
    addresses: NDArray[np.int64], place: ArrayPlace, rows: int, columns: int, shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Count addresses by cell."""
    row, column = place.elements_at(addresses)
    cells = row // rows * shape[1] + column // columns
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)


def _cell(place: ArrayPlace, line_bytes: int) -> tuple[int, int]:
    """Return the neighboring elements that fill a line."""
    if place.row_bytes < place.column_bytes:
        return max(1, line_bytes // place.row_bytes), 1
    return 1, max(1, line_bytes // place.column_bytes)


def _checked(cell: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(cell, tuple) or len(cell) != 2:
        raise TypeError(f"cell must be a tuple (rows, columns); got {cell!r}.")
    return positive_integer(cell[0], "the rows of a cell"), positive_integer(cell[1], "the columns of a cell")
