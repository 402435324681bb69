"""Argument copies: so that a function that changes its arguments can be run again from the same values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["Arguments"]


class Arguments:
    """The arguments of a function, and copies of the arrays among them, to begin every run from the same values."""

    def __init__(self, names: list[str], arrays: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.arrays, self.keywords = arrays, keywords
        named = (*zip(names, arrays, strict=True), *keywords.items())
        found = (pair for name, value in named for pair in _writable(name, value))
        self._copies = [(name, array, array.copy(order="K")) for name, array in found]

    def changed(self) -> tuple[str, ...]:
        """Return the names of arrays that no longer have the values they began with."""
        return tuple(name for name, array, copy in self._copies if _differs(array, copy))

    def forget_unchanged(self) -> None:
        """Drop the copies that are equal to their originals: what did not change in a run need not be restored."""
        self._copies = [kept for kept in self._copies if _differs(*kept[1:])]

    def restore(self) -> None:
        """Give the arrays their first values back."""
        for _, array, copy in self._copies:
            np.copyto(array, copy)

    @property
    def must_be_restored(self) -> bool:
        """Whether there is anything to restore."""
        return bool(self._copies)


def _writable(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    if type(value) is tuple:
        for i, item in enumerate(value):
            yield from _writable(f"{name}[{i}]", item)
    elif type(value) is np.ndarray and value.flags.writeable and value.dtype.kind in "biufc":
        yield name, value


def _differs(array: np.ndarray, copy: np.ndarray) -> bool:
    return not np.array_equal(array, copy, equal_nan=array.dtype.kind in "fc")
