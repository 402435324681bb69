"""Attention: each query takes the mean of the values, weighted by how well their keys match it.

    attention(q, k, v) = softmax(q · kᵀ / √d) · v

`plain` writes down the n x n matrix of scores. The other forms never do: they go over blocks of keys and keep, for each
query, the largest score so far and the sum of the weights relative to it. When a larger score turns up, what has been
summed is scaled down. Their memory is therefore linear in n.

Sources: Vaswani et al., arXiv 1706.03762 (attention); Milakov and Gimelshein, arXiv 1805.02867 (the softmax in one
pass); Dao et al., arXiv 2205.14135 (attention block by block).

All forms take float32 or float64 arrays of one dtype, queries ``(…, n_q, d)``, keys ``(…, n_k, d)`` and values
``(…, n_k, d_v)``, of any strides and byte order. Leading axes broadcast. With ``causal=True`` the last query sees every
key, the one before it all but the last, and so on: query i sees keys 0 to i + n_k - n_q. A query that sees no key gets
zeros. NaN and infinities spread as the formula has it, without warnings.
"""

from __future__ import annotations

from accel.kernels.attention.blockwise import tiled
from accel.kernels.attention.fusion import fused
from accel.kernels.attention.textbook import plain, reference

__all__ = ["fused", "plain", "reference", "tiled"]
