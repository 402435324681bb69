"""Attention of one block of queries to all keys, the scores of which never leave the cache. Needs Numba.

The scores of a block are kept transposed, a row for each key: then every step of the softmax works on whole vectors of
queries, the scores lie as `multiply_columns` wants its left operand, and neither keys nor values need to be packed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from accel.kernels import simd
from accel.kernels.compiled import compiled, inlined
from accel.kernels.compiled.exponential import fitted_polynomial, split_ln2
from accel.kernels.compiled.register_tile import ROWS, columns, multiply_columns, multiply_rows

__all__ = ["LEAST_KEYS", "MOST_KEYS", "attend", "columns", "queries_at_once"]

KEYS_AT_ONCE = 96
"""Keys in a block: with the 96 queries of AVX2 their scores fill 36 KB, so they stay in the L2 cache, mostly in L1."""
LEAST_KEYS = ROWS
"""Fewer keys do not fill a tile."""
MOST_KEYS = KEYS_AT_ONCE + ROWS - 1
"""Keys in the last block, if a block of its own would be smaller than a tile."""


def queries_at_once(dtype: Any) -> int:
    """Return how many queries make whole tiles in both products, in which they are columns first and then rows."""
    return math.lcm(ROWS, columns(dtype))


@intrinsic
def _finite(typing_context: Any, x: Any) -> Any:
    """Return the vector with the least finite number for -inf: a difference to that is not NaN."""
    least = float(np.finfo(x.dtype.name).min)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        lowest = ir.Constant(context.get_value_type(x), [least] * x.lanes)
        return builder.select(builder.fcmp_ordered("<", arguments[0], lowest), lowest, arguments[0])

    return x(x), generate


@intrinsic
def _exp_of_difference(typing_context: Any, x: Any) -> Any:
    """Return exp(x) for a vector of numbers up to 0: as `exp` of `exponential`, but with one power of two.

    That is enough where no result is above 1, and those below the least normal number may be 0.
    """
    bits, mantissa, bias = x.dtype.bitwidth, *((23, 127) if x.dtype == types.float32 else (52, 1023))
    rounding = 1.5 * 2**mantissa + bias
    high, low = split_ln2(15 if bits == 32 else 40)
    polynomial = [float(c) for c in fitted_polynomial(4 if bits == 32 else 9)]

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        vector = context.get_value_type(x)
        integers = ir.VectorType(ir.IntType(bits), x.lanes)

        def constant(number: float) -> ir.Constant:
            return ir.Constant(vector, [number] * x.lanes)

        def multiply_add(a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
            return simd.call_fma(builder, a, b, c)

        least = constant(-bias * math.log(2))  # there 2ⁿ has no bits at all: it is 0
        value = builder.select(builder.fcmp_ordered("<", arguments[0], least), least, arguments[0])
        rounded = multiply_add(value, constant(1 / math.log(2)), constant(rounding))
        n = builder.fsub(rounded, constant(rounding))
        r = multiply_add(n, constant(-low), multiply_add(n, constant(-high), value))
        q = constant(polynomial[-1])
        for coefficient in reversed(polynomial[:-1]):
            q = multiply_add(q, r, constant(coefficient))
        above_one = multiply_add(builder.fmul(r, r), q, r)
        exponent = builder.shl(builder.bitcast(rounded, integers), ir.Constant(integers, [mantissa] * x.lanes))
        power = builder.bitcast(exponent, vector)
        return multiply_add(above_one, power, power)

    return x(x), generate


@inlined
def _score(first, block, last_key, queries, query_rows, keys, scores, width, tile_columns):  # type: ignore[no-untyped-def]
    """Write the products of a block of keys with all queries, but for the tiles that no query may see.

    Where ROWS does not divide the block, the last tile overlaps the one before it.
    """
    depth = query_rows.size
    for start in range(0, block, ROWS):
        j = start if start + ROWS <= block else block - ROWS
        for i in range(0, width, tile_columns):
            if first + j < last_key + i + tile_columns:
                at = (first + j) * depth
                multiply_rows(depth, keys, at, depth, queries, i, query_rows, scores, j * width + i, width, False)


@inlined
def _hide(first, block, last_key, scores, width):  # type: ignore[no-untyped-def]
    """Write -inf where a query may not see a key: query i sees keys up to ``last_key + i``."""
    if first + block - 1 > last_key:
        for j in range(block):
            for i in range(width):
                if first + j > last_key + i:
                    scores[j * width + i] = -np.inf


@inlined
def _weigh(block, scores, width, largest, total, change):  # type: ignore[no-untyped-def]
    """Turn scores into weights relative to the largest score so far, and say by what earlier sums must `change`."""
    for i in range(0, width, simd.lane_count(scores)):
        before = simd.load(largest, i)
        peak = before
        for j in range(block):
            peak = simd.maximum(peak, simd.load(scores, j * width + i))
        simd.store(largest, i, peak)
        peak = _finite(peak)
        shrunk = _exp_of_difference(before - peak)
        weights = simd.load(total, i) * shrunk
        for j in range(block):
            weight = _exp_of_difference(simd.load(scores, j * width + i) - peak)
            simd.store(scores, j * width + i, weight)
            weights = weights + weight
        simd.store(total, i, weights)
        simd.store(change, i, shrunk)


@inlined
def _scale_rows(factors, result, row_length):  # type: ignore[no-untyped-def]
    """Multiply each row of the result by its factor. Most factors are 1 once the largest scores have been met."""
    for i in range(factors.size):
        factor = factors[i]
        if factor != 1:
            for c in range(i * row_length, (i + 1) * row_length):
                result[c] *= factor


@inlined
def _add_values(first, block, last_key, scores, width, values, value_rows, result, row_length, tile_columns):  # type: ignore[no-untyped-def]
    """Add to each query's result the values of a block of keys, as weighted."""
    for i in range(0, width, ROWS):
        seen = last_key + i + ROWS - first
        seen = seen if seen < block else block
        if seen > 0:
            for c in range(0, row_length, tile_columns):
                at = first * row_length + c
                place = i * row_length + c
                multiply_columns(seen, scores, i, width, values, at, value_rows, result, place, row_length, True)


