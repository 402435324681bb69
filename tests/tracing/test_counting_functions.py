"""Whole small functions, and the rarer calls, against costs derived by hand: n rows of m elements of 8 bytes."""

from __future__ import annotations

import numpy as np
import pytest

from accel.cost import Cost
from accel.tracing import trace

n, m, k = 12, 7, 5
s = n * m
X = np.linspace(0.5, 2.0, s).reshape(n, m)
Y = X[::-1].copy()
A = np.linspace(0.1, 1.0, n * n).reshape(n, n)
V = X[:, 0].copy()
ROW = X[0].copy()
WEIGHTS, BIAS = np.ones((m, k)), np.ones(k)
INTEGERS = np.arange(s).reshape(n, m)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(x):
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)


def log_sum_exp(x):
    top = x.max(axis=1, keepdims=True)
    return top + np.log(np.exp(x - top).sum(axis=1, keepdims=True))


def distances(x):
    return np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=-1))


def moving_average(v):
    total = np.cumsum(v)
    return (total[3:] - total[:-3]) / 3


def stencil(x):
    return 0.25 * (x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1])


def power_step(a, v):
    product = a @ v
    return product / np.linalg.norm(product)


def trapezoid(v):
    return ((v[1:] + v[:-1]) * 0.5).sum()


def triad_in_place(x, y):
    np.multiply(y, 3.0, out=y)
    np.add(x, y, out=y)
    return y


i, t = (n - 2) * (m - 2), n - 3
WHOLE = {
    # function, arrays, flops, special, elements read, elements written, scalars written
    "softmax": (softmax, (X,), 4 * s - 2 * n, s, 5 * s + 2 * n, 3 * s + 2 * n, 0),
    "layer norm": (layer_norm, (X,), 7 * s + 2 * n, 0, 4 * s + 4 * n, 2 * s + 4 * n, 0),
    "log-sum-exp": (log_sum_exp, (X,), 3 * s - n, s + n, 4 * s + 4 * n, 2 * s + 4 * n, 0),
    "axpy": (lambda x, y: 2.0 * x + y, (X, Y), 2 * s, 0, 3 * s, 2 * s, 0),
    "polynomial": (lambda x: ((2 * x + 1) * x + 3) * x, (X,), 5 * s, 0, 7 * s, 5 * s, 0),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), (X,), 3 * s, s, 4 * s, 4 * s, 0),
    "swish": (lambda x: x / (1 + np.exp(-x)), (X,), 3 * s, s, 5 * s, 4 * s, 0),
    "bias and relu": (lambda x, b: np.maximum(x + b, 0), (X, ROW), 2 * s, 0, 2 * s + m, 2 * s, 0),
    "layer": (
        lambda x, w, b: np.tanh(x @ w + b), (X, WEIGHTS, BIAS),
        2 * n * m * k + n * k, n * k, s + m * k + n * k + k + n * k, 3 * n * k, 0,
    ),
    "mean squared error": (lambda x, y: ((x - y) ** 2).mean(), (X, Y), 3 * s, 0, 4 * s, 2 * s, 1),
    "covariance": (
        lambda x: (x - x.mean(axis=0)).T @ (x - x.mean(axis=0)) / n, (X,),
        2 * (s + s) + 2 * m * m * n + m * m, 0, 2 * (s + s + m) + 2 * s + m * m, 2 * (m + s) + 2 * m * m, 0,
    ),
    "distances": (distances, (X,), 3 * n * n * m, 0, 2 * s + 2 * n * n * m + n * n, 2 * n * n * m + 2 * n * n, 0),
    "moving average": (moving_average, (V,), n - 1 + 2 * t, 0, n + 3 * t, n + 2 * t, 0),
    "stencil": (stencil, (X,), 4 * i, 0, 7 * i, 4 * i, 0),
    "rank-one update": (lambda x, u, v: x - np.outer(u, v), (X, V, ROW), 2 * s, 0, n + m + 2 * s, 2 * s, 0),
    "power iteration": (power_step, (A, V), 2 * n * n + 3 * n, 0, n * n + 3 * n, 2 * n, 1),
    "trapezoid": (trapezoid, (V,), 3 * (n - 1) - 1, 0, 4 * (n - 1), 2 * (n - 1), 1),
    "drawdown": (lambda v: (np.maximum.accumulate(v) - v).max(), (V,), 3 * n - 2, 0, 4 * n, 2 * n, 1),
    "rows to one": (lambda x: x / x.sum(axis=1)[:, None], (X,), 2 * s - n, 0, 2 * s + n, n + s, 0),
    "triad in place": (triad_in_place, (X, Y), 2 * s, 0, 3 * s, 2 * s, 2 * s),
    "gram loop": (lambda x: [row @ row for row in x], (X,), 2 * s, 0, s, 0, n),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_whole_functions(name):
    """Results that are scalars, and those of in-place calls, fetch no memory before it is written."""
    function, arrays, flops, special, read, written, unallocated = WHOLE[name]
    found = trace(function, *(array.copy() for array in arrays)).cost
    in_place = name == "triad in place"
    assert found == Cost(
        flops, special, 8 * read, 8 * (written + (0 if in_place else unallocated)),
        0 if in_place else 8 * written, found.calls,
    )  # fmt: skip


