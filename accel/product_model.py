"""Product model: the time of a matrix product of any shape, from the shapes measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from accel.machine import MatmulRate

__all__ = ["ProductModel"]

NEAREST = 0.05
"""Squared distance between shapes, in octaves, below which a measured product is as good as the shape itself."""


class ProductModel:
    """Time of a matrix product of any shape, from the shapes measured.

    A sum of terms for the call, the arithmetic and each matrix is fitted to the measured shapes with positive weights;
    what the fit misses at the shapes nearby corrects it.
    """

    def __init__(self, measured: Sequence[MatmulRate], threads: int) -> None:
        self._rates: dict[str, list[MatmulRate]] = {}
        for rate in measured:
            if rate.threads == threads:
                self._rates.setdefault(rate.dtype, []).append(rate)
        self._weights = {dtype: _positive_fit(rates) for dtype, rates in self._rates.items()}
        self._misses = {dtype: self._missed(dtype) for dtype in self._rates}
        self._known: dict[tuple[str, int, int, int], float] = {}

    def seconds(self, dtype: str, m: int, k: int, n: int) -> float:
        """Return the predicted seconds of one (m x k) @ (k x n)."""
        if not m * k * n:
            return 0.0
        if dtype not in self._weights:
            dtype = (
                "float64" if "float64" in self._weights and np.dtype(dtype).itemsize > 4 else next(iter(self._weights))
            )
        if (dtype, m, k, n) not in self._known:
            shapes, misses = self._misses[dtype]
            near = 1 / (((shapes - np.log2([m, k, n])) ** 2).sum(axis=1) + NEAREST)
            fitted = float(_terms(m, k, n) @ self._weights[dtype])
            self._known[dtype, m, k, n] = fitted * math.exp(float(near @ misses / near.sum()))
        return self._known[dtype, m, k, n]

    def _missed(self, dtype: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the logarithms of the measured shapes, and of what was measured over what is fitted."""
        rates = self._rates[dtype]
        fitted = [float(_terms(rate.m, rate.k, rate.n) @ self._weights[dtype]) for rate in rates]
        shapes = np.log2([[rate.m, rate.k, rate.n] for rate in rates])
        return shapes, np.log([rate.seconds / fit for rate, fit in zip(rates, fitted, strict=True)])


def _terms(m: int, k: int, n: int) -> np.ndarray:
    """Return what the time of a product is made of: the call, multiply-adds, and elements of each matrix."""
    return np.array([1.0, m * k * n, m * k, k * n, m * n])


def _positive_fit(rates: Sequence[MatmulRate]) -> np.ndarray:
    """Fit the terms to measured seconds by relative error; a term that wants a negative weight is dropped."""
    seconds = np.array([rate.seconds for rate in rates])
    terms = np.array([_terms(rate.m, rate.k, rate.n) for rate in rates]) / seconds[:, None]
    weights = np.zeros(terms.shape[1])
    active = np.ones(terms.shape[1], bool)
    while active.any():
        scale = np.linalg.norm(terms[:, active], axis=0)
        found = np.linalg.lstsq(terms[:, active] / scale, np.ones(len(rates)), rcond=None)[0] / scale
        if (found >= 0).all():
            weights[active] = found
            return weights
        active[np.flatnonzero(active)[found < 0]] = False
    return weights
