"""GELU in one pass: compiled by Numba on the first call, with NumPy forms that stand in where Numba is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike

from accel.cost import Cost, costs
from accel.kernels.arguments import as_floating, is_flat, read_only, sized
from accel.kernels.blocks import BLOCK_SIZE, Index, block_count
from accel.kernels.fallback import compiled
from accel.kernels.gelu.formula import Array, elements, ieee_edges
from accel.kernels.gelu.operands import Operands, columns
from accel.kernels.gelu.passes import bias_blocked, blocked
from accel.kernels.normal import subtract_tail
from accel.kernels.threads import run_parts, spans, thread_count

__all__ = ["STREAMED_BYTES", "bias_fused", "exact", "fused"]

STREAMED_BYTES = 16 * 1024 * 1024
"""A result of this many bytes or more is stored around the caches: with an input of the same size it fills the 32 MB
of the last-level cache that a core can reach on most current servers, and more than that on most laptops."""

SPAN_MULTIPLE = 16
"""Elements that fill whole vectors on every CPU, and a cache line in float32."""

PATTERN_SIZE = 256
"""A bias of fewer elements is laid end to end until it has as many: in short rows the ends take most of the time."""


def _one_pass_cost(x: Any, flops: int, threads: SupportsIndex) -> Cost:
    """Cost of one read and one write of each element; what goes around the caches fetches nothing to overwrite."""
    thread_count(threads)
    n, array = elements(x)
    return Cost(
        flops=flops * n,
        special=n,
        bytes_read=array,
        bytes_written=array,
        bytes_write_allocate=array if array < STREAMED_BYTES else 0,
        calls=1,
    )


def _is_half(x: Any) -> bool:
    return bool(sized(x, as_floating).dtype.itemsize == 2)


def _fused_cost(x: Any, *, out: Any = None, threads: SupportsIndex = 1) -> Cost:
    """Six operations and an exponential: x / (1 + exp(x · (a + b x²)))."""
    return blocked.cost(x, out=out, threads=threads) if _is_half(x) else _one_pass_cost(x, 6, threads)  # type: ignore[attr-defined]


@costs(_fused_cost, opaque=True)
def fused(x: ArrayLike, *, out: Array | None = None, threads: SupportsIndex = 1) -> Array:
    """Return gelu(x) in one pass over memory: the whole formula is computed while a vector of x is in a register.

    A result of `STREAMED_BYTES` or more goes around the caches, so that its memory is not first read.

    Parameters
    ----------
    x : array_like
        float32 or float64, any shape; float16, for which most CPUs have no arithmetic, is computed by `blocked`. What
        is not contiguous and aligned is copied block by block on the way.
    out : ndarray, optional
        Where to put the result: of the shape and dtype of `x`. ``out=x`` needs no copy; for any other overlap the
        kernel first copies `x`.
    threads : int, optional
        How many threads share the work, 1 by default.

    Returns
    -------
    ndarray
        Shape and dtype of `x`; `out` itself where given. Over [-12, 12] within 1e-6 of `reference` in float32, within
        4e-15 in float64.

    Raises
    ------
    TypeError
        `x` of any other dtype; `out` that is not an array or of another dtype; `threads` that is not an int.
    ValueError
        `out` of another shape, read-only, or whose elements share memory; `threads` below 1.

    >>> x = np.array([-1, 0, 1], dtype=np.float32)
    >>> fused(x).round(5)
    array([-0.15881,  0.     ,  0.84119], dtype=float32)
    >>> fused.cost(x).bytes_algorithmic, blocked.cost(x).bytes_algorithmic
    (24, 192)
    """
    x = as_floating(x)
    threads = thread_count(threads)
    module = None if _is_half(x) else compiled("gelu")
    if module is None:
        return blocked(x, out=out, threads=threads)
    return _one_pass(module.fused, x, out, threads)


def _exact_cost(x: Any, *, out: Any = None, threads: SupportsIndex = 1) -> Cost:  # noqa: ARG001
    """Three operations and the normal distribution, which counts as one special function: max(x, 0) - |x| · Φ(-|x|)."""
    return _one_pass_cost(x, 3, threads)


@costs(_exact_cost, opaque=True)
def exact(x: ArrayLike, *, out: Array | None = None, threads: SupportsIndex = 1) -> Array:
    """Return x/2 · (1 + erf(x/√2)), the GELU that the tanh form stands for, in one pass over memory.

    Parameters, errors: see `fused`. float16 is computed in float32, by NumPy.

    Returns
    -------
    ndarray
        Shape and dtype of `x`; `out` itself where given. Over [-12, 12] within 1e-6 of `exact_reference` in float32,
        within 4e-15 in float64.

    >>> exact(np.array([-1, 0, 1], dtype=np.float32)).round(5)
    array([-0.15866,  0.     ,  0.84134], dtype=float32)
    """
    x = as_floating(x)
    threads = thread_count(threads)
    module = None if _is_half(x) else compiled("gelu")
    if module is None:
        return _exact_blocked(x, out, threads)
    return _one_pass(module.exact, x, out, threads)


def _exact_blocked(x: Array, out: Array | None, threads: int) -> Array:
    """Compute the exact form in NumPy, a block at a time."""
    operands = Operands.of(x, out)

    def run(cuts: Iterator[Index]) -> None:
        with ieee_edges():
            for cut in cuts:
                subtract_tail(operands.source[cut], operands.target[cut])

    operands.run(run, BLOCK_SIZE // 4, threads)  # a quarter, for the four working arrays of a block
    return operands.result


def _one_pass(kernel: Callable[..., None], x: Array, out: Array | None, threads: int) -> Array:
    """Run a kernel over an array: directly where memory can be addressed flat, else through a buffer for each block."""
    operands = Operands.of(x, out)
    source, target = np.asarray(operands.source), np.asarray(operands.target)

    def through_buffer(cuts: Iterator[Index]) -> None:
        for cut in cuts:
            buffer = np.array(source[cut], dtype=target.dtype, order="C")
            kernel(read_only(buffer), buffer.reshape(-1), False)
            target[cut] = buffer

    if not (target.ndim == 1 and is_flat(source, target)):
        operands.run(through_buffer, BLOCK_SIZE, threads)
        return operands.result

    around_caches = target.nbytes >= STREAMED_BYTES and not operands.in_one_place
    inputs = read_only(source)

    def directly(start: int, stop: int) -> None:
        kernel(inputs[start:stop], target[start:stop], around_caches)

    cuts = [(0, target.size)] if threads == 1 else spans(target.size, threads, multiple=SPAN_MULTIPLE)
    run_parts(directly, cuts, threads)
    return operands.result


def _bias(bias: ArrayLike, x: Any) -> Array:
    """Return the bias as an array, or say why it does not fit `x`."""
    bias = as_floating(bias, "bias")
    if x.ndim == 0 or bias.shape != x.shape[-1:]:
        raise ValueError(
            f"bias must have the shape of the last axis of x, for x of shape {x.shape}; got {bias.shape}. "
            "For other broadcasts call fused(x + bias)."
        )
    if bias.dtype.newbyteorder("=") != x.dtype.newbyteorder("="):
        raise TypeError(
            f"bias must have the dtype of x, {x.dtype.name}; got {bias.dtype.name}. Pass bias.astype(x.dtype)."
        )
    return bias


def _bias_fused_cost(x: Any, bias: Any, *, out: Any = None, threads: SupportsIndex = 1) -> Cost:  # noqa: ARG001
    """Cost of `fused`, one more addition an element, and the bias, which is read once and then stays in the cache."""
    x, bias = sized(x, as_floating), sized(bias, as_floating, "bias")
    n, array = elements(x)
    read_bias = Cost(bytes_read=bias.size * bias.dtype.itemsize)
    if not _is_half(x):
        return _one_pass_cost(x, 7, threads) + read_bias
    count = block_count(x.shape, BLOCK_SIZE) if n else 0
    addition = Cost(flops=n, bytes_read=array, bytes_written=array, bytes_write_allocate=array)
    passes = blocked.cost(x)  # type: ignore[attr-defined]
    return passes + addition + read_bias + Cost(calls=8 * count - passes.calls)


@costs(_bias_fused_cost, opaque=True)
def bias_fused(x: ArrayLike, bias: ArrayLike, *, out: Array | None = None, threads: SupportsIndex = 1) -> Array:
    """Return gelu(x + bias) in one pass over memory, as after the matrix product of a linear layer.

    Parameters
    ----------
    x : array_like
        float32 or float64, any shape of at least one dimension; float16 takes two passes of NumPy.
    bias : array_like
        Of the dtype of `x`, and as long as its last axis; it is added to every row.
    out, threads
        See `fused`.

    Returns
    -------
    ndarray
        Shape and dtype of `x`; `out` itself where given.

    Raises
    ------
    TypeError
        `x` or `bias` of any other dtype; the others as for `fused`.
    ValueError
        `bias` of another shape; the others as for `fused`.

    >>> x = np.array([[-1, 0], [1, 2]], dtype=np.float32)
    >>> bias_fused(x, np.array([1, 0], dtype=np.float32)).round(5)
    array([[0.    , 0.    ],
           [1.9546, 1.9546]], dtype=float32)
    """
    x = as_floating(x)
    bias = _bias(bias, x)
    threads = thread_count(threads)
    module = None if _is_half(x) else compiled("gelu")
    if module is None:
        return bias_blocked(x, bias, out, threads)
    operands = Operands.of(x, out, reorder=False)
    source, target = np.asarray(operands.source), np.asarray(operands.target)
    bias = np.array(bias, dtype=target.dtype)  # a copy: `out` may overlap it

    def through_buffer(cuts: Iterator[Index]) -> None:
        for cut in cuts:
            buffer = np.array(source[cut], dtype=target.dtype, order="C")
            pattern = _pattern(bias[columns(cut, x.ndim)])
            module.bias_fused(read_only(buffer), pattern, buffer.reshape(-1), 0, buffer.size, False)
            target[cut] = buffer

    if not is_flat(source, target):
        operands.run(through_buffer, BLOCK_SIZE, threads)
        return operands.result

    around_caches = target.nbytes >= STREAMED_BYTES and not operands.in_one_place
    inputs, pattern, results = read_only(source), _pattern(bias), target.reshape(-1)

    def directly(start: int, stop: int) -> None:
        module.bias_fused(inputs, pattern, results, start, stop, around_caches)

    run_parts(directly, spans(target.size, threads, multiple=SPAN_MULTIPLE), threads)
    return operands.result


def _pattern(bias: Array) -> Array:
    """Lay a short bias end to end, so often that each repetition begins where a vector may."""
    if not 0 < bias.size < PATTERN_SIZE:
        return read_only(bias)
    for_boundaries = SPAN_MULTIPLE // math.gcd(SPAN_MULTIPLE, bias.size)
    for_length = -(-PATTERN_SIZE // (for_boundaries * bias.size))
    return read_only(np.tile(bias, for_boundaries * for_length))