INDEX = np.array([3, 0, 3])
CALLS = {
    # the function of X, flops, special, bytes read, bytes written, bytes written without a fetch
    "unsafe cast into out": (
        lambda x: np.add(x, 1, out=np.empty(x.shape, np.int32), casting="unsafe"), s, 0, 8 * s, 4 * s, 0
    ),
    "positional out": (lambda x: np.exp(x, x), 0, s, 8 * s, 8 * s, 8 * s),
    "outer sum": (lambda x: np.add.outer(x[0], x[1]), m * m, 0, 16 * m, 8 * m * m, 0),
    "multiply.at": (lambda x: np.multiply.at(x[0], INDEX, 2.0), 3, 0, 48, 24, 24),
    "sum with initial": (lambda x: x.sum(axis=1, initial=1.0), s, 0, 8 * s, 8 * n, 0),
    "sum in float32": (lambda x: x.sum(axis=1, dtype="f4"), s - n, 0, 8 * s, 4 * n, 0),
    "two axes": (lambda x: x.reshape(3, 4, m).sum(axis=(0, 2)), s - 4, 0, 8 * s, 32, 0),
    "logical": (lambda x: np.logical_and(x, x[0]), s, 0, 8 * (s + m), s, 0),
    "remainder": (lambda x: x % 2, s, 0, 8 * s, 8 * s, 0),
    "arctan2": (lambda x: np.arctan2(x, x[0]), 0, s, 8 * (s + m), 8 * s, 0),
    "float power": (lambda x: x**0.3, 0, s, 8 * s, 8 * s, 0),
    "root by power": (lambda x: x**0.5, s, 0, 8 * s, 8 * s, 0),
    "round": (lambda x: x.round(), s, 0, 8 * s, 8 * s, 0),
    "round to decimals": (lambda x: np.round(x, 2), 3 * s, 0, 8 * s, 8 * s, 0),
    "differences": (lambda x: np.diff(x, axis=0), s - m, 0, 8 * s, 8 * (s - m), 0),
    "trace": (lambda x: np.trace(x[:m]), m - 1, 0, 8 * m * m, 8, 8),
    "inner": (lambda x: np.inner(x, x[:2]), 2 * n * 2 * m, 0, 8 * (s + 2 * m), 8 * n * 2, 0),
    "stacked product": (
        lambda x: x.reshape(3, 4, m) @ x[:m].reshape(m, m), 2 * n * m * m, 0, 8 * (s + m * m), 8 * s, 0
    ),
    "einsum of three": (lambda x: np.einsum("i,j,i->j", x[0], x[1], x[2]), 3 * m * m, 0, 24 * m, 8 * m, 0),
    "norms of rows": (lambda x: np.linalg.norm(x, axis=1), 2 * s, 0, 8 * s, 8 * n, 0),
    "take": (lambda x: np.take(x, INDEX, axis=0), 0, 0, 24 * m + 24, 24 * m, 0),
    "boolean gather": (lambda x: x[np.arange(n) < 4], 0, 0, 8 * 4 * m + n, 8 * 4 * m, 0),
    "fancy assignment": (lambda x: x.__setitem__(INDEX, 0.0), 0, 0, 24, 24 * m, 0),
    "repeat": (lambda x: x.repeat(2, axis=0), 0, 0, 8 * s, 16 * s, 0),
    "tile": (lambda x: np.tile(x, 2), 0, 0, 8 * s, 16 * s, 0),
    "roll": (lambda x: np.roll(x, 1, axis=0), 0, 0, 8 * s, 8 * s, 0),
    "where of two": (lambda x: np.where(x > 1, x, x[0]), s, 0, 8 * s + s + 8 * (s + m), s + 8 * s, 0),
    "vertical stack": (lambda x: np.vstack([x, x[0]]), 0, 0, 8 * (s + m), 8 * (s + m), 0),
    "edge pad": (lambda x: np.pad(x, ((0, 1), (0, 0)), mode="edge"), 0, 0, 8 * s, 8 * (s + m), 0),
    "copyto": (lambda x: np.copyto(x, ROW), 0, 0, 8 * m, 8 * s, 0),
    "integer shift": (lambda x: INTEGERS.view(type(x)) << 1, s, 0, 8 * s, 8 * s, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_rarer_calls(name):
    function, flops, special, read, written, unfetched = CALLS[name]
    ops = [op for op in trace(function, X.copy()).ops if op.name not in ("opaque", "array", "empty", "arange", "less")]
    total = sum((op.cost for op in ops), Cost())
    assert not any(op.opaque for op in ops)
    assert total == Cost(flops, special, read, written, written - unfetched, len(ops))
