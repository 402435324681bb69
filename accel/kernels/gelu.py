"""GELU, the Gaussian error linear unit in its tanh form, computed in ever fewer passes over memory.

    gelu(x) = x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))

Source: Hendrycks and Gimpel, arXiv 1606.08415. All forms take float16, float32 or float64 arrays of any shape, strides
and byte order, keep the dtype, never change their input and never warn. They agree on the edges: gelu(inf) = inf,
gelu(-inf) = -0.0, gelu(±0) = ±0, NaN stays NaN, and overflow on the way to the tanh is harmless, since
tanh(±inf) = ±1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost, costs
from accel.elision import ELISION_BYTES, binary_elision
from accel.kernels.arguments import as_floating, as_real, overlaps, positive_integer, result_array, sized
from accel.kernels.blocks import BLOCK_SIZE, block_count, blocks, in_memory_order

__all__ = ["blocked", "expression", "in_place", "reference", "unfused"]

Array = NDArray[Any]

# Python floats, because a NumPy float64 such as np.sqrt(2 / np.pi) would promote float32 arrays to float64 (NEP 50).
SCALE = math.sqrt(2 / math.pi)
CUBIC = 0.044715


@contextmanager
def _ieee_edges() -> Iterator[list[str]]:
    """Silence floating-point warnings inside the block; yield a list that fills when an operation was invalid."""
    invalid: list[str] = []
    with np.errstate(over="ignore", under="ignore", invalid="call", call=lambda kind, _: invalid.append(kind)):
        yield invalid


def _set_limit(x: Array, y: Array) -> None:
    """Put the limit where x is -inf: the formula's last product is -inf · 0 there, which is NaN and invalid.

    Called only where NumPy reported an invalid operation, so that ordinary inputs pay no extra pass.
    """
    np.copyto(y, -0.0, where=x == -math.inf)


def _elements(x: Any) -> tuple[int, int]:
    """Return the number of elements and the bytes of an array of them."""
    x = sized(x, as_floating)
    return x.size, x.size * x.dtype.itemsize


def _textbook_cost(x: Any, allocated: int) -> Cost:
    """Eight calls: six read one array, two read two. `allocated` of their results are new memory."""
    n, array = _elements(x)
    return Cost(
        flops=6 * n,
        special=2 * n,
        bytes_read=10 * array,
        bytes_written=8 * array,
        bytes_write_allocate=allocated * array,
        calls=8,
    )


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
    with _ieee_edges() as invalid:
        cubed = x**3
        scaled = CUBIC * cubed
        inner = x + scaled
        argument = SCALE * inner
        curve = np.tanh(argument)
        gate = 1.0 + curve
        half = 0.5 * x
        y = np.asanyarray(half * gate)
    if invalid:
        _set_limit(x, y)
    return y


def _expression_cost(x: Any) -> Cost:
    """Of the eight results, those that an operator writes over a dying temporary need no new memory."""
    x = sized(x, as_floating)
    _, array = _elements(x)
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
    with _ieee_edges() as invalid:
        y = np.asanyarray(0.5 * x * (1.0 + np.tanh(SCALE * (x + CUBIC * x**3))))
    if invalid:
        _set_limit(x, y)
    return y


def _eight_passes(x: Array, y: Array, invalid: list[str]) -> None:
    """Overwrite `y` with gelu(x) inside an `_ieee_edges` block; the two must not overlap.

    The tanh's argument is factored as (√(2/π) · 0.044715 · x² + √(2/π)) · x: no power, and no array but `y`.
    """
    np.multiply(x, x, out=y)
    np.multiply(y, SCALE * CUBIC, out=y)
    np.add(y, SCALE, out=y)
    np.multiply(y, x, out=y)
    np.tanh(y, out=y)
    np.multiply(y, 0.5, out=y)  # halving the gate, not the product: 2·x would overflow for the largest x
    np.add(y, 0.5, out=y)
    np.multiply(y, x, out=y)
    if invalid:
        _set_limit(x, y)
        invalid.clear()


def _in_place_cost(x: Any, *, out: Any = None) -> Cost:  # noqa: ARG001
    """Eight calls, six reading one array and two reading two; only the first writes to memory it does not read."""
    n, array = _elements(x)
    return Cost(
        flops=7 * n,
        special=n,
        bytes_read=10 * array,
        bytes_written=8 * array,
        bytes_write_allocate=array,
        calls=8,
    )


@costs(_in_place_cost)
def in_place(x: ArrayLike, *, out: Array | None = None) -> Array:
    """Return gelu(x), computed by ``out=`` in the result array alone: eight passes and no temporary.

    Parameters
    ----------
    x : array_like
        float16, float32 or float64, any shape.
    out : ndarray, optional
        Where to put the result: of the shape and dtype of `x`. If it overlaps `x`, the kernel first copies `x`, which
        the cost does not count; `blocked` needs no such copy for ``out=x``.

    Returns
    -------
    ndarray
        Shape and dtype of `x`; `out` itself where given. Within 2e-6 of `reference` over [-12, 12] in float32.

    Raises
    ------
    TypeError
        `x` of any other dtype; `out` that is not an array or of another dtype.
    ValueError
        `out` of another shape, read-only, or whose elements share memory.

    >>> x = np.array([-1, 0, 1], dtype=np.float32)
    >>> in_place(x)
    array([-0.158808,  0.      ,  0.841192], dtype=float32)
    >>> in_place.cost(x).bytes_write_allocate, unfused.cost(x).bytes_write_allocate
    (12, 96)
    """
    x = as_floating(x)
    y = result_array(out, x.shape, x.dtype, x)
    with _ieee_edges() as invalid:
        _eight_passes(x.copy() if overlaps(x, out) else x, y, invalid)
    return y


def _blocked_cost(x: Any, *, out: Any = None, block_size: SupportsIndex | None = None) -> Cost:
    """Cost of `in_place`, in eight calls a block."""
    x = sized(x, as_floating)
    size = BLOCK_SIZE if block_size is None else positive_integer(block_size, "block_size")
    shape = (x.size,)
    if isinstance(x, np.ndarray):
        shape = in_memory_order(x, x if out is None else out)[0].shape
    whole = _in_place_cost(x)
    return whole + Cost(calls=8 * block_count(shape, size) - whole.calls) if x.size else Cost()


@costs(_blocked_cost)
def blocked(x: ArrayLike, *, out: Array | None = None, block_size: SupportsIndex | None = None) -> Array:
    """Return gelu(x), computed as `in_place` does but one block at a time, so that seven of eight passes hit the cache.

    Parameters
    ----------
    x : array_like
        float16, float32 or float64, any shape.
    out : ndarray, optional
        Where to put the result: of the shape and dtype of `x`. ``out=x`` copies one block at a time; for any other
        overlap the kernel first copies `x`. The cost counts neither copy.
    block_size : int, optional
        Elements in a block, 65,536 by default. Too small and dispatch overhead dominates; too large and the block
        leaves the cache before the next pass.

    Returns
    -------
    ndarray
        Shape and dtype of `x`; `out` itself where given. Within 2e-6 of `reference` over [-12, 12] in float32.

    Raises
    ------
    TypeError
        `x` of any other dtype; `out` that is not an array or of another dtype; `block_size` that is not an int.
    ValueError
        `out` of another shape, read-only, or whose elements share memory; `block_size` below 1.

    >>> x = np.array([-1, 0, 1], dtype=np.float32)
    >>> blocked(x)
    array([-0.158808,  0.      ,  0.841192], dtype=float32)
    >>> blocked.cost(x, block_size=2).calls
    16
    """
    size = BLOCK_SIZE if block_size is None else positive_integer(block_size, "block_size")
    x = as_floating(x)
    y = result_array(out, x.shape, x.dtype, x)
    in_one_place = overlaps(x, out) and _same_memory(x, y)
    if overlaps(x, out) and not in_one_place:
        x = x.copy()
    source, target = in_memory_order(x, y)
    with _ieee_edges() as invalid:
        for block in blocks(target.shape, size):
            _eight_passes(source[block].copy() if in_one_place else source[block], target[block], invalid)
    return y


def _same_memory(x: Array, y: Array) -> bool:
    """Whether each element of `y` lies exactly where the same element of `x` does."""
    starts = (array.__array_interface__["data"][0] for array in (x, y))
    return len(set(starts)) == 1 and x.strides == y.strides
