"""Elision: when NumPy writes an operator's result over a dying operand instead of into new memory.

For `a * b + c` the sum goes into the memory of the product: an operator reuses an operand that is a temporary, owns
at least 256 KiB, and can hold the result without a lossy cast (`numpy/_core/src/multiarray/temp_elision.c`). NumPy does
this only for exact ndarrays and only where it can read the call stack (Linux), never for a subclass, so the traced
array must take the same decision by the same rules. Which operators do it is probed on the NumPy that runs, and how
many references a dying operand has on the Python that runs; where that cannot be told, nothing is taken to be elided.
"""

from __future__ import annotations

import operator
import sys
from functools import cache
from typing import Any

import numpy as np

__all__ = [
    "ELISION_BYTES",
    "binary_elision",
    "fits_scalar",
    "is_sole_view",
    "is_spare",
    "method_references",
    "prepare",
    "references",
    "unary_elision",
]

ELISION_BYTES = 256 * 1024
"""`NPY_MIN_ELIDE_BYTES`: smaller temporaries are not worth the check."""


class _Probe(np.ndarray):
    def __add__(self, other: Any) -> Any:
        return sys.getrefcount(self), sys.getrefcount(other)

    def resize(self, *shape: Any, **keywords: Any) -> Any:  # noqa: ARG002
        return sys.getrefcount(self)


@cache
def references() -> tuple[int, int] | tuple[()]:
    """Return the reference counts that an operator method sees of a dying left and right operand, or () if unclear."""
    if not binary_elision("add")[0]:
        return ()

    def fresh() -> np.ndarray:
        return np.zeros(1).view(_Probe)

    named, other = fresh(), fresh()
    dying, kept = fresh() + fresh(), named + other
    return dying if kept[0] > dying[0] and kept[1] > dying[1] else ()


@cache
def _owner_references() -> int:
    """Return the reference count of an array that only its one view holds, as `is_spare` sees it."""
    view = np.zeros(1).view(_Probe)
    owner = view.base
    return sys.getrefcount(owner)


@cache
def method_references() -> int:
    """Return the reference count that a method sees of an array with a single name and no views."""
    named: Any = np.zeros(1).view(_Probe)
    return int(named.resize(1))


@cache
def binary_elision(name: str) -> tuple[bool, bool]:
    """Return whether `operator.<name>` reuses a dying left operand, and a dying right one.

    >>> binary_elision("truediv")[1]  # the right operand of a division is never reused
    False
    """
    apply, fresh = getattr(operator, name), _Fresh("f8" if name == "truediv" else "i8")
    other = fresh()
    left = fresh.made(apply(fresh(), other))
    return left, fresh.made(apply(other, fresh()))


@cache
def unary_elision(name: str) -> bool:
    """Return whether `operator.<name>` reuses a dying operand."""
    apply, fresh = getattr(operator, name), _Fresh("i8")
    return fresh.made(apply(fresh()))


class _Fresh:
    """Makes arrays that are big enough to be reused, and knows the last one's address."""

    def __init__(self, dtype: str) -> None:
        self.dtype, self.address = dtype, 0

    def __call__(self) -> np.ndarray:
        array = np.ones(ELISION_BYTES // np.dtype(self.dtype).itemsize, self.dtype)
        self.address = array.__array_interface__["data"][0]
        return array

    def made(self, result: Any) -> bool:
        return bool(result.__array_interface__["data"][0] == self.address)


@cache
def prepare() -> None:
    """Probe everything now, so that no probe runs within a traced call."""
    references()
    _owner_references()
    method_references()
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "lshift", "rshift", "and_", "or_", "xor"):
        binary_elision(name)
    for name in ("neg", "pos", "abs", "invert"):
        unary_elision(name)


def is_spare(array: Any, other: Any = None, kinds: str = "biufc") -> bool:
    """Tell whether the memory of a dying view may be reused for its result with `other`.

    The view must be all that holds the array that owns the memory, at least `ELISION_BYTES` long, numeric and
    writable; `other` must be a scalar or an array of the same shape, of a dtype that casts to the array's safely.
    `kinds` are those of the dtypes for which the result has the array's own dtype.
    """
    if array.nbytes < ELISION_BYTES or array.dtype.kind not in kinds:
        return False
    owner = array.base
    if type(owner) is not np.ndarray or not owner.flags.owndata:
        return False
    if sys.getrefcount(owner) != _owner_references() or owner.nbytes != array.nbytes or not owner.flags.writeable:
        return False
    if other is None:
        return True
    if isinstance(other, np.ndarray):
        return (other.ndim == 0 or other.shape == array.shape) and np.can_cast(other.dtype, array.dtype, "safe")
    return fits_scalar(other, array.dtype)


def is_sole_view(array: Any) -> bool:
    """Tell whether a view is all that holds the array that owns its memory, and all of it."""
    owner = array.base
    if type(owner) is not np.ndarray or not owner.flags.owndata or sys.getrefcount(owner) != _owner_references():
        return False
    return (owner.shape, owner.strides, owner.dtype) == (array.shape, array.strides, array.dtype)


def fits_scalar(scalar: Any, dtype: np.dtype[Any]) -> bool:
    """Tell whether NumPy takes a scalar to fit a dying array: a Python float never goes into a float32."""
    return np.can_cast(_SCALAR_DTYPES.get(type(scalar)) or scalar.dtype, dtype, "safe")


_SCALAR_DTYPES = {kind: np.asarray(kind()).dtype for kind in (bool, int, float, complex)}
"""The dtype that NumPy would give the scalar alone, which is what it asks for here, NEP 50 or not."""
