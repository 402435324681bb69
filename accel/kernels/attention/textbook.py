"""Attention as it is written down: the reference, and the whole matrix of scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost, costs
from accel.kernels.arguments import as_blas, as_real, sized
from accel.kernels.attention.shapes import checked, fill_cost, heads, result_shape, scale_of, sizes

__all__ = ["plain", "reference"]

Array = NDArray[Any]


def reference(q: ArrayLike, k: ArrayLike, v: ArrayLike, *, causal: bool = False) -> NDArray[np.float64]:
    """Return the attention in float64, one query at a time, whatever real numbers come in.

    Raises
    ------
    TypeError, ValueError
        Numbers that are not real; shapes that do not fit.

    >>> reference([[0.0]], [[1.0], [2.0]], [[3.0], [5.0]])
    array([[4.]])
    """
    q, k, v = (np.asarray(as_real(x, name), np.float64) for x, name in zip((q, k, v), "qkv", strict=True))
    result = np.zeros(result_shape(q, k, v))
    n_q, n_k = q.shape[-2], k.shape[-2]
    with np.errstate(all="ignore"):
        for queries, keys, values, means in heads(q, k, v, result):
            for i in range(n_q):
                seen = max(0, i + 1 + n_k - n_q) if causal else n_k
                if seen:
                    scores = keys[:seen] @ queries[i] * scale_of(q.shape[-1])
                    weights = np.exp(scores - scores.max())
                    means[i] = weights @ values[:seen] / weights.sum()
    return result


def _plain_cost(q: Any, k: Any, v: Any, *, causal: bool = False, out: Any = None) -> Cost:  # noqa: ARG001
    """Two products and six passes over the scores: scale, maximum, subtract, exp, sum, divide. A seventh hides keys."""
    s = sizes(q, k, v)
    q, k, v = (sized(x, as_blas, name) for x, name in zip((q, k, v), "qkv", strict=True))
    rows = s.heads * s.n_q
    scores, means = s.pairs * s.itemsize, rows * s.d_v * s.itemsize
    if not s.n_k:
        return fill_cost(means)
    score = Cost(2 * s.pairs * s.d, 0, q.nbytes + k.nbytes, scores, scores, calls=1)
    average = Cost(2 * s.pairs * s.d_v, 0, scores + v.nbytes, means, means, calls=1)
    reduction = Cost(s.pairs - rows, 0, scores, rows * s.itemsize, rows * s.itemsize, calls=1)
    with_row_numbers = Cost(s.pairs, 0, scores + rows * s.itemsize, scores, calls=1)
    in_place = Cost(0, 0, scores, scores, calls=1)
    cost = score + average + (reduction + with_row_numbers + in_place) * 2 + Cost(flops=s.pairs, special=s.pairs)
    if causal:
        cost += Cost(bytes_read=s.n_q * s.n_k) + fill_cost(scores)
    if causal and s.n_q > s.n_k:
        cost += fill_cost(s.heads * (s.n_q - s.n_k) * s.n_k * s.itemsize)
    return cost


@costs(_plain_cost)
def plain(q: ArrayLike, k: ArrayLike, v: ArrayLike, *, causal: bool = False, out: Array | None = None) -> Array:
    """Return the attention by way of the whole matrix of scores, which six passes turn into weights in place.

    Parameters
    ----------
    q, k, v : array_like
        Queries ``(…, n_q, d)``, keys ``(…, n_k, d)`` and values ``(…, n_k, d_v)``; all float32 or all float64.
    causal : bool
        Whether query i sees only the keys up to i + n_k - n_q.
    out : ndarray, optional
        Where to put the result: of its exact shape and dtype. Operands that overlap it are copied first, which the cost
        does not count.

    Returns
    -------
    ndarray
        Shape ``(…, n_q, d_v)``, dtype of the operands; `out` itself where given.

    Raises
    ------
    TypeError
        Operands of other dtypes or of different ones; `out` that is not an array or of another dtype.
    ValueError
        Shapes that do not fit together; `out` of another shape, read-only, or whose elements share memory.

    >>> q, k, v = np.zeros((1, 2)), np.ones((2, 2)), np.array([[3.0], [5.0]])
    >>> plain(q, k, v)
    array([[4.]])
    """
    q, k, v, result = checked(q, k, v, out)
    n_q, n_k = q.shape[-2], k.shape[-2]
    if not n_k:
        result[...] = 0
        return result
    with np.errstate(all="ignore"):
        scores = np.matmul(q, k.swapaxes(-1, -2))
        np.multiply(scores, scale_of(q.shape[-1]), out=scores)
        if causal:
            np.copyto(scores, -math.inf, where=~np.tri(n_q, n_k, n_k - n_q, dtype=bool))
        np.subtract(scores, np.max(scores, axis=-1, keepdims=True), out=scores)
        np.exp(scores, out=scores)
        np.divide(scores, np.sum(scores, axis=-1, keepdims=True), out=scores)
        if causal and n_q > n_k:
            scores[..., : n_q - n_k, :] = 0  # these queries see no key
        return np.matmul(scores, v, out=result)
