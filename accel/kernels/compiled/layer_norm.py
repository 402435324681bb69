"""Layer norm over rows, one row at a time, so that its three passes meet the row in cache."""

from __future__ import annotations

import math
from typing import Any

from accel.kernels.compiled import inlined, reassociated
from accel.kernels.compiled.exponential import multiply_add

__all__ = ["layer_norm", "layer_norm_in_place"]

PIECE = 4096
"""Squares whose sum is kept in the array's own dtype. The sums of pieces are added up in float64, so that the error of
a sum does not grow with the length of the row."""


@inlined
def sum_of(row: Any) -> Any:
    """Return the sum of a row in float64."""
    total = 0.0
    for j in range(row.size):
        total += row[j]
    return total


@inlined
def squares_about(row: Any, centre: Any) -> Any:
    """Return the sum of (row - centre)² in float64."""
    total = 0.0
    for start in range(0, row.size, PIECE):
        piece = row[start : start + PIECE]
        subtotal = row.dtype.type(0)
        for j in range(piece.size):
            deviation = piece[j] - centre
            subtotal += deviation * deviation
        total += subtotal
    return total


@inlined
def normalized(row: Any, scale: Any, shift: Any, epsilon: Any, result: Any) -> None:
    """Fill `result` with the layer norm of one row.

    The mean of float32 numbers, rounded to float32, is off by as much as half its last place. What was rounded away,
    the rest, is taken out of the variance and of the result: deviations are small, so it is not lost on them.
    """
    number = row.dtype.type
    mean = sum_of(row) / row.size
    centre = number(mean)
    rest = mean - centre
    variance = squares_about(row, centre) / row.size - rest * rest
    factor = 1 / math.sqrt(variance + epsilon)
    slope, offset = number(factor), number(-rest * factor)
    for j in range(row.size):
        # A multiply-add by name, lest the rest be added to the centre beforehand and rounded away again.
        result[j] = multiply_add(multiply_add(row[j] - centre, slope, offset), scale[j], shift[j])


@reassociated
def layer_norm(x: Any, scale: Any, shift: Any, epsilon: Any, y: Any) -> None:
    """Fill `y` with the layer norm of each row of `x`; both are (rows, length), and do not overlap."""
    for i in range(x.shape[0]):
        normalized(x[i], scale, shift, epsilon, y[i])


@reassociated
def layer_norm_in_place(y: Any, scale: Any, shift: Any, epsilon: Any) -> None:
    """Replace each row of `y` by its layer norm: one array, so LLVM need not ask whether two of them overlap."""
    for i in range(y.shape[0]):
        row = y[i]
        normalized(row, scale, shift, epsilon, row)
