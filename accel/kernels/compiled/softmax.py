"""Softmax over rows, one row at a time, so that its three passes meet the row in cache."""

from __future__ import annotations

from typing import Any

from llvmlite import binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from accel.kernels.compiled import inlined, reassociated
from accel.kernels.compiled.exponential import exp

__all__ = ["softmax", "softmax_in_place"]

FIRST_WITH_MAXIMUM = (17, 0, 0)
"""The LLVM that first writes x86 code for its own maximum; an older one, as in Numba 0.61, ends the process."""

PIECE = 4096
"""Elements whose sum is kept in the array's own dtype. The sums of pieces are added up in float64, so that the error
of a sum does not grow with the length of the row."""


@intrinsic
def larger(typing_context: Any, a: types.Float, b: types.Float) -> Any:
    """Return the larger of two floats, NaN if one of them is.

    An operation that LLVM knows, unlike ``a if a > b else b``: only then does a loop of it become vector code. Which
    zero is the larger one does not matter.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        if llvm.llvm_version_info < FIRST_WITH_MAXIMUM:
            first, second = arguments
            stays = builder.or_(builder.fcmp_ordered(">", first, second), builder.fcmp_unordered("uno", first, first))
            return builder.select(stays, first, second)
        number = context.get_value_type(signature.return_type)
        name = f"llvm.maximum.f{signature.return_type.bitwidth}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(number, [number] * 2), name)
        return builder.call(function, arguments, fastmath=("nsz",))

    return a(a, a), generate


@inlined
def largest(row: Any) -> Any:
    """Return the largest element of a row."""
    most: Any = row[0]
    for j in range(row.size):
        most = larger(most, row[j])
    return most


@inlined
def exponentials(row: Any, most: Any, result: Any) -> Any:
    """Fill `result` with exp(row - most) and return its sum."""
    total = 0.0
    for start in range(0, row.size, PIECE):
        source, target = row[start : start + PIECE], result[start : start + PIECE]
        subtotal = row.dtype.type(0)
        for j in range(source.size):
            power = exp(source[j] - most)
            target[j] = power
            subtotal += power
        total += subtotal
    return total


@inlined
def scale(row: Any, factor: Any) -> None:
    """Multiply a row by a number."""
    for j in range(row.size):
        row[j] *= factor


@reassociated
def softmax(x: Any, y: Any) -> None:
    """Fill `y` with the softmax of each row of `x`; both are (rows, length), and do not overlap."""
    for i in range(x.shape[0]):
        total = exponentials(x[i], largest(x[i]), y[i])
        scale(y[i], x.dtype.type(1 / total))


@reassociated
def softmax_in_place(y: Any) -> None:
    """Replace each row of `y` by its softmax: one array, so LLVM need not ask whether two of them overlap."""
    for i in range(y.shape[0]):
        row = y[i]
        total = exponentials(row, largest(row), row)
        scale(row, y.dtype.type(1 / total))
