"""Exercises in which the reader writes a kernel: matrix products, GELU, softmax, layer norm, attention, sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from accel.check.correctness import Input
from accel.check.exercise import Exercise, Speed
from accel.check.mechanism import array_code, few_passes, in_blocks, keeps_dtype, lean, product_tiles
from accel.kernels import attention, gelu, matmul, softmax

__all__ = ["EXERCISES"]

Arrays = tuple[Any, ...]


def _normal(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _maker(*shapes: tuple[int, ...]) -> Callable[[], Arrays]:
    """Return a function that makes float32 arrays of these shapes."""
    return lambda: tuple(_normal(*shape, seed=seed) for seed, shape in enumerate(shapes))


def _kinds_of(shape: tuple[int, ...]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield one array in each dtype and memory layout that a function has to cope with."""
    base = _normal(*shape)
    yield f"float32 of shape {shape}", base
    yield f"float64 of shape {shape}", base.astype(np.float64)
    yield f"every second column of an array, shape {shape}", np.repeat(base, 2, axis=-1)[..., ::2]
    if base.ndim > 1:
        yield f"an array in Fortran order, shape {shape}", np.asfortranarray(base)
    frozen = base.copy()
    frozen.flags.writeable = False
    yield f"a read-only array of shape {shape}", frozen


def _one_array(*shapes: tuple[int, ...], extra: tuple[tuple[str, Any], ...] = ()) -> Callable[[], Iterator[Input]]:
    """Return a function that yields inputs of one array: every kind of the first shape, then the other shapes."""

    def inputs() -> Iterator[Input]:
        for what, array in _kinds_of(shapes[0]):
            yield Input(what, (array,))
        for shape in shapes[1:]:
            yield Input(f"float32 of shape {shape}", (_normal(*shape),))
        for what, values in extra:
            yield Input(what, (np.array(values, dtype=np.float32),))

    return inputs


def _two_matrices() -> Iterator[Input]:
    for (what, a), (_, b) in zip(_kinds_of((6, 4)), _kinds_of((4, 5)), strict=True):
        yield Input(f"{what} times shape (4, 5)", (a, b))
    for m, k, n in ((1, 1, 1), (1, 7, 3), (33, 65, 17), (70, 70, 70)):
        yield Input(f"({m}, {k}) times ({k}, {n})", (_normal(m, k), _normal(k, n, seed=1)))


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64)


def _layer_norm(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def _layer_norm_textbook(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def _attention_inputs() -> Iterator[Input]:
    for n, d in ((1, 4), (5, 3), (64, 16), (130, 8)):
        yield Input(f"{n} tokens of width {d}", tuple(_normal(n, d, seed=seed) for seed in range(3)))
    yield Input("scores that overflow exp", tuple(_normal(8, 4, seed=seed) * 30 for seed in range(3)))


def _row_sums_inputs() -> Iterator[Input]:
    for what, array in _kinds_of((6, 5)):
        yield Input(what, (array,))
    yield Input("an array with no column", (np.zeros((3, 0), np.float32),))
    yield Input("one row", (_normal(1, 9),))


def _row_sums(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64).sum(axis=1)


def _row_sums_loop(x: np.ndarray) -> np.ndarray:
    total = np.zeros(x.shape[0], x.dtype)
    for column in range(x.shape[1]):
        total += x[:, column]
    return total


def _moving_average(x: np.ndarray) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), 8).mean(axis=-1)


def _moving_average_loop(x: np.ndarray) -> np.ndarray:
    return np.array([x[i : i + 8].mean() for i in range(x.size - 7)], x.dtype)


def _distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return ((a[:, None] - b[None]) ** 2).sum(axis=-1)


def _distances_broadcast(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a[:, None] - b[None]) ** 2).sum(axis=-1)


def _point_sets() -> Iterator[Input]:
    for m, n, d in ((1, 1, 1), (4, 3, 2), (40, 50, 16)):
        yield Input(f"{m} and {n} points in {d} dimensions", (_normal(m, d), _normal(n, d, seed=1)))


