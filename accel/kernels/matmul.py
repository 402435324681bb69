"""Matrix product: c[…, i, j] = Σₖ a[…, i, k] · b[…, k, j], from the triple loop up to what the BLAS does.

The ladder: `triple_loop` (Python), `row_dot`, `outer_product` and `vectorized` (fewer and larger NumPy calls), `tiled`
(NumPy calls on tiles), `tiled_loops` (compiled loops over tiles), `packed` (compiled for the caches and registers).

All forms take real arrays ``(…, m, k)`` and ``(…, k, n)`` of at least two dimensions, broadcast the leading axes and
choose the result's dtype as `numpy.matmul` does, and give zeros where k is 0. All but `vectorized` accumulate in the
result's dtype, and integers wrap around silently, as in `numpy.matmul`.
"""

from __future__ import annotations

from itertools import product
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost, costs
from accel.kernels.arguments import positive_integer
from accel.kernels.fallback import compiled
from accel.kernels.matmul_arguments import FLOATS, arguments, matrices, sizes, whole_cost
from accel.kernels.matmul_blocks import BlockSizes, block_sizes
from accel.kernels.matmul_packed import packed

__all__ = [
    "BlockSizes",
    "block_sizes",
    "outer_product",
    "packed",
    "row_dot",
    "tiled",
    "tiled_loops",
    "triple_loop",
    "vectorized",
]

Array = NDArray[Any]


def _triple_loop_cost(a: Any, b: Any, *, out: Any = None) -> Cost:  # noqa: ARG001
    s = sizes(a, b)
    return whole_cost(a, b, interpreted=s.batch * s.m * s.n * s.k)


@costs(_triple_loop_cost, opaque=True)
def triple_loop(a: ArrayLike, b: ArrayLike, *, out: Array | None = None) -> Array:
    """Return ``a @ b`` by three Python loops over array elements: the definition, and the baseline of the ladder.

    It makes no NumPy call. Its cost has the bytes of `vectorized`, each operand once, and one interpreted step for
    each multiply-add.

    Parameters
    ----------
    a, b : array_like
        Real numbers, ``(…, m, k)`` and ``(…, k, n)``; leading axes broadcast.
    out : ndarray, optional
        Where to put the result: of its exact shape and dtype. An operand that overlaps it is copied first, which the
        cost does not count.

    Returns
    -------
    ndarray
        Shape ``(…, m, n)``, dtype ``np.result_type(a, b)``; `out` itself where given.

    Raises
    ------
    TypeError
        An operand that is not real; `out` that is not an array or of another dtype.
    ValueError
        Fewer than two dimensions, inner dimensions that differ, leading axes that do not broadcast; `out` of another
        shape, read-only, or whose elements share memory.

    >>> triple_loop([[1.0, 2.0], [3.0, 4.0]], [[5.0], [6.0]])
    array([[17.],
           [39.]])
    >>> triple_loop.cost(np.ones((2, 3)), np.ones((3, 4))).interpreted
    24
    """
    a, b, result = arguments(a, b, out)
    with np.errstate(over="ignore"):
        for left, right, target in matrices(a, b, result):
            _triple_loop_2d(left, right, target)
    return result


def _triple_loop_2d(a: Array, b: Array, result: Array) -> None:
    (m, inner), n = a.shape, b.shape[1]
    for i in range(m):
        for j in range(n):
            total = result.dtype.type(0)
            for k in range(inner):
                total += a[i, k] * b[k, j]
            result[i, j] = total


def _row_dot_cost(a: Any, b: Any, *, out: Any = None) -> Cost:  # noqa: ARG001
    """One dot product of length k for each element of the result."""
    s = sizes(a, b)
    dot = Cost(flops=2 * s.k, bytes_read=s.k * (s.a + s.b), bytes_written=s.c, bytes_write_allocate=s.c, calls=1)
    return (dot + Cost(interpreted=1)) * (s.batch * s.m * s.n)


