"""The functions that the prediction model may be tuned on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.kernels import gelu, matmul

KB, MB = 2**10, 2**20
LADDER = (4 * KB, 64 * KB, 1 * MB, 8 * MB, 64 * MB, 256 * MB)


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
    n = max(4, round((size / 12) ** 0.5))
    return [values(n, n), values(n, n)]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x: np.ndarray) -> np.ndarray:
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = (centered * centered).mean(axis=-1, keepdims=True)
    return centered / np.sqrt(variance + 1e-5)


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
)
