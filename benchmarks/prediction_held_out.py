"""The functions that the prediction model is judged by. Never tune on these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from prediction_development import KB, LADDER, MB, Case, rows, values, vectors


def polynomial(x: np.ndarray) -> np.ndarray:
    return ((0.3 * x + 0.2) * x + 0.1) * x + 1.0


def swish(x: np.ndarray) -> np.ndarray:
    return x / (1.0 + np.exp(-x))


def rms_norm(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)


def standardize_columns(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(axis=0)) / x.std(axis=0)


def log_sum_exp(x: np.ndarray) -> np.ndarray:
    peak = x.max(axis=-1)
    return peak + np.log(np.exp(x - peak[:, None]).sum(axis=-1))


def heat_step(u: np.ndarray) -> np.ndarray:
    return u[1:-1] + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])


def complex_magnitude(re: np.ndarray, im: np.ndarray) -> np.ndarray:
    return np.sqrt(re * re + im * im)


def momentum(w: np.ndarray, g: np.ndarray, v: np.ndarray) -> None:
    v *= 0.9
    v += g
    w -= 1e-9 * v


def bias_relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x + x[0], 0.0)


def linear(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return x @ w


def dense_relu(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return np.maximum(x @ w, 0.0)


def gram(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x.T @ y


def skinny(n: int, m: int) -> Any:
    """Return a maker of a tall matrix of width n and a small n x m one."""
    return lambda size: [values(max(4, size // 4 // (n + m)), n), values(n, m)]


def tall(n: int) -> Any:
    return lambda size: [values(max(4, size // 8 // n), n), values(max(4, size // 8 // n), n)]


def halo(size: int) -> Sequence[Any]:
    return [values(size // 8)]


CASES = (
    Case("polynomial", polynomial, vectors(1, parts=2)),
    Case("swish", swish, vectors(1, parts=2)),
    Case("rms norm", rms_norm, rows(512)),
    Case("standardize columns", standardize_columns, rows(64)),
    Case("log-sum-exp", log_sum_exp, rows(128)),
    Case("heat step", heat_step, halo),
    Case("magnitude", complex_magnitude, vectors(2, parts=3)),
    Case("magnitude, float64", complex_magnitude, vectors(2, "float64", parts=3)),
    Case("momentum", momentum, vectors(3)),
    Case("bias + relu", bias_relu, rows(1024), LADDER[1:]),
    Case("linear 64 x 16", linear, skinny(64, 16)),
    Case("dense + relu 256 x 256", dense_relu, skinny(256, 256), LADDER[1:]),
    Case("gram 32", gram, tall(32)),
    Case("mean of squares", lambda x: np.mean(x * x), vectors(1, parts=2)),
    Case("normalize by max", lambda x: x / x.max(), vectors(1, parts=2)),
    Case("clip", lambda x: np.minimum(np.maximum(x, 0.75), 1.25), vectors(1, parts=2)),
    Case("log1p of abs", lambda x: np.log1p(np.abs(x)), vectors(1, parts=2), LADDER[:5]),
    Case("widen", lambda x: x.astype(np.float64) * 2.0, vectors(1, parts=3)),
    Case("axpy, 500 MB", lambda x, y: 0.5 * x + y, vectors(2, parts=3), (3 * KB, 48 * MB, 500 * MB)),
)
