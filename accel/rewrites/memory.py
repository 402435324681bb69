"""Memory: results in memory that is at hand instead of new memory, and operands without gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from accel.cost import Cost
from accel.rewrites.dataflow import (
    Rewrite,
    Situation,
    Value,
    is_elementwise,
    packed,
    places,
    recounted,
    relooped,
    value_of,
)
from accel.tracing.layout import axis_order
from accel.tracing.operations import Buffer, Op, Operand

__all__ = ["contiguous_access", "in_place", "results_into_given_memory"]


MOST_COPIES = 4
"""Windows of one kind that are worth copying one by one; more of them come from a loop."""


def in_place(situation: Situation) -> Iterator[Rewrite]:
    """Write a result over a temporary of its shape and dtype that is used for the last time: `out=`.

    Only memory that the function made itself is overwritten, never an argument, never what is returned, and only where
    every use of it is known: no unexplained stretch of the run may have read it.
    """
    ops, changed = _placed(situation)
    if changed:
        names = sorted({f"np.{op.name}(…, out=…)" for op in changed})
        yield Rewrite(
            where=places(changed),
            change=f"{', '.join(names[:2])}{' …' * (len(names) > 2)} over a temporary that is no longer needed",
            note=f"{len(changed)} fewer arrays allocated; nothing but this function may keep the temporaries",
            ops=tuple(ops),
            buffers=situation.trace.buffers,
        )


def results_into_given_memory(situation: Situation) -> Iterator[Rewrite]:
    """Let the caller hand over the arrays that ufuncs write, so that they are used again and again.

    The calls are those of the rewrite in place; what they still allocate comes from the caller. Functions that take no
    `out=` keep their allocations.
    """
    ops, _ = _placed(situation) if situation.sees_all else (list(situation.trace.ops), [])
    making = [op for op in ops if op.fresh_bytes and (is_elementwise(op) or _takes_out(op))]
    if not making:
        return
    ids = {id(op) for op in making}
    total = sum(op.fresh_bytes for op in making)
    returned = any(r.label == "result" for op in making for r in op.results)
    yield Rewrite(
        where=places(making),
        change=f"{'an out= parameter' if returned else 'scratch memory'} that the caller keeps, instead of "
        f"{_megabytes(total)} of new memory a call",
        note="the caller must have done with the previous result before the next call",
        ops=tuple(replace(op, fresh_bytes=0, reused_bytes=0) if id(op) in ids else op for op in ops),
        buffers=situation.trace.buffers,
    )


def _takes_out(op: Op) -> bool:
    return op.kind == "ufunc" and len(op.results) == 1 and not op.opaque and not op.masked


def _megabytes(count: int) -> str:
    return f"{count / 2**20:.3g} MB" if count >= 2**20 else f"{count / 2**10:.3g} KB"


def _placed(situation: Situation) -> tuple[list[Op], list[Op]]:
    """Return the calls with each new result over a value that dies with it, or that is dead; and which changed."""
    if not situation.sees_all:
        return list(situation.trace.ops), []
    where: dict[Value, Value] = {}
    holds: dict[Value, Value] = {}
    free: list[tuple[int, str, Value]] = []
    ops, changed = [], []
    for i, op in enumerate(situation.trace.ops):
        operands = tuple(_at(o, where) for o in op.operands)
        new = op
        results = op.results
        if is_elementwise(op) and op.fresh_bytes and situation.is_whole(op.results[0]):
            result = op.results[0]
            taken = _dying(situation, i, op, operands, holds) or _dead(result, free)
            if taken is not None:
                where[value_of(result)] = taken
                new = replace(op, fresh_bytes=0, reused_bytes=0)
                changed.append(op)
        results = tuple(_at(r, where) for r in results)
        if operands != op.operands or results != op.results:
            scalar_bytes = op.cost.bytes_written - sum(r.nbytes for r in op.results)
            new = recounted(replace(new, operands=operands, results=results), scalar_bytes=scalar_bytes)
        for before, now in zip(op.results, results, strict=True):
            holds[value_of(now)] = value_of(before)
        for before in dict.fromkeys((*op.operands, *op.results)):
            place = where.get(value_of(before), value_of(before))
            dead = situation.is_temporary(before) and situation.last_use[value_of(before)] == i
            if dead and situation.is_whole(before) and holds.get(place, value_of(before)) == value_of(before):
                free.append((before.nbytes, before.dtype, place))
        ops.append(new)
    return ops, changed


def _at(array: Operand, where: dict[Value, Value]) -> Operand:
    place = where.get(value_of(array))
    return array if place is None else replace(array, buffer=place[0], label=place[1])


def _dying(
    situation: Situation, i: int, op: Op, operands: tuple[Operand, ...], holds: dict[Value, Value]
) -> Value | None:
    """Return the place of an operand that dies with the call and that the result fits exactly."""
    [result] = op.results
    for before, now in zip(op.operands, operands, strict=True):
        fits = (before.shape, before.dtype, before.strides) == (result.shape, result.dtype, result.strides)
        dies = situation.is_temporary(before) and situation.last_use[value_of(before)] == i
        alone = all(o == now for o in operands if o.buffer == now.buffer)
        current = holds.get(value_of(now), value_of(before)) == value_of(before)
        if fits and dies and alone and current and situation.is_whole(before):
            return value_of(now)
    return None


def _dead(result: Operand, free: list[tuple[int, str, Value]]) -> Value | None:
    """Take memory of the result's size and dtype that nothing needs any more."""
    for entry in reversed(free):
        if entry[:2] == (result.nbytes, result.dtype):
            free.remove(entry)
            return entry[2]
    return None


