"""Operation probes: what single NumPy operations cost on operands in L1: the call, an element, a row."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from accel.kernels.blocks import CACHE_LINE, aligned_empty
from accel.machine import RAMP_ELEMENTS

__all__ = [
    "BINARY",
    "ROWS",
    "TINY_ELEMENTS",
    "UNARY",
    "Batch",
    "Key",
    "aligned",
    "branching_batch",
    "call_batch",
    "cast_batch",
    "element_counts",
    "interpreter_batch",
    "operation_batch",
    "other_dtype_batch",
    "power_batch",
    "row_batch",
    "strided_batch",
    "values",
]

Key = tuple[Any, ...]
Batch = dict[Key, Callable[[], Any]]

KIB = 2**10
BINARY = (
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "greater", "arctan2", "hypot", "fmod",
    "remainder", "floor_divide", "logaddexp",
)  # fmt: skip
UNARY = (
    "negative", "absolute", "sqrt", "square", "exp", "log", "tanh", "sin", "cos", "rint", "expm1", "log1p", "exp2",
    "log2", "log10", "reciprocal", "cbrt", "arctan", "arcsin", "tan", "sinh", "floor", "sign", "isnan", "isfinite",
)  # fmt: skip
PREDICATES = frozenset({"greater", "isnan", "isfinite", "logical_and", "logical_not"})
"""Ufuncs whose result is a bool."""
OTHER_DTYPES = {
    "float16": ("add", "multiply", "exp", "add.reduce"),
    "int32": ("add", "multiply", "divide", "floor_divide", "remainder", "greater", "maximum", "bitwise_and",
              "add.reduce"),
    "int64": ("add", "multiply", "divide", "floor_divide", "remainder", "greater", "maximum", "bitwise_and",
              "left_shift", "absolute", "add.reduce"),
    "uint8": ("add", "multiply", "greater", "add.reduce"),
    "bool": ("logical_and", "logical_not", "logical_and.reduce", "logical_or.reduce", "add.reduce"),
    "complex128": ("add", "multiply", "divide", "absolute", "exp", "add.reduce"),
}  # fmt: skip
"""Operations measured with arrays of dtypes other than the two that most programs compute in."""
CASTS = (
    ("float32", "float64"), ("float64", "float32"), ("int64", "float64"), ("int32", "float64"), ("float16", "float32"),
    ("float32", "float16"), ("int32", "float32"), ("int64", "float32"), ("float32", "int32"), ("float64", "int64"),
    ("uint8", "float32"), ("float32", "uint8"), ("bool", "float32"), ("int64", "int32"), ("int32", "int64"),
    ("float64", "complex128"), ("bool", "int64"), ("uint8", "uint64"),
)  # fmt: skip
REDUCTIONS = ("add", "maximum")
REDUCED_OPERANDS = 3
"""A reduction reads one array where other operations have three: it may be longer, and the call shows less."""
TINY_ELEMENTS = 16
"""Operands so small that the call is all there is to see."""
POWER_ELEMENTS = 64 * KIB
"""More than a branch predictor remembers."""
BRANCHING_ELEMENTS = 32 * KIB
BRANCHING = ("cbrt", "log1p", "expm1", "logaddexp", "fmod", "remainder", "floor_divide")
"""Ufuncs with no vector loop, whose scalar one branches on the value."""
OPERAND_BYTES = 8 * KIB
"""Three operands of this size fit any L1, and the cost of an element stands out from that of the call."""
DISTINCT = 64 * KIB
"""Values of a long array before they repeat: random ones take time to make."""
ROWS = (64, 16)
"""An array in short rows: it gives the cost of starting a row."""
BUFFERED_ROWS = 8
BUFFERED_BYTES = (256, 2048)
"""Rows that NumPy's iterator gathers in a buffer, and their lengths: the slope is what an element costs in them."""


def aligned(count: int, dtype: str = "float32", alignment: int = CACHE_LINE) -> np.ndarray:
    """Return `count` ones whose first byte lies on a cache-line boundary."""
    array = aligned_empty(count, dtype, alignment)
    array.fill(1)
    return array


