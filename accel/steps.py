"""Steps: how the innermost loop of a call steps through each array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel.reuse import LINE_BYTES
from accel.tracing.layout import axis_order
from accel.tracing.operations import Op, Operand

__all__ = ["Access", "accesses"]


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


def _order(rank: int, strides: Sequence[tuple[int, ...]]) -> list[int]:
    return axis_order(rank, strides) if rank > 1 else list(range(rank))


def _along(array: Operand, axis: int, rank: int) -> tuple[int, int]:
    """Return (length, step) of an array along an axis of the loop, which may have more axes than the array."""
    own = axis - (rank - len(array.shape))
    if own < 0 or array.shape[own] == 1:
        return 1, 0
    return array.shape[own], array.strides[own]