@costs(_row_dot_cost)
def row_dot(a: ArrayLike, b: ArrayLike, *, out: Array | None = None) -> Array:
    """Return ``a @ b`` by one `numpy.dot` of a row with a column for each element of the result.

    The inner loop is compiled, the two outer ones are not: dispatch overhead is paid m·n times.

    Parameters, errors: see `triple_loop`.

    >>> row_dot([[1.0, 2.0], [3.0, 4.0]], [[5.0], [6.0]])
    array([[17.],
           [39.]])
    """
    a, b, result = arguments(a, b, out)
    for left, right, target in matrices(a, b, result):
        for i, j in product(*map(range, target.shape)):
            target[i, j] = np.dot(left[i], right[:, j])
    return result


def _outer_product_cost(a: Any, b: Any, *, out: Any = None) -> Cost:  # noqa: ARG001
    """K outer products, each into memory that it does not read, and k - 1 additions to the result."""
    s = sizes(a, b)
    size, array = s.m * s.n, s.m * s.n * s.c
    if not s.k:
        return Cost(bytes_written=array, bytes_write_allocate=array, calls=1) * s.batch
    outer = Cost(
        flops=size,
        bytes_read=s.m * s.a + s.n * s.b,
        bytes_written=array,
        bytes_write_allocate=array,
        calls=1,
    )
    accumulate = Cost(flops=size, bytes_read=2 * array, bytes_written=array, calls=1)
    return (outer * s.k + accumulate * (s.k - 1)) * s.batch


@costs(_outer_product_cost)
def outer_product(a: ArrayLike, b: ArrayLike, *, out: Array | None = None) -> Array:
    """Return ``a @ b`` as the sum over k of the outer products of column k of `a` and row k of `b`.

    One Python loop is left, but each step passes over the whole result: memory traffic grows with k. One temporary
    matrix holds the current outer product.

    Parameters, errors: see `triple_loop`.

    >>> outer_product([[1.0, 2.0], [3.0, 4.0]], [[5.0], [6.0]])
    array([[17.],
           [39.]])
    """
    a, b, result = arguments(a, b, out)
    outer = np.empty_like(result, shape=result.shape[-2:])
    for left, right, target in matrices(a, b, result):
        if not left.shape[1]:
            target[...] = 0
        for k in range(left.shape[1]):
            np.multiply(left[:, k : k + 1], right[k : k + 1], out=outer if k else target)
            if k:
                np.add(target, outer, out=target)
    return result


@costs(lambda a, b, *, out=None: whole_cost(a, b, calls=1))  # noqa: ARG005
def vectorized(a: ArrayLike, b: ArrayLike, *, out: Array | None = None) -> Array:
    """Return ``a @ b`` by one `numpy.matmul`, which hands float32 and float64 to the BLAS.

    Parameters, errors: see `triple_loop`.

    >>> vectorized([[1.0, 2.0], [3.0, 4.0]], [[5.0], [6.0]])
    array([[17.],
           [39.]])
    >>> n = np.ones((768, 768), dtype=np.float32)
    >>> vectorized.cost(n, n.copy()).intensity  # FLOP per byte: n / 6 in float32
    128.0
    """
    a, b, result = arguments(a, b, out)
    return np.matmul(a, b, out=result)


