"""Dataflow: what rules need to know of a trace: which value an operand is, where it dies, how its calls repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, TypeAlias

from accel.cost import Cost
from accel.machine import Machine
from accel.reuse import piece_of
from accel.tracing.counting import elementwise_flops, is_special
from accel.tracing.layout import inner_loop, packed_strides
from accel.tracing.operations import Buffer, Op, Operand, Trace

__all__ = [
    "Rewrite",
    "Situation",
    "Value",
    "footprint_bytes",
    "is_elementwise",
    "like",
    "places",
    "recounted",
    "site",
    "value_of",
]

UNSEEN_SHARE = 0.1
"""Share of the run, without a call to explain it, that is put down to the interpreter and not to unseen work."""

Value: TypeAlias = tuple[int, str]
"""An allocation: its buffer and its label. Memory that was freed and given out again has a new label."""


@dataclass(frozen=True)
class Rewrite:
    """What a function would do if it were written in another way."""

    where: str
    change: str
    note: str
    ops: tuple[Op, ...]
    buffers: Mapping[int, Buffer]
    threads: int | None = None
    """Threads for BLAS, where the rewrite changes that."""
    check: Callable[[Any, tuple[Any, ...]], bool] | None = None
    """Tells from the function's result and its arguments whether the rewrite computes the same, where shapes do not."""


@dataclass(frozen=True)
class Situation:
    """A trace, and the machine that it is to run on."""

    trace: Trace
    machine: Machine
    threads: int = 1

    @cached_property
    def last_use(self) -> dict[Value, int]:
        """Place in `trace.ops` of the last call that reads or writes each value."""
        return {value_of(array): i for i, op in enumerate(self.trace.ops) for array in (*op.operands, *op.results)}

    @cached_property
    def sees_all(self) -> bool:
        """Whether all uses of temporaries are known: next to nothing happened that the trace could not look into."""
        hidden = sum(op.seconds for op in self.trace.ops if op.kind == "opaque")
        return hidden <= UNSEEN_SHARE * sum(op.seconds for op in self.trace.ops)

    def is_temporary(self, array: Operand) -> bool:
        """Whether an array was made by a traced call and is not returned."""
        return self.trace.buffers[array.buffer].created and array.label != "result"

    def is_whole(self, array: Operand) -> bool:
        """Whether an operand is all of an allocation that a traced call made."""
        buffer = self.trace.buffers[array.buffer]
        return buffer.created and not array.offset_bytes and array.nbytes == buffer.nbytes and array.is_contiguous

    def new_buffers(self) -> Iterator[int]:
        """Give buffer numbers that the trace does not use."""
        return count(max(self.trace.buffers, default=-1) + 1)


def value_of(array: Operand) -> Value:
    """Return which allocation an operand is a window onto."""
    return array.buffer, array.label


def site(op: Op) -> tuple[Any, ...]:
    """Identify a call in the source, so that its repetitions in a loop are told from other calls."""
    return op.function, op.file, op.line, op.instruction, op.name


def is_elementwise(op: Op) -> bool:
    """Whether a call works element by element into one result, and takes `out=`."""
    return (
        op.kind == "ufunc"
        and "." not in op.name
        and len(op.results) == 1
        and bool(op.loop_dtypes)
        and op.product is None
        and not op.masked
        and not op.opaque
        and not any(len(operand.shape) > len(op.results[0].shape) for operand in op.operands)
    )


def recounted(op: Op, *, scalar_bytes: int = 0) -> Op:
    """Return the call with the bytes of its cost counted again from its operands and results."""
    distinct = {(o.buffer, o.offset_bytes, o.shape, o.strides): o for o in op.operands}.values()
    written = [piece_of(result) for result in op.results]
    read = [piece_of(operand) for operand in op.operands if operand.nbytes]
    cost = replace(
        op.cost,
        bytes_read=sum(o.nbytes for o in distinct),
        bytes_written=sum(r.nbytes for r in op.results) + scalar_bytes,
        bytes_write_allocate=sum(
            r.nbytes for r, w in zip(op.results, written, strict=True) if not any(w.overlaps(p) for p in read)
        ),
    )
    return replace(op, cost=cost, in_place=any(result in op.operands for result in op.results))


def like(op: Op, name: str, operands: Sequence[Operand], result: Operand, *, fresh: bool = False, step: int = 0) -> Op:
    """Return another elementwise call at the same place in the source."""
    dtype = result.dtype
    steps = [_steps(array, result.shape) for array in (*operands, result)]
    length, rows = inner_loop(result.shape, steps)
    evaluated = is_special(name)
    cost = Cost(
        flops=0 if evaluated else elementwise_flops(name) * result.size,
        special=result.size if evaluated else 0,
        calls=1,
    )
    return recounted(
        replace(
            op, name=name, kind="ufunc", operands=tuple(operands), results=(result,), scalars=(), dtype=dtype,
            loop_dtypes=(dtype,) * (len(operands) + 1), cost=cost, fresh_bytes=result.nbytes if fresh else 0,
            reused_bytes=0, scratch_bytes=0, axis=None, inner_length=length, rows=rows, product=None,
            views=0 if step else op.views, instruction=op.instruction * 16 + step,
        )
    )  # fmt: skip


def _steps(array: Operand, shape: tuple[int, ...]) -> tuple[int, ...]:
    own = tuple(0 if n == 1 else s for n, s in zip(array.shape, array.strides, strict=True))
    return (0,) * (len(shape) - len(own)) + own


def relooped(op: Op) -> Op:
    """Return an elementwise call with its inner loops worked out again, after its operands' strides changed."""
    shape = op.results[0].shape
    length, rows = inner_loop(shape, [_steps(array, shape) for array in (*op.operands, *op.results)])
    return replace(op, inner_length=length, rows=rows)


def packed(buffer: int, label: str, shape: tuple[int, ...], dtype: str, itemsize: int) -> Operand:
    """Return a whole new array in C order."""
    size = itemsize
    for length in shape:
        size *= length
    strides = packed_strides(shape, itemsize, range(len(shape)))
    return Operand(buffer, 0, shape, dtype, strides, size, is_contiguous=True, label=label)


def footprint_bytes(ops: Iterable[Op], buffers: Mapping[int, Buffer]) -> int:
    """Return the bytes of all memory that the calls allocate; freed memory given out again counts once.

    Memory that a caller hands over (`fresh_bytes` of 0) is not allocated.
    """
    made: dict[int, int] = {}
    for op in ops:
        if op.fresh_bytes:
            for result in op.results:
                if buffers[result.buffer].created:
                    made[result.buffer] = buffers[result.buffer].nbytes
    return sum(made.values())


def places(ops: Iterable[Op]) -> str:
    """Name calls and the lines they stand on: ``"power(x, 3), line 12"``, ``"6 calls, lines 10-14"``."""
    distinct = list({(site(op), op.call if op.line == 0 else ""): op for op in ops}.values())
    lines = sorted({op.line for op in distinct if op.line})
    if len(distinct) == 1:
        named = distinct[0].call
    elif len(distinct) <= 3:
        named = ", ".join(op.name for op in distinct)
    else:
        named = f"{len(distinct)} calls, {distinct[0].name} to {distinct[-1].name}"
    if not lines:
        return named
    return f"{named}, line {lines[0]}" if len(lines) == 1 else f"{named}, lines {lines[0]}-{lines[-1]}"
