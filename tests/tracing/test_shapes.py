"""A trace of shapes alone gives the operations of a trace of real arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accel.tracing import array_like, trace
from accel.tracing.operations import Op, Trace


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def blocked(x):
    out, scratch = np.empty_like(x), np.empty(100, x.dtype)
    flat, result = x.reshape(-1), out.reshape(-1)
    for i in range(0, flat.size, 100):
        part = flat[i : i + 100]
        s = scratch[: part.size]
        np.multiply(part, part, out=s)
        np.add(s, 1, out=result[i : i + 100])
    return out


def in_place(x):
    y = x.copy()
    y += 1
    y *= x
    y[1:] -= y[:-1]
    y[0] = 0
    y[:, 1] = x[:, 0]
    return y


def convolution(x):
    total = np.zeros((x.shape[0] - 2, x.shape[1] - 2), x.dtype)
    for i in range(3):
        for j in range(3):
            total += x[i : i + total.shape[0], j : j + total.shape[1]] * 0.1
    return total


def attention(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    return softmax(scores) @ v


def mixed_dtypes(x):
    return (x.astype(np.float32) + np.arange(x.shape[1])) * np.float64(2)


def elided(x):
    return -abs((x + x) * x) / x + ((x * x) ** 2 - x)


UNARY = {
    "gelu": gelu,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "blocked": blocked,
    "in_place": in_place,
    "convolution": convolution,
    "mixed_dtypes": mixed_dtypes,
    "elided": elided,
    "matmul": lambda x: x @ x.T,
    "dot": lambda x: x.dot(x.T) + np.inner(x, x) + np.tensordot(x, x.T, 1),
    "vector": lambda x: x[0] @ x[1] + np.vdot(x[2], x[3]),
    "reductions": lambda x: (x.sum(), x.sum(0), x.sum(1), x.max(), np.min(x, axis=0), x.any(), x.all(1), x.prod()),
    "statistics": lambda x: (x.mean(), x.mean(0), x.var(1), x.std(), np.mean(x, axis=-1, keepdims=True)),
    "scans": lambda x: (x.cumsum(), np.cumsum(x, axis=1), np.add.accumulate(x, 0), np.multiply.outer(x[0], x[1])),
    "positions": lambda x: (x.argmax(), x.argmin(0), np.argmax(x, axis=1)),
    "joined": lambda x: (np.concatenate([x, x], 1), np.stack([x, x]), np.vstack([x, x]), np.hstack([x, x])),
    "chosen": lambda x: (np.where(x > 0, x, 0), np.clip(x, 0, 1), x.clip(0, None), np.maximum(x, 0)),
    "copies": lambda x: (x.T.copy(), np.copy(x.T), x.astype(np.float16), x.T.reshape(-1), x.ravel(), x.flatten()),
    "made": lambda x: x + np.ones_like(x) + np.zeros(x.shape) + np.full(x.shape, 2.0) + np.arange(x.shape[1]),
    "views": lambda x: (x.T, x[None], x[::-1], x.reshape(-1), np.squeeze(x[None]), np.expand_dims(x, 0), x[..., 0]),
    "converted": lambda x: (np.asarray(x), np.asarray(x, dtype=np.float16), np.ascontiguousarray(x.T), np.array(x)),
    "powers": lambda x: (x**2, x**0.5, x**-1, x**1, x**3, x**2.5, 2.0**x),
    "gathered": lambda x: (x[[1, 2]], np.take(x, [0, 1], axis=1), x[1:3, [0, 1]]),
    "sorted": lambda x: (np.sort(x), np.sort(x, axis=0), x.argsort(), np.sort(x, axis=None)),
    "comparison": lambda x: ((x > 1) & (x < 2)).sum(),
    "outputs": lambda x: np.add(x, 1, out=np.empty_like(x)),
    "einsum": lambda x: (np.einsum("ij,kj->ik", x, x), np.einsum("ij->", x), np.einsum("ij,ij->i", x, x)),
    "pad": lambda x: np.pad(x, 1),
    "linalg": lambda x: np.linalg.norm(x) + np.linalg.solve(x[:5, :5] + 3 * np.eye(5), x[0, :5]).sum(),
    "fft": lambda x: (np.fft.fft(x), np.fft.rfft(x, axis=0)),
    "broadcast": lambda x: x + x[0] + x[:, :1] * x.T[0, 0],
    "iteration": lambda x: sum(row.sum() for row in x),
    "divmod": lambda x: divmod(x, 2),
}


def comparable(trace: Trace) -> list[Op]:
    """The ops without what a run alone knows: times, and the values of scalars that were computed."""
    ops = [op for op in trace.ops if op.kind != "opaque"]
    return [
        replace(op, index=i, seconds=0.0, scalars=tuple(replace(s, value=0) for s in op.scalars))
        for i, op in enumerate(ops)
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "order"), [((12, 9), "C"), ((12, 9), "F"), ((300, 400), "C")])
@pytest.mark.parametrize("name", UNARY)
def test_same_operations(name, shape, order, dtype):
    rng = np.random.default_rng(1)
    x = np.asarray(rng.random(shape) + 0.5, dtype=dtype, order=order)
    real, shapes = trace(UNARY[name], x), trace(UNARY[name], array_like(shape, dtype, order))
    assert comparable(shapes) == comparable(real)
    assert shapes.cost == replace(real.cost, interpreted=0)
    assert shapes.buffers == real.buffers
    assert shapes.peak_temporary_bytes == real.peak_temporary_bytes
    assert shapes.shapes_only
    assert shapes.seconds == 0.0


@pytest.mark.parametrize("dtype", ["int32", "bool", "complex64"])
@pytest.mark.parametrize("name", ["reductions", "statistics", "matmul", "made", "copies", "broadcast", "scans"])
def test_same_operations_on_other_dtypes(name, dtype):
    x = (np.arange(108).reshape(12, 9) % 3).astype(dtype)
    real, shapes = trace(UNARY[name], x), trace(UNARY[name], array_like((12, 9), dtype))
    assert comparable(shapes) == comparable(real)


def test_several_arguments():
    q, k, v = (np.random.default_rng(0).random((2, 16, 8)) for _ in range(3))
    shapes = trace(attention, *(array_like((2, 16, 8)) for _ in range(3)))
    assert comparable(shapes) == comparable(trace(attention, q, k, v))


def test_nothing_is_allocated():
    """Arrays of 40 TB are traced in the memory of their descriptions."""
    n = 100_000
    found = trace(lambda x: (x @ x.T + np.zeros((n, n))).sum(), array_like((n, n), "float64"))
    assert found.cost.flops == 2 * n**3 + n**2 + (n**2 - 1)
    assert found.peak_temporary_bytes == 2 * 8 * n**2


def test_attributes():
    x = array_like((3, 4), "float32", order="F")
    real = np.empty((3, 4), np.float32, order="F")
    for name in ("shape", "dtype", "size", "nbytes", "ndim", "itemsize", "strides"):
        assert getattr(x, name) == getattr(real, name)
    assert len(x) == 3
    assert repr(x) == "array_like((3, 4), 'float32')"
    assert array_like(5).shape == (5,)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: x if x.sum() > 0 else -x, "bool"),
        (lambda x: float(x.max()), "float"),
        (lambda x: int(x[0]), "int"),
        (lambda x: x[x > 0], "values"),
        (lambda x: np.unique(x), "unique"),
        (lambda x: x.tolist(), "tolist"),
        (lambda x: np.where(x > 0), "where"),
        (lambda x: np.linalg.svd(x[None]), "svd"),
        (lambda x: 1 in x, "in"),
        (lambda x: range(10)[x[0]], "index"),
    ],
)
def test_what_needs_values_says_so(function, words):
    with pytest.raises(TypeError, match=words) as caught:
        trace(function, array_like(10))
    assert "real array" in str(caught.value)


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"broadcast|mismatch"):
        trace(lambda x: x + x[:3], array_like(10))
    with pytest.raises(ValueError, match="inner dimensions"):
        trace(lambda x: x @ x, array_like((3, 4)))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (((-1,),), ValueError),
        (((2,), "object"), TypeError),
        (((2,), "float32", "X"), ValueError),
        (("ab",), ValueError),
    ],
)
def test_bad_array_like(arguments, error):
    with pytest.raises(error):
        array_like(*arguments)


def test_no_computing_outside_a_trace():
    with pytest.raises(TypeError, match="inside"):
        array_like(3) + 1


def test_real_arrays_and_shapes_do_not_mix():
    with pytest.raises(TypeError, match="array_like"):
        trace(lambda x, y: x + y, array_like(3), np.ones(3))


def test_integer_arrays_may_index():
    found = trace(lambda x, i: x[i], array_like((10, 3)), np.array([1, 2]))
    assert found.ops[0].results[0].shape == (2, 3)