def values(count: int, dtype: str) -> np.ndarray:
    """Return values in [0.5, 1.5): inside every function's domain but that of `arcsin`, away from special cases."""
    array = aligned(count, dtype)
    array[:] = np.resize(np.random.default_rng(count).random(min(count, DISTINCT)) + 0.5, count)
    return array


def element_counts(dtype: str) -> tuple[int, int, int]:
    """Return the operand sizes, in elements, that give the costs of a call, of getting up to speed, of an element."""
    return TINY_ELEMENTS, RAMP_ELEMENTS, OPERAND_BYTES // np.dtype(dtype).itemsize


def operation_batch(operations: tuple[str, ...], dtype: str) -> Batch:
    """Ufuncs on operands in L1, at two sizes; binary ones with an array and with a scalar operand."""
    batch: Batch = {}
    scalar = np.dtype(dtype).type(3.0)
    for n in element_counts(dtype):
        a, b = values(n, dtype), values(n, dtype)
        for name in operations:
            ufunc = getattr(np, name)
            out = np.empty(n, bool if name in PREDICATES else dtype)
            if name in UNARY:
                operand = a / 2 if name == "arcsin" else a
                batch["operation", name, dtype, n] = partial(ufunc, operand, out=out)
                continue
            batch["operation", name, dtype, n] = partial(ufunc, a, b, out=out)
            if name != "power":
                batch["operation", f"{name}:scalar", dtype, n] = partial(ufunc, a, scalar, out=out)
    return batch


def power_batch(dtype: str) -> Batch:
    """Cubes of values of either sign: its branches follow the sign, and a short array would let them be learned."""
    batch: Batch = {}
    for n in (TINY_ELEMENTS, POWER_ELEMENTS):
        signed = np.random.default_rng(n).standard_normal(n).astype(dtype)
        out, cube = np.empty(n, dtype), np.dtype(dtype).type(3.0)
        batch["operation", "power:scalar", dtype, n] = partial(np.power, signed, cube, out=out)
    return batch


def row_batch(dtype: str) -> Batch:
    """Reductions and broadcasts: whole arrays and short rows."""
    batch: Batch = {}
    height, width = ROWS
    *fewer, many = element_counts(dtype)
    for n in (*fewer, REDUCED_OPERANDS * many):
        a = values(n, dtype)
        for name in REDUCTIONS:
            ufunc = getattr(np, name)
            batch["operation", f"{name}.reduce", dtype, n] = partial(ufunc.reduce, a)
    matrix = values(height * width, dtype).reshape(height, width)
    row, column, out = values(width, dtype), values(height, dtype).reshape(height, 1), np.empty((height, width), dtype)
    sums, totals = np.empty(height, dtype), np.empty(width, dtype)
    for name in REDUCTIONS:
        ufunc = getattr(np, name)
        batch["rows", f"{name}.reduce", dtype] = partial(ufunc.reduce, matrix, axis=1, out=sums)
        batch["rows", f"{name}.reduce:axis0", dtype] = partial(ufunc.reduce, matrix, axis=0, out=totals)
    for name in ("add", "multiply"):
        ufunc = getattr(np, name)
        batch["rows", name, dtype] = partial(ufunc, matrix, row, out=out)
        batch["rows", f"{name}:scalar", dtype] = partial(ufunc, matrix, column, out=out)
    for nbytes in BUFFERED_BYTES:
        shape = BUFFERED_ROWS, nbytes // np.dtype(dtype).itemsize
        n = math.prod(shape)
        matrix, out = values(n, dtype).reshape(shape), np.empty(shape, dtype)
        batch["operation", "add:buffered", dtype, n] = partial(np.add, matrix, matrix[0].copy(), out=out)
    return batch


def branching_batch(dtype: str) -> Batch:
    """Ufuncs whose loops branch on each value, on arrays too long for the branches to be learned."""
    batch: Batch = {}
    for name in BRANCHING:
        function = getattr(np, name)
        for n in (TINY_ELEMENTS, BRANCHING_ELEMENTS):
            operands = [values(n + i, dtype)[:n] for i in range(function.nin)]
            out = np.empty(n, dtype)
            batch["operation", f"{name}:long", dtype, n] = partial(function, *operands, out=out)
    return batch