def _tiled_cost(a: Any, b: Any, tile_size: SupportsIndex = 64, *, out: Any = None) -> Cost:  # noqa: ARG001
    """Each tile of `a` is read once a column of tiles, each of `b` once a row; each of the result once a step of k."""
    tile = positive_integer(tile_size, "tile_size")
    s = sizes(a, b)
    array = s.m * s.n * s.c
    rows, columns, steps = (-(-size // tile) for size in (s.m, s.n, s.k))
    if not s.k:
        return Cost(bytes_written=array, bytes_write_allocate=array, calls=1) * s.batch
    products = Cost(
        flops=2 * s.m * s.n * s.k,
        bytes_read=s.m * s.k * s.a * columns + s.k * s.n * s.b * rows,
        bytes_written=array * steps,
        bytes_write_allocate=array * steps,
        calls=rows * columns * steps,
    )
    accumulate = Cost(flops=s.m * s.n, bytes_read=2 * array, bytes_written=array, calls=rows * columns)
    return (products + accumulate * (steps - 1)) * s.batch


@costs(_tiled_cost)
def tiled(a: ArrayLike, b: ArrayLike, tile_size: SupportsIndex = 64, *, out: Array | None = None) -> Array:
    """Return ``a @ b`` tile by tile: each tile of the result is a sum of products of tiles of `a` and `b`.

    It shows the idea of tiling, not its gain: the BLAS behind one `vectorized` call already tiles, in registers and
    every cache level, so cutting the work up before only adds calls and passes over the result.

    Parameters
    ----------
    a, b, out
        See `triple_loop`.
    tile_size : int
        Rows and columns of a tile. Tiles at the edges are smaller where it does not divide the shape.

    Raises
    ------
    TypeError, ValueError
        As `triple_loop`; TypeError for a `tile_size` that is not an int, ValueError for one below 1.

    >>> tiled([[1.0, 2.0], [3.0, 4.0]], [[5.0], [6.0]], tile_size=1)
    array([[17.],
           [39.]])
    >>> n = np.ones((256, 256), dtype=np.float32)
    >>> tiled.cost(n, n, tile_size=64).calls
    112
    """
    tile = positive_integer(tile_size, "tile_size")
    a, b, result = arguments(a, b, out)
    partial = np.empty_like(result, shape=tuple(min(tile, size) for size in result.shape[-2:]))
    for left, right, target in matrices(a, b, result):
        if not left.shape[1]:
            target[...] = 0
        for i, j, k in product(*(range(0, size, tile) for size in (*target.shape, left.shape[1]))):
            _add_tile_product(
                left[i : i + tile, k : k + tile],
                right[k : k + tile, j : j + tile],
                target[i : i + tile, j : j + tile],
                None if k == 0 else partial,
            )
    return result


def _add_tile_product(a: Array, b: Array, target: Array, partial: Array | None) -> None:
    """Write ``a @ b`` to `target`, or add it, by way of `partial`, where that is given."""
    if partial is None:
        np.matmul(a, b, out=target)
        return
    addend = partial[: target.shape[0], : target.shape[1]]
    np.matmul(a, b, out=addend)
    np.add(target, addend, out=target)


def _tiled_loops_cost(a: Any, b: Any, tile_size: SupportsIndex = 128, *, out: Any = None) -> Cost:  # noqa: ARG001
    positive_integer(tile_size, "tile_size")
    return whole_cost(a, b, calls=1)


@costs(_tiled_loops_cost, opaque=True)
def tiled_loops(a: ArrayLike, b: ArrayLike, tile_size: SupportsIndex = 128, *, out: Array | None = None) -> Array:
    """Return ``a @ b`` by compiled loops over tiles, small enough to stay in the cache while they are used.

    The loops are those of `triple_loop`, with j innermost, compiled by Numba and cut into tiles. float32 and float64
    only: other dtypes, operands of two dtypes, and everything where Numba is missing are left to `numpy.matmul`. What
    is not contiguous is copied first. The cost has each operand once, and the copies not.

    Parameters
    ----------
    a, b, out
        See `triple_loop`.
    tile_size : int
        Rows, columns and steps of a tile. One as large as the matrices makes plain loops of it. Small tiles stay in
        a nearer cache but have short rows, which spend their time on starting loops: measure what pays.

    Raises
    ------
    TypeError, ValueError
        As `tiled`.

    >>> tiled_loops([[1.0, 2.0], [3.0, 4.0]], [[5.0], [6.0]], tile_size=1)
    array([[17.],
           [39.]])
    """
    tile = positive_integer(tile_size, "tile_size")
    a, b, result = arguments(a, b, out)
    loops = compiled("matmul_loops") if a.dtype == b.dtype and a.dtype in FLOATS else None
    if loops is None:
        return np.matmul(a, b, out=result)
    loops.prepare(result.dtype)
    whole = np.ascontiguousarray(result)
    for left, right, target in matrices(np.ascontiguousarray(a), np.ascontiguousarray(b), whole):
        loops.multiply(left, right, target, tile)
    if whole is not result:
        result[...] = whole
    return result
