"""Attention block by block in NumPy: memory linear in the number of queries and keys."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost, costs
from accel.kernels.arguments import positive_integer
from accel.kernels.attention.shapes import Sizes, checked, fill_cost, heads, scale_of, sizes

__all__ = ["tiled"]

Array = NDArray[Any]

QUERIES, KEYS = 256, 512
"""Queries and keys in a block of `tiled`: enough for the BLAS to work well; float32 scores of a block fill 512 KB."""


def _blocks(s: Sizes, causal: bool, query_block: int, key_block: int) -> Iterator[tuple[slice, list[slice]]]:
    """Yield each block of queries with the blocks of keys that at least one of its queries sees."""
    for start in range(0, s.n_q, query_block):
        stop = min(start + query_block, s.n_q)
        seen = max(0, stop + s.n_k - s.n_q) if causal else s.n_k
        yield slice(start, stop), [slice(first, min(first + key_block, seen)) for first in range(0, seen, key_block)]


def _tiled_cost(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    out: Any = None,  # noqa: ARG001
    query_block: SupportsIndex = QUERIES,
    key_block: SupportsIndex = KEYS,
) -> Cost:
    """Sum over the blocks of each head, which all cost the same."""
    s = sizes(q, k, v)
    block_sizes = positive_integer(query_block, "query_block"), positive_integer(key_block, "key_block")
    one_head = Cost()
    for queries, key_blocks in _blocks(s, causal, *block_sizes):
        one_head += _query_block_cost(s, queries.stop - queries.start, len(key_blocks))
        for keys in key_blocks:
            one_head += _tile_cost(s, queries, keys, causal)
    if causal and s.n_q > s.n_k:
        one_head += fill_cost((s.n_q - s.n_k) * s.d_v * s.itemsize)
    return one_head * s.heads


def _query_block_cost(s: Sizes, rows: int, key_blocks: int) -> Cost:
    """Scale the queries and clear three accumulators, then divide; or clear the result where there is no key."""
    queries, means, numbers = (rows * columns * s.itemsize for columns in (s.d, s.d_v, 1))
    if not key_blocks:
        return fill_cost(means)
    scale = Cost(rows * s.d, 0, queries, queries, queries, calls=1)
    divide = Cost(rows * s.d_v, 0, means + numbers, means, calls=1)
    return scale + divide + fill_cost(means) + fill_cost(numbers) * 2


def _tile_cost(s: Sizes, queries: slice, keys: slice, causal: bool) -> Cost:
    """Two products, four passes over the scores, two over the result, and six over one number a query."""
    rows, columns = queries.stop - queries.start, keys.stop - keys.start
    pairs = rows * columns
    scores, means, numbers = (size * s.itemsize for size in (pairs, rows * s.d_v, rows))
    score = Cost(2 * pairs * s.d, 0, (rows + columns) * s.d * s.itemsize, scores, scores, calls=1)
    average = Cost(2 * pairs * s.d_v, 0, scores + columns * s.d_v * s.itemsize, means, means, calls=1)
    reduction = Cost(pairs - rows, 0, scores, numbers, numbers, calls=1)
    weights = Cost(pairs, pairs, 2 * scores + numbers, 2 * scores, calls=2)  # subtract, exp
    peaks = Cost(rows, 0, 2 * numbers, numbers, calls=1)
    change = Cost(rows, rows, 3 * numbers, 2 * numbers, calls=2)
    totals = Cost(2 * rows, 0, 4 * numbers, 2 * numbers, calls=2)
    rescale = Cost(rows * s.d_v, 0, means + numbers, means, calls=1)
    accumulate = Cost(rows * s.d_v, 0, 2 * means, means, calls=1)
    cost = score + average + reduction * 2 + weights + peaks + change + totals + rescale + accumulate
    if causal and _hidden(s, queries, keys) is not None:
        cost += Cost(bytes_read=pairs) + fill_cost(scores)
    return cost


@costs(_tiled_cost)
def tiled(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    causal: bool = False,
    out: Array | None = None,
    query_block: SupportsIndex = QUERIES,
    key_block: SupportsIndex = KEYS,
) -> Array:
    """Return the attention block by block in NumPy: the scores of one block are all that is ever in memory.

    The products of blocks are made by the BLAS, on as many threads as it uses by itself. Blocks of keys that no query
    of a block sees are left out, which with ``causal=True`` saves up to half of the work.

    Parameters
    ----------
    q, k, v, causal, out
        See `plain`.
    query_block, key_block : int
        Queries and keys in a block.

    Raises
    ------
    TypeError, ValueError
        As `plain`; TypeError for a block size that is not an int, ValueError for one below 1.

    >>> q, k, v = np.zeros((1, 2)), np.ones((2, 2)), np.array([[3.0], [5.0]])
    >>> tiled(q, k, v)
    array([[4.]])
    >>> from accel.kernels.attention import plain
    >>> n = np.ones((4096, 64), np.float32)
    >>> tiled.cost(n, n, n).bytes_traffic < plain.cost(n, n, n).bytes_traffic
    True
    """
    block_sizes = positive_integer(query_block, "query_block"), positive_integer(key_block, "key_block")
    q, k, v, result = checked(q, k, v, out)
    s = sizes(q, k, v)
    scores = np.empty_like(result, shape=min(block_sizes[0], s.n_q) * min(block_sizes[1], s.n_k))
    partial = np.empty_like(result, shape=(min(block_sizes[0], s.n_q), s.d_v))
    with np.errstate(all="ignore"):
        for queries, keys, values, means in heads(q, k, v, result):
            for rows, key_blocks in _blocks(s, causal, *block_sizes):
                hidden = [_hidden(s, rows, columns) if causal else None for columns in key_blocks]
                blocks = [(keys[c], values[c], mask) for c, mask in zip(key_blocks, hidden, strict=True)]
                _attend(queries[rows], blocks, means[rows], scores, partial[: rows.stop - rows.start])
            if causal and s.n_q > s.n_k:
                means[: s.n_q - s.n_k] = 0  # these queries see no key
    return result


def _hidden(s: Sizes, queries: slice, keys: slice) -> NDArray[np.bool_] | None:
    """Return which keys of a block each query of a block does not see, or None where each sees all."""
    last_key = queries.start + s.n_k - s.n_q
    if keys.stop - 1 <= last_key:
        return None
    return ~np.tri(queries.stop - queries.start, keys.stop - keys.start, last_key - keys.start, dtype=bool)


def _attend(
    queries: Array, blocks: list[tuple[Array, Array, Array | None]], means: Array, memory: Array, partial: Array
) -> None:
    """Write the weighted means for a block of queries, given its blocks of keys, values and what is hidden of them."""
    means[...] = 0
    if not blocks:
        return
    rows = queries.shape[0]
    scaled = np.multiply(queries, scale_of(queries.shape[1]))
    largest = np.full_like(means, np.finfo(means.dtype).min, shape=(rows, 1))  # no -inf: -inf - -inf would be NaN
    total = np.zeros_like(largest)
    peak = np.empty_like(largest)
    for keys, values, hidden in blocks:
        scores = memory[: rows * keys.shape[0]].reshape(rows, -1)
        np.matmul(scaled, keys.T, out=scores)
        if hidden is not None:
            np.copyto(scores, -math.inf, where=hidden)
        np.max(scores, axis=1, keepdims=True, out=peak)
        np.maximum(peak, largest, out=peak)
        np.subtract(scores, peak, out=scores)
        weights = np.exp(scores, out=scores)
        np.subtract(largest, peak, out=largest)
        change = np.exp(largest, out=largest)
        np.multiply(total, change, out=total)
        np.add(total, np.sum(weights, axis=1, keepdims=True), out=total)
        np.multiply(means, change, out=means)
        np.matmul(weights, values, out=partial)
        np.add(means, partial, out=means)
        largest, peak = peak, largest
    np.divide(means, total, out=means)
