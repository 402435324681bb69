"""Assembly: from the raw log of a traced run to its operations and buffers."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from types import CodeType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from accel.collector import collection_off
from accel.cost import Cost
from accel.records import encodable
from accel.tracing.counting import Work
from accel.tracing.description import Description, dtype_name
from accel.tracing.layout import addressed_elements, extent, is_contiguous
from accel.tracing.operations import Buffer, Op, Operand
from accel.tracing.recording import ELIDED, Event, Recorder, Seen

__all__ = ["Assembly", "Unexplained"]

Item = TypeVar("Item", Op, Operand)


class Unexplained:
    """Time of the run that no recorded call accounts for."""

    def __init__(self, seconds: float, before: int, code: Any, items: int) -> None:
        self.seconds = seconds
        self.before = before
        """Index of the event that the longest such stretch came before."""
        self.code = code
        self.items = items
        """Elements that the interpreter read or wrote one at a time."""


class _Pattern(NamedTuple):
    """What all calls have in common that differ only in where their arrays lie."""

    op: Op
    reads: tuple[tuple[Operand, int], ...]
    """The operands, each with its place among the arrays that the call saw."""
    writes: tuple[tuple[Operand, int], ...]


class Assembly:
    """Replays a recorder's log: follows allocations, and turns each event into an `Op`.

    Freed memory is handed to the next allocation of the same size, the last freed first, as NumPy's and the C
    library's allocators do; such arrays share a buffer number.
    """

    def __init__(self, recorder: Recorder, returned: Iterable[int], unexplained: Unexplained | None = None) -> None:
        self._recorder = recorder
        self._returned = set(returned)
        self._unexplained = unexplained
        self._slots: dict[int, int] = {}
        self._spare: dict[int, list[int]] = {}
        self._labels: dict[int, str] = dict(recorder.labels)
        self._parts = {buffer: parts for buffer, given in recorder.arguments.items() if (parts := _apart(given))}
        self._live_bytes = self._live_arrays = self._temporaries = self._foreign = 0
        self._fresh = self._reused = 0
        self._patterns: dict[Any, _Pattern] = {}
        self._layouts: dict[Any, Operand] = {}
        self._operands: dict[tuple[int, int, int], Operand] = {}
        self.buffers: dict[int, Buffer] = {}
        self.peak_bytes = self.peak_arrays = 0
        for number in recorder.labels:
            self._slot(number)
        with collection_off():  # all that is made here is kept, and would be looked through again and again
            self.ops = tuple(self._replay())

    def _replay(self) -> Iterator[Op]:
        index = events = 0
        for entry in self._recorder.log:
            if isinstance(entry, Event):
                if self._unexplained and self._unexplained.before == events:
                    yield _opaque(index, self._unexplained)
                    index += 1
                yield self._op(index, entry)
                index += 1
                events += 1
            elif entry >= 0:
                self._allocate(entry)
            elif ~entry in self._slots and self.buffers[self._slots[~entry]].created:
                self._release(~entry)
        if self._unexplained and self._unexplained.before == events:
            yield _opaque(index, self._unexplained)

    def _allocate(self, number: int) -> None:
        nbytes = self._recorder.buffers[number][0]
        if number in self._returned:
            label = "result"
        else:
            self._temporaries += 1
            label = f"temporary {self._temporaries}"
        spare = self._spare.get(nbytes)
        if spare:
            slot = spare.pop()
            self._reused += nbytes
        else:
            slot = len(self.buffers)
        if slot not in self.buffers or label == "result":
            self.buffers[slot] = Buffer(label, nbytes, created=True)
        self._slots[number], self._labels[number] = slot, label
        self._fresh += nbytes
        self._live_bytes += nbytes
        self._live_arrays += 1
        if self._live_bytes > self.peak_bytes:
            self.peak_bytes, self.peak_arrays = self._live_bytes, self._live_arrays

    def _release(self, number: int) -> None:
        nbytes = self._recorder.buffers[number][0]
        self._live_bytes -= nbytes
        self._live_arrays -= 1
        self._spare.setdefault(nbytes, []).append(self._slots[number])

    def _slot(self, number: int) -> int:
        """Return the buffer that an array lies in; one made out of sight is entered when it is first met."""
        if number not in self._slots:
            slot = self._slots[number] = len(self.buffers)
            if number not in self._labels:
                self._foreign += 1
                self._labels[number] = f"array {self._foreign}"
            self.buffers[slot] = Buffer(self._labels[number], self._recorder.buffers[number][0], created=False)
        return self._slots[number]

    def _operand(self, seen: Seen, elements: int | None = None) -> Operand:
        """Describe an array, of which a call touches so many elements; by default all."""
        itemsize = seen.dtype.itemsize
        if elements is None:
            elements = addressed_elements(seen.shape, seen.strides)
        return Operand(
            shape=seen.shape,
            dtype=dtype_name(seen.dtype),
            strides=seen.strides,
            nbytes=elements * itemsize,
            is_contiguous=is_contiguous(seen.shape, seen.strides, itemsize),
            **self._place(seen),
        )

    def _place(self, seen: Seen) -> dict[str, Any]:
        """Where an array lies: what distinguishes it from the same operand in another repetition of a loop."""
        buffer = self._slot(seen.buffer)
        offset = seen.address - self._recorder.buffers[seen.buffer][1]
        label = self._labels[seen.buffer]
        if seen.buffer in self._parts:
            label = next((name for low, high, name in self._parts[seen.buffer] if low <= seen.address < high), label)
        return {"buffer": buffer, "offset_bytes": offset, "label": label}

    def _moved(self, operand: Operand, seen: Seen) -> Operand:
        """Return the operand at the place of an array that is its like in all else."""
        key = id(operand), seen[0], seen[1]
        moved = self._operands.get(key)
        if moved is None:
            moved = self._operands[key] = _changed(operand, self._place(seen))
        return moved

    def _layout(self, operand: Operand) -> Operand:
        """Return the one operand that stands for all that differ from it only in their place."""
        key = operand.shape, operand.dtype, operand.strides, operand.nbytes
        return self._layouts.setdefault(key, operand)

    def _op(self, index: int, event: Event) -> Op:
        """Describe an event; one that repeats an earlier one's pattern differs only in where its arrays lie."""
        key, seen = _key_of(event)
        pattern = self._patterns.get(key) if key is not None else None
        if pattern is None:
            pattern = self._described(event, seen)
            if key is not None:
                self._patterns[key] = pattern
        changes = {
            "index": index,
            "operands": tuple([self._moved(layout, seen[i]) for layout, i in pattern.reads]),
            "results": tuple([self._moved(layout, seen[i]) for layout, i in pattern.writes]),
            "fresh_bytes": self._fresh,
            "reused_bytes": self._reused,
            "seconds": (event.ended - event.started) * 1e-9,
            "views": event.views,
        }
        self._fresh = self._reused = 0
        return _changed(pattern.op, changes)

    def _described(self, event: Event, seen: list[Seen]) -> _Pattern:
        """Work out what an event did."""
        described = Description(event)
        touched = described.touched
        operands = tuple(self._operand(s, touched if i == 0 else None) for i, s in enumerate(described.reads))
        scattered = touched if described.name == "put" or described.method == "at" else None
        if described.name == "put":
            operands = tuple(self._operand(s) for s in described.reads)
        results = tuple(self._operand(s, scattered) for s in event.results)
        work = described.work()
        length, rows = described.loop()
        line, instruction = _place_in_source(event.code, event.instruction)
        op = Op(
            index=0,
            name=described.name,
            kind=event.kind,
            operands=operands,
            results=results,
            scalars=described.scalars,
            dtype=described.dtype,
            loop_dtypes=described.loop_dtypes,
            cost=described.cost or _cost(described.name, work or Work(), operands, results, event.scalar_results),
            scratch_bytes=work.scratch_bytes if work else 0,
            axis=described.axis,
            inner_length=length,
            rows=rows,
            product=described.product(),
            masked=described.masked,
            in_place=any(s in described.reads for s in event.results),
            elided=event.keywords.get("out") == ELIDED,
            opaque=work is None,
            approximate=bool(work and work.approximate),
            function=encodable(event.code.co_name),
            file=encodable(os.path.basename(event.code.co_filename)),
            line=line,
            instruction=instruction,
        )
        op.loop_key  # noqa: B018 - worked out here, once for all repetitions
        places = (next(i for i, s in enumerate(seen) if s is read) for read in described.reads)
        ends = range(len(seen) - len(results), len(seen))
        return _Pattern(
            op,
            tuple((self._layout(o), i) for o, i in zip(operands, places, strict=True)),
            tuple((self._layout(o), i) for o, i in zip(results, ends, strict=True)),
        )


