"""Cache simulation, compiled: one level of a hierarchy turns the accesses it is given into those it passes on.

The lines of a set stay in their ways, and one 64-bit word for each set says in which order they were used: four bits
for each way, the one used last in the lowest. A line is then found with one or two comparisons of eight lines at once
and moved to the front with a few bit operations, so that only "hit or miss" is left for the processor to guess. Sets of
more than 16 ways have no such word: their lines lie in order of their last use, and are moved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba.extending
import numpy as np
from llvmlite import ir
from numba import types

from accel.kernels.compiled import compiled

__all__ = ["FIRST_ORDER", "LANES", "MOST_ORDERED_WAYS", "look_up"]

LANES = 8
"""Lines compared at once."""
MOST_ORDERED_WAYS = 16
"""As many as a word has groups of four bits."""
FIRST_ORDER = np.int64(-0x0123456789ABCDF0)
"""Sixteen ways in falling order, 0xFEDCBA9876543210 as a signed number: that of an empty set."""
_EACH_WAY = 0x1111111111111111
_HIGH_BITS = np.int64(-0x7777777777777778)  # 0x888… as a signed number


def _intrinsic(function: Callable[..., Any]) -> Any:
    """Make an operation of compiled code, called without the typing context that it is written with."""
    return numba.extending.intrinsic(function)


@_intrinsic
def _trailing_zeros(typing_context: Any, bits: types.Integer) -> Any:
    """Return the place of the lowest bit that is set, of at least one."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@_intrinsic
def _equal_lines(typing_context: Any, lines: types.Array, start: types.Integer, line: types.Integer) -> Any:
    """Return a number whose bit k tells whether ``lines[start + k] == line``, for LANES lines."""
    vector = ir.VectorType(ir.IntType(64), LANES)
    lane = ir.IntType(32)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), vector.as_pointer())
        held = builder.load(place, align=8)
        empty = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(empty, arguments[2], lane(0))
        wanted = builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(lane, LANES), [0] * LANES))
        equal = builder.icmp_signed("==", held, wanted)
        return builder.zext(builder.bitcast(equal, ir.IntType(LANES)), ir.IntType(64))

    return types.int64(lines, types.int64, types.int64), generate


@compiled
def _way_of(lines: np.ndarray, start: int, ways: int, line: int) -> int:
    """Return the way that holds a line in the set that begins at `start`, or -1."""
    if ways > MOST_ORDERED_WAYS:
        for way in range(ways):
            if lines[start + way] == line:
                return way
        return -1
    equal = _equal_lines(lines, start, line)
    if ways > LANES:
        equal |= _equal_lines(lines, start + LANES, line) << LANES
    return _trailing_zeros(equal) if equal else -1


@compiled
def _used(order: int, way: int) -> int:
    """Return the order of a set in which one way, of 16, has just been used."""
    differs = order ^ (way * _EACH_WAY)
    # The lowest four bits that are all zero borrow from above when one is taken away.
    place = _trailing_zeros((differs - _EACH_WAY) & ~differs & _HIGH_BITS) - 3
    newer = (1 << place) - 1
    older = ~(newer << 4 | 15)
    return (order & older) | ((order & newer) << 4) | way


@compiled
def _mark(line: int, start: int, ways: int, lines: np.ndarray, dirty: np.ndarray) -> bool:
    """Make a line dirty where it is in its set, in its place; whether it is there."""
    way = _way_of(lines, start, ways, line)
    if way >= 0:
        dirty[start + way] = 1
    return way >= 0


@compiled
def _move_to_front(way: int, start: int, lines: np.ndarray, dirty: np.ndarray) -> None:
    """Move a line of a set of many ways before the others."""
    line, was_dirty = lines[start + way], dirty[start + way]
    for place in range(start + way, start, -1):
        lines[place], dirty[place] = lines[place - 1], dirty[place - 1]
    lines[start], dirty[start] = line, was_dirty


@compiled
def look_up(
    offsets: np.ndarray,
    references: np.ndarray,
    starts: np.ndarray,
    sizes: np.ndarray,
    writes: np.ndarray,
    shift: int,
    ways: int,
    slots: int,
    lines: np.ndarray,
    order: np.ndarray,
    dirty: np.ndarray,
    write_backs: int,
    own_write_back: int,
    asked: np.ndarray,
    misses: np.ndarray,
    traffic: np.ndarray,
    passed_addresses: np.ndarray,
    passed_references: np.ndarray,
) -> int:
    """Look up each access in one level; return how many accesses it passes on to the next.

    What is passed on are the accesses that missed, and before each the dirty lines that it drove out. Those are
    written back: where the next level has the line it becomes dirty there, in its place; else they are passed on.

    Parameters
    ----------
    offsets : int64[n]
        First byte of each access, from the start of its reference.
    references : uint16[n]
        The row of `starts`, `sizes`, `writes`, `asked` and `misses` that each access belongs to.
    starts, sizes : int64[r]
    writes : uint8[r]
        1 where the access makes its line dirty in this level.
    shift : int
        log2 of the bytes in a line.
    ways, slots : int
        Lines in a set, and how far sets are apart in `lines`: for up to 16 ways a multiple of LANES.
    lines : int64[sets * slots]
        Number of the line (address over line size) in each way; -1 where there is none.
    order : int64[sets]
        See above; all zero where there are more than 16 ways.
    dirty : uint8[sets * slots]
        Whether the line was written to since it came.
    write_backs, own_write_back : int
        The rows from this one on stand for lines written back by the levels, from the first level to the last; the
        row for those of this level.
    asked, misses : int64[r]
        Raised by the accesses, and by those that did not find all their lines.
    traffic : int64[2]
        Raised by the lines that came in, and by the dirty lines driven out.
    passed_addresses, passed_references : int64[m], uint16[m]
        Where to put what is passed on. There must be room.
    """
    sets = order.size
    mask = sets - 1 if sets & (sets - 1) == 0 else -1  # a division takes long, and is seldom needed
    oldest = 4 * (ways - 1)
    passed = np.uintp(0)  # Numba need not ask whether an unsigned index counts from the end
    for i in range(offsets.size):
        row = references[i]
        address = starts[row] + offsets[i]
        line = address >> shift
        last_line = (address + sizes[row] - 1) >> shift
        missed = False
        asked[row] += 1
        if row >= write_backs:
            missed = not _mark(line, (line & mask if mask >= 0 else line % sets) * slots, ways, lines, dirty)
            last_line = line - 1
        while line <= last_line:
            index = line & mask if mask >= 0 else line % sets
            start = index * slots
            recency = order[np.uintp(index)]
            place = np.uintp(start + (recency & 15))
            if lines[place] != line:  # not the line of its set that was used last
                way = _way_of(lines, start, ways, line)
                if way < 0:
                    way = recency >> oldest & 15 if ways <= MOST_ORDERED_WAYS else ways - 1
                    place = np.uintp(start + way)
                    missed = True
                    traffic[0] += 1
                    if dirty[place]:
                        traffic[1] += 1
                        passed_addresses[passed] = lines[place] << shift
                        passed_references[passed] = own_write_back
                        passed += np.uintp(1)
                        dirty[place] = 0
                    lines[place] = line
                if ways <= MOST_ORDERED_WAYS:
                    order[np.uintp(index)] = _used(recency, way)
                    place = np.uintp(start + way)
                else:
                    _move_to_front(way, start, lines, dirty)
                    place = np.uintp(start)
            if writes[row]:
                dirty[place] = 1
            line += 1
        if missed:
            misses[row] += 1
            passed_addresses[passed] = address
            passed_references[passed] = row
            passed += np.uintp(1)
    return int(passed)
