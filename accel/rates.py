"""Rates: under which name a call was measured as a function of its own, and how many units of work it does."""

from __future__ import annotations

from collections.abc import Callable

from accel.function_probes import BY_WORK
from accel.tracing.operations import Op

__all__ = ["rate_name", "row_length", "units"]

SAME_WORK = {
    "argmin": "argmax", "argpartition": "argsort", "place": "putmask", "compress": "take:mask", "extract": "take:mask",
    "vstack": "concatenate", "hstack": "concatenate", "column_stack": "stack:last", "dstack": "stack:last",
    "block": "concatenate", "append": "concatenate", "tile": "concatenate", "kron": "outer", "ones": "zeros",
    "full": "zeros", "unique": "sort", "fft.ifft": "fft.fft", "fft.fft2": "fft.fft", "fft.ifft2": "fft.fft",
    "fft.fftn": "fft.fft", "fft.ifftn": "fft.fft", "fft.irfft": "fft.rfft", "fft.rfft2": "fft.rfft",
    "fft.irfft2": "fft.rfft", "fft.rfftn": "fft.rfft", "linalg.slogdet": "linalg.det",
    "multiply.accumulate": "add.accumulate", "maximum.accumulate": "add.accumulate",
    "minimum.accumulate": "add.accumulate", "fft.fftshift": "roll", "fft.ifftshift": "roll",
    "take_along_axis": "take",
}  # fmt: skip
"""Functions that take about as long as one that was measured."""


def rate_name(op: Op) -> str:
    """Return the name of the measured function whose rate a call has, if it was measured."""
    chosen = _CHOICES.get(op.name)
    if chosen is not None:
        return chosen(op)
    if op.product:
        return _vector_product(op)
    return SAME_WORK.get(op.name, op.name)


def units(op: Op, name: str) -> float:
    """Return the units of work that a rate of this name is for."""
    if name in BY_WORK:
        return float(op.cost.flops)
    if op.product:
        batch, m, k, n = op.product
        return float(batch * m * k * n)
    if name in ("take", "take:rows"):
        return float(max((result.size for result in op.results), default=0))
    if name == "put":
        return float(max((operand.size for operand in op.operands), default=0))
    return float(max((array.size for array in (*op.operands, *op.results)), default=0))


def row_length(op: Op, name: str) -> int:
    """Return the elements in each row that a call goes through one by one; 0 where it does not go by rows.

    A matrix times a vector goes along the axis that is contiguous in memory, `argmax` along its axis, `einsum` with
    equal last indices along the last.
    """
    if name in ("matvec", "vecmat"):
        matrix = max(op.operands, key=lambda operand: operand.size)
        return min(zip(map(abs, matrix.strides), matrix.shape, strict=True), default=(0, 0))[1]
    if name == "argmax" and op.operands and op.axis:
        return op.operands[0].shape[op.axis[0]]
    if name == "einsum:rows" and op.operands and op.operands[0].shape:
        return op.operands[0].shape[-1]
    return 0


def _taken(op: Op) -> str:
    """Tell a mask, whole rows, and single elements apart."""
    if any(operand.dtype == "bool" for operand in op.operands[1:]):
        return "take:mask"
    index = max((operand.size for operand in op.operands[1:]), default=0)
    return "take:rows" if sum(r.size for r in op.results) >= 8 * index else "take"


def _put(op: Op) -> str:
    return "put:mask" if any(operand.dtype == "bool" for operand in op.operands) else "put"


def _stacked(op: Op) -> str:
    rank = len(op.operands[0].shape) if op.operands else 0
    return "stack:last" if op.axis == (rank,) else "concatenate"


def _norm(op: Op) -> str:
    whole = op.axis is None and bool(op.operands) and op.operands[0].is_contiguous
    return "linalg.norm" if whole else ""


def _summed_products(op: Op) -> str:
    """Sort `einsum` calls by their innermost loop: a plain sum, dot products of rows, or rows added to rows."""
    if len(op.operands) < 2:
        return "einsum:sum"
    written = str(op.scalars[0].value) if op.scalars else ""
    inputs, _, output = written.replace(" ", "").partition("->")
    last = {part[-1:] for part in inputs.split(",")}
    return "einsum:rows" if len(last) == 1 and not last & set(output) else "einsum:axpy"


def _vector_product(op: Op) -> str:
    """Name a product with a vector: it is bound by memory, as no matrix product is."""
    assert op.product is not None
    batch, m, k, n = op.product
    if batch > 1 or k == 1:
        return ""
    if m == n == 1:
        return "dot"
    if min(m, n) > 1:
        return ""
    matrix = max(op.operands, key=lambda operand: operand.size)
    by_rows = len(matrix.strides) < 2 or abs(matrix.strides[-1]) <= abs(matrix.strides[-2])
    return "matvec" if (n == 1) == by_rows else "vecmat"


_CHOICES: dict[str, Callable[[Op], str]] = {
    "take": _taken,
    "put": _put,
    "stack": _stacked,
    "linalg.norm": _norm,
    "einsum": _summed_products,
}
"""Functions whose cost depends on how they are called."""
