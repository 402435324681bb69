"""Nests: loops around accesses, turned into blocks of addresses without ever holding all of them.

In a loop nest every address is a sum: where the access starts, plus a fixed step for each turn of each loop around it.
What the innermost loops touch is therefore the same pattern again and again, moved by an amount that only the access
and the outer loops decide. The pattern is made once; a block is the pattern and those amounts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accel.cache.places import ArrayPlace

__all__ = ["Block", "Loop", "Nest", "Reference", "Touch", "touch"]

BLOCK_ACCESSES = 32 * 1024
"""Accesses in a pattern: many enough that what Python does for a block does not show, few enough to stay in cache."""


@dataclass(frozen=True)
class Reference:
    """One place in a program that accesses memory: which array, how many bytes, and whether it writes."""

    array: str
    size_bytes: int
    is_write: bool


class Block(NamedTuple):
    """Accesses, in order: access i begins at ``starts[references[i]] + offsets[i]``."""

    offsets: NDArray[np.int64]
    references: NDArray[np.uint16]
    starts: NDArray[np.int64]

    @property
    def addresses(self) -> NDArray[np.int64]:
        """The address of each access's first byte."""
        return self.starts[self.references] + self.offsets


@dataclass(frozen=True)
class Touch:
    """One access in the body of a loop."""

    reference: Reference
    start: int
    steps: Mapping[str, int]
    """Bytes that each turn of a loop moves it by; loops that are not named leave it where it is."""


@dataclass(frozen=True)
class Loop:
    """A body of accesses and loops, in order, gone through `count` times."""

    variable: str
    count: int
    body: Sequence[Touch | Loop]


def touch(
    array: ArrayPlace,
    rows: Mapping[str, int],
    columns: Mapping[str, int],
    *,
    first: tuple[int, int] = (0, 0),
    write: bool = False,
) -> Touch:
    """Return an access to element (row, column), each a sum of loop variables times whole numbers, plus `first`.

    >>> from accel.cache.nests import touch
    >>> from accel.cache import place
    >>> [a] = place({"A": (8, 8)})
    >>> touch(a, {"i": 1}, {"k": 2}).steps
    {'i': 32, 'k': 8}
    """
    steps = {variable: times * array.row_bytes for variable, times in rows.items()}
    for variable, times in columns.items():
        steps[variable] = steps.get(variable, 0) + times * array.column_bytes
    return Touch(Reference(array.name, array.item_bytes, write), array.address(*first), steps)


class _Pattern(NamedTuple):
    """What one run of a piece of a nest touches, from the start of each reference."""

    offsets: NDArray[np.int64]
    references: NDArray[np.uint16]


@dataclass
class Nest:
    """Loops, one after the other, and the accesses in them.

    >>> from accel.cache.nests import Loop, Nest, touch
    >>> from accel.cache import place
    >>> [x] = place({"x": 3})
    >>> nest = Nest([Loop("i", 3, [touch(x, {}, {"i": 1}), touch(x, {}, {"i": 1}, write=True)])])
    >>> nest.accesses, [block.addresses.tolist() for block in nest.blocks()]
    (6, [[0, 0, 4, 4, 8, 8]])
    """

    body: Sequence[Touch | Loop]
    touches: list[Touch] = field(init=False)
    """Every access of the program, in the order of its text: the references that blocks count."""

    def __post_init__(self) -> None:
        self.touches = list(_touches(self.body))
        self._numbers = {id(item): number for number, item in enumerate(self.touches)}
        self._steps: dict[str, NDArray[np.int64]] = {}
        self._patterns: dict[int, _Pattern] = {}
        self._counts: dict[int, int] = {}

    @property
    def references(self) -> tuple[Reference, ...]:
        """The reference of each access of the program."""
        return tuple(item.reference for item in self.touches)

    @property
    def accesses(self) -> int:
        """How many accesses the program makes."""
        return sum(map(self._count, self.body))

    def blocks(self) -> Iterator[Block]:
        """Yield the accesses in order, a block at a time."""
        starts = np.array([item.start for item in self.touches], np.int64)
        for item in self.body:
            yield from self._blocks(item, starts)

    def _blocks(self, item: Touch | Loop, starts: NDArray[np.int64]) -> Iterator[Block]:
        """Yield what one item touches, with the loops around it where `starts` has them."""
        if isinstance(item, Touch) or self._count(item) <= BLOCK_ACCESSES:
            yield Block(*self._pattern(item), starts)
            return
        step = self._steps_of(item.variable)
        once = sum(map(self._count, item.body))
        if once > BLOCK_ACCESSES:
            for turn in range(item.count):
                for part in item.body:
                    yield from self._blocks(part, starts + turn * step)
            return
        turns = BLOCK_ACCESSES // once
        offsets, references = self._pattern(Loop(item.variable, turns, item.body), key=id(item))
        for turn in range(0, item.count, turns):
            length = once * min(turns, item.count - turn)
            yield Block(offsets[:length], references[:length], starts + turn * step)

    def _pattern(self, item: Touch | Loop, key: int | None = None) -> _Pattern:
        """Return the pattern of an item; that of each is made once."""
        key = id(item) if key is None else key
        if key not in self._patterns:
            self._patterns[key] = self._made(item)
        return self._patterns[key]

    def _made(self, item: Touch | Loop) -> _Pattern:
        if isinstance(item, Touch):
            return _Pattern(np.zeros(1, np.int64), np.array([self._numbers[id(item)]], np.uint16))
        parts = [self._pattern(part) for part in item.body]
        offsets = np.concatenate([part.offsets for part in parts])
        references = np.concatenate([part.references for part in parts])
        steps = self._steps_of(item.variable)[references]
        turns = np.arange(item.count, dtype=np.int64)
        return _Pattern((offsets + turns[:, None] * steps).reshape(-1), np.tile(references, item.count))

    def _steps_of(self, variable: str) -> NDArray[np.int64]:
        """Return the step of every reference in one loop."""
        if variable not in self._steps:
            self._steps[variable] = np.array([item.steps.get(variable, 0) for item in self.touches], np.int64)
        return self._steps[variable]

    def _count(self, item: Touch | Loop) -> int:
        """Return how many accesses an item makes."""
        if isinstance(item, Touch):
            return 1
        if id(item) not in self._counts:
            self._counts[id(item)] = item.count * sum(map(self._count, item.body))
        return self._counts[id(item)]


def _touches(body: Sequence[Any]) -> Iterator[Touch]:
    for item in body:
        if isinstance(item, Touch):
            yield item
        else:
            yield from _touches(item.body)
