"""Fallback: what compiled forms do where Numba is missing. They say so once and run their best NumPy form."""

from __future__ import annotations

import functools
import importlib
import warnings
from types import ModuleType

__all__ = ["CompilerMissingWarning", "compiled"]


class CompilerMissingWarning(UserWarning):
    """Numba is not installed, so compiled kernels run as their best NumPy forms."""


def compiled(name: str) -> ModuleType | None:
    """Return the module `name` of `accel.kernels.compiled`, or None, after one notice, where Numba cannot be imported.

    >>> from accel.kernels.fallback import compiled
    >>> compiled("nothing_of_this_name")
    Traceback (most recent call last):
      ...
    ModuleNotFoundError: No module named 'accel.kernels.compiled.nothing_of_this_name'
    """
    if not _compiler_works():
        return None
    return importlib.import_module(f"accel.kernels.compiled.{name}")


@functools.cache
def _compiler_works() -> bool:
    """Whether Numba can be imported; warn where it cannot. Asked once a process."""
    try:
        importlib.import_module("numba")
    except ImportError as error:
        warnings.warn(
            f"compiled kernels run as their best NumPy forms, because Numba cannot be imported ({error}). "
            "Install it: pip install numba",
            CompilerMissingWarning,
            stacklevel=4,
        )
        return False
    return True