def contiguous_access(situation: Situation) -> Iterator[Rewrite]:
    """Copy operands with gaps, or in another axis order than the result, once, and use the copy.

    Applies to windows that elementwise calls and 1-D reductions read, of memory that no call writes meanwhile. Where
    they are columns of one array, its transpose is copied once and the columns become rows.
    """
    uses: dict[tuple[Value, int, tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for i, op in enumerate(situation.trace.ops):
        for operand in op.operands:
            if _cuts_across(op, operand):
                key = value_of(operand), operand.offset_bytes, operand.shape, operand.strides
                uses.setdefault(key, []).append(i)
    columns: dict[tuple[Value, tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for (value, _, shape, strides), indices in uses.items():
        if len(shape) == 1:
            columns.setdefault((value, shape, strides), []).extend(indices)
    for (value, shape, strides), indices in columns.items():
        offsets = {key[1] for key in uses if (key[0], key[2], key[3]) == (value, shape, strides)}
        whole = situation.trace.buffers[value[0]].nbytes == shape[0] * strides[0]
        if len(offsets) > 1 and whole and max(offsets) < strides[0] and _unwritten(situation, value, indices):
            yield _transposed(situation, value, shape[0], strides[0], sorted(indices))
    alike = Counter((value, shape, strides) for value, _, shape, strides in uses)
    for (value, offset, shape, strides), indices in uses.items():
        if alike[value, shape, strides] <= MOST_COPIES and _unwritten(situation, value, indices):
            yield _copied(situation, (value, offset, shape, strides), indices)


def _cuts_across(op: Op, operand: Operand) -> bool:
    """Whether the inner loop of a call has to jump through an operand although it could be laid out better."""
    itemsize = np.dtype(operand.dtype).itemsize
    if operand in op.results or operand.size < 2 or operand.nbytes != operand.size * itemsize:
        return False
    if ".reduce" in op.name and op.kind in ("ufunc", "function", "method"):
        return len(operand.shape) == 1 and operand.strides[0] != itemsize
    if not is_elementwise(op) or operand.shape != op.results[0].shape:
        return False
    order = axis_order(len(operand.shape), [op.results[0].strides])
    innermost = next(axis for axis in reversed(order) if operand.shape[axis] > 1)
    return operand.strides[innermost] != itemsize


def _unwritten(situation: Situation, value: Value, indices: list[int]) -> bool:
    """Whether no call writes a value between its first and last of these uses; nothing unseen may happen either."""
    first, last = min(indices), max(indices)
    between = situation.trace.ops[first : last + 1]
    return situation.sees_all and not any(any(r.buffer == value[0] for r in op.results) for op in between)


def _copy(op: Op, source: Operand, target: Operand) -> Op:
    size = source.size
    cost = Cost(calls=1)
    return recounted(
        replace(
            op, name="copy", kind="function", operands=(source,), results=(target,), scalars=(), dtype=source.dtype,
            loop_dtypes=(), cost=cost, fresh_bytes=target.nbytes, reused_bytes=0, scratch_bytes=0, axis=None,
            inner_length=size, rows=1, product=None, instruction=op.instruction * 16 + 15, views=1,
        )
    )  # fmt: skip


def _copied(
    situation: Situation, key: tuple[Value, int, tuple[int, ...], tuple[int, ...]], indices: list[int]
) -> Rewrite:
    value, _, shape, _ = key
    ops = list(situation.trace.ops)
    users = [ops[i] for i in dict.fromkeys(indices)]
    source = next(
        o for o in users[0].operands if (o.offset_bytes, o.shape, o.strides) == key[1:] and value_of(o) == value
    )
    itemsize = np.dtype(source.dtype).itemsize
    number = next(situation.new_buffers())
    order = users[0].results[0].strides if users[0].results and users[0].results[0].shape == shape else ()
    target = packed(number, "copy", shape, source.dtype, itemsize)
    if order and users[0].results[0].is_contiguous and users[0].results[0].dtype == source.dtype:
        target = replace(target, strides=order)
    for i in dict.fromkeys(indices):
        ops[i] = _with(ops[i], lambda o: target if (value_of(o), o.offset_bytes, o.shape, o.strides) == key else o)
    ops.insert(min(indices), _copy(users[0], source, target))
    return Rewrite(
        where=places(users),
        change=f"c = np.ascontiguousarray(…) of the view of {source.label} once, then c in "
        f"{len(users)} call{'s' * (len(users) > 1)}",
        note="or keep the array in this layout from the start, which saves the copy as well",
        ops=tuple(ops),
        buffers={**situation.trace.buffers, number: Buffer("copy", target.nbytes, created=True)},
    )


def _transposed(situation: Situation, value: Value, length: int, step: int, indices: list[int]) -> Rewrite:
    """Copy the transpose of an array once; its columns are then rows."""
    ops = list(situation.trace.ops)
    users = [ops[i] for i in dict.fromkeys(indices)]
    example = next(o for o in users[0].operands if value_of(o) == value)
    itemsize = np.dtype(example.dtype).itemsize
    number = next(situation.new_buffers())
    target = packed(number, "transposed", (step // itemsize, length), example.dtype, itemsize)
    source = replace(
        example, offset_bytes=0, shape=(step // itemsize, length), strides=(itemsize, step),
        nbytes=length * step, is_contiguous=True,
    )  # fmt: skip

    def row(o: Operand) -> Operand:
        if value_of(o) != value or o.shape != (length,) or o.strides != (step,):
            return o
        offset = o.offset_bytes // itemsize * length * itemsize
        return replace(
            o, buffer=number, label="transposed", offset_bytes=offset, strides=(itemsize,), is_contiguous=True
        )

    for i in dict.fromkeys(indices):
        ops[i] = _with(ops[i], row)
    ops.insert(indices[0], _copy(users[0], source, target))
    return Rewrite(
        where=places(users),
        change=f"t = np.ascontiguousarray({example.label}.T) once, then rows t[j] instead of columns "
        f"{example.label}[:, j]",
        note="or keep the array in this order from the start, which saves the copy as well",
        ops=tuple(ops),
        buffers={**situation.trace.buffers, number: Buffer("transposed", target.nbytes, created=True)},
    )


def _with(op: Op, replaced: Callable[[Operand], Operand]) -> Op:
    scalar_bytes = op.cost.bytes_written - sum(r.nbytes for r in op.results)
    new = recounted(replace(op, operands=tuple(replaced(o) for o in op.operands)), scalar_bytes=scalar_bytes)
    return relooped(new) if is_elementwise(op) else new
