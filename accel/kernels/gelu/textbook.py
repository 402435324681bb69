"""GELU as it is usually written: a NumPy call, a pass and a new array for every operation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from accel.cost import Cost, costs
from accel.elision import ELISION_BYTES, binary_elision
from accel.kernels.arguments import as_floating, sized
from accel.kernels.gelu.formula import CUBIC, SCALE, Array, elements, ieee_edges, set_limit

__all__ = ["expression", "unfused"]


def _textbook_cost(x: Any, allocated: int) -> Cost:
    """Eight calls: six read one array, two read two. `allocated` of their results are new memory."""
    n, array = elements(x)
    return Cost(
        flops=6 * n,
        special=2 * n,
        bytes_read=10 * array,
        bytes_written=8 * array,
        bytes_write_allocate=allocated * array,
        calls=8,
    )


@costs(lambda x: _textbook_cost(x, allocated=8))
def unfused(x: ArrayLike) -> Array:
    """Return gelu(x) as a beginner writes it: one named temporary array a step, and ``x**3``.

    Eight passes, eight new arrays, all alive at the end. `numpy.power` by 3 is as slow as a tanh or slower.

    Parameters
    ----------
    x : array_like
        float16, float32 or float64, any shape.

    Returns
    -------
    ndarray
        Shape and dtype of `x`.

    Raises
    ------
    TypeError
        Any other dtype.

    >>> unfused(np.array([-1, 0, 1], dtype=np.float32))
    array([-0.158808,  0.      ,  0.841192], dtype=float32)
    """
    x = as_floating(x)
    with ieee_edges() as invalid:
        cubed = x**3
        scaled = CUBIC * cubed
        inner = x + scaled
        argument = SCALE * inner
        curve = np.tanh(argument)
        gate = 1.0 + curve
        half = 0.5 * x
        y = np.asanyarray(half * gate)
    if invalid:
        set_limit(x, y)
    return y


def _expression_cost(x: Any) -> Cost:
    """Of the eight results, those that an operator writes over a dying temporary need no new memory."""
    x = sized(x, as_floating)
    _, array = elements(x)
    reused = 0
    if array >= ELISION_BYTES:
        (left_factor, right_factor), (_, right_addend) = binary_elision("mul"), binary_elision("add")
        reused = right_addend + left_factor  # x + (…) and (0.5 * x) * (…)
        if x.dtype.itemsize == 8:  # NumPy takes a Python float for a float64, which does not fit into a dying float32
            reused += 2 * right_factor + right_addend  # 0.044… * (…), 0.79… * (…) and 1.0 + (…)
    return _textbook_cost(x, allocated=8 - reused)


@costs(_expression_cost)
def expression(x: ArrayLike) -> Array:
    """Return gelu(x) as one expression with ``x**3``, as textbooks print it.

    NumPy does not fuse it: the eight calls and passes are those of `unfused`. But temporaries die at once, so only
    three arrays are alive at the peak, and from 256 KiB on NumPy writes some results over a dying temporary (see
    `accel.elision`): two of the eight in float32, five in float64.

    Parameters, errors: see `unfused`.

    >>> expression(np.array([-1, 0, 1], dtype=np.float32))
    array([-0.158808,  0.      ,  0.841192], dtype=float32)
    """
    x = as_floating(x)
    with ieee_edges() as invalid:
        y = np.asanyarray(0.5 * x * (1.0 + np.tanh(SCALE * (x + CUBIC * x**3))))
    if invalid:
        set_limit(x, y)
    return y
