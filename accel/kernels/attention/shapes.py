"""Shapes: what the operands of an attention must fit, and the sizes its costs are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost
from accel.kernels.arguments import as_blas, broadcast_shape, one_dtype, overlaps, result_array, sized

__all__ = ["Sizes", "checked", "fill_cost", "heads", "result_shape", "scale_of", "sizes"]

Array = NDArray[Any]


class Sizes(NamedTuple):
    """Heads, queries, keys, depth of queries and keys, width of values, bytes an element."""

    heads: int
    n_q: int
    n_k: int
    d: int
    d_v: int
    itemsize: int

    @property
    def pairs(self) -> int:
        """Pairs of query and key."""
        return self.heads * self.n_q * self.n_k

    @property
    def causal_pairs(self) -> int:
        """Pairs in which the query sees the key."""
        least, most = (min(max(0, n), self.n_k) for n in (self.n_k - self.n_q + 1, self.n_k))
        seeing = min(self.n_q, self.n_k)  # that many queries see a key, from `least` (or 1) up to `most`
        return self.heads * seeing * (max(least, min(1, seeing)) + most) // 2


def result_shape(q: Any, k: Any, v: Any) -> tuple[int, ...]:
    """Return the shape of the result; raise ValueError, naming all shapes, where there is none."""
    if min(len(x.shape) for x in (q, k, v)) < 2:
        raise _mismatch(q, k, v, "each needs two dimensions or more.")
    if q.shape[-1] != k.shape[-1]:
        raise _mismatch(q, k, v, f"queries of length {q.shape[-1]} cannot be matched with keys of {k.shape[-1]}.")
    if k.shape[-2] != v.shape[-2]:
        raise _mismatch(q, k, v, f"there must be a value for each key; got {k.shape[-2]} keys, {v.shape[-2]} values.")
    try:
        batch = broadcast_shape(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except ValueError as error:
        raise _mismatch(q, k, v, "their leading axes do not broadcast.") from error
    return (*batch, q.shape[-2], v.shape[-1])


def _mismatch(q: Any, k: Any, v: Any, reason: str) -> ValueError:
    needs = "attention needs q (…, n_q, d), k (…, n_k, d) and v (…, n_k, d_v)"
    return ValueError(f"{needs}; got {q.shape}, {k.shape} and {v.shape}: {reason}")


def checked(q: ArrayLike, k: ArrayLike, v: ArrayLike, out: Array | None) -> tuple[Array, Array, Array, Array]:
    """Return the operands, copied where they overlap `out`, and the array to write to."""
    q, k, v = as_blas(q, "q"), as_blas(k, "k"), as_blas(v, "v")
    dtype = one_dtype(q=q, k=k, v=v)
    result = result_array(out, result_shape(q, k, v), dtype, q, k, v, order="C")
    q, k, v = (x.copy() if overlaps(x, out) else x for x in (q, k, v))
    return q, k, v, result


def sizes(q: Any, k: Any, v: Any) -> Sizes:
    """Return the sizes; raise as `result_shape` does."""
    q, k, v = (sized(x, as_blas, name) for x, name in zip((q, k, v), "qkv", strict=True))
    *batch, n_q, d_v = result_shape(q, k, v)
    return Sizes(math.prod(batch), n_q, k.shape[-2], q.shape[-1], d_v, q.dtype.itemsize)


def scale_of(depth: int) -> float:
    """Return 1/√d, and 1 for vectors of no components, whose products are 0 anyway."""
    return 1 / math.sqrt(max(1, depth))


def heads(q: Array, k: Array, v: Array, result: Array) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield the two-dimensional problems that a batched one consists of."""
    batch = result.shape[:-2]
    q, k, v = (np.broadcast_to(x, batch + x.shape[-2:], subok=True) for x in (q, k, v))
    for index in product(*map(range, batch)):
        yield q[index], k[index], v[index], result[index]


def fill_cost(size_bytes: int) -> Cost:
    """Cost of one call that writes and reads nothing."""
    return Cost(bytes_written=size_bytes, bytes_write_allocate=size_bytes, calls=1)
