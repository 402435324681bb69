"""Traffic: what one NumPy call moves for each of its operands, and the shape of the stream that it makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accel.reuse import LINE_BYTES, piece_of
from accel.tracing.operations import Op, Operand

__all__ = ["Traffic", "stream_shape", "traffic"]

GATHERS = frozenset({"take"})
FAR_BYTES = 256
"""Steps beyond this find no prefetched line (`accel.probes.FAR_LINES`)."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that a call moves for one operand."""

    moved_bytes: float
    distance_bytes: float
    shape: str
    """Stream shape where the operand has one of its own; empty where it streams with the others."""


def traffic(op: Op, arrays: Sequence[Operand], distances: Sequence[float]) -> list[Traffic]:
    """Return what each distinct operand moves; one that is updated moves twice."""
    read = {(o.buffer, o.offset_bytes) for o in op.operands}
    written = {(r.buffer, r.offset_bytes) for r in op.results}
    parts: dict[tuple[int, int, tuple[int, ...]], Traffic] = {}
    for index, (array, distance) in enumerate(zip(arrays, distances, strict=True)):
        piece = piece_of(array)
        times = 2 if (array.buffer, array.offset_bytes) in read & written else 1
        shape, moved = "", float(piece.footprint_bytes)
        if op.name in GATHERS and index == (0 if op.operands else -1):
            # One line for each element taken, wherever it lies: the distance is that of the whole source.
            shape, moved = "gather", float(LINE_BYTES) * max((r.size for r in op.results), default=0)
        elif (
            piece.footprint_bytes >= 16 * array.nbytes // np.dtype(array.dtype).itemsize * 4 and not array.is_contiguous
        ):
            far = max(map(abs, array.strides), default=0) >= FAR_BYTES
            shape = "strided far" if far else "strided"
        parts[array.buffer, array.offset_bytes, array.strides] = Traffic(moved * times, distance, shape)
    return list(parts.values())


def stream_shape(op: Op, arrays: Sequence[Operand]) -> str:
    """Name the stream shape of a call by what it reads and writes at full size."""
    full = max(array.nbytes for array in arrays)
    reads = {(o.buffer, o.offset_bytes) for o in op.operands if o.nbytes * 2 > full}
    writes = {(r.buffer, r.offset_bytes) for r in op.results if r.nbytes * 2 > full}
    if not writes:
        return "1R1W" if op.axis is None and op.results and not op.in_place else "reduce"
    if reads & writes:
        return "in place" if len(reads) <= 1 else "in place + read"
    return "1R1W" if len(reads) <= 1 else "2R1W"
