"""The MLP block of a transformer: two linear layers with GELU between them, applied to each row by itself.

    y = gelu(x · W₁ + b₁) · W₂ + b₂

Source: Vaswani et al., arXiv 1706.03762, section 3.3, with GELU (arXiv 1606.08415) in the place of ReLU. The hidden
layer is usually four times as wide as the rows, so its activation is the largest array of the block.

Both forms take float32 or float64 arrays of one dtype, of any strides and byte order: rows ``(…, d)``, weights
``(d, h)`` and ``(h, d_out)``, biases ``(h,)`` and ``(d_out,)``. They never warn; NaN and infinities spread as
the formula has it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost, costs
from accel.kernels import gelu, matmul
from accel.kernels.arguments import as_blas, as_real, one_dtype, overlaps, positive_integer, result_array, sized
from accel.kernels.threads import run_parts, spans, thread_count

__all__ = ["accelerated", "plain", "reference"]

Array = NDArray[Any]

NAMES = ("x", "w1", "b1", "w2", "b2")
ROWS = 512
"""Rows in a block of `accelerated`: enough that the BLAS, which rearranges the weights for every product, spends little
on that; the hidden activation of 512 rows of 3,072 float32 is 6 MB."""


class _Sizes(NamedTuple):
    """Leading axes, rows in all, length of a row, of the hidden layer and of a row of the result."""

    leading: tuple[int, ...]
    rows: int
    d: int
    h: int
    d_out: int


def _sizes(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> _Sizes:
    """Return the sizes; raise ValueError, naming all shapes, where the arrays do not fit."""
    shapes = tuple(array.shape for array in (x, w1, b1, w2, b2))
    if not shapes[0] or (len(shapes[1]), len(shapes[3])) != (2, 2):
        raise _mismatch(shapes, "x needs one dimension or more, w1 and w2 need two.")
    (*leading, d), (d_in, h), hidden, (h_in, d_out), last = shapes
    if (d, h) != (d_in, h_in):
        raise _mismatch(shapes, f"x is {d} long, w1 takes {d_in} and gives {h}, and w2 takes {h_in}; transpose one?")
    if (hidden, last) != ((h,), (d_out,)):
        raise _mismatch(shapes, f"the biases must have shapes {(h,)} and {(d_out,)}.")
    return _Sizes(tuple(leading), math.prod(leading), d, h, d_out)


def _mismatch(shapes: tuple[tuple[int, ...], ...], reason: str) -> ValueError:
    needs = "mlp needs x (…, d), w1 (d, h), b1 (h,), w2 (h, d_out) and b2 (d_out,)"
    return ValueError(f"{needs}; got {', '.join(map(str, shapes))}: {reason}")


def _arguments(*operands: ArrayLike) -> list[Array]:
    """Return the operands as arrays that fit together."""
    arrays = [as_blas(array, name) for array, name in zip(operands, NAMES, strict=True)]
    one_dtype(**dict(zip(NAMES, arrays, strict=True)))
    _sizes(*arrays)
    return arrays


def _shaped(*operands: Any) -> tuple[_Sizes, np.dtype[Any]]:
    """Return what costs are made of."""
    arrays = [sized(array, as_blas, name) for array, name in zip(operands, NAMES, strict=True)]
    return _sizes(*arrays), arrays[0].dtype


def _like(dtype: np.dtype[Any], *shape: int) -> Array:
    """Return an array of one element's memory that has a shape, for costs to look at."""
    return np.broadcast_to(np.empty((), dtype), shape)


def _cost(form: Any, *operands: Array) -> Cost:
    """Return what a form of another family costs."""
    return form.cost(*operands)


def reference(x: ArrayLike, w1: ArrayLike, b1: ArrayLike, w2: ArrayLike, b2: ArrayLike) -> NDArray[np.float64]:
    """Return the block's result in float64, whatever real numbers come in.

    >>> reference([[1.0]], [[2.0]], [-1.0], [[10.0]], [0.5])
    array([[8.91191991]])
    """
    x, w1, b1, w2, b2 = (
        np.asarray(as_real(array, name), np.float64) for array, name in zip((x, w1, b1, w2, b2), NAMES, strict=True)
    )
    _sizes(x, w1, b1, w2, b2)
    with np.errstate(all="ignore"):
        return gelu.reference(x @ w1 + b1) @ w2 + b2


