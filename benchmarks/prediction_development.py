"""The functions that the prediction model may be tuned on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from accel.kernels import gelu, matmul

KB, MB = 2**10, 2**20
LADDER = (4 * KB, 64 * KB, 1 * MB, 8 * MB, 64 * MB, 256 * MB)
SMALL = (2 * KB, 32 * KB, 500 * KB, 6 * MB, 48 * MB)
"""Sizes between those of the ladder."""
FEW = (4 * KB, 200 * KB, 8 * MB)
"""For what takes long, or whose time is arithmetic."""


@dataclass(frozen=True)
class Case:
    """A function, how to make its arguments for a working set in bytes, and the working sets to try."""

    name: str
    function: Callable[..., Any]
    make: Callable[[int], Sequence[Any]]
    working_sets: tuple[int, ...] = LADDER


def values(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return values in [0.5, 1.5): in every function's domain."""
    return (np.random.default_rng(sum(shape)).random(shape, dtype=np.float32) + np.float32(0.5)).astype(dtype)


def vectors(count: int, dtype: str = "float32", *, parts: int | None = None) -> Callable[[int], Sequence[Any]]:
    """Return a maker of `count` vectors, each as long as if `parts` of them (results too) filled the working set."""
    itemsize = np.dtype(dtype).itemsize
    return lambda size: [values(size // (parts or count) // itemsize, dtype=dtype) for _ in range(count)]


def rows(width: int, arrays: int = 2) -> Callable[[int], Sequence[Any]]:
    """Return a maker of one matrix with rows of `width`; `arrays` of its size fill the working set."""
    return lambda size: [values(max(1, size // 4 // arrays // width), width)]


def square(size: int) -> Sequence[Any]:
    """Return two square matrices that fill the working set with their product."""
    n = max(4, round((size / 12) ** 0.5))
    return [values(n, n), values(n, n)]


def image(size: int, arrays: int = 2) -> Sequence[Any]:
    """Return a square matrix; `arrays` of its size fill the working set."""
    n = max(8, round((size / 4 / arrays) ** 0.5))
    return [values(n, n)]


def signed(size: int) -> Sequence[Any]:
    """Return normally distributed values; two such arrays fill the working set."""
    return [np.random.default_rng(size).standard_normal(size // 8, dtype=np.float32)]


def indices(size: int) -> Sequence[Any]:
    """Return a vector and a random order of it."""
    n = size // 16
    return [values(n), np.random.default_rng(n).permutation(n)]


def layer_inputs(size: int) -> Sequence[Any]:
    """Return inputs (rows of 128), a 128 x 256 weight matrix and a bias."""
    return [values(max(1, size // 4 // (128 + 256)), 128), values(128, 256), values(256)]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x: np.ndarray) -> np.ndarray:
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = (centered * centered).mean(axis=-1, keepdims=True)
    return centered / np.sqrt(variance + 1e-5)


def rms_norm(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + 1e-6)


def batch_norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-5)


def horner(x: np.ndarray) -> np.ndarray:
    return ((0.3 * x + 0.2) * x + 0.1) * x - 0.5


def horner_in_place(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    np.multiply(x, 0.3, out=y)
    for coefficient in (0.2, 0.1, -0.5):
        y += coefficient
        y *= x
    return y


def black_scholes(spot: np.ndarray, strike: np.ndarray) -> np.ndarray:
    d = (np.log(spot / strike) + 0.06) / 0.2
    return spot / (1 + np.exp(-1.6 * d)) - strike * np.exp(-0.05)


def haversine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    s = np.sin((b - a) * 0.5) ** 2 + np.cos(a) * np.cos(b) * 0.3
    return 2.0 * np.arcsin(np.sqrt(np.clip(s, 0.0, 1.0)))


def laplace_step(u: np.ndarray) -> np.ndarray:
    out = u.copy()
    out[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return out


def dense(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.maximum(x @ w + b, 0)


def attention(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    return softmax(q @ k.T * 0.125) @ k


def cosine_similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sum(a * b) / (np.linalg.norm(a) * np.linalg.norm(b))


def pairwise(points: np.ndarray) -> np.ndarray:
    return np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=-1))


def nearest_centroid(points: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    squared = (points**2).sum(axis=1)[:, None] - 2 * points @ centroids.T + (centroids**2).sum(axis=1)
    return squared.argmin(axis=1)


def moving_average(x: np.ndarray) -> np.ndarray:
    total = np.cumsum(x)
    return (total[8:] - total[:-8]) / 8


def standardised(x: np.ndarray) -> np.ndarray:
    return (x - np.mean(x)) / np.std(x)


def gradient_step(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    p = 1 / (1 + np.exp(-(x @ w)))
    return w - 0.01 * (x.T @ (p - y)) / len(y)


def escape(z: np.ndarray) -> np.ndarray:
    c = z.copy()
    for _ in range(3):
        z = z * z + c
    return np.abs(z) < 2


def greys(pixels: np.ndarray) -> np.ndarray:
    return (0.299 * pixels[..., 0] + 0.587 * pixels[..., 1] + 0.114 * pixels[..., 2]).astype(np.uint8)


def adam(p: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray) -> np.ndarray:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 0.001 * m / (np.sqrt(v) + 1e-8)


def conv_as_product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
    return windows.reshape(-1, 9) @ w


def points(size: int) -> Sequence[Any]:
    """Return points in three dimensions of which every pair fits the working set."""
    return [values(max(4, round((size / 4 / 7) ** 0.5)), 3)]


def clusters(size: int) -> Sequence[Any]:
    return [values(max(8, size // 4 // (16 + 32)), 16), values(32, 16)]


def regression(size: int) -> Sequence[Any]:
    n = max(4, size // 4 // 50)
    return [values(50), values(n, 50), values(n)]


def queries(size: int) -> Sequence[Any]:
    n = max(4, round((size / 12) ** 0.5))
    return [values(n, 64), values(n, 64)]


def spd(size: int) -> Sequence[Any]:
    """Return a matrix that is easy to solve with, in float64, and a right-hand side."""
    n = max(3, round((size / 16) ** 0.5))
    return [values(n, n, dtype="float64") + n * np.eye(n), values(n, dtype="float64")]


def colours(size: int) -> Sequence[Any]:
    n = max(4, round((size / 16) ** 0.5))
    return [(values(n, n, 3) * 100).astype(np.uint8)]


def complexes(size: int) -> Sequence[Any]:
    n = size // 32
    return [(values(n, dtype="float64") - 1.2 + 0.3j)]


def whole(dtype: str, count: int = 1) -> Callable[[int], Sequence[Any]]:
    """Return a maker of vectors of whole numbers from 1 to 100, each as long as if one more filled the working set."""
    itemsize = np.dtype(dtype).itemsize

    def make(size: int) -> Sequence[Any]:
        draw = np.random.default_rng(size)
        return [draw.integers(1, 100, size // (count + 1) // itemsize).astype(dtype) for _ in range(count)]

    return make


def table(width: int, dtype: str = "float32", arrays: int = 1) -> Callable[[int], Sequence[Any]]:
    """Return a maker of `arrays` matrices with rows of `width`, each half of the working set or its share."""
    itemsize = np.dtype(dtype).itemsize
    return lambda size: [values(max(1, size // (2 * itemsize * width)), width, dtype=dtype) for _ in range(arrays)]


def stacks(n: int) -> Callable[[int], Sequence[Any]]:
    """Return a maker of two stacks of square matrices that fill the working set with their products."""
    return lambda size: [values(max(1, size // (12 * n * n)), n, n)] * 2


def rows_to_take(size: int) -> Sequence[Any]:
    n = max(4, size // 512)
    return [values(n, 64), np.random.default_rng(0).permutation(n)]


def matrix_and_vector(size: int) -> Sequence[Any]:
    [matrix] = image(size, 1)
    return [matrix, matrix[0].copy()]


def image_and_filters(size: int) -> Sequence[Any]:
    n = max(5, round((size / 48) ** 0.5))
    return [values(n, n), values(9, 8)]


def doubles(size: int) -> Sequence[Any]:
    return [matrix.astype("float64") for matrix in square(size // 2)]


def power_of_two(size: int) -> Sequence[Any]:
    return [values(2 ** round(np.log2(size / 24)), dtype="float64")]


UNARY = partial(vectors, 1, parts=2)

CASES = (
    Case("add", np.add, vectors(2, parts=3)),
    Case("add, out", lambda a, b, out: np.add(a, b, out=out), vectors(3)),
    Case("triad", lambda a, b: a + 1.5 * b, vectors(2, parts=3)),
    Case("gelu, expression", gelu.expression, vectors(1, parts=2), LADDER[1:5]),
    Case("gelu, in place", gelu.in_place, vectors(1, parts=2), LADDER[1:]),
    Case("gelu, blocked", gelu.blocked, vectors(1, parts=2), LADDER[1:]),
    Case("exp", np.exp, vectors(1, parts=2)),
    Case("sqrt, float64", np.sqrt, vectors(1, "float64", parts=2)),
    Case("softmax", softmax, rows(256)),
    Case("layer norm", layer_norm, rows(256)),
    Case("sum", np.sum, vectors(1)),
    Case("matmul", matmul.vectorized, square, (12 * KB, 100 * KB, 800 * KB, 6 * MB, 12 * MB)),
    # Elementwise
    Case("horner", horner, UNARY(), SMALL),
    Case("horner, in place", horner_in_place, vectors(2), SMALL),
    Case("relu", lambda x: np.maximum(x, 0), signed),
    Case("leaky relu", lambda x: np.where(x > 0, x, 0.01 * x), signed, SMALL),
    Case("square, operator", lambda x: x**2, UNARY(), SMALL),
    Case("cube, operator", lambda x: x**3, signed, FEW),
    Case("log1p, float64", np.log1p, UNARY("float64"), FEW),
    Case("arctan2", np.arctan2, vectors(2, parts=3), FEW),
    Case("cbrt", np.cbrt, UNARY(), FEW),
    Case("sin and cos", lambda x: np.sin(x) + np.cos(x), UNARY("float64"), FEW),
    Case("count above", lambda x: np.count_nonzero(x > 1), UNARY(), SMALL),
    Case("between", lambda x: (x > 0.7) & (x < 1.2), UNARY(), SMALL),
    Case("all finite", lambda x: np.isfinite(x).all(), UNARY(), SMALL),
    Case("clip", lambda x: np.clip(x, 0.7, 1.2), UNARY()),
    Case("black scholes", black_scholes, vectors(2, "float64", parts=4), SMALL),
    Case("haversine", haversine, vectors(2, parts=4), FEW),
    Case("adam", adam, vectors(4, parts=6), LADDER),
    Case("float32 + float64", lambda a: a * np.float64(0.3), UNARY(), SMALL),
    Case("int32, axpy", lambda a, b: 3 * a + b, whole("int32", 2), SMALL),
    Case("int64, remainder", lambda a, b: a % b, whole("int64", 2), FEW),
    Case("int64, divide", lambda a, b: a / b, whole("int64", 2), FEW),
    Case("uint8 to float", lambda a: a.astype(np.float32) / 255, whole("uint8"), SMALL),
    Case("complex escape", escape, complexes, FEW),
    # Reductions
    Case("mean", np.mean, vectors(1)),
    Case("mean, method, float64", lambda x: x.mean(), vectors(1, "float64"), SMALL),
    Case("variance", np.var, vectors(1, parts=2), SMALL),
    Case("standardised", standardised, UNARY()),
    Case("sum of columns", lambda x: x.sum(axis=0), rows(200, 1), SMALL),
    Case("sum of rows", lambda x: x.sum(axis=1), rows(200, 1), LADDER),
    Case("sum of short rows", lambda x: x.sum(axis=-1), rows(3, 1), FEW),
    Case("range", lambda x: x.max() - x.min(), vectors(1), SMALL),
    Case("argmax of rows", lambda x: x.argmax(axis=1), rows(100, 1), SMALL),
    Case("argmax", np.argmax, vectors(1), FEW),
    Case("norm", np.linalg.norm, vectors(1), SMALL),
    Case("dot", np.dot, vectors(2), LADDER),
    Case("cosine similarity", cosine_similarity, vectors(2), SMALL),
    Case("moving average", moving_average, UNARY(), SMALL),
    Case("cumsum of rows, float64", lambda x: np.cumsum(x, axis=1), table(100, "float64"), FEW),
    Case("median", np.median, vectors(1), FEW),
    # Broadcasting and layout
    Case("rms norm", rms_norm, rows(64), SMALL),
    Case("batch norm", batch_norm, rows(32), SMALL),
    Case("outer", lambda a: np.outer(a, a), lambda s: [values(max(4, round((s / 4) ** 0.5)))], SMALL),
    Case("pairwise distances", pairwise, points, FEW),
    Case("transpose, copied", lambda x: np.ascontiguousarray(x.T), image, LADDER),
    Case("x + x.T", lambda x: x + x.T, image, SMALL),
    Case("fortran order", lambda x: x * 2 + 1, lambda s: [np.asfortranarray(image(s)[0])], SMALL),
    Case("every other", lambda x: x[::2] * 2, UNARY(), SMALL),
    Case("one column", lambda x: x[:, 3] + 1, rows(64, 1), SMALL),
    Case("flipped", lambda x: x[::-1].copy(), UNARY(), FEW),
    Case("concatenate", lambda a, b: np.concatenate([a, b]), vectors(2, parts=4)),
    Case("stack, last", lambda a, b: np.stack([a, b], axis=-1), vectors(2, parts=4), FEW),
    Case("laplace step", laplace_step, image),
    Case("take, random", lambda x, order: x[order], indices),
    Case("take rows", lambda x, order: x[order], rows_to_take, FEW),
    Case("mask", lambda x: x[x > 1.0], UNARY(), SMALL),
    Case("assign to mask", lambda x: np.putmask(y := x.copy(), y > 1.0, 0), UNARY(), FEW),
    Case("sort", np.sort, UNARY(), FEW),
    Case("argsort", np.argsort, vectors(1, parts=3), FEW),
    Case("searchsorted", lambda x, v: np.searchsorted(x, v), lambda s: [np.sort(values(s // 8)), values(s // 8)], FEW),
    Case("repeat", lambda x: np.repeat(x, 4), vectors(1, parts=5), FEW),
    Case("greys", greys, colours),
    Case("zeros", lambda x: np.zeros_like(x), vectors(1), SMALL),
    Case("copy", np.copy, UNARY()),
    # Products
    Case("matmul, float64", np.matmul, doubles, (10 * KB, 120 * KB, 2 * MB, 9 * MB)),
    Case("matrix times vector", lambda a, x: a @ x, matrix_and_vector, LADDER),
    Case("vector times matrix", lambda a, x: x @ a, matrix_and_vector, SMALL),
    Case("gram matrix", lambda x: x.T @ x, lambda s: [values(max(4, s // 4 // 48), 48)], SMALL),
    Case("product with transpose", lambda a, b: a @ b.T, square, (20 * KB, 500 * KB, 4 * MB)),
    Case("small products", np.matmul, stacks(4), FEW),
    Case("products of 32", np.matmul, stacks(32), (48 * KB, 6 * MB)),
    Case("dense layer", dense, layer_inputs, (100 * KB, MB, 16 * MB, 100 * MB)),
    Case("attention", attention, queries, (50 * KB, MB, 12 * MB)),
    Case("nearest centroid", nearest_centroid, clusters, SMALL),
    Case("gradient step", gradient_step, regression, LADDER),
    Case("convolution as product", conv_as_product, image_and_filters, FEW),
    Case("einsum, row dots", lambda a, b: np.einsum("ij,ij->i", a, b), table(100, arrays=2), SMALL),
    Case("einsum, product", lambda a, b: np.einsum("ij,jk->ik", a, b), square, (3 * KB, 50 * KB, 500 * KB)),
    Case("einsum, trace", lambda a: np.einsum("ij->j", a), lambda s: image(s, 1), FEW),
    Case("solve", np.linalg.solve, spd, (2 * KB, 100 * KB, 2 * MB)),
    Case("inverse", lambda a, _: np.linalg.inv(a), spd, (2 * KB, 100 * KB, 2 * MB)),
    Case("cholesky", lambda a, _: np.linalg.cholesky(a), spd, (4 * KB, 300 * KB)),
    Case("fft", np.fft.fft, power_of_two, (4 * KB, 200 * KB, 4 * MB)),
    Case("rfft of rows", lambda x: np.fft.rfft(x, axis=1), table(256, "float64"), FEW),
    Case("convolve", lambda x, w: np.convolve(x, w), lambda s: [values(s // 8), values(16)], FEW),
)  # fmt: skip
