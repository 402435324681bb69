"""Fallback: what compiled forms do where Numba cannot compile. They say so once and run their best NumPy form."""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from types import ModuleType

__all__ = ["CompilerMissingWarning", "compiled"]


class CompilerMissingWarning(UserWarning):
    """Numba is missing, broken or switched off, so compiled kernels run as their best NumPy forms."""


def compiled(name: str) -> ModuleType | None:
    """Return the module `name` of `accel.kernels.compiled`, or None, after one notice, where Numba cannot compile.

    That is where it is not installed or its import fails, and where ``NUMBA_DISABLE_JIT=1`` switches it off: as plain
    Python, which Numba would then run, the loops are thousands of times slower than NumPy.

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
    """Whether Numba can compile; warn where it cannot. Asked once a process."""
    reason, fix = _obstacle()
    if reason:
        warnings.warn(
            f"compiled kernels run as their best NumPy forms, because {reason}. {fix}",
            CompilerMissingWarning,
            stacklevel=_level_of_caller(),
        )
    return not reason


def _obstacle() -> tuple[str, str]:
    """Return what keeps Numba from compiling and what to do about it; empty where nothing does."""
    try:
        numba = importlib.import_module("numba")
    except ImportError as error:
        return f"Numba cannot be imported ({error})", "Install it: pip install numba"
    except Exception as error:  # a broken installation may raise anything, such as OSError for a missing library
        return f"importing Numba fails ({type(error).__name__}: {error})", "Install it again: pip install -U numba"
    if numba.config.DISABLE_JIT:
        return "NUMBA_DISABLE_JIT switches Numba off", "Unset it, and start Python again."
    return "", ""


def _level_of_caller() -> int:
    """Return the stack level, for `warnings.warn` in the caller, of the first function outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("accel."):
        level, frame = level + 1, frame.f_back
    return level
