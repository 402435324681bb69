"""Passes: chains of elementwise calls, a block at a time or in one compiled pass."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accel.cost import Cost
from accel.machine import Machine
from accel.rewrites.dataflow import Rewrite, Situation, Value, is_elementwise, places, recounted, site, value_of
from accel.tracing.counting import is_special
from accel.tracing.operations import Buffer, Op, Operand

__all__ = ["blocking", "fusing"]

MOST_BLOCKS = 8192

SLOW = frozenset({"divide", "sqrt", "reciprocal"})
"""Arithmetic that hardware takes many cycles for, compiled or not."""
COMPILED = frozenset(
    """add subtract multiply divide negative absolute sqrt square reciprocal maximum minimum greater greater_equal
    less less_equal""".split()  # noqa: SIM905
)
"""What a compiler turns into vector instructions. It calls a scalar library function for exp, tanh and their like."""


@dataclass(frozen=True)
class Chain:
    """Consecutive calls over the same leading axis, and what goes into and comes out of them."""

    situation: Situation
    start: int
    stop: int
    length: int
    """Of the leading axis, which is cut into blocks."""

    @property
    def ops(self) -> tuple[Op, ...]:
        """The calls that compute; memory that is only reserved in between is not among them."""
        return tuple(op for op in self.situation.trace.ops[self.start : self.stop] if op.name != "empty")

    @property
    def written(self) -> set[Value]:
        """Values that the chain writes."""
        return {value_of(result) for op in self.ops for result in op.results}

    def is_inner(self, array: Operand) -> bool:
        """Whether a value is made in the chain and dies in it."""
        return (
            value_of(array) in self.written
            and self.situation.is_temporary(array)
            and self.situation.last_use[value_of(array)] < self.stop
            and not any(
                value_of(array) == value_of(seen)
                for op in self.situation.trace.ops[: self.start]
                for seen in (*op.operands, *op.results)
            )
        )

    def is_cut(self, op: Op, array: Operand) -> bool:
        """Whether a call goes through an operand block by block, and does not need all of it for each block."""
        rank = len(op.operands[0].shape if ".reduce" in op.name else op.results[0].shape)
        if any(array is result for result in op.results):
            return True
        return len(array.shape) == rank and array.shape[:1] == (self.length,)


def chains(situation: Situation, *, reductions: bool, allowed: frozenset[str] | None = None) -> Iterator[Chain]:
    """Give the longest stretches of two or more calls that can be cut along one leading axis."""
    ops = situation.trace.ops
    start = 0
    while start < len(ops):
        length = _leading(ops[start], reductions, allowed)
        stop = start + 1
        if not length:
            start += 1
            continue
        while (
            stop < len(ops)
            and (ops[stop].name == "empty" or _leading(ops[stop], reductions, allowed) == length)
            and _is_sound(Chain(situation, start, stop + 1, length))
        ):
            stop += 1
        chain = Chain(situation, start, stop, length)
        if len(chain.ops) > 1:
            yield chain
        start = stop


def _leading(op: Op, reductions: bool, allowed: frozenset[str] | None) -> int:
    """Return the length of the axis that a call can be cut along; 0 where it cannot."""
    if allowed is not None and (op.name not in allowed or op.casts):
        return 0
    if is_elementwise(op):
        dense = all(_is_dense(array) for array in (*op.operands, *op.results))
        return op.results[0].shape[0] if dense and op.results[0].shape else 0
    reduces = reductions and ".reduce" in op.name and len(op.results) == 1 and op.axis is not None
    if reduces and 0 not in (op.axis or (0,)) and _is_dense(op.operands[0]):
        return op.operands[0].shape[0]
    return 0


def _is_dense(array: Operand) -> bool:
    """Whether an array is in C order without gaps, so that a block of its rows is as well."""
    step = np.dtype(array.dtype).itemsize
    for length, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if length != 1 and stride != step:
            return False
        step *= length
    return True


def _is_sound(chain: Chain) -> bool:
    """Whether every block depends on the same rows of what the chain writes, and on no others."""
    windows: dict[Value, set[tuple[int, int]]] = {}
    for op in chain.ops:
        for array in (*op.operands, *op.results):
            if value_of(array) not in chain.written:
                continue
            if not chain.is_cut(op, array):
                return False
            windows.setdefault(value_of(array), set()).add((array.offset_bytes, array.nbytes))
    aliased = {value[0] for value in chain.written if not chain.situation.trace.buffers[value[0]].created}
    seen = {value_of(a) for op in chain.ops for a in (*op.operands, *op.results) if a.buffer in aliased}
    return all(len(found) == 1 for found in windows.values()) and len(seen) == len(aliased)


def blocking(situation: Situation) -> Iterator[Rewrite]:
    """Run two or more elementwise calls on one block, then on the next, where their arrays are larger than L2.

    Blocks are rows of the leading axis. Reductions belong to a chain where they run along other axes; one along the
    leading axis, or over everything, ends it. Temporaries shrink to a block; results are written block by block. Each
    block's calls are priced, so arrays of more than MOST_BLOCKS blocks (gigabytes) get no such advice.
    """
    if not situation.sees_all or not situation.machine.caches:
        return
    caches = situation.machine.caches
    level2 = next((cache.size_bytes for cache in caches if cache.level == 2), caches[-1].size_bytes)
    for chain in chains(situation, reductions=True):
        plan = _Blocks(chain)
        rows = max(1, int(level2 / plan.row_bytes))
        rows = rows if rows < 64 else rows // 16 * 16
        follows = math.ceil(chain.length / rows) <= MOST_BLOCKS
        if follows and rows < chain.length and plan.row_bytes * chain.length > 2 * level2:
            yield plan.rewrite(rows)


class _Blocks:
    """The calls of a chain, cut into blocks."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.situation = chain.situation
        self._scratch = self._assigned()
        rows: dict[Value, float] = {}
        for op in chain.ops:
            for array in (*op.operands, *op.results):
                if chain.is_cut(op, array):
                    slot = self._scratch.get(value_of(array), value_of(array))
                    rows[slot] = max(rows.get(slot, 0), array.nbytes / chain.length)
        self.row_bytes = sum(rows.values())
        """Bytes that one row of the leading axis adds to the working set of a block."""
        self.scratch_row_bytes = {slot: rows[slot] for slot in set(self._scratch.values())}

    def _assigned(self) -> dict[Value, Value]:
        """Give each value that lives in the chain only a scratch array: that of a value it ends, if it can."""
        chain, numbers = self.chain, self.situation.new_buffers()
        last = {value_of(a): i for i, op in enumerate(chain.ops) for a in (*op.operands, *op.results)}
        slots: dict[Value, Value] = {}
        free: list[tuple[int, Value]] = []
        for i, op in enumerate(chain.ops):
            ending = dict.fromkeys(value_of(o) for o in op.operands if last[value_of(o)] == i)
            dying = [
                (o.nbytes, slots[value_of(o)]) for o in op.operands if value_of(o) in slots and last[value_of(o)] == i
            ]
            for result in op.results:
                value = value_of(result)
                if value in slots or not chain.is_inner(result):
                    continue
                found = next((entry for entry in (*dying, *free) if entry[0] == result.nbytes), None)
                if found and not (".reduce" in op.name and found in dying):
                    slots[value] = found[1]
                    (dying if found in dying else free).remove(found)
                else:
                    number = next(numbers)
                    slots[value] = number, f"scratch {len(set(slots.values())) + 1}"
            free += [entry for entry in dict.fromkeys(dying) if any(slots.get(v) == entry[1] for v in ending)]
        return slots

    def rewrite(self, rows: int) -> Rewrite:
        chain, trace = self.chain, self.situation.trace
        buffers = dict(trace.buffers)
        for (number, label), row_bytes in self.scratch_row_bytes.items():
            buffers[number] = Buffer(label, math.ceil(row_bytes * rows), created=True)
        blocks = [
            op for start in range(0, chain.length, rows) for op in self._block(start, min(rows, chain.length - start))
        ]
        reserved = self._reserved()
        kept = [op for op in trace.ops[chain.start : chain.stop] if op.name == "empty" and not self._is_scratch(op)]
        elements = rows * max(op.results[0].size // chain.length for op in chain.ops)
        block = f"{elements:,} elements" if all(len(op.results[0].shape) == 1 for op in chain.ops) else f"{rows:,} rows"
        return Rewrite(
            where=places(chain.ops),
            change=f"a loop over blocks of {block}, all {len(chain.ops)} calls on one block, "
            "with out= and scratch arrays",
            note=f"{math.ceil(chain.length / rows)} blocks; a block's working set is "
            f"{self.row_bytes * rows / 2**10:,.0f} KB",
            ops=(*trace.ops[: chain.start], *kept, *reserved, *blocks, *trace.ops[chain.stop :]),
            buffers=buffers,
        )

    def _is_scratch(self, op: Op) -> bool:
        return any(value_of(result) in self._scratch for result in op.results)

    def _reserved(self) -> list[Op]:
        """Return the `np.empty` of the scratch arrays and of results that the chain used to make."""
        first = self.chain.ops[0]
        fresh = {value_of(r): op.fresh_bytes for op in self.chain.ops for r in op.results if op.fresh_bytes}
        made = [first] * (len(self.scratch_row_bytes) + sum(value not in self._scratch for value in fresh))
        # They are priced as calls only: pages are first touched when a block is written.
        return [
            replace(_EMPTY, file=op.file, function=op.function, line=op.line, instruction=-i)
            for i, op in enumerate(made)
        ]

    def _block(self, start: int, rows: int) -> Iterator[Op]:
        """Give the calls on rows `start` to `start + rows`."""
        cut: set[Value] = set()
        for i, op in enumerate(self.chain.ops):
            part = rows / self.chain.length
            operands = tuple(self._window(op, array, start, rows) for array in op.operands)
            results = tuple(self._window(op, array, start, rows) for array in op.results)
            cut |= {value_of(a) for a, before in zip((*operands, *results), (*op.operands, *op.results), strict=True)
                    if self.chain.is_cut(op, before)}  # fmt: skip
            outside = value_of(op.results[0]) not in self._scratch
            new = replace(
                op, operands=operands, results=results, views=0, reused_bytes=0,
                fresh_bytes=round(op.fresh_bytes * part) if outside else 0,
                inner_length=round(op.inner_length * part) if op.rows <= 1 else op.inner_length,
                rows=op.rows if op.rows <= 1 else max(1, round(op.rows * part)),
                cost=replace(op.cost, flops=round(op.cost.flops * part), special=round(op.cost.special * part)),
            )  # fmt: skip
            yield recounted(replace(new, views=len(cut)) if i == len(self.chain.ops) - 1 else new)

    def _window(self, op: Op, array: Operand, start: int, rows: int) -> Operand:
        if not self.chain.is_cut(op, array):
            return array
        shape = (rows, *array.shape[1:])
        nbytes = array.nbytes // self.chain.length * rows
        place = self._scratch.get(value_of(array))
        if place is not None:
            return replace(array, buffer=place[0], label=place[1], offset_bytes=0, shape=shape, nbytes=nbytes)
        return replace(array, offset_bytes=array.offset_bytes + start * array.strides[0], shape=shape, nbytes=nbytes)


_EMPTY = Op(
    index=0, name="empty", kind="function", operands=(), results=(), scalars=(), dtype="float64", loop_dtypes=(),
    cost=Cost(),
)  # fmt: skip


def fusing(situation: Situation) -> Iterator[Rewrite]:
    """Turn two or more calls of plain arithmetic on dense arrays of one dtype into one compiled pass, with Numba.

    The pass reads each input once and writes each result once. Applies where the machine has Numba, to dtypes whose
    arithmetic the machine was calibrated for, and to arithmetic only: without a vector math library, which Numba's
    wheels do not bring, compiled `exp` or `tanh` is a scalar call and slower than NumPy's, so those calls stay NumPy's
    and the passes lie around them.
    """
    if situation.machine.numba_version is None or not situation.sees_all:
        return
    measured = {peak.dtype for peak in situation.machine.roofs.peaks}
    whole = chains(situation, reductions=False, allowed=COMPILED)
    found = [chain for chain in whole if measured.issuperset(op.dtype for op in chain.ops)]
    if not found:
        return
    ops: list[Op] = []
    position = 0
    for chain in found:
        ops += situation.trace.ops[position : chain.start]
        ops.append(_fused(chain))
        position = chain.stop
    ops += situation.trace.ops[position:]
    calls = [op for chain in found for op in chain.ops]
    distinct = len({site(chain.ops[0]) for chain in found})
    passes = f"{distinct} compiled passes" if distinct > 1 else "one compiled pass"
    yield Rewrite(
        where=places(calls),
        change=f'{passes} (numba.njit, error_model="numpy", a plain loop) instead of '
        f"{len({site(op) for op in calls})} NumPy calls",
        note="assumes that the loop is vectorized and streams like a NumPy call; compilation, once, is not counted",
        ops=tuple(ops),
        buffers=situation.trace.buffers,
    )


def _fused(chain: Chain) -> Op:
    """Return the pass: inputs that the chain did not make itself, results that outlive it."""
    ops = chain.ops
    made: set[Value] = set()
    inputs: dict[tuple[Value, int, tuple[int, ...]], Operand] = {}
    outputs: dict[Value, Operand] = {}
    for op in ops:
        for operand in op.operands:
            if value_of(operand) not in made:
                inputs.setdefault((value_of(operand), operand.offset_bytes, operand.shape), operand)
        for result in op.results:
            made.add(value_of(result))
            if not chain.is_inner(result):
                outputs[value_of(result)] = result
    fresh = sum(op.fresh_bytes for op in ops if op.fresh_bytes and not chain.is_inner(op.results[0]))
    cost = Cost(flops=sum(op.cost.flops for op in ops), calls=1)
    last = ops[-1]
    return recounted(
        replace(
            last, name="fused", kind="compiled", operands=tuple(inputs.values()), results=tuple(outputs.values()),
            scalars=(), cost=cost, fresh_bytes=fresh, reused_bytes=0, views=0,
            seconds=_arithmetic_seconds(ops, chain.situation.machine),
        )
    )  # fmt: skip


def _arithmetic_seconds(ops: Sequence[Op], machine: Machine) -> float:
    """Return the time of the arithmetic in registers: one vector operation each, two where a multiply-add is one.

    Divisions and square roots take what NumPy's vector loops take for them out of L1.
    """
    ceilings = {(c.operation, c.dtype): c.element_seconds for c in machine.roofs.ceilings}
    seconds = 0.0
    for op in ops:
        known = ceilings.get((op.name, op.dtype))
        if op.name in SLOW and known is not None:
            seconds += known * op.results[0].size
        elif not is_special(op.name):
            seconds += 2 * op.cost.flops / machine.peak_flops_per_second(op.dtype, 1)
    return seconds
