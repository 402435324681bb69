"""Steps: how the innermost loop of a call steps through each array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel.reuse import LINE_BYTES
from accel.tracing.layout import axis_order
from accel.tracing.operations import Op, Operand

__all__ = ["Access", "accesses", "buffered_operands"]

BUFFER_ELEMENTS = 8192
"""What a buffer of NumPy's iterator holds (`np.getbufsize`)."""


@dataclass(frozen=True, slots=True)
class Access:
    """One array of a call, as its innermost loop sees it."""

    array: Operand
    step_bytes: int
    """From one element to the next; 0 where one element is held."""

    @property
    def has_gaps(self) -> bool:
        """Whether the loop skips memory, so that no vector instruction takes several elements at once."""
        return self.step_bytes not in (0, np.dtype(self.array.dtype).itemsize)

    @property
    def is_by_column(self) -> bool:
        """Whether the loop takes one element of a cache line whose other elements belong to later loops."""
        step = abs(self.step_bytes)
        closer = (
            abs(other) < LINE_BYTES
            for length, other in zip(self.array.shape, self.array.strides, strict=True)
            if length > 1 and other
        )
        return step >= LINE_BYTES and any(closer)


def accesses(op: Op) -> list[Access]:
    """Return the accesses of a call that works element by element, or reduces its first operand."""
    arrays = op.operands[:1] if op.axis is not None and op.operands else (*op.operands, *op.results)
    _, strides, axes = _loop(arrays)
    return [Access(array, steps[axes[0]]) for array, steps in zip(arrays, strides, strict=True)] if axes else []


def buffered_operands(op: Op) -> int:
    """Return how many arrays of a broadcast or sliced call NumPy copies into buffers, row by row.

    From version 2.3 on, its iterator gathers short rows, so that an inner loop runs over many at once. It does so where
    (1 + copies) / (elements of such a loop) is at most 1 / (elements of a row): the rule of
    `npyiter_find_buffering_setup` in NumPy's `nditer_constr.c`. An array needs no copy whose rows follow one another.
    """
    if op.kind != "ufunc" or "." in op.name or op.rows < 2 or op.product:
        return 0
    lengths, strides, (inner, *outer) = _loop((*op.operands, *op.results))
    length, copied = lengths[inner], [False] * len(strides)
    least, copies = 1 / op.inner_length, 0
    for axis in outer:
        if length >= BUFFER_ELEMENTS:
            break
        copied = [known or steps[axis] != steps[inner] * length for known, steps in zip(copied, strides, strict=True)]
        length *= lengths[axis]
        cost = (1 + sum(copied)) / min(length, BUFFER_ELEMENTS)
        if any(copied) and cost <= least:
            least, copies = cost, sum(copied)
    return copies


def _loop(arrays: Sequence[Operand]) -> tuple[list[int], list[tuple[int, ...]], list[int]]:
    """Return the lengths of a loop's axes, each array's steps along them, and the axes to go along, innermost first."""
    rank = max((len(array.shape) for array in arrays), default=0)
    along = [[_along(array, axis, rank) for axis in range(rank)] for array in arrays]
    lengths = [max((one[axis][0] for one in along), default=1) for axis in range(rank)]
    strides = [tuple(step for _, step in one) for one in along]
    order = axis_order(rank, strides) if rank > 1 else list(range(rank))
    return lengths, strides, [axis for axis in reversed(order) if lengths[axis] > 1]


def _along(array: Operand, axis: int, rank: int) -> tuple[int, int]:
    """Return (length, step) of an array along an axis of the loop, which may have more axes than the array."""
    own = axis - (rank - len(array.shape))
    if own < 0 or array.shape[own] == 1:
        return 1, 0
    return array.shape[own], array.strides[own]