@lru_cache(maxsize=4096)
def _place_in_source(code: CodeType, offset: int) -> tuple[int, int]:
    """Return the line of a bytecode, and the first offset of the same expression.

    An interpreter that specializes code moves within the bytecodes of an expression.
    """
    positions = list(code.co_positions())
    if not 0 <= offset // 2 < len(positions):
        return code.co_firstlineno, offset
    position = positions[offset // 2]
    if None in position:
        return position[0] or 0, offset
    return position[0] or 0, 2 * positions.index(position)


def _changed(item: Item, changes: dict[str, Any]) -> Item:
    """`dataclasses.replace` without running `__init__`: a long trace makes hundreds of thousands of these."""
    copy = object.__new__(type(item))
    object.__setattr__(copy, "__dict__", item.__dict__ | changes)
    return copy


def _key_of(event: Event) -> tuple[Any, list[Seen]]:
    """Return a key and the arrays in order: calls with equal keys differ only in where their arrays lie.

    The key is None where an argument cannot be compared.
    """
    seen: list[Seen] = []
    key: list[Any] = [
        event.kind, event.function, event.method, event.scalar_results, id(event.code), event.instruction,
        *event.keywords,
    ]  # fmt: skip
    _describe((*event.arguments, *event.keywords.values(), *event.results), key, seen, {})
    pattern = tuple(key)
    try:
        hash(pattern)
    except TypeError:
        return None, seen
    return pattern, seen


def _describe(values: tuple[Any, ...], key: list[Any], seen: list[Seen], first: dict[int, tuple[int, int]]) -> None:
    for value in values:
        kind = type(value)
        if kind is Seen:
            seen.append(value)
            buffer, address, shape, strides, dtype = value
            place = first.get(buffer)
            if place is None:
                first[buffer] = place = len(first), address
            key += (place[0], address - place[1], shape, strides, dtype)
        elif kind in _NUMBERS:
            key += (kind, value)
        elif kind is tuple:
            key.append("(")
            _describe(value, key, seen, first)
            key.append(")")
        else:
            key += (kind, repr(value) if kind is slice else value if isinstance(value, _COMPARABLE) else id(value))


_NUMBERS = frozenset({int, float, bool})
_COMPARABLE = (int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic, np.dtype, type)
"""Types whose values can stand in a key; any other object is its identity, which the log keeps alive."""


def _cost(
    name: str, work: Work, operands: tuple[Operand, ...], results: tuple[Operand, ...], scalars: tuple[Any, ...]
) -> Cost:
    """Each distinct operand read once, each result written once; no write-allocate where its memory is read too.

    `empty` does none of this: it reserves memory. A scalar result is written, but not to memory to be fetched first.
    """
    if name == "empty":
        return Cost()
    distinct = {(o.buffer, o.offset_bytes, o.shape, o.strides): o for o in operands}.values()
    return Cost(
        flops=work.flops,
        special=work.special,
        bytes_read=sum(o.nbytes for o in distinct),
        bytes_written=sum(r.nbytes for r in results) + sum(d.itemsize for d in scalars if d is not None),
        bytes_write_allocate=sum(r.nbytes for r in results if not any(_overlap(r, o) for o in operands)),
        calls=1,
    )


def _overlap(a: Operand, b: Operand) -> bool:
    """Whether the byte ranges of two operands of one buffer meet."""
    if a.buffer != b.buffer or not a.nbytes or not b.nbytes:
        return False
    (a_low, a_high), (b_low, b_high) = (
        extent(o.offset_bytes, o.shape, o.strides, np.dtype(o.dtype).itemsize) for o in (a, b)
    )
    return a_low < b_high and b_low < a_high


def _apart(arguments: list[tuple[Seen, str]]) -> list[tuple[int, int, str]]:
    """Return the first and last address of arguments in one piece of memory, with their names; [] where they overlap.

    The two rows of one array, passed as two arguments, are two things to whoever reads the calls.
    """
    parts = sorted(
        (*extent(seen.address, seen.shape, seen.strides, seen.dtype.itemsize), name)
        for seen, name in arguments
        if math.prod(seen.shape)
    )
    apart = len(parts) > 1 and all(a[1] <= b[0] for a, b in pairwise(parts))
    return parts if apart else []


def _opaque(index: int, unexplained: Unexplained) -> Op:
    code = unexplained.code
    return Op(
        index=index, name="opaque", kind="opaque", operands=(), results=(), scalars=(), dtype="", loop_dtypes=(),
        cost=Cost(interpreted=unexplained.items), opaque=True, seconds=unexplained.seconds,
        function=encodable(code.co_name) if code else "",
        file=encodable(os.path.basename(code.co_filename)) if code else "",
        line=code.co_firstlineno if code else 0,
    )  # fmt: skip
