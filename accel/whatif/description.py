"""Description: the calls of a traced function reduced to what their price depends on, for any machine.

Nothing in it is declared by hand: it is read off the trace. Keys are short because a page holds thousands of them;
`page/pricing.js` reads them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from accel.function_probes import FAMILIES, STREAMING
from accel.prediction import main_dtype, steady_distances, touched_bytes
from accel.pricing import (
    CONFLICT_BYTES,
    COPIES,
    RESERVES,
    SUMMARIES,
    dearer_kinds,
    has_reduced_rows,
    has_scalar,
    is_reduction,
)
from accel.rates import rate_name, row_length, units
from accel.reuse import NEVER
from accel.steps import accesses, buffered_operands
from accel.tracing.operations import Op, Trace
from accel.traffic import stream_shape, traffic

__all__ = ["describe"]

RATED = frozenset(name for family in FAMILIES.values() for name in family)
"""Functions that a calibration measures as a whole."""


def describe(traced: Trace) -> dict[str, Any]:
    """Return what the price of a trace depends on, apart from the machine.

    Calls that differ in nothing that matters stand once, with how many they are.

    Raises
    ------
    ValueError
        If the trace holds calls whose work is not known from shapes and declared costs: their time depends on the
        machine they were traced on.

    >>> import accel, numpy as np
    >>> from accel.whatif import describe
    >>> described = describe(accel.trace(np.add, accel.array_like(8, "float32"), accel.array_like(8, "float32")))
    >>> described["flops"], described["bytes"], [call["n"] for call in described["calls"]]
    (8, 96, ['add'])
    """
    for op in traced.ops:
        if op.opaque or op.kind == "opaque" or (op.name == "einsum" and op.cost.flops) or op.kind == "compiled":
            raise ValueError(
                f"describe() needs calls that can be priced on any machine; {op.call} can only be timed on this one. "
                "Trace arrays made by accel.array_like."
            )
    calls: dict[str, dict[str, Any]] = {}
    for op, distances in zip(traced.ops, steady_distances(traced.ops, limit_bytes=NEVER), strict=True):
        described = _declared(op) if op.kind == "declared" else _call(op, distances)
        described |= {"n": op.name, "d": op.dtype, "w": op.cost.flops + op.cost.special}
        if op.name not in RESERVES:
            described["t"] = _traffic(op, distances)
        same = calls.setdefault(repr(described), described)
        same["x"] = same.get("x", 0) + 1
    cost = traced.cost
    return {
        "calls": list(calls.values()),
        "flops": cost.flops,
        "special": cost.special,
        "bytes": cost.bytes_algorithmic,
        "touched": touched_bytes(traced),
        "dtype": main_dtype(traced),
    }


def _traffic(op: Op, distances: Sequence[float]) -> list[list[Any]]:
    """Return [bytes moved, reuse distance, shape of the stream where it has one of its own] of each operand."""
    parts = traffic(op, [*op.operands, *op.results], distances)
    return [[_number(part.moved_bytes), _number(part.distance_bytes), *filter(None, [part.shape])] for part in parts]


def _number(value: float) -> float | int | None:
    """Return a whole number without its fraction, and None for a distance without end, which JSON cannot hold."""
    if math.isinf(value):
        return None
    return int(value) if value == int(value) else value


def _declared(op: Op) -> dict[str, Any]:
    cost = op.cost
    return {"declared": [cost.flops, cost.bytes_algorithmic, cost.interpreted, cost.calls, cost.special]}


def _call(op: Op, distances: Sequence[float]) -> dict[str, Any]:
    arrays = [*op.operands, *op.results]
    found: dict[str, Any] = {"k": op.kind, "far": _number(max(distances, default=0.0))}
    if op.views:
        found["views"] = op.views
    if op.fresh_bytes:
        found["fresh"] = op.fresh_bytes
    if op.cost.special:
        found["special"] = 1
    name = rate_name(op)
    if name in RATED:
        summed = sum(result.size for result in op.results) if name in SUMMARIES else 0
        found["rate"] = [name, _number(units(op, name)), int(name in STREAMING), summed, row_length(op, name)]
    if arrays:
        found["s"] = stream_shape(op, arrays)
    if op.name in RESERVES:
        found["reserves"] = 1
    elif columns := [
        [int(access.step_bytes % CONFLICT_BYTES == 0), access.array.size]
        for access in accesses(op)
        if access.is_by_column and not op.product
    ]:
        found["columns"] = columns
    return found | ({"product": list(op.product)} if op.product else _elementwise(op))


def _elementwise(op: Op) -> dict[str, Any]:
    """Return what the arithmetic of a ufunc, a reduction, a copy or a cast depends on."""
    found: dict[str, Any] = {"size": max((array.size for array in (*op.operands, *op.results)), default=0)}
    if op.rows != 1:
        found["rows"] = op.rows
    if op.name in COPIES:
        source = op.operands[0].dtype if op.operands else op.dtype
        found["copies"] = [source, op.results[0].dtype if op.results else op.dtype]
    # A copy that casts is measured under a name of its own, which is no reduction either.
    if is_reduction(op.name):
        found["reduces"] = 2 if has_reduced_rows(op) else 1
    elif has_scalar(op):
        found["scalar"] = 1
    if any(access.has_gaps for access in accesses(op)):
        found["gaps"] = 1
    if buffered := buffered_operands(op):
        found["buffered"] = buffered
    if op.kind == "ufunc" and "." not in op.name and (dearer := dearer_kinds(op)):
        found["dearer"] = dearer
    if op.loop_dtypes and op.casts:
        found["casts"] = [[o.dtype, o.size] for o in op.operands if o.dtype not in op.loop_dtypes]
    return found
