"""Reuse: how much other memory was touched since a piece of memory was last touched.

A cache of C bytes that evicts what was used longest ago still holds a piece whose reuse distance is below C (Mattson
et al., 1970, doi:10.1147/sj.92.0078). Distances are followed in bytes over whole operands, not over single lines: an
operation touches its operands together, from one end to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel.tracing.operations import Operand

__all__ = ["NEVER", "Piece", "ReuseStack", "piece_of"]

LINE_BYTES = 64

NEVER = float("inf")
"""The distance of memory that was not touched before."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a buffer that an operation touches."""

    buffer: int
    start_bytes: int
    stop_bytes: int
    footprint_bytes: int
    """Bytes of cache lines touched within the range: less than its length where the access is strided."""

    def overlaps(self, other: Piece) -> bool:
        """Whether the two ranges share a byte."""
        return (
            self.buffer == other.buffer and self.start_bytes < other.stop_bytes and other.start_bytes < self.stop_bytes
        )

    def part(self, start: int, stop: int) -> Piece:
        """Return the piece between two offsets, its footprint in proportion."""
        share = (stop - start) / max(1, self.stop_bytes - self.start_bytes)
        return Piece(self.buffer, start, stop, round(self.footprint_bytes * share))


class ReuseStack:
    """Pieces of memory in order of their last use.

    >>> from accel.reuse import Piece, ReuseStack
    >>> x, y = Piece(0, 0, 100, 100), Piece(1, 0, 50, 50)
    >>> stack = ReuseStack()
    >>> stack.touch([x]), stack.touch([y]), stack.touch([x])
    ([inf], [inf], [150.0])
    """

    def __init__(self, limit_bytes: float = NEVER) -> None:
        """Forget what lies more than `limit_bytes` back: it is as far away as anything can be."""
        self._limit_bytes = limit_bytes
        self._time = 0
        self._touched: list[tuple[int, Piece] | None] = []  # (when, what), oldest first; None where it was taken out
        self._holes = 0

    def touch(self, group: Sequence[Piece]) -> list[float]:
        """Touch pieces together, as one operation does; return the distance at which each was found.

        The distance counts everything touched since, and the group itself once: by the time an operation reaches the
        end of an operand again, it has gone through all of them.
        """
        distinct = list(dict.fromkeys(group))
        own = sum(piece.footprint_bytes for piece in distinct)
        distances = {piece: self._distance(piece, distinct) + own for piece in distinct}
        for piece in distinct:
            self._remove(piece)
        self._time += 1
        self._touched.extend((self._time, piece) for piece in distinct)
        if self._holes > len(self._touched) // 2:
            self._touched = [entry for entry in self._touched if entry]
            self._holes = 0
        return [distances[piece] for piece in group]

    def _distance(self, piece: Piece, group: Sequence[Piece]) -> float:
        """Bytes outside the group touched since `piece`, averaged over its parts by their length."""
        missing = [(piece.start_bytes, piece.stop_bytes)]
        total = since = together = 0.0
        now = self._time
        own = {member.buffer for member in group}
        for entry in reversed(self._touched):
            if not entry:
                continue
            when, seen = entry
            if when < now:  # what was touched together with `seen` was not touched since
                now, since, together = when, since + together, 0.0
            if not missing or since > self._limit_bytes:
                break
            if seen.buffer == piece.buffer:
                found, missing = _subtract(missing, seen.start_bytes, seen.stop_bytes)
                total += found * since
            together += _outside(seen, group) if seen.buffer in own else seen.footprint_bytes
        length = piece.stop_bytes - piece.start_bytes
        return NEVER if missing or not length else total / length

    def _remove(self, piece: Piece) -> None:
        """Take a range out of the stack; what sticks out on either side stays where it was."""
        missing = [(piece.start_bytes, piece.stop_bytes)]
        since = 0.0
        for place in range(len(self._touched) - 1, -1, -1):
            if not missing or since > self._limit_bytes:
                break
            entry = self._touched[place]
            if not entry:
                continue
            when, seen = entry
            since += seen.footprint_bytes
            if not seen.overlaps(piece):
                continue
            _, missing = _subtract(missing, seen.start_bytes, seen.stop_bytes)
            self._touched[place] = None
            self._holes += 1
            if seen.start_bytes < piece.start_bytes:
                self._put(place, (when, seen.part(seen.start_bytes, piece.start_bytes)))
            if seen.stop_bytes > piece.stop_bytes:
                self._put(place, (when, seen.part(piece.stop_bytes, seen.stop_bytes)))

    def _put(self, place: int, entry: tuple[int, Piece]) -> None:
        """Put a remainder where the whole was; the order among pieces touched together does not matter."""
        if self._touched[place] is None:
            self._touched[place] = entry
            self._holes -= 1
        else:
            self._touched.insert(place, entry)


def _outside(seen: Piece, group: Sequence[Piece]) -> float:
    """Footprint of the part of a piece that no member of the group covers."""
    left = [(seen.start_bytes, seen.stop_bytes)]
    for member in group:
        if member.buffer == seen.buffer:
            _, left = _subtract(left, member.start_bytes, member.stop_bytes)
    length = seen.stop_bytes - seen.start_bytes
    return seen.footprint_bytes * sum(high - low for low, high in left) / length if length else 0.0


def _subtract(ranges: list[tuple[int, int]], start: int, stop: int) -> tuple[int, list[tuple[int, int]]]:
    """Take [start, stop) out of the ranges; return how many bytes that took and what is left."""
    taken, left = 0, []
    for low, high in ranges:
        cut_low, cut_high = max(low, start), min(high, stop)
        if cut_low >= cut_high:
            left.append((low, high))
            continue
        taken += cut_high - cut_low
        left += [part for part in ((low, cut_low), (cut_high, high)) if part[0] < part[1]]
    return taken, left


def piece_of(operand: Operand) -> Piece:
    """Return the range of its buffer that an operand spans, and the bytes of the cache lines it touches there.

    Elements further apart than a line cost a line each.
    """
    itemsize = np.dtype(operand.dtype).itemsize
    low = high = operand.offset_bytes
    steps = []
    for length, step in zip(operand.shape, operand.strides, strict=True):
        if length > 1 and step:
            low += min(0, step * (length - 1))
            high += max(0, step * (length - 1))
            steps.append(abs(step))
    if not operand.nbytes:
        return Piece(operand.buffer, low, low, 0)  # nothing is addressed, whatever the strides
    each = max(itemsize, min([LINE_BYTES, *steps])) if steps else itemsize
    return Piece(operand.buffer, low, high + itemsize, operand.nbytes // itemsize * each)
