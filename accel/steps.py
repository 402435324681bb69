"""Steps: how the innermost loop of a call steps through each array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel.reuse import LINE_BYTES
from accel.tracing.layout import axis_order
from accel.tracing.operations import Op, Operand

__all__ = ["Access", "accesses", "gathered_operands"]

BUFFER_ELEMENTS = 8192
"""What NumPy's iterator gathers at most (`np.getbufsize`)."""


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
    rank = max((len(array.shape) for array in arrays), default=0)
    lengths = [max((_along(array, axis, rank)[0] for array in arrays), default=1) for axis in range(rank)]
    strides = [tuple(_along(array, axis, rank)[1] for axis in range(rank)) for array in arrays]
    inner = next((axis for axis in reversed(_order(rank, strides)) if lengths[axis] > 1), None)
    if inner is None:
        return []
    return [Access(array, steps[inner]) for array, steps in zip(arrays, strides, strict=True)]


def gathered_operands(op: Op) -> int:
    """Return how many arrays of a broadcast or sliced call NumPy copies into buffers, row by row.

    From version 2.3 on, its iterator gathers short rows, so that an inner loop runs over many at once. It does so where
    (1 + copies) / (elements of such a loop) is at most 1 / (elements of a row): the rule of
    `npyiter_find_buffering_setup` in NumPy's `nditer_constr.c`. An array needs no copy whose rows follow one another.
    """
    if op.kind != "ufunc" or "." in op.name or op.rows < 2 or op.product:
        return 0
    arrays = (*op.operands, *op.results)
    rank = max(len(array.shape) for array in arrays)
    along = [[_along(array, axis, rank) for axis in range(rank)] for array in arrays]
    lengths = [max(one[axis][0] for one in along) for axis in range(rank)]
    order = _order(rank, [tuple(step for _, step in one) for one in along])
    inner, *outer = [axis for axis in reversed(order) if lengths[axis] > 1]
    steps, length, gathered = [one[inner][1] for one in along], lengths[inner], [False] * len(arrays)
    best, fewest = 1 / op.inner_length, 0
    for axis in outer:
        if length >= BUFFER_ELEMENTS:
            break
        gathered = [
            known or one[axis][1] != step * length for known, one, step in zip(gathered, along, steps, strict=True)
        ]
        length *= lengths[axis]
        if any(gathered) and (1 + sum(gathered)) / min(length, BUFFER_ELEMENTS) <= best:
            best, fewest = (1 + sum(gathered)) / min(length, BUFFER_ELEMENTS), sum(gathered)
    return fewest


def _order(rank: int, strides: Sequence[tuple[int, ...]]) -> list[int]:
    return axis_order(rank, strides) if rank > 1 else list(range(rank))


def _along(array: Operand, axis: int, rank: int) -> tuple[int, int]:
    """Return (length, step) of an array along an axis of the loop, which may have more axes than the array."""
    own = axis - (rank - len(array.shape))
    if own < 0 or array.shape[own] == 1:
        return 1, 0
    return array.shape[own], array.strides[own]
