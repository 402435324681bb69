"""GELU in NumPy without temporaries: in eight passes over the whole array, or seven over one block after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from accel.cost import Cost, costs
from accel.kernels.arguments import as_floating, overlaps, positive_integer, result_array, sized
from accel.kernels.blocks import BLOCK_SIZE, Index, block_count, in_memory_order
from accel.kernels.gelu.formula import CUBIC, SCALE, Array, elements, ieee_edges, set_limit
from accel.kernels.gelu.operands import Operands, columns
from accel.kernels.threads import thread_count

__all__ = ["bias_blocked", "blocked", "in_place"]


def _eight_passes(x: Array, y: Array, invalid: list[str]) -> None:
    """Overwrite `y` with gelu(x) inside an `ieee_edges` block; the two must not overlap.

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
        set_limit(x, y)
        invalid.clear()


def _seven_passes(x: Array, y: Array, invalid: list[str]) -> None:
    """Overwrite `y` with gelu(x) inside an `ieee_edges` block; the two must not overlap.

    x/2 · (1 + tanh u) = x / (1 + exp(-2u)), one call less and a cheaper one. For large negative x the exponential is
    inf, and the quotient -0.0, as it should be.
    """
    np.multiply(x, x, out=y)
    np.multiply(y, -2 * SCALE * CUBIC, out=y)
    np.add(y, -2 * SCALE, out=y)
    np.multiply(y, x, out=y)
    np.exp(y, out=y)
    np.add(y, 1.0, out=y)
    np.divide(x, y, out=y)
    if invalid:
        set_limit(x, y)
        invalid.clear()


def _in_place_cost(x: Any, *, out: Any = None) -> Cost:  # noqa: ARG001
    """Eight calls, six reading one array and two reading two; only the first writes to memory it does not read."""
    n, array = elements(x)
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
    >>> from accel.kernels import gelu
    >>> gelu.in_place.cost(x).bytes_write_allocate, gelu.unfused.cost(x).bytes_write_allocate
    (12, 96)
    """
    x = as_floating(x)
    y = result_array(out, x.shape, x.dtype, x)
    with ieee_edges() as invalid:
        _eight_passes(x.copy() if overlaps(x, out) else x, y, invalid)
    return y


def _blocked_cost(
    x: Any, *, out: Any = None, block_size: SupportsIndex | None = None, threads: SupportsIndex = 1
) -> Cost:
    """Seven calls a block, five of one array and two of two; only the first writes to memory it does not read."""
    x = sized(x, as_floating)
    size = BLOCK_SIZE if block_size is None else positive_integer(block_size, "block_size")
    thread_count(threads)
    shape = (x.size,)
    if isinstance(x, np.ndarray):
        shape = in_memory_order(x, x if out is None else out)[0].shape
    n, array = elements(x)
    return Cost(
        flops=6 * n,
        special=n,
        bytes_read=9 * array,
        bytes_written=7 * array,
        bytes_write_allocate=array,
        calls=7 * block_count(shape, size) if n else 0,
    )


@costs(_blocked_cost)
def blocked(
    x: ArrayLike, *, out: Array | None = None, block_size: SupportsIndex | None = None, threads: SupportsIndex = 1
) -> Array:
    """Return gelu(x) by seven NumPy calls on one block at a time, so that six of seven passes hit the cache.

    The form is x / (1 + exp(-2u)), u being the tanh's argument: NumPy's exp takes half as long as its tanh where
    vectors have 256 bits (AVX2), and is vector code, too, where they have 512. `in_place` has the tanh.

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
    threads : int, optional
        How many threads share the blocks, 1 by default.

    Returns
    -------
    ndarray
        Shape and dtype of `x`; `out` itself where given. Within 1e-6 of `reference` over [-12, 12] in float32, within
        4e-15 in float64.

    Raises
    ------
    TypeError
        `x` of any other dtype; `out` that is not an array or of another dtype; `block_size` or `threads` that is not
        an int.
    ValueError
        `out` of another shape, read-only, or whose elements share memory; `block_size` or `threads` below 1.

    >>> x = np.array([-1, 0, 1], dtype=np.float32)
    >>> blocked(x)
    array([-0.158808,  0.      ,  0.841192], dtype=float32)
    >>> blocked.cost(x, block_size=2).calls
    14
    """
    size = BLOCK_SIZE if block_size is None else positive_integer(block_size, "block_size")
    threads = thread_count(threads)
    operands = Operands.of(as_floating(x), out)
    source, target = operands.source, operands.target

    def run(cuts: Iterator[Index]) -> None:
        with ieee_edges() as invalid:
            for cut in cuts:
                _seven_passes(source[cut].copy() if operands.in_one_place else source[cut], target[cut], invalid)

    operands.run(run, size, threads)
    return operands.result


def bias_blocked(x: Array, bias: Array, out: Array | None, threads: int) -> Array:
    """Return gelu(x + bias), the bias as long as the last axis of `x`: what `bias_fused` does without a compiler.

    Eight calls a block; the sums of one block are all that is held beside the result.
    """
    operands = Operands.of(x, out, reorder=False)
    bias = bias.copy()  # `out` may overlap it

    def run(cuts: Iterator[Index]) -> None:
        with ieee_edges() as invalid:
            for cut in cuts:
                sums = operands.source[cut] + bias[columns(cut, x.ndim)]
                invalid.clear()  # inf - inf is NaN, as it should be
                _seven_passes(sums, operands.target[cut], invalid)

    operands.run(run, BLOCK_SIZE, threads)
    return operands.result
