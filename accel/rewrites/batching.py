"""Batching: many calls of one kind in a loop as one call with a leading axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from accel import elision
from accel.cost import Cost
from accel.rewrites.dataflow import Rewrite, Situation, Value, is_elementwise, packed, places, recounted, site, value_of
from accel.rewrites.precision import OPERATORS
from accel.tracing.operations import Buffer, Op, Operand

__all__ = ["batching"]

LEAST_REPEATS = 4
LONGEST_BODY = 32
"""Calls in the body of a loop that is still looked at."""


class _DependentError(Exception):
    """An iteration needs more than its own part of the arrays, so that the loop is no batch."""


def batching(situation: Situation) -> Iterator[Rewrite]:
    """Make the calls of a loop over equally spaced parts of arrays once each, on all parts.

    Covers elementwise calls, reductions of a whole part, matrix products, and assignments into an array. Applies where
    no iteration reads what another one wrote, and where what all iterations share is not written.
    """
    ops = tuple(op for op in situation.trace.ops if op.kind != "opaque")
    for start, period, repeats in _loops(ops):
        loop = _Loop(situation, ops[start : start + period * repeats], period, repeats)
        try:
            batched = loop.batched()
        except _DependentError:
            continue
        inside = range(ops[start].index, ops[start + period * repeats - 1].index + 2)
        rest = [op for op in situation.trace.ops if op.kind == "opaque" and op.index not in inside]
        calls = period * repeats
        yield Rewrite(
            where=places(ops[start : start + period]),
            change=f"one call with a leading axis of {repeats:,} instead of a loop over {repeats:,} parts"
            + (f", for each of {period} calls" if period > 1 else ""),
            note=f"{len(batched)} call{'s' * (len(batched) > 1)} instead of {calls:,}; temporaries grow by {repeats:,}",
            ops=(*ops[:start], *batched, *ops[start + calls :], *rest),
            buffers=situation.trace.buffers | loop.buffers,
        )


def _loops(ops: tuple[Op, ...]) -> Iterator[tuple[int, int, int]]:
    """Give (start, calls of the body, repeats) of each stretch that repeats itself."""
    keys = [_key(op) for op in ops]
    start = 0
    while start < len(ops):
        for period in range(1, min(LONGEST_BODY, (len(ops) - start) // LEAST_REPEATS) + 1):
            if keys[start] != keys[start + period]:
                continue
            repeats = 1
            body = keys[start : start + period]
            while keys[start + repeats * period : start + (repeats + 1) * period] == body:
                repeats += 1
            if repeats >= LEAST_REPEATS:
                yield start, period, repeats
                start += period * repeats - 1
                break
        start += 1


def _key(op: Op) -> tuple[Any, ...]:
    arrays = tuple((a.shape, a.dtype, a.strides) for a in (*op.operands, *op.results))
    return site(op), op.axis, op.scalars, arrays


@dataclass
class _Loop:
    """The calls of a loop, iteration after iteration."""

    situation: Situation
    ops: tuple[Op, ...]
    period: int
    repeats: int
    buffers: dict[int, Buffer] = field(default_factory=dict)
    stacked: dict[Value, Operand] = field(default_factory=dict)
    """Value made in the first iteration -> the array that holds it for all iterations."""

    def batched(self) -> list[Op]:
        """Return one call for each of the body; raise where the iterations depend on one another."""
        self._numbers = self.situation.new_buffers()
        body = self.ops[: self.period]
        self._made = {value_of(r) for op in body for r in op.results if op.fresh_bytes}
        self._written = {value_of(r) for op in self.ops for r in op.results}
        self._last = {value_of(a): i for i, op in enumerate(body) for a in (*op.operands, *op.results)}
        dropped = self._assignments(body)
        return [self._call(i, op) for i, op in enumerate(body) if i not in dropped]

    def _iterations(self, place: int) -> tuple[Op, ...]:
        return self.ops[place :: self.period]

    def _assignments(self, body: tuple[Op, ...]) -> set[int]:
        """Find `out[i] = value` of a value that dies with it: what makes the value can write there itself."""
        dropped = set()
        for i, op in enumerate(body):
            if op.name != "copyto" or len(op.operands) != 1:
                continue
            source, [target] = op.operands[0], op.results
            maker = next((m for m in body if any(value_of(r) == value_of(source) for r in m.results)), None)
            dies = self.situation.is_temporary(source) and self._last[value_of(source)] == i
            same = (source.shape, source.dtype) == (target.shape, target.dtype)
            if maker is not None and value_of(source) in self._made and dies and same and _takes_out(maker):
                self.stacked[value_of(source)] = self._walked([other.results[0] for other in self._iterations(i)])
                dropped.add(i)
        return dropped

    def _call(self, place: int, op: Op) -> Op:
        if not (is_elementwise(op) or op.product or op.name == "copyto" or _reduces_all(op)):
            raise _DependentError
        each = self._iterations(place)
        rank = len(op.results[0].shape) if op.results and op.product is None else 0
        operands = tuple(self._operand([o.operands[j] for o in each], rank) for j in range(len(op.operands)))
        results, fresh = self._results(place, op, each, operands)
        cost = Cost(flops=sum(o.cost.flops for o in each), special=sum(o.cost.special for o in each), calls=1)
        axis = tuple(range(1, len(op.operands[0].shape) + 1)) if op.axis is not None else None
        whole = all(a.is_contiguous or a.shape == () for a in (*operands, *results)) and is_elementwise(op)
        same = all(o.size in (results[0].size, 1) for o in operands) if results else False
        return recounted(
            replace(
                op, operands=operands, results=results, cost=cost, fresh_bytes=fresh, reused_bytes=0, axis=axis,
                inner_length=op.inner_length * self.repeats if whole and same else op.inner_length,
                rows=1 if whole and same else max(op.rows, 1) * self.repeats, product=self._product(op, operands),
                views=0,
            )
        )  # fmt: skip

    def _operand(self, arrays: list[Operand], rank: int) -> Operand:
        first = arrays[0]
        if value_of(first) in self.stacked:
            return self.stacked[value_of(first)]
        if all(array == first for array in arrays):
            if value_of(first) in self._written:
                raise _DependentError
            return first
        return self._walked(arrays, rank)

    def _walked(self, arrays: list[Operand], rank: int = 0) -> Operand:
        """Return the window onto all parts, which must follow one another at equal steps."""
        first = arrays[0]
        step = arrays[1].offset_bytes - first.offset_bytes
        even = all(
            value_of(array) == value_of(first) and array.offset_bytes == first.offset_bytes + i * step
            for i, array in enumerate(arrays)
        )
        written = value_of(first) in self._written
        if not even or not step or (written and not self._is_own_part(first, step)):
            raise _DependentError
        missing = max(rank - len(first.shape), 0)
        return replace(
            first,
            shape=(self.repeats, *(1,) * missing, *first.shape),
            strides=(step, *(0,) * missing, *first.strides),
            nbytes=first.nbytes * self.repeats,
            is_contiguous=first.is_contiguous and step == first.nbytes,
        )

    def _is_own_part(self, array: Operand, step: int) -> bool:
        """Whether each iteration uses one part of an array that the loop writes, apart from the parts of the others."""
        windows = {
            (a.offset_bytes, a.shape, a.strides)
            for op in self.ops[: self.period]
            for a in (*op.operands, *op.results)
            if value_of(a) == value_of(array)
        }
        return len(windows) == 1 and abs(step) >= array.nbytes and array.is_contiguous

    def _results(
        self, place: int, op: Op, each: tuple[Op, ...], operands: tuple[Operand, ...]
    ) -> tuple[tuple[Operand, ...], int]:
        """Return the results for all iterations, and what is newly allocated for them."""
        if not op.results:
            itemsize = np.dtype(op.dtype).itemsize
            made = self._new("batch", (self.repeats,), op.dtype, itemsize, like=None)
            return (made,), made.nbytes
        if len(op.results) != 1:
            raise _DependentError
        [result] = op.results
        if value_of(result) in self.stacked:
            return (self.stacked[value_of(result)],), 0
        if value_of(result) not in self._made:
            return (self._walked([o.results[0] for o in each]),), 0
        if not self.situation.is_whole(result):
            raise _DependentError
        shape = (self.repeats, *result.shape)
        for before, now in zip(op.operands, operands, strict=True):
            dies = value_of(before) in self._made and self._last[value_of(before)] == place
            fits = (now.shape, now.dtype) == (shape, result.dtype) and now.nbytes >= elision.ELISION_BYTES
            if dies and fits and op.name in OPERATORS and not op.scalars and elision.references():
                self.stacked[value_of(result)] = now
                return (now,), 0
        itemsize = np.dtype(result.dtype).itemsize
        made = self._new(result.label, shape, result.dtype, itemsize, like=result)
        return (made,), made.nbytes

    def _new(self, label: str, shape: tuple[int, ...], dtype: str, itemsize: int, *, like: Operand | None) -> Operand:
        number = next(self._numbers)
        made = packed(number, label, shape, dtype, itemsize)
        self.buffers[number] = Buffer(label, made.nbytes, created=True)
        if like is not None:
            self.stacked[value_of(like)] = made
        return made

    def _product(self, op: Op, operands: tuple[Operand, ...]) -> tuple[int, int, int, int] | None:
        """Return the shape of all products at once: a factor that they share makes them one."""
        if op.product is None:
            return None
        batch, m, k, n = op.product
        if batch != 1 or len(operands) != 2:
            raise _DependentError
        left, right = (now != before for now, before in zip(operands, op.operands, strict=True))
        if left and not right:
            return 1, m * self.repeats, k, n
        if right and not left and len(op.operands[1].shape) == 1:
            return 1, self.repeats, k, m
        return self.repeats, m, k, n


def _takes_out(op: Op) -> bool:
    return is_elementwise(op) or op.product is not None


def _reduces_all(op: Op) -> bool:
    """Whether a call reduces a whole part to one number."""
    return ".reduce" in op.name and not op.results and op.axis == tuple(range(len(op.operands[0].shape)))
