"""Correctness: whether a reader's function is right, on shapes, dtypes and values that catch the usual mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.check.grades import Step
from accel.check.sandbox import ReaderError, call_reader

__all__ = ["Input", "check_right"]

TOLERANCE = {"float32": 2e-5, "float64": 1e-10}
"""Relative to the largest expected value: what sums in another order may differ by."""


@dataclass(frozen=True)
class Input:
    """Arguments to try a function on, and why these."""

    what: str
    arrays: tuple[Any, ...]


def check_right(
    function: Callable[..., Any], reference: Callable[..., Any], inputs: Iterable[Input], name: str
) -> Step:
    """Call the function on every input and compare with the float64 reference; stop at the first difference."""
    worst = 0.0
    for given in inputs:
        before = [array.copy() if isinstance(array, np.ndarray) else array for array in given.arrays]
        try:
            found = call_reader(function, *given.arrays)
        except ReaderError as error:
            return Step("right", False, f"On {given.what} it raised {error}")
        expected = np.asarray(reference(*before))
        dtype = np.result_type(*(a.dtype for a in before if isinstance(a, np.ndarray)))
        problem = _mutation(before, given.arrays) or _form(found, expected, dtype) or _values(found, expected, name)
        if problem:
            return Step("right", False, f"On {given.what}: {problem}")
        worst = max(worst, _error(found, expected))
    return Step("right", True, figures={"largest relative error": worst})


def _mutation(before: list[Any], after: tuple[Any, ...]) -> str:
    for position, (old, new) in enumerate(zip(before, after, strict=True)):
        if isinstance(old, np.ndarray) and not np.array_equal(old, new, equal_nan=True):
            return (
                f"it changed its argument {position + 1}. Whoever called it still needs that array: write to a new "
                "one, or to one of your own."
            )
    return ""


def _form(found: Any, expected: np.ndarray, dtype: np.dtype) -> str:
    if found is None:
        return "it returned None. Is a `return` missing?"
    if not isinstance(found, np.ndarray) and not (np.isscalar(found) and expected.ndim == 0):
        return f"it returned a {type(found).__name__}, and an array is wanted."
    found = np.asarray(found)
    if found.shape != expected.shape:
        return f"the result has shape {found.shape}; it should be {expected.shape}."
    if found.dtype != dtype:
        return (
            f"the input is {dtype} and the result {found.dtype}. Look for a NumPy scalar or array of another dtype in "
            "the formula: np.float64(2) promotes, the Python number 2.0 does not."
        )
    return ""


def _values(found: Any, expected: np.ndarray, name: str) -> str:
    found = np.asarray(found)
    error = _errors(found, expected)
    wrong = ~(error <= TOLERANCE[found.dtype.name])
    if not wrong.any():
        return ""
    where = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), expected.shape)) if expected.ndim else ()
    place = f"[{', '.join(map(str, where))}]" if where else ""
    share = f"{wrong.sum():,} of {wrong.size:,} values are off; " if wrong.size > 1 else ""
    return f"{share}{name}{place} should be {expected[where]:.7g} and is {found[where]:.7g}."


def _errors(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return absolute errors over the largest finite expected value; 0 where both are the same NaN or infinity."""
    finite = expected[np.isfinite(expected)]
    scale = max(float(np.abs(finite).max(initial=0.0)), 1e-30)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(found.astype(np.float64) - expected) / scale
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    return np.where(same, 0.0, error)


def _error(found: Any, expected: np.ndarray) -> float:
    return float(_errors(np.asarray(found), expected).max(initial=0.0))
