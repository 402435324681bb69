"""Function probes: NumPy functions that are no plain pass over their operands, at a few working sets each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from accel.operation_probes import Batch, values

__all__ = ["BY_WORK", "COMPILED_SPECIAL", "FAMILIES", "FAMILY_DTYPES", "NARROW_ELEMENTS", "STREAMING", "function_batch"]

KIB = 2**10
PASS_SIZES = (16, 2 * KIB, 40_000, 400_000, 1_300_000, 5_000_000)
"""Elements: the call alone, in L1, in L2, in L3 twice, out of most caches. Powers of two would compete for sets."""
SCATTERED_SIZES = (16, 2 * KIB, 40_000, 400_000, 1_300_000, 3_000_000)
"""As `PASS_SIZES`, for what goes to every element in no order."""
SLOW_SIZES = (16, 2 * KIB, 60_000)
"""For what takes tens of nanoseconds an element."""
SIDES = (4, 40, 150, 700, 2300)
COMPILED_SPECIAL = "compiled special"
"""Name of the rate of an elementary function in a compiled loop."""
NARROW_ELEMENTS = 48
"""Of the short rows that tell what starting a row costs."""
"""Rows and columns of square matrices, from L1 to DRAM."""
ORDERS = (3, 16, 100, 400)
"""Rows of a system of equations."""

STREAMING_BYTES = 100_000
STREAMING = frozenset({"add.accumulate", "clip", "concatenate", "diff", "outer", "count_nonzero"})
"""Functions that pass over their operands as ufuncs do: measured in L1 and L2, the rest is the stream's."""
BY_WORK = frozenset(
    {"sort", "argsort", "partition", "argpartition", "median", "searchsorted", "convolve", "unique"}
    | {"einsum:rows", "einsum:axpy", "einsum:sum", "linalg.solve", "linalg.inv", "linalg.cholesky", "linalg.det"}
    | {"fft.fft", "fft.rfft"}
)
"""Functions whose cost follows the counted FLOPs, not the elements."""

Made = Iterator[tuple[int, int, Callable[[], Any]]]
"""(bytes of operands and result, units of work, call)"""


def function_batch(family: str, name: str, dtype: str, largest_bytes: int) -> Batch:
    """Return the probes of one function: ``("function", name, dtype, working set, units)``."""
    batch: Batch = {}
    for working_set, units, call in FAMILIES[family][name](dtype):
        if working_set > (STREAMING_BYTES if name in STREAMING else largest_bytes) and len(batch) > 1:
            break
        batch["function", name, dtype, working_set, units] = call
    return batch


def _mask(n: int) -> np.ndarray:
    """Return truth values that no branch predictor learns."""
    return np.random.default_rng(n).random(n) < 0.5


def _one(function: Callable[..., Any], arrays: int = 2, largest: int = 1) -> Any:
    """Return a maker of calls on one vector; `arrays` of its size are read and written in all.

    `largest` is how many times longer than the vector the largest of them is.
    """

    def make(dtype: str) -> Made:
        for n in PASS_SIZES:
            x = values(n, dtype)
            yield n * arrays * x.itemsize, n * largest, partial(function, x)

    return make


def _two(function: Callable[..., Any], arrays: int, largest: int) -> Any:
    """Return a maker of calls on two vectors."""

    def make(dtype: str) -> Made:
        for n in PASS_SIZES:
            x, y = values(n, dtype), values(n, dtype)
            yield n * arrays * x.itemsize, n * largest, partial(function, x, y)

    return make


def _where(dtype: str) -> Made:
    for n in PASS_SIZES:
        x, y, mask = values(n, dtype), values(n, dtype), _mask(n)
        yield n * (3 * x.itemsize + 1), n, partial(np.where, mask, x, y)


def _taken(dtype: str) -> Made:
    for n in SCATTERED_SIZES:
        x, order = values(n, dtype), np.random.default_rng(n).permutation(n)
        yield n * (2 * x.itemsize + 8), n, partial(x.__getitem__, order)