def strided_batch(dtype: str) -> Batch:
    """Operands with gaps, which no vector loop takes."""
    batch: Batch = {}
    for n in element_counts(dtype):
        a, b, out = (values(2 * n, dtype)[::2] for _ in range(3))
        for name in ("add", "multiply"):
            batch["operation", f"{name}:strided", dtype, n] = partial(getattr(np, name), a, b, out=out)
    return batch


def other_dtype_batch(dtype: str) -> Batch:
    """Whole numbers, truth values, complex numbers, half precision."""
    batch: Batch = {}
    for n in element_counts(dtype):
        for name in OTHER_DTYPES[dtype]:
            ufunc, _, method = name.partition(".")
            a = np.zeros(n, dtype) if ufunc == "logical_or" else aligned(n, dtype)  # what ends no search early
            function = getattr(np, ufunc)
            operands = (a,) if method or function.nin == 1 else (a, a)
            run = function.reduce if method else function
            batch["operation", name, dtype, n] = partial(run, *operands)
            if not method:
                batch["operation", name, dtype, n] = partial(run, *operands, out=function(*operands))
    return batch


def cast_batch() -> Batch:
    """Conversions and copies."""
    batch: Batch = {}
    for n in (TINY_ELEMENTS, OPERAND_BYTES // 8):
        for source, target in CASTS:
            a, out = aligned(n, source), np.empty(n, target)
            batch["operation", f"cast:{target}", source, n] = partial(np.copyto, out, a, casting="unsafe")
        for dtype in ("float32", "float64"):
            a, out = aligned(n, dtype), np.empty(n, dtype)
            batch["operation", "copy", dtype, n] = partial(np.copyto, out, a)
            batch["operation", "copy:reversed", dtype, n] = partial(np.copyto, out, a[::-1])
    return batch


def call_batch() -> Batch:
    """Functions and methods that wrap a ufunc or do little of their own, on arrays where the wrapping is all."""
    x, y = aligned(TINY_ELEMENTS), aligned(TINY_ELEMENTS)
    matrix, order, wide = aligned(TINY_ELEMENTS).reshape(4, 4), np.arange(TINY_ELEMENTS), aligned(TINY_ELEMENTS, "f8")
    row, two, truth = aligned(4), np.float32(2), x > 0
    return {
        ("call", "multiply", "plain"): lambda: x * y,
        ("call", "multiply", "number"): lambda: x * 2.0,
        ("call", "multiply", "scalar"): lambda: x * two,
        ("call", "multiply", "broadcast"): lambda: matrix * row,
        ("call", "multiply", "cast"): lambda: x * wide,
        ("call", "add.reduce", "function"): partial(np.sum, x),
        ("call", "add.reduce", "method"): x.sum,
        ("call", "maximum.reduce", "function"): partial(np.max, x),
        ("call", "maximum.reduce", "method"): x.max,
        ("call", "logical_and.reduce", "method"): truth.all,
        ("call", "mean", "function"): partial(np.mean, x),
        ("call", "mean", "method"): x.mean,
        ("call", "matmul", "ufunc"): partial(np.matmul, matrix, matrix),
        ("call", "dot", "function"): partial(np.dot, x, y),
        ("call", "astype", "method"): partial(x.astype, np.float64),
        ("call", "copy", "method"): x.copy,
        ("call", "copy", "function"): partial(np.copy, x),
        ("call", "take", "method"): lambda: x[order],
        ("call", "argmax", "method"): x.argmax,
        ("call", "argmax", "function"): partial(np.argmax, x),
        ("call", "clip", "method"): lambda: x.clip(0.7, 1.2),
        ("call", "sort", "method"): y.sort,
        ("call", "copyto", "method"): partial(x.__setitem__, slice(None), y),
        ("call", "fill", "method"): partial(x.__setitem__, slice(None), 1),
        ("call", "empty", "function"): partial(np.empty_like, x),
    }


def interpreter_batch() -> Batch:
    """Step through the loops of a textbook matrix product in Python."""
    n = 8
    a, b = aligned(n * n).reshape(n, n), aligned(n * n).reshape(n, n)

    def loop() -> Any:
        total = np.float32(0)
        for i in range(n):
            for j in range(n):
                for k in range(n):
                    total += a[i, k] * b[k, j]
        return total

    return {("interpreter", n**3): loop, ("python call",): lambda: None, ("view",): lambda: a[1:5]}
