"""Operands: the input and the result of an elementwise kernel, arranged to be gone through in memory order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from accel.kernels.arguments import overlaps, result_array, same_memory
from accel.kernels.blocks import Index, block_count, blocks, in_memory_order
from accel.kernels.gelu.formula import Array
from accel.kernels.threads import run_parts, spans

__all__ = ["Operands", "columns"]


@dataclass(frozen=True)
class Operands:
    """Where a kernel reads and where it writes.

    Writing an element of `target` changes no other element of `source` than the same one, and that only if
    `in_one_place`.
    """

    result: Array
    """What the kernel returns: `out`, or a new array."""
    source: Array
    """The input, or a copy of it, with its axes from slowest to fastest; one-dimensional where possible."""
    target: Array
    """The result, its axes in the same order."""
    in_one_place: bool
    """Whether each element of `target` lies exactly where the same element of `source` does."""

    @classmethod
    def of(cls, x: Array, out: Array | None, *, reorder: bool = True) -> Operands:
        """Check `out` for an input `x`, or make a result; copy `x` where writing the result would change what is left.

        Axes stay as they are unless `reorder`.
        """
        y = result_array(out, x.shape, x.dtype, x)
        overlapping = overlaps(x, out)
        in_one_place = overlapping and same_memory(x, y)
        if overlapping and not in_one_place:
            x = x.copy()
        return cls(y, *(in_memory_order(x, y) if reorder else (x, y)), in_one_place)

    def run(self, part: Callable[[Iterator[Index]], None], size: int, threads: int) -> None:
        """Cut both into blocks of `size` elements and call `part` with the indices of some, for each thread once."""
        shape = self.target.shape
        count = block_count(shape, size) if self.target.size else 0
        run_parts(part, [(islice(blocks(shape, size), *span),) for span in spans(count, threads)], threads)


def columns(cut: Index, dimensions: int) -> int | slice:
    """Return which part of the last axis a block has."""
    return cut[-1] if len(cut) == dimensions else slice(None)
