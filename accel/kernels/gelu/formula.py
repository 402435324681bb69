"""The formulas of GELU, what they give in float64, and what every NumPy form does about their edges."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.kernels.arguments import as_floating, as_real, sized

__all__ = ["CUBIC", "SCALE", "Array", "elements", "exact_reference", "ieee_edges", "reference", "set_limit"]

Array = NDArray[Any]

# Python floats, because a NumPy float64 such as np.sqrt(2 / np.pi) would promote float32 arrays to float64 (NEP 50).
SCALE = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def reference(x: ArrayLike) -> NDArray[np.float64]:
    """Return gelu(x) in float64, whatever real numbers come in: the yardstick for the other forms.

    It uses the equal form x / (1 + exp(-2u)), u being the tanh's argument, which cancels no digits for negative x.

    Raises
    ------
    TypeError
        `x` does not hold real numbers.

    >>> reference([-1, 0, 1])
    array([-0.15880801,  0.        ,  0.84119199])
    """
    x = np.asarray(as_real(x, "x"), dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        y = x / (1 + np.exp(-2 * SCALE * (x + CUBIC * x * x * x)))
    return np.where(x == -math.inf, -0.0, y)


def exact_reference(x: ArrayLike) -> NDArray[np.float64]:
    """Return x/2 · (1 + erf(x/√2)) in float64, one element at a time by the C library: the yardstick for `exact`.

    It uses the equal form x/2 · erfc(-x/√2), which cancels no digits for negative x.

    Raises
    ------
    TypeError
        `x` does not hold real numbers.

    >>> exact_reference([-1, 0, 1])
    array([-0.15865525,  0.        ,  0.84134475])
    """
    x = np.asarray(as_real(x, "x"), dtype=np.float64)
    tails = np.fromiter((math.erfc(v) for v in (x * -math.sqrt(0.5)).flat), np.float64, x.size).reshape(x.shape)
    with np.errstate(invalid="ignore"):
        y = 0.5 * x * tails
    return np.where(x == -math.inf, -0.0, y)


@contextmanager
def ieee_edges() -> Iterator[list[str]]:
    """Silence floating-point warnings inside the block; yield a list that fills when an operation was invalid."""
    invalid: list[str] = []
    with np.errstate(over="ignore", under="ignore", invalid="call", call=lambda kind, _: invalid.append(kind)):
        yield invalid


def set_limit(x: Array, y: Array) -> None:
    """Put the limit where x is -inf: the formula's last product is -inf · 0 there, which is NaN and invalid.

    Called only where NumPy reported an invalid operation, so that ordinary inputs pay no extra pass.
    """
    np.copyto(y, -0.0, where=x == -math.inf)


def elements(x: Any) -> tuple[int, int]:
    """Return the number of elements and the bytes of an array of them."""
    x = sized(x, as_floating)
    return x.size, x.size * x.dtype.itemsize
