"""Attention in compiled code: products and softmax in one loop nest."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost, costs
from accel.kernels.arguments import as_blas, read_only, sized
from accel.kernels.attention.blockwise import tiled
from accel.kernels.attention.shapes import Sizes, checked, heads, scale_of, sizes
from accel.kernels.blocks import aligned_empty
from accel.kernels.fallback import compiled
from accel.kernels.threads import run_parts, thread_count

__all__ = ["fused"]

Array = NDArray[Any]

FUSED_QUERIES = 96
"""Queries in a block of `fused`, or the whole number of tiles below: their scores stay in the nearest caches."""
FEW_QUERIES = 8
"""With fewer queries than this the tiles of `fused` would be mostly empty, and `tiled` is faster."""


def _fused_cost(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    out: Any = None,  # noqa: ARG001
    threads: SupportsIndex = 1,  # noqa: ARG001
) -> Cost:
    """Each operand read once, the result written once. A pair costs two products, maximum, subtract, exp and sum."""
    s = sizes(q, k, v)
    q, k, v = (sized(x, as_blas, name) for x, name in zip((q, k, v), "qkv", strict=True))
    pairs = s.causal_pairs if causal else s.pairs
    queries, means = (s.heads * s.n_q * columns for columns in (s.d, s.d_v))
    return Cost(
        flops=pairs * (2 * s.d + 2 * s.d_v + 3) + queries + means,  # the scale and the division
        special=pairs,
        bytes_read=q.nbytes + k.nbytes + v.nbytes,
        bytes_written=means * s.itemsize,
        bytes_write_allocate=means * s.itemsize,
        calls=1,
    )


@costs(_fused_cost, opaque=True)
def fused(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    causal: bool = False,
    out: Array | None = None,
    threads: SupportsIndex = 1,
) -> Array:
    """Return the attention in one compiled pass over the keys for each block of queries.

    Products and softmax are one loop nest, whose scores stay in the L2 cache and whose sums stay in registers. There is
    no BLAS in it. Keys hidden by ``causal=True`` cost nothing, up to the edges of tiles. Values whose length is not a
    whole number of vector registers are copied, one head at a time, and so are keys and values that are not contiguous.

    Without Numba, and for so few queries or keys that the tiles would be mostly empty, `tiled` does the work.

    Parameters
    ----------
    q, k, v, causal, out
        See `plain`.
    threads : int
        How many threads share the blocks of queries. The same result to the bit for any number.

    Raises
    ------
    TypeError, ValueError
        As `plain`; for `threads` that is not a whole number from 1 on.

    >>> q, k, v = np.zeros((1, 2)), np.ones((2, 2)), np.array([[3.0], [5.0]])
    >>> fused(q, k, v)
    array([[4.]])
    >>> from accel.kernels.attention import plain
    >>> n = np.ones((4096, 64), np.float32)
    >>> round(fused.cost(n, n, n).intensity), round(plain.cost(n, n, n).intensity)
    (1036, 5)
    """
    count = thread_count(threads)
    q, k, v, result = checked(q, k, v, out)
    s = sizes(q, k, v)
    module = compiled("attention") if s.n_q >= FEW_QUERIES and s.d and s.d_v else None
    if module is None or s.n_k < module.LEAST_KEYS:
        return tiled(q, k, v, causal=causal, out=result)
    tile = module.queries_at_once(result.dtype)
    block = tile * max(1, FUSED_QUERIES // tile)
    units = [(head, start) for head in heads(q, k, v, result) for start in range(0, s.n_q, block)]

    def run(part: int) -> None:
        worker = _Worker(module, s, min(block, -(-s.n_q // tile) * tile), result.dtype)
        with np.errstate(all="ignore"):
            for (queries, keys, values, means), start in units[part::count]:  # later queries may see more keys
                rows = slice(start, min(start + block, s.n_q))
                worker.attend(queries[rows], keys, values, means[rows], start + s.n_k - s.n_q if causal else s.n_k)

    run_parts(run, [(part,) for part in range(min(count, len(units)))], count)
    return result


class _Worker:
    """The memory of one thread of `fused`, and the bridge from arrays of any layout to compiled code."""

    def __init__(self, module: Any, s: Sizes, most: int, dtype: np.dtype[Any]) -> None:
        self.module, self.s = module, s
        self.tile, self.columns = module.queries_at_once(dtype), module.columns(dtype)
        self.row_length = -(-s.d_v // self.columns) * self.columns
        self.value_rows = np.arange(module.MOST_KEYS) * self.row_length
        self.queries = aligned_empty(s.d * most, dtype)
        self.queries[...] = 0
        self.result = aligned_empty(most * self.row_length, dtype)
        self.scores = aligned_empty(module.MOST_KEYS * most, dtype)
        self.largest, self.total, self.change = (aligned_empty(most, dtype) for _ in range(3))
        self.seen: tuple[Array, Array] | None = None

    def attend(self, queries: Array, keys: Array, values: Array, means: Array, last_key: int) -> None:
        """Write the weighted means for a block of queries of one head, the first of which sees up to `last_key`."""
        if self.seen is None or self.seen[0] is not keys or self.seen[1] is not values:
            self.seen = keys, values
            self.keys, self.values = _flat(keys, self.s.d), _flat(values, self.row_length)
        rows = queries.shape[0]
        width = -(-rows // self.tile) * self.tile
        transposed = self.queries[: self.s.d * width]
        np.multiply(queries.T, scale_of(self.s.d), out=transposed.reshape(self.s.d, width)[:, :rows])
        result = self.result[: width * self.row_length]
        largest, total, change = (numbers[:width] for numbers in (self.largest, self.total, self.change))
        result[...] = 0
        largest[...] = -np.inf
        total[...] = 0
        self.module.attend(
            self.s.n_k,
            last_key,
            transposed,
            np.arange(self.s.d) * width,
            self.keys,
            self.values,
            self.value_rows,
            self.scores,
            result,
            largest,
            total,
            change,
            self.columns,
        )
        np.divide(result.reshape(width, -1)[:rows, : self.s.d_v], total[:rows, None], out=means)
        if last_key < 0:
            means[: min(rows, -last_key)] = 0  # these queries see no key


def _flat(matrix: Array, row_length: int) -> Array:
    """Return the elements row by row, in rows of that length: a view where the matrix lies in memory like this."""
    matrix = np.asarray(matrix)
    if matrix.shape[1] != row_length:
        padded = np.zeros((matrix.shape[0], row_length), matrix.dtype.newbyteorder("="))
        padded[:, : matrix.shape[1]] = matrix
        matrix = padded
    return read_only(np.require(matrix, matrix.dtype.newbyteorder("="), ("C", "A")))