def _rows_taken(dtype: str) -> Made:
    width = 64
    for n in PASS_SIZES:
        count = max(1, n // width)
        x, order = values(count * width, dtype).reshape(count, width), np.random.default_rng(n).permutation(count)
        yield 2 * x.nbytes, x.size, partial(x.__getitem__, order)


def _masked(dtype: str) -> Made:
    for n in PASS_SIZES:
        x, mask = values(n, dtype), _mask(n)
        yield n * (x.itemsize * 3 // 2 + 1), n, partial(x.__getitem__, mask)


def _put_masked(dtype: str) -> Made:
    for n in PASS_SIZES:
        x, mask = values(n, dtype), _mask(n)
        yield n * (x.itemsize + 1), n, partial(x.__setitem__, mask, 0)


def _put(dtype: str) -> Made:
    for n in SCATTERED_SIZES:
        x, y, order = values(n, dtype), values(n, dtype), np.random.default_rng(n).permutation(n)
        yield n * (2 * x.itemsize + 8), n, partial(x.__setitem__, order, y)


def _putmask(dtype: str) -> Made:
    for n in PASS_SIZES:
        x, mask = values(n, dtype), _mask(n)
        yield n * (x.itemsize + 1), n, partial(np.putmask, x, mask, 0)


def _truths(function: Callable[..., Any]) -> Any:
    def make(_dtype: str) -> Made:
        for n in PASS_SIZES:
            mask = _mask(n)
            yield n, n, partial(function, mask)

    return make


def _columns(dtype: str) -> Made:
    for n in SIDES:
        x = values(n * n, dtype).reshape(n, n)
        yield 2 * x.nbytes, x.size, partial(np.ascontiguousarray, x.T)


def _conflicting_columns(dtype: str) -> Made:
    """Columns whose elements are a multiple of 2 KB apart, and so compete for a few sets of every cache."""
    for n in (4, 512, 1024, 2048):
        x = values(n * n, dtype).reshape(n, n)
        yield 2 * x.nbytes, x.size, partial(np.ascontiguousarray, x.T)


def _outer(dtype: str) -> Made:
    for n in SIDES:
        x = values(n, dtype)
        yield n * n * x.itemsize, n * n, partial(np.outer, x, x)


def _matrix_vector(dtype: str) -> Made:
    for n in SIDES:
        a, x, out = values(n * n, dtype).reshape(n, n), values(n, dtype), np.empty(n, dtype)
        yield a.nbytes, a.size, partial(np.matmul, a, x, out=out)


def _vector_matrix(dtype: str) -> Made:
    for n in SIDES:
        a, x, out = values(n * n, dtype).reshape(n, n), values(n, dtype), np.empty(n, dtype)
        yield a.nbytes, a.size, partial(np.matmul, x, a, out=out)


def _narrow_rows(function: Callable[[np.ndarray], Callable[[], Any]], sizes: tuple[int, ...] = SIDES) -> Any:
    """Return a maker of calls on matrices in short rows, with as many elements as square ones."""

    def make(dtype: str) -> Made:
        for n in sizes:
            rows = max(1, n * n // NARROW_ELEMENTS)
            x = values(rows * NARROW_ELEMENTS, dtype).reshape(rows, NARROW_ELEMENTS)
            yield x.nbytes, x.size, function(x)

    return make


def _stacked_products(dtype: str) -> Made:
    """Units are products, of matrices so small that starting one is all it costs."""
    for count in (1, 64, 4096):
        a = values(count * 16, dtype).reshape(count, 4, 4)
        yield 3 * a.nbytes, count, partial(np.matmul, a, a)


def _sorting(function: Callable[..., Any], arrays: int = 2) -> Any:
    """N log2 n comparisons of a vector in no order."""

    def make(dtype: str) -> Made:
        for n in SLOW_SIZES:
            x = values(n, dtype)
            yield n * arrays * x.itemsize, round(n * np.log2(n)), partial(function, x)

    return make


def _selecting(function: Callable[..., Any]) -> Any:
    def make(dtype: str) -> Made:
        for n in SLOW_SIZES:
            x = values(n, dtype)
            yield 2 * x.nbytes, 2 * n, partial(function, x, n)

    return make


def _searchsorted(dtype: str) -> Made:
    for n in SLOW_SIZES:
        x = values(n, dtype)
        ordered = np.sort(x)
        work = n * int(np.ceil(np.log2(n + 1)))
        yield n * (2 * x.itemsize + 8), work, partial(np.searchsorted, ordered, x)


def _convolve(dtype: str) -> Made:
    w = values(16, dtype)
    for n in SLOW_SIZES:
        x = values(n, dtype)
        yield 2 * x.nbytes, 2 * n * w.size, partial(np.convolve, x, w)


def _einsum_dots(width: int) -> Any:
    def make(dtype: str) -> Made:
        for n in (width, 2 * KIB, 40_000, 400_000, 4_000_000):
            a = values(max(1, n // width) * width, dtype).reshape(-1, width)
            yield 2 * a.nbytes, 2 * a.size, partial(np.einsum, "ij,ij->i", a, a.copy())

    return make


def _einsum_product(dtype: str) -> Made:
    for n in (2, 30, 120):
        a = values(n * n, dtype).reshape(n, n)
        yield 3 * a.nbytes, 2 * n**3, partial(np.einsum, "ij,jk->ik", a, a)


def _einsum_sum(dtype: str) -> Made:
    for n in (4, 40, 250, 1000):
        a = values(n * n, dtype).reshape(n, n)
        yield a.nbytes, a.size - n, partial(np.einsum, "ij->j", a)


def _systems(function: Callable[..., Any], numerator: int, denominator: int) -> Any:
    def make(dtype: str) -> Made:
        for n in ORDERS:
            a = values(n * n, dtype).reshape(n, n) / n
            a = a + a.T + 3 * np.eye(n, dtype=dtype)
            yield 2 * a.nbytes, max(1, numerator * n**3 // denominator), partial(function, a)

    return make


def _solve(dtype: str) -> Made:
    for n in ORDERS:
        a, b = values(n * n, dtype).reshape(n, n) + n * np.eye(n, dtype=dtype), values(n, dtype)
        yield a.nbytes, 2 * n**3 // 3 + 2 * n * n, partial(np.linalg.solve, a, b)


def _transform(function: Callable[..., Any], flops_each: float) -> Any:
    def make(dtype: str) -> Made:
        for n in (16, 2 * KIB, 2**16):
            x = values(n, dtype)
            yield 24 * n, round(flops_each * n * np.log2(n)), partial(function, x)

    return make


FAMILIES: dict[str, dict[str, Any]] = {
    "passes": {
        "add.accumulate": _one(np.cumsum),
        "clip": _one(lambda x: np.clip(x, 0.7, 1.2)),
        "concatenate": _two(lambda x, y: np.concatenate((x, y)), arrays=4, largest=2),
        "dot": _two(np.dot, arrays=2, largest=1),
        "columns": _columns,
        "matvec": _matrix_vector,
        "vecmat": _vector_matrix,
        "stacked products": _stacked_products,
        "sort": _sorting(np.sort),
    },
    "rarer": {
        "where": _where,
        "var": _one(np.var),
        "std": _one(np.std),
        "columns:conflict": _conflicting_columns,
        "einsum:rows": _einsum_dots(512),
        "einsum:rows:narrow": _einsum_dots(NARROW_ELEMENTS),
        "einsum:axpy": _einsum_product,
        "take": _taken,
        "take:rows": _rows_taken,
        "take:mask": _masked,
        "put:mask": _put_masked,
        "put": _put,
        "putmask": _putmask,
        "repeat": _one(lambda x: np.repeat(x, 4), arrays=5, largest=4),
        "stack:last": _two(lambda x, y: np.stack((x, y), axis=-1), arrays=4, largest=2),
        "outer": _outer,
        "linalg.norm": _one(np.linalg.norm, arrays=1),
        "zeros": _one(np.zeros_like, arrays=1),
        "diff": _one(np.diff),
        "round": _one(np.round),
        "roll": _one(lambda x: np.roll(x, 1)),
        "einsum:sum": _einsum_sum,
        "argsort": _sorting(np.argsort, arrays=3),
        "partition": _selecting(lambda x, n: np.partition(x, n // 2)),
        "median": _selecting(lambda x, _n: np.median(x)),
        "searchsorted": _searchsorted,
        "convolve": _convolve,
    },
    "rows": {
        "argmax": _one(np.argmax, arrays=1),
        "matvec:narrow": _narrow_rows(lambda x: partial(np.matmul, x, x[0].copy())),
        "vecmat:narrow": _narrow_rows(lambda x: partial(np.matmul, np.ones(len(x), x.dtype), x)),
        "argmax:narrow": _narrow_rows(lambda x: partial(x.argmax, axis=1)),
    },
    "truths": {"count_nonzero": _truths(np.count_nonzero), "nonzero": _truths(np.nonzero)},
    "doubles": {
        "linalg.solve": _solve,
        "linalg.inv": _systems(np.linalg.inv, 2, 1),
        "linalg.cholesky": _systems(np.linalg.cholesky, 1, 3),
        "linalg.det": _systems(np.linalg.det, 2, 3),
        "fft.fft": _transform(np.fft.fft, 5),
        "fft.rfft": _transform(np.fft.rfft, 2.5),
    },
}
"""Functions by what they are measured on: float32 and float64; float32 alone; truth values; float64 alone."""
FAMILY_DTYPES = {
    "passes": ("float32", "float64"),
    "rarer": ("float32",),
    "rows": ("float32",),
    "truths": ("bool",),
    "doubles": ("float64",),
}