@compiled
def attend(  # type: ignore[no-untyped-def]
    count, last_key, queries, query_rows, keys, values, value_rows, scores, result, largest, total, change, tile_columns
):
    """Let a block of queries attend to `count` keys, at least LEAST_KEYS: add up in `result` the values as weighted.

    All arrays are flat, of one dtype, and lie in memory row by row.

    Parameters
    ----------
    count, last_key
        Query i sees the keys up to ``last_key + i``; those before `count` exist.
    queries
        Scaled and transposed, depth x width: a row for each component of the queries.
    query_rows, value_rows
        Where in `queries` and in a block of `values` each row begins. Their sizes are the depth, and MOST_KEYS.
    keys, values
        `count` rows each. A row of `values` and of `result` is a whole number of tiles of `tile_columns` long.
    scores
        Room for MOST_KEYS rows of `width`.
    result
        `width` rows of zeros.
    largest, total, change
        `width` numbers each: the largest score so far, at first -inf; the sum of the weights, at first 0; and room for
        the factor on earlier weights.
    """
    width = largest.size
    row_length = result.size // width
    end = count if count < last_key + width else last_key + width
    first = 0
    while first < end:
        block = KEYS_AT_ONCE if end - first >= KEYS_AT_ONCE + ROWS else end - first  # so that none is below ROWS
        _score(first, block, last_key, queries, query_rows, keys, scores, width, tile_columns)
        _hide(first, block, last_key, scores, width)
        _weigh(block, scores, width, largest, total, change)
        _scale_rows(change, result, row_length)
        _add_values(first, block, last_key, scores, width, values, value_rows, result, row_length, tile_columns)
        first += block
