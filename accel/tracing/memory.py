"""Memory: where the elements of an array lie, and which array their life hangs on."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["address_of", "owner_of"]


_STAND_IN: Any = type(np.lib.stride_tricks.as_strided(np.zeros(1)).base)
"""What NumPy puts between an array and its views with strides of their own, such as `sliding_window_view` makes."""


def owner_of(array: Any) -> Any:
    """Return the array at the end of a chain of views: the one whose life is that of the memory."""
    owner, base = array, array.base
    while base is not None:
        if type(base) is memoryview:
            base = base.obj
        elif isinstance(base, _STAND_IN):
            base = base.base
        if not isinstance(base, np.ndarray):
            break
        owner, base = base, base.base
    return owner


class _Subclass(np.ndarray):
    pass


def _address_reader() -> Callable[[np.ndarray], int]:
    """Return the fastest way to an array's data address that gives the right answer on this interpreter.

    `__array_interface__` costs 3 µs because it describes the dtype as well. CPython lays the data pointer right after
    the object header, and reading it there costs a tenth of that; tried on real arrays before it is trusted.
    """
    from_address, offset = ctypes.c_void_p.from_address, object.__basicsize__

    def public(array: np.ndarray) -> int:
        return int(array.__array_interface__["data"][0])

    def direct(array: np.ndarray) -> int:
        return from_address(id(array) + offset).value or 0

    base = np.zeros((6, 5))
    samples = (base, base[2:, 1:], base.T, base[::-1], np.zeros(0), base.view(_Subclass)[1:])
    if sys.implementation.name == "cpython" and all(direct(a) == public(a) for a in samples):
        return direct
    return public


address_of = _address_reader()
