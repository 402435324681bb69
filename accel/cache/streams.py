"""Streams: sequences of memory accesses, made in blocks, so that a thousand million of them need no memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cache.nests import BLOCK_ACCESSES, Block, Loop, Nest, Reference, Touch
from accel.cache.places import HIGHEST_ADDRESS, ArrayPlace
from accel.kernels.arguments import positive_integer

__all__ = ["Stream", "accesses", "from_nest"]

MOST_REFERENCES = 60_000
"""References are numbered with 16 bits, and the simulator needs a few numbers of its own."""
ELSEWHERE = "elsewhere"
"""The array that addresses belong to which lie in none."""


@dataclass(frozen=True)
class Stream:
    """A sequence of memory accesses that can be gone through as often as needed.

    Made by the functions of `accel.cache`, from loops or from addresses of your own; ``first + second`` is one after
    the other. Going through a stream yields a `Block` of accesses at a time.

    >>> from accel import cache
    >>> [x] = cache.place({"x": 4})
    >>> twice = cache.sequential(x) + cache.sequential(x)
    >>> [block.addresses.tolist() for block in twice]
    [[0, 4, 8, 12], [0, 4, 8, 12]]
    """

    name: str
    references: tuple[Reference, ...]
    arrays: tuple[ArrayPlace, ...]
    blocks: Callable[[], Iterable[Block]] = field(repr=False)
    count: int | None
    """How many accesses there are, where that is known beforehand."""

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks())

    def __add__(self, other: Stream) -> Stream:
        """Return a stream that goes through this one, then through the other."""
        if not isinstance(other, Stream):
            return NotImplemented
        arrays = {array.name: array for array in self.arrays}
        for array in other.arrays:
            if arrays.setdefault(array.name, array) != array:
                raise ValueError(f"two streams in a row must mean the same array by {array.name!r}; its places differ.")
        references = _few_enough((*self.references, *other.references))
        before, after = len(self.references), len(other.references)

        def blocks() -> Iterator[Block]:
            for offsets, numbers, starts in self:
                yield Block(offsets, numbers, np.concatenate([starts, np.zeros(after, np.int64)]))
            for offsets, numbers, starts in other:
                shifted = (numbers + before).astype(np.uint16)
                yield Block(offsets, shifted, np.concatenate([np.zeros(before, np.int64), starts]))

        count = None if self.count is None or other.count is None else self.count + other.count
        return Stream(f"{self.name}, {other.name}", references, tuple(arrays.values()), blocks, count)


def from_nest(name: str, body: Sequence[Touch | Loop], *arrays: ArrayPlace) -> Stream:
    """Return the accesses of loops over arrays, as a stream."""
    nest = Nest(body)
    distinct = {array.name: array for array in arrays}
    if any(distinct[array.name] != array for array in arrays):
        raise ValueError(f"arrays have names of their own; got {', '.join(array.name for array in arrays)}.")
    return Stream(name, _few_enough(nest.references), tuple(distinct.values()), nest.blocks, nest.accesses)


def accesses(
    addresses: ArrayLike | Callable[[], Iterable[ArrayLike]],
    *,
    size_bytes: ArrayLike = 4,
    writes: ArrayLike = False,
    arrays: Iterable[ArrayPlace] = (),
    name: str = "accesses",
) -> Stream:
    """Return a stream of accesses to addresses of your own.

    Parameters
    ----------
    addresses : array_like of int, or callable
        Address in bytes of each access, from 0 to below 2**62; or a function without arguments that returns an iterator
        over arrays of addresses, for more than fits in memory. It is called each time the stream is gone through.
    size_bytes : int, or array_like of int
        Bytes of every access, or of each.
    writes : bool, or array_like of bool
        Whether every access writes, or which do.
    arrays : iterable of ArrayPlace
        Arrays to count apart; what lies in none is counted as ``"elsewhere"``.

    Raises
    ------
    TypeError
        Addresses or sizes that are not integers; `writes` that is not boolean.
    ValueError
        Negative addresses, or past the highest; sizes below 1; arrays of several dimensions, or not as long as the
        addresses; `arrays` that overlap, or share a name.

    Examples
    --------
    >>> from accel import cache
    >>> stream = cache.accesses([0, 64, 0], writes=[False, True, False])
    >>> [reference.is_write for reference in stream.references], stream.count
    ([False, True], 3)
    """
    places = _apart(arrays)
    if callable(addresses):
        return _pieces(addresses, _one_size(size_bytes), _one_kind(writes), places, name)
    checked = checked_addresses(addresses)
    sizes = _each(size_bytes, checked, "size_bytes", "iu")
    written = _each(writes, checked, "writes", "b")
    _check_ends(checked, sizes)
    owners = _owners(checked, places)
    kinds, numbers = np.unique(np.stack([owners, sizes, written.astype(np.int64)]), axis=1, return_inverse=True)
    names = [*(array.name for array in places), ELSEWHERE]
    references = _few_enough(tuple(Reference(names[o], int(s), bool(w)) for o, s, w in kinds.T))
    rows = numbers.reshape(-1).astype(np.uint16)
    starts = np.zeros(len(references), np.int64)

    def blocks() -> Iterator[Block]:
        for first in range(0, checked.size, BLOCK_ACCESSES):
            part = slice(first, first + BLOCK_ACCESSES)
            yield Block(checked[part], rows[part], starts)

    return Stream(name, references, places, blocks, checked.size)


def _pieces(
    pieces: Callable[[], Iterable[ArrayLike]], size: int, written: bool, places: tuple[ArrayPlace, ...], name: str
) -> Stream:
    """Return a stream of pieces that are checked as they come."""
    references = tuple(Reference(owner, size, written) for owner in (*(p.name for p in places), ELSEWHERE))
    starts = np.zeros(len(references), np.int64)

    def blocks() -> Iterator[Block]:
        for piece in pieces():
            addresses = checked_addresses(piece)
            _check_ends(addresses, np.int64(size))
            yield Block(addresses, _owners(addresses, places).astype(np.uint16), starts)

    return Stream(name, references, places, blocks, None)


def checked_addresses(addresses: ArrayLike) -> NDArray[np.int64]:
    """Return addresses as int64, or say what is wrong with them."""
    array = np.asarray(addresses)
    if not array.size:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"addresses must be integers; got {array.dtype}. Count in bytes, for example in np.int64.")
    if array.ndim != 1:
        raise ValueError(f"addresses must be a sequence; got shape {array.shape}. Pass addresses.reshape(-1).")
    if array.size and (array.min() < 0 or array.max() >= HIGHEST_ADDRESS):
        raise ValueError(f"addresses lie from 0 to below 2**62; got {array.min()} to {array.max()}.")
    return np.ascontiguousarray(array, np.int64)


def _check_ends(addresses: NDArray[np.int64], sizes: Any) -> None:
    if np.min(sizes, initial=1) < 1:
        raise ValueError(f"size_bytes must be at least 1; got {np.min(sizes)}.")
    if np.max(sizes, initial=1) > HIGHEST_ADDRESS or np.max(addresses + sizes, initial=0) > HIGHEST_ADDRESS:
        raise ValueError("accesses must end at an address up to 2**62; got one that goes beyond.")


def _each(values: ArrayLike, addresses: NDArray[np.int64], name: str, kinds: str) -> NDArray[Any]:
    """Return one value for each address."""
    array = np.asarray(values)
    if array.dtype.kind not in kinds and array.size:
        raise TypeError(f"{name} must be {'booleans' if kinds == 'b' else 'integers'}; got {array.dtype}.")
    if array.shape not in ((), addresses.shape):
        raise ValueError(f"{name} must be one value or one for each of {addresses.size} addresses; got {array.shape}.")
    return np.broadcast_to(array.astype(bool if kinds == "b" else np.int64), addresses.shape)


def _one_size(size_bytes: Any) -> int:
    return positive_integer(size_bytes, "size_bytes of addresses that come in pieces")


def _one_kind(writes: Any) -> bool:
    if not isinstance(writes, bool | np.bool_):
        raise TypeError(f"writes of addresses that come in pieces must be True or False; got {writes!r}.")
    return bool(writes)


def _apart(arrays: Iterable[ArrayPlace]) -> tuple[ArrayPlace, ...]:
    """Return the arrays by address, or say that an address could be in two."""
    places = tuple(sorted(arrays, key=lambda array: array.start))
    if len({array.name for array in places}) < len(places):
        raise ValueError(f"arrays have names of their own; got {', '.join(array.name for array in places)}.")
    for one, other in pairwise(places):
        if other.start < one.stop:
            raise ValueError(f"arrays must not overlap; {one.name!r} ends at {one.stop}, {other} starts before.")
    return places


def _owners(addresses: NDArray[np.int64], places: tuple[ArrayPlace, ...]) -> NDArray[np.int64]:
    """Return the number of the array that each address lies in; one past the last where it lies in none."""
    starts, stops = (np.array([getattr(p, end) for p in places], np.int64) for end in ("start", "stop"))
    owner = np.searchsorted(starts, addresses, side="right") - 1
    inside = (owner >= 0) & (addresses < stops[owner]) if places else np.zeros(addresses.shape, bool)
    return np.where(inside, owner, len(places))


def _few_enough(references: tuple[Reference, ...]) -> tuple[Reference, ...]:
    if len(references) > MOST_REFERENCES:
        raise ValueError(
            f"a stream has at most {MOST_REFERENCES} kinds of access (array, size, read or write); "
            f"got {len(references)}. Use fewer sizes, or simulate it in parts."
        )
    return references