def _plain_cost(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Cost:
    """Two products, two additions of a bias, which read one array each and the bias, and `gelu.unfused`."""
    s, dtype = _shaped(x, w1, b1, w2, b2)
    rows, hidden, result = (_like(dtype, s.rows, n) for n in (s.d, s.h, s.d_out))
    add_biases = Cost()
    for array in (hidden, result):
        bias = array.shape[1] * dtype.itemsize
        add_biases += Cost(array.size, 0, array.nbytes + bias, array.nbytes, array.nbytes, calls=1)
    first = _cost(matmul.vectorized, rows, _like(dtype, s.d, s.h))
    second = _cost(matmul.vectorized, hidden, _like(dtype, s.h, s.d_out))
    return first + second + add_biases + _cost(gelu.unfused, hidden)


@costs(_plain_cost)
def plain(x: ArrayLike, w1: ArrayLike, b1: ArrayLike, w2: ArrayLike, b2: ArrayLike) -> Array:
    """Return the block's result as the formula is written, with the GELU of a textbook.

    Ten arrays of the size of the hidden activation are made on the way, nine of them by `gelu.unfused`.

    Parameters
    ----------
    x : array_like
        Rows, ``(…, d)``, float32 or float64.
    w1, b1 : array_like
        Weights ``(d, h)`` and bias ``(h,)`` of the first layer; the dtype of `x`.
    w2, b2 : array_like
        Weights ``(h, d_out)`` and bias ``(d_out,)`` of the second.

    Returns
    -------
    ndarray
        ``(…, d_out)``, of the dtype of `x`.

    Raises
    ------
    TypeError
        Operands of other dtypes or of different ones.
    ValueError
        Shapes that do not fit together.

    >>> plain([[1.0]], [[2.0]], [-1.0], [[10.0]], [0.5])
    array([[8.91191991]])
    """
    x, w1, b1, w2, b2 = _arguments(x, w1, b1, w2, b2)
    with np.errstate(all="ignore"):
        hidden = np.matmul(x, w1) + b1
        active = gelu.unfused(hidden)
        return np.matmul(active, w2) + b2


def _accelerated_cost(
    x: Any,
    w1: Any,
    b1: Any,
    w2: Any,
    b2: Any,
    *,
    out: Any = None,  # noqa: ARG001
    threads: SupportsIndex = 1,
    block_rows: SupportsIndex = ROWS,
) -> Cost:
    """For each block of rows: two products, `gelu.bias_fused` and an addition in place."""
    s, dtype = _shaped(x, w1, b1, w2, b2)
    first, second = _like(dtype, s.d, s.h), _like(dtype, s.h, s.d_out)
    cost = Cost()
    for start, stop in _blocks(s.rows, thread_count(threads), positive_integer(block_rows, "block_rows")):
        rows, hidden, result = (_like(dtype, stop - start, n) for n in (s.d, s.h, s.d_out))
        products = _cost(matmul.vectorized, rows, first) + _cost(matmul.vectorized, hidden, second)
        bias = s.d_out * dtype.itemsize
        add_bias = Cost(result.size, 0, result.nbytes + bias, result.nbytes, calls=1)
        cost += products + _cost(gelu.bias_fused, hidden, _like(dtype, s.h)) + add_bias
    return cost


def _blocks(rows: int, threads: int, block_rows: int) -> list[tuple[int, int]]:
    """Cut the rows into blocks of nearly equal size: none of more than `block_rows`, as many for each thread."""
    per_thread = -(-rows // (threads * block_rows))
    return spans(rows, threads * per_thread) if rows else []


@costs(_accelerated_cost)
def accelerated(
    x: ArrayLike,
    w1: ArrayLike,
    b1: ArrayLike,
    w2: ArrayLike,
    b2: ArrayLike,
    *,
    out: Array | None = None,
    threads: SupportsIndex = 1,
    block_rows: SupportsIndex = ROWS,
) -> Array:
    """Return the block's result, a block of rows at a time, with bias and GELU in one pass over the hidden activation.

    The hidden activation of one block is all that is in memory, and it does not leave the L3 cache.

    Parameters
    ----------
    x, w1, b1, w2, b2
        See `plain`.
    out : ndarray, optional
        Where to put the result: of its exact shape and dtype. Operands that overlap it are copied first; if it is not
        contiguous, the result is copied to it. The cost counts neither.
    threads : int
        How many threads share the blocks. The BLAS uses threads of its own beside them unless it is told not to, as
        `accel.measurement.threads` does.
    block_rows : int
        Most rows in a block.

    Returns
    -------
    ndarray
        ``(…, d_out)``, of the dtype of `x`; `out` itself where given.

    Raises
    ------
    TypeError
        As `plain`; `out` that is not an array or of another dtype; `threads` or `block_rows` that is not an int.
    ValueError
        As `plain`; `out` of another shape, read-only, or whose elements share memory; `threads` or `block_rows` below
        1.

    >>> accelerated([[1.0]], [[2.0]], [-1.0], [[10.0]], [0.5])
    array([[8.91191991]])
    """
    count, most = thread_count(threads), positive_integer(block_rows, "block_rows")
    x, w1, b1, w2, b2 = arrays = _arguments(x, w1, b1, w2, b2)
    s = _sizes(*arrays)
    result = result_array(out, (*s.leading, s.d_out), one_dtype(x=x), *arrays, order="C")
    x, w1, b1, w2, b2 = (array.copy() if overlaps(array, out) else array for array in arrays)
    rows = x.reshape(s.rows, s.d)
    target = result.reshape(s.rows, s.d_out)
    blocks = _blocks(s.rows, count, most)

    def run(blocks: list[tuple[int, int]]) -> None:
        memory = np.empty_like(result, shape=(max(stop - start for start, stop in blocks), s.h))
        with np.errstate(all="ignore"):
            for start, stop in blocks:
                hidden = np.matmul(rows[start:stop], w1, out=memory[: stop - start])
                gelu.bias_fused(hidden, b1, out=hidden)
                np.matmul(hidden, w2, out=target[start:stop])
                np.add(target[start:stop], b2, out=target[start:stop])

    run_parts(run, [(blocks[start:stop],) for start, stop in spans(len(blocks), count)], count)
    if not np.may_share_memory(target, result):
        result[...] = target.reshape(result.shape)
    return result
