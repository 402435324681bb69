"""Assembly: from the raw log of a traced run to its operations and buffers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, TypeVar

import numpy as np

from accel.cost import Cost
from accel.tracing.counting import Work
from accel.tracing.description import Description, dtype_name
from accel.tracing.layout import addressed_elements, is_contiguous
from accel.tracing.operations import Buffer, Op, Operand
from accel.tracing.recording import Event, Recorder, Seen

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
        self._live_bytes = self._live_arrays = self._temporaries = self._foreign = 0
        self._fresh = self._reused = 0
        self._patterns: dict[Any, tuple[Op, tuple[int, ...], tuple[int, ...]]] = {}
        self._operands: dict[tuple[int, int, int], Operand] = {}
        self.buffers: dict[int, Buffer] = {}
        self.peak_bytes = self.peak_arrays = 0
        for number in recorder.labels:
            self._slot(number)
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
        return {"buffer": buffer, "offset_bytes": offset, "label": self._labels[seen.buffer]}

    def _moved(self, operand: Operand, seen: Seen) -> Operand:
        """Return the operand at the place of an array that is its like in all else."""
        key = id(operand), seen.buffer, seen.address
        if key not in self._operands:
            self._operands[key] = _changed(operand, **self._place(seen))
        return self._operands[key]

    def _op(self, index: int, event: Event) -> Op:
        """Describe an event; one that repeats an earlier one's pattern differs only in where its arrays lie."""
        pattern, seen = _pattern(event)
        fresh, reused, self._fresh, self._reused = self._fresh, self._reused, 0, 0
        known = self._patterns.get(pattern) if pattern is not None else None
        if known is None:
            op, reads, writes = self._described(event, seen)
            if pattern is not None:
                self._patterns[pattern] = op, reads, writes
            operands, results = op.operands, op.results
        else:
            op, reads, writes = known
            operands = tuple([self._moved(o, seen[i]) for o, i in zip(op.operands, reads, strict=True)])
            results = tuple([self._moved(o, seen[i]) for o, i in zip(op.results, writes, strict=True)])
        return _changed(
            op,
            index=index,
            operands=operands,
            results=results,
            fresh_bytes=fresh,
            reused_bytes=reused,
            seconds=(event.ended - event.started) * 1e-9,
            views=event.views,
        )

    def _described(self, event: Event, seen: list[Seen]) -> tuple[Op, tuple[int, ...], tuple[int, ...]]:
        """Return the op, and which of the arrays seen its operands and results are."""
        described = Description(event)
        touched = described.touched
        operands = tuple(self._operand(s, touched if i == 0 else None) for i, s in enumerate(described.reads))
        scattered = touched if described.name == "put" or described.method == "at" else None
        if described.name == "put":
            operands = tuple(self._operand(s) for s in described.reads)
        results = tuple(self._operand(s, scattered) for s in event.results)
        work = described.work()
        length, rows = described.loop()
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
            opaque=work is None,
            approximate=bool(work and work.approximate),
            function=event.code.co_name,
            file=os.path.basename(event.code.co_filename),
            line=event.line or 0,
            instruction=_instruction(event.code, event.instruction),
        )
        places = [next(i for i, s in enumerate(seen) if s is read) for read in described.reads]
        return op, tuple(places), tuple(range(len(seen) - len(results), len(seen)))


@lru_cache(maxsize=4096)
def _instruction(code: CodeType, offset: int) -> int:
    """Return the first offset of the same expression: an interpreter that specializes code moves within it."""
    positions = list(code.co_positions())
    if not 0 <= offset // 2 < len(positions) or None in positions[offset // 2]:
        return offset
    return 2 * positions.index(positions[offset // 2])


def _changed(item: Item, **changes: Any) -> Item:
    """`dataclasses.replace` without running `__init__`: a long trace makes hundreds of thousands of these."""
    copy = object.__new__(type(item))
    copy.__dict__.update(item.__dict__)
    copy.__dict__.update(changes)
    return copy


def _pattern(event: Event) -> tuple[Any, list[Seen]]:
    """Return a key and the arrays in order: calls with equal keys differ only in where their arrays lie.

    The key is None where an argument cannot be compared.
    """
    seen: list[Seen] = []
    key: list[Any] = [
        event.kind, event.function, event.method, event.scalar_results, event.code, event.instruction,
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
            buffer, address, *rest = value
            number, origin = first.setdefault(buffer, (len(first), address))
            key += (number, address - origin, *rest)
        elif kind is tuple:
            key.append("(")
            _describe(value, key, seen, first)
            key.append(")")
        else:
            key += (kind, repr(value) if kind is slice else value if isinstance(value, _COMPARABLE) else id(value))


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
    (a_low, a_high), (b_low, b_high) = _extent(a), _extent(b)
    return a_low < b_high and b_low < a_high


def _extent(operand: Operand) -> tuple[int, int]:
    low = high = operand.offset_bytes
    for length, step in zip(operand.shape, operand.strides, strict=True):
        reach = (length - 1) * step
        low, high = (low + reach, high) if reach < 0 else (low, high + reach)
    return low, high + np.dtype(operand.dtype).itemsize


def _opaque(index: int, unexplained: Unexplained) -> Op:
    code = unexplained.code
    return Op(
        index=index, name="opaque", kind="opaque", operands=(), results=(), scalars=(), dtype="", loop_dtypes=(),
        cost=Cost(interpreted=unexplained.items), opaque=True, seconds=unexplained.seconds,
        function=code.co_name if code else "", file=os.path.basename(code.co_filename) if code else "",
        line=code.co_firstlineno if code else 0,
    )  # fmt: skip
