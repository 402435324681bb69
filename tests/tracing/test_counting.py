"""Counts against closed forms derived by hand, for small functions on real arrays."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from accel.cost import Cost
from accel.kernels import elementwise, gelu, matmul
from accel.tracing import trace
from accel.tracing.counting import Call, Work, count, elementwise_flops, is_special

N, M = 12, 7


def calls(found):
    """The ops, without the time of a busy machine that no call explains."""
    return [op for op in found.ops if op.kind != "opaque"]


def x32():
    return np.linspace(0.5, 2, N * M, dtype=np.float32).reshape(N, M)


def x64():
    return np.linspace(0.5, 2, N * M).reshape(N, M)


def cost(flops=0, special=0, read=0, written=0, allocate=None, calls=1):
    return Cost(flops, special, read, written, written if allocate is None else allocate, calls)


S = N * M
CASES = {
    # name: (function of one array, the array, its cost)
    "add": (lambda x: x + x[::-1], x32, cost(S, read=2 * 4 * S, written=4 * S)),
    "add a scalar": (lambda x: x + 1, x32, cost(S, read=4 * S, written=4 * S)),
    "square by product": (lambda x: x * x, x32, cost(S, read=4 * S, written=4 * S)),
    "square by power": (lambda x: x**2, x32, cost(S, read=4 * S, written=4 * S)),
    "cube by power": (lambda x: x**3, x32, cost(special=S, read=4 * S, written=4 * S)),
    "tanh": (np.tanh, x64, cost(special=S, read=8 * S, written=8 * S)),
    "sqrt": (np.sqrt, x64, cost(S, read=8 * S, written=8 * S)),
    "negative": (lambda x: -x, x64, cost(S, read=8 * S, written=8 * S)),
    "absolute": (abs, x64, cost(S, read=8 * S, written=8 * S)),
    "divide": (lambda x: 1 / x, x64, cost(S, read=8 * S, written=8 * S)),
    "compare": (lambda x: x > 1, x64, cost(S, read=8 * S, written=S)),
    "maximum": (lambda x: np.maximum(x, 0), x64, cost(S, read=8 * S, written=8 * S)),
    "clip": (lambda x: np.clip(x, 0, 1), x64, cost(2 * S, read=8 * S, written=8 * S)),
    "clip from below": (lambda x: x.clip(0, None), x64, cost(S, read=8 * S, written=8 * S)),
    "divmod": (lambda x: divmod(x, 2), x64, cost(2 * S, read=8 * S, written=2 * 8 * S)),
    "broadcast row": (lambda x: x + x[0], x64, cost(S, read=8 * (S + M), written=8 * S)),
    "broadcast column": (lambda x: x + x[:, :1], x64, cost(S, read=8 * (S + N), written=8 * S)),
    "broadcast view": (lambda x: np.negative(np.broadcast_to(x[0], (N, M))), x64, cost(S, read=8 * M, written=8 * S)),
    "in place": (lambda x: np.add(x, 1, out=x), x64, cost(S, read=8 * S, written=8 * S, allocate=0)),
    "augmented": (lambda x: x.__imul__(2), x64, cost(S, read=8 * S, written=8 * S, allocate=0)),
    "shifted in place": (
        lambda x: np.add(x[1:], 1, out=x[:-1]),
        x64,
        cost(S - M, read=8 * (S - M), written=8 * (S - M), allocate=0),
    ),
    "promotion": (lambda x: x * np.float64(2), x32, cost(S, read=4 * S, written=8 * S)),
    "cast": (lambda x: x.astype(np.float32), x64, cost(read=8 * S, written=4 * S)),
    "copy": (lambda x: x.copy(), x64, cost(read=8 * S, written=8 * S)),
    "transposed copy": (lambda x: np.ascontiguousarray(x.T), x64, cost(read=8 * S, written=8 * S)),
    "sum": (lambda x: x.sum(), x64, cost(S - 1, read=8 * S, written=8, allocate=0)),
    "sum of columns": (lambda x: np.sum(x, axis=0), x64, cost(S - M, read=8 * S, written=8 * M)),
    "sum of rows": (lambda x: x.sum(axis=1), x32, cost(S - N, read=4 * S, written=4 * N)),
    "sum, kept": (lambda x: x.sum(axis=1, keepdims=True), x32, cost(S - N, read=4 * S, written=4 * N)),
    "add.reduce": (np.add.reduce, x64, cost(S - M, read=8 * S, written=8 * M)),
    "max": (lambda x: x.max(axis=1), x64, cost(S - N, read=8 * S, written=8 * N)),
    "any": (lambda x: np.any(x, axis=1), x64, cost(S - N, read=8 * S, written=N)),
    "argmax": (lambda x: x.argmax(axis=1), x64, cost(S - N, read=8 * S, written=8 * N)),
    "mean": (lambda x: x.mean(axis=1), x64, cost(S, read=8 * S, written=8 * N)),
    "var": (lambda x: x.var(axis=1), x64, cost(4 * S, read=8 * S, written=8 * N)),
    "std": (lambda x: np.std(x, axis=1), x64, cost(4 * S + N, read=8 * S, written=8 * N)),
    "running sum": (lambda x: np.cumsum(x, axis=1), x64, cost(S - N, read=8 * S, written=8 * S)),
    "accumulate": (lambda x: np.multiply.accumulate(x, axis=0), x64, cost(S - M, read=8 * S, written=8 * S)),
    "outer": (lambda x: np.multiply.outer(x[0], x[:, 0]), x64, cost(M * N, read=8 * (M + N), written=8 * M * N)),
    "reduceat": (lambda x: np.add.reduceat(x[:, 0], [0, 4, 8]), x64, cost(N - 3, read=8 * N, written=8 * 3)),
    "matmul": (lambda x: x @ x.T, x64, cost(2 * N * N * M, read=2 * 8 * S, written=8 * N * N)),
    "dot": (lambda x: x.T.dot(x), x64, cost(2 * M * M * N, read=2 * 8 * S, written=8 * M * M)),
    "matrix times vector": (lambda x: x @ x[0], x64, cost(2 * S, read=8 * (S + M), written=8 * N)),
    "vector product": (lambda x: np.vdot(x[0], x[1]), x64, cost(2 * M, read=2 * 8 * M, written=8, allocate=0)),
    "tensordot": (lambda x: np.tensordot(x, x, ([0], [0])), x64, cost(2 * M * M * N, read=8 * S, written=8 * M * M)),
    "einsum": (
        lambda x: np.einsum("ij,kj->ik", x, x), x64, cost(2 * N * N * M, read=8 * S, written=8 * N * N)
    ),
    "einsum, no sum": (lambda x: np.einsum("ij,ij->ij", x, x), x64, cost(S, read=8 * S, written=8 * S)),
    "einsum, one operand": (lambda x: np.einsum("ij->i", x), x64, cost(S - N, read=8 * S, written=8 * N)),
    "norm": (np.linalg.norm, x64, cost(2 * S, read=8 * S, written=8, allocate=0)),
    "where": (lambda x: np.where(x, x, 0), x64, cost(read=8 * S, written=8 * S)),
    "concatenate": (lambda x: np.concatenate([x, x[:2]]), x64, cost(read=8 * (S + 2 * M), written=8 * (S + 2 * M))),
    "stack": (lambda x: np.stack([x[0], x[1]]), x64, cost(read=2 * 8 * M, written=2 * 8 * M)),
    "pad": (lambda x: np.pad(x, 1), x64, cost(read=8 * S, written=8 * (N + 2) * (M + 2))),
    "gather": (lambda x: x[np.array([1, 3])], x64, cost(read=2 * 8 * M + 2 * 8, written=2 * 8 * M)),
    "slice assignment": (lambda x: x.__setitem__(slice(1), x[2]), x64, cost(read=8 * M, written=8 * M)),
    "fill": (lambda x: x.fill(0), x64, cost(written=8 * S)),
    "sort": (lambda x: np.sort(x, axis=1), x64, cost(round(S * math.log2(M)), read=8 * S, written=8 * S)),
    "strided": (lambda x: x[::2] + 1, x64, cost(S // 2, read=4 * S, written=4 * S)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_call(name):
    function, make, expected = CASES[name]
    ops = [op for op in calls(trace(function, make())) if op.name != "array"]
    assert len(ops) == 1, [op.call for op in ops]
    assert ops[0].cost == expected
    assert not ops[0].opaque


COMPLEX = {
    "add": (lambda z: z + z, 2), "multiply": (lambda z: z * z, 6), "subtract": (lambda z: z - z, 2),
    "divide": (lambda z: z / z, 10), "negative": (lambda z: -z, 2), "sum": (lambda z: z.sum(axis=0), 2 * 7 / 8),
    "mean": (lambda z: z.mean(axis=0), 2), "conjugate": (np.conjugate, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_arithmetic_counts_its_real_operations(name):
    function, per_element = COMPLEX[name]
    z = np.full((8, 5), 1 + 2j)
    assert trace(function, z).cost.flops == per_element * z.size


def test_complex_product_and_absolute():
    z = np.full((8, 5), 1 + 2j)
    assert trace(lambda z: z @ z.T, z).cost.flops == 8 * 8 * 8 * 5
    assert trace(abs, z).cost == cost(special=40, read=40 * 16, written=40 * 8)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "float16", "float32", "float64"])
def test_integers_count_as_floats_do(dtype):
    x = np.ones(100, dtype)
    assert trace(lambda x: x + x, x).cost.flops == 100


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (1,), (1, 1)])
def test_no_elements_no_work(shape):
    x = np.ones(shape)
    found = trace(lambda x: (x + 1, x.sum(), x @ x.T if x.ndim else x), x)
    assert calls(found)[0].cost.flops == x.size
    assert calls(found)[1].cost.flops == max(x.size - 1, 0)


def test_at_counts_the_updates():
    index = np.array([0, 0, 5])
    found = trace(lambda x: np.add.at(x, index, 1.0), np.zeros(100))
    assert found.cost == cost(3, read=3 * 8 + 3 * 8, written=3 * 8, allocate=0)


def test_masked_assignment_counts_what_it_writes():
    found = trace(lambda x: x.__setitem__(x > 0.5, 0), np.linspace(0, 1, 100))
    assert calls(found)[1].name == "put"
    assert calls(found)[1].cost.bytes_written == 50 * 8
    assert calls(found)[1].cost.bytes_read == 100


def test_masked_ufunc_is_an_upper_bound():
    found = trace(lambda x: np.add(x, 1, out=np.zeros(100), where=x > 0.5), np.linspace(0, 1, 100))
    op = calls(found)[-1]
    assert op.masked
    assert op.cost.flops == 100
    assert op.cost.bytes_read == 8 * 100 + 100 + 8 * 100


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda a: np.linalg.solve(a, a[0]), 2 * 20**3 // 3 + 2 * 20**2),
        (np.linalg.inv, 2 * 20**3),
        (np.linalg.det, 2 * 20**3 // 3),
        (np.linalg.cholesky, 20**3 // 3),
        (lambda a: np.fft.fft(a), round(5 * 400 * math.log2(20))),
        (lambda a: np.fft.fft(a, axis=0), round(5 * 400 * math.log2(20))),
    ],
)
def test_leading_order_formulas_are_marked(function, expected):
    op = calls(trace(function, np.eye(20)))[0]
    assert op.cost.flops == expected
    assert op.approximate
    assert not op.opaque


def test_no_rule_means_opaque_and_timed():
    op = calls(trace(lambda x: np.linalg.svd(x), np.eye(5)))[0]
    assert op.opaque
    assert op.name == "linalg.svd"
    assert op.cost.flops == 0
    assert op.cost.bytes_read == 200
    assert op.seconds > 0


def test_an_unknown_ufunc_is_special():
    op = calls(trace(lambda x: np.logaddexp2(x, 1), np.ones(10)))[0]
    assert op.cost.special == 10


def test_rules_by_name():
    assert elementwise_flops("multiply", "c8") == 6
    assert elementwise_flops("exp") == 0
    assert is_special("exp")
    assert is_special("erf")
    assert count(Call("frobnicate", ((3,),), (3,), "f8", {})) is None
    assert count(Call("copy", ((3,),), (3,), "f8", {})) == Work()


def test_gelu():
    """The expression as it is usually written: five products, two sums, a power and a tanh."""
    x = np.linspace(-3, 3, 1000, dtype=np.float32)
    found = trace(lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))), x)
    reads = 1 + 1 + 1 + 2 + 1 + 1 + 1 + 2
    assert found.cost == Cost(6_000, 2_000, reads * 4_000, 8 * 4_000, 8 * 4_000, 8)


@pytest.mark.parametrize("n", [8, 33])
def test_attention(n):
    def attention(q, k, v):
        scores = q @ k.T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True) @ v

    arrays = [np.ones((n, 4)) for _ in range(3)]
    found = trace(attention, *arrays)
    assert found.cost.flops == 2 * 2 * n * n * 4 + (n * n - n) * 2 + 2 * n * n
    assert found.cost.special == n * n


MATRICES = (np.ones((24, 16)), np.ones((16, 20)))
KERNELS = {
    "gelu.unfused": (gelu.unfused, np.linspace(-3, 3, 300_000, dtype=np.float32)),
    "gelu.expression": (gelu.expression, np.linspace(-3, 3, 300_000, dtype=np.float32)),
    "gelu.in_place": (gelu.in_place, np.linspace(-3, 3, 300_000, dtype=np.float32)),
    "gelu.blocked": (gelu.blocked, np.linspace(-3, 3, 300_000, dtype=np.float32)),
    "matmul.vectorized": (matmul.vectorized, *MATRICES),
    "matmul.tiled": (matmul.tiled, *MATRICES),
    "matmul.outer_product": (matmul.outer_product, *MATRICES),
    "elementwise.add": (elementwise.add, np.ones(1000), np.ones(1000)),
    "elementwise.multiply": (elementwise.multiply, np.ones(1000), np.ones(1000)),
    "elementwise.triad": (elementwise.triad, np.ones(1000), np.ones(1000), 2.0),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_cost_what_they_declare(name):
    """Two counts of the same work, derived apart: by hand from the formula, and from the calls that were seen."""
    kernel, *arguments = KERNELS[name]
    assert replace(trace(kernel, *arguments).cost, interpreted=0) == kernel.cost(*arguments)