_GELU_EDGES = (
    ("large numbers of both signs", [-1e4, -50.0, 50.0, 1e4]),
    ("zeros", [0.0, -0.0]),
    ("small numbers", [1e-30, -1e-30]),
)
_LARGE_LOGITS = (("numbers whose exp overflows", [[1000.0, 999.0, -1000.0]]),)

EXERCISES: tuple[Exercise, ...] = (
    Exercise(
        name="vectorized_matmul",
        title="Matrix product without loops",
        task="vectorized_matmul(a, b): arrays (m, k) and (k, n) of one float dtype in, their product (m, n) in the "
        "same dtype out. No Python loop.",
        reference=_product,
        inputs=_two_matrices,
        large=_maker((96, 96), (96, 96)),
        small=_maker((24, 24), (24, 24)),
        rules=(array_code, keeps_dtype),
        speed=Speed(5.0, matmul.row_dot, "one dot product an element", _maker((128, 128), (128, 128))),
    ),
    Exercise(
        name="gelu",
        title="GELU on whole arrays",
        task="gelu(x): x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) for an array of any shape, dtype kept, x "
        "left alone. No Python loop, no float64 for float32 input.",
        reference=gelu.reference,
        inputs=_one_array((3, 5), (0,), (1,), (2, 3, 4), extra=_GELU_EDGES),
        large=_maker((400_000,)),
        small=_maker((1000,)),
        rules=(array_code, keeps_dtype),
        speed=Speed(1.3, gelu.unfused, "the form with x**3", _maker((400_000,))),
    ),
    Exercise(
        name="fused_gelu",
        title="GELU without temporaries",
        task="fused_gelu(x): the same, with no full-size temporary: at the peak it holds the result and at most 64 KB "
        "more. Any means: out=, in place, blocks, or a compiled loop.",
        reference=gelu.reference,
        inputs=_one_array((3, 5), (0,), (1,), (2, 3, 4), (70_000,), extra=_GELU_EDGES),
        large=_maker((1_000_000,)),
        small=_maker((1000,)),
        rules=(keeps_dtype, lean(1.0, "the result alone")),
        speed=Speed(1.3, gelu.unfused, "the form with x**3", _maker((1_000_000,))),
    ),
    Exercise(
        name="blocked_gelu",
        title="GELU one block at a time",
        task="blocked_gelu(x): the same, in blocks: no call works on more than three tenths of the input at once, and "
        "there is no full-size temporary.",
        reference=gelu.reference,
        inputs=_one_array((3, 5), (0,), (1,), (2, 3, 4), (70_000,), (300, 700), extra=_GELU_EDGES),
        large=_maker((2_000_000,)),
        small=_maker((1000,)),
        rules=(keeps_dtype, in_blocks(), lean(1.3, "the result and one block")),
        speed=Speed(1.3, gelu.unfused, "the form with x**3", _maker((1_000_000,))),
    ),
    Exercise(
        name="tiled_matmul",
        title="Matrix product by tiles",
        task="tiled_matmul(a, b): the product, made of products of tiles; every side of a tile is at most a quarter "
        "of the large matrices (64 will do). Tiles at the edges may be smaller. It need not be fast.",
        reference=_product,
        inputs=_two_matrices,
        large=_maker((300, 280), (280, 320)),
        small=_maker((64, 64), (64, 64)),
        rules=(keeps_dtype, product_tiles, lean(2.0, "the result and one tile")),
    ),
    Exercise(
        name="softmax",
        title="Softmax that does not overflow",
        task="softmax(x): exp(x) over its sum along the last axis, right for numbers whose exp overflows. No Python "
        "loop.",
        reference=softmax.reference,
        inputs=_one_array((4, 6), (1, 1), (2, 3, 5), (1, 1000), extra=_LARGE_LOGITS),
        large=_maker((500, 400)),
        small=_maker((20, 20)),
        rules=(array_code, keeps_dtype),
    ),
    Exercise(
        name="blocked_softmax",
        title="Softmax in blocks of rows",
        task="blocked_softmax(x): softmax along the last axis of a matrix, a block of rows at a time: no call works "
        "on more than three tenths of the input, nothing of full size besides the result.",
        reference=softmax.reference,
        inputs=_one_array((4, 6), (1, 1), (300, 5), (1, 1000), extra=_LARGE_LOGITS),
        large=_maker((4000, 500)),
        small=_maker((20, 20)),
        rules=(keeps_dtype, in_blocks(), lean(1.4, "the result and one block")),
        speed=Speed(0.9, softmax.three_pass, "softmax on the whole array", _maker((4000, 500))),
    ),
    Exercise(
        name="online_softmax",
        title="Softmax in columns, with a running maximum",
        task="online_softmax(x): softmax along the last axis of a matrix, taking a block of columns at a time, with "
        "the maximum and the sum so far carried along. No call works on more than three tenths of the input.",
        reference=softmax.reference,
        inputs=_one_array((4, 6), (1, 1), (3, 300), (2, 5000), extra=_LARGE_LOGITS),
        large=_maker((20, 100_000)),
        small=_maker((4, 100)),
        rules=(keeps_dtype, in_blocks(), lean(1.4, "the result and one block")),
    ),
    Exercise(
        name="layer_norm",
        title="Layer norm in few passes",
        task="layer_norm(x): (x - mean) / sqrt(variance + 1e-5) along the last axis, the variance over n. The calls "
        "together read and write at most 3.2 times the input and the result, and nothing of full size is held besides "
        "the result.",
        reference=_layer_norm,
        inputs=_one_array((4, 6), (1, 1), (2, 3, 5), (1, 1000), extra=(("large equal numbers", [[1e4] * 8]),)),
        large=_maker((1000, 1000)),
        small=_maker((20, 20)),
        rules=(array_code, keeps_dtype, few_passes(3.2), lean(1.3, "the result alone")),
        speed=Speed(1.1, _layer_norm_textbook, "np.mean and np.var", _maker((1000, 1000))),
    ),
    Exercise(
        name="attention",
        title="Attention in linear memory",
        task="attention(q, k, v): softmax(q k^T / sqrt(d)) v for arrays (n, d), a block of queries or keys at a time: "
        "at the peak it holds at most 12 results, and never the n x n scores.",
        reference=attention.reference,
        inputs=_attention_inputs,
        large=_maker((4000, 32), (4000, 32), (4000, 32)),
        small=_maker((64, 32), (64, 32), (64, 32)),
        rules=(keeps_dtype, lean(12.0, "a few blocks")),
    ),
    Exercise(
        name="row_sums",
        title="Sums along the memory",
        task="row_sums(x): the sum of each row of a C-ordered matrix, in its dtype. No Python loop.",
        reference=_row_sums,
        inputs=_row_sums_inputs,
        large=_maker((1000, 500)),
        small=_maker((20, 20)),
        rules=(array_code, keeps_dtype),
        speed=Speed(3.0, _row_sums_loop, "adding up columns", _maker((2000, 1000))),
    ),
    Exercise(
        name="moving_average",
        title="A moving average without a loop",
        task="moving_average(x): the mean of every 8 neighbours of a vector, n - 7 numbers in its dtype. No Python "
        "loop.",
        reference=_moving_average,
        inputs=_one_array((40,), (8,), (9,), (1000,)),
        large=_maker((20_000,)),
        small=_maker((100,)),
        rules=(array_code, keeps_dtype),
        speed=Speed(10.0, _moving_average_loop, "a loop over windows", _maker((5000,))),
    ),
    Exercise(
        name="distances",
        title="Distances by a matrix product",
        task="distances(a, b): squared distances (m, n) between the points (m, d) and (n, d). No Python loop, no "
        "array of m x n x d: at the peak at most 4 results. |a|^2 - 2 a.b + |b|^2 helps.",
        reference=_distances,
        inputs=_point_sets,
        large=_maker((400, 32), (500, 32)),
        small=_maker((20, 32), (20, 32)),
        rules=(array_code, keeps_dtype, lean(4.0, "a few arrays (m, n)")),
        speed=Speed(3.0, _distances_broadcast, "broadcasting", _maker((400, 32), (500, 32))),
    ),
)
