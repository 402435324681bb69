"""What every form of the matrix product asks of its arguments, and what their costs are made of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accel.cost import Cost
from accel.kernels.arguments import as_real, broadcast_shape, overlaps, result_array, sized

__all__ = ["FLOATS", "Sizes", "arguments", "matrices", "result_shape", "sizes", "whole_cost"]

Array = NDArray[Any]

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
"""What compiled forms compute in; they leave other dtypes to `numpy.matmul`."""


def result_shape(a: Any, b: Any) -> tuple[int, ...]:
    """Return the shape of ``a @ b``; raise ValueError, naming both shapes, where there is none."""
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise _mismatch(a, b, "both need two dimensions or more; reshape a vector to a row (1, k) or column (k, 1).")
    if a.shape[-1] != b.shape[-2]:
        raise _mismatch(a, b, f"inner dimensions {a.shape[-1]} and {b.shape[-2]} differ; transpose one?")
    try:
        batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    except ValueError as error:
        raise _mismatch(a, b, f"leading axes {a.shape[:-2]} and {b.shape[:-2]} do not broadcast.") from error
    return (*batch, a.shape[-2], b.shape[-1])


def _mismatch(a: Any, b: Any, reason: str) -> ValueError:
    return ValueError(f"matmul needs (…, m, k) @ (…, k, n): got {a.shape} @ {b.shape}: {reason}")


def arguments(a: Any, b: Any, out: Array | None) -> tuple[Array, Array, Array]:
    """Return both operands and the array to write to, the operands copied where that array overlaps them."""
    if _need_no_check(a, b, out):
        return a, b, np.empty((a.shape[0], b.shape[1]), a.dtype) if out is None else out
    a, b = as_real(a, "a"), as_real(b, "b")
    result = result_array(out, result_shape(a, b), np.result_type(a.dtype, b.dtype), a, b, order="C")
    return a.copy() if overlaps(a, out) else a, b.copy() if overlaps(b, out) else b, result


def _need_no_check(a: Any, b: Any, out: Any) -> bool:
    """Whether these are plain matrices of one float dtype that fit together: the usual case, known in a microsecond."""
    if not (type(a) is type(b) is np.ndarray and a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0]):
        return False
    dtype = a.dtype
    if dtype is not b.dtype or dtype not in FLOATS:
        return False
    if out is None:
        return True
    return (
        type(out) is np.ndarray
        and out.dtype is dtype
        and out.shape == (a.shape[0], b.shape[1])
        and out.flags.c_contiguous
        and out.flags.writeable
        and not np.may_share_memory(a, out)
        and not np.may_share_memory(b, out)
    )


def matrices(a: Array, b: Array, result: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the two-dimensional products that a batched product consists of."""
    batch = result.shape[:-2]
    a = np.broadcast_to(a, batch + a.shape[-2:], subok=True)
    b = np.broadcast_to(b, batch + b.shape[-2:], subok=True)
    for index in product(*map(range, batch)):
        yield a[index], b[index], result[index]


class Sizes(NamedTuple):
    """What the costs are made of: matrices in the batch, m, n, k, and bytes an element of a, b and the result."""

    batch: int
    m: int
    n: int
    k: int
    a: int
    b: int
    c: int


def sizes(a: Any, b: Any) -> Sizes:
    """Return the sizes of a product, from shapes and dtypes alone."""
    a, b = sized(a, as_real, "a"), sized(b, as_real, "b")
    *batch, m, n = result_shape(a, b)
    c = np.result_type(a.dtype, b.dtype).itemsize
    return Sizes(math.prod(batch), m, n, a.shape[-1], a.dtype.itemsize, b.dtype.itemsize, c)


def whole_cost(a: Any, b: Any, **work: int) -> Cost:
    """Each operand read once, the result written once; an array that is both operands is read once."""
    a, b = sized(a, as_real, "a"), sized(b, as_real, "b")
    s = sizes(a, b)
    written = s.batch * s.m * s.n * s.c
    return Cost(
        flops=2 * s.batch * s.m * s.n * s.k,
        bytes_read=a.nbytes if a is b else a.nbytes + b.nbytes,
        bytes_written=written,
        bytes_write_allocate=written,
        **work,
    )
