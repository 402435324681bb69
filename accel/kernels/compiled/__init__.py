"""Compiled kernels: loops in Python that Numba turns into machine code. Needs Numba.

The public forms in `accel.kernels` import these modules when first called, by `accel.kernels.fallback.compiled`, so
that `import accel` does not pay for a compiler and works without one.

Two decorators say what the compiler may do:

- `compiled` keeps IEEE arithmetic, save that a * b + c may become one fused multiply-add;
- `reassociated` also lets sums be added up in another order and a division become a product with the reciprocal, which
  is what turns a reduction into vector code. Infinities, NaN and the sign of zero keep their meaning under both.

`error_model="numpy"` lets a division by zero give infinity as in NumPy: the check that Python's rule needs keeps a loop
from being vectorized.

Machine code is kept on disk between processes. Numba notices a change in the function's own file only, and these
kernels call each other across files; the folder is therefore named by a digest of all of their sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
from numba.core import config

from accel import storage

__all__ = ["compiled", "inlined", "reassociated"]

_CONTRACTED = frozenset({"contract"})
_REASSOCIATED = frozenset({"contract", "reassoc", "arcp"})


def _sources_digest() -> str:
    """Return a digest of every source file that compiled code can come from."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*here.glob("*.py"), here.parent / "simd.py"]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


_CODE_DIRECTORY = storage.directory() / "compiled" / _sources_digest()


@contextmanager
def _code_kept_here() -> Iterator[None]:
    """Let Numba keep what is decorated inside the block in our folder, and leave its setting as it was."""
    before = config.CACHE_DIR  # type: ignore[attr-defined]
    config.CACHE_DIR = str(_CODE_DIRECTORY)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        config.CACHE_DIR = before  # type: ignore[attr-defined]


def _decorated(function: Callable[..., Any], fastmath: frozenset[str], **options: Any) -> Any:
    with _code_kept_here():
        return numba.njit(function, nogil=True, cache=True, error_model="numpy", fastmath=set(fastmath), **options)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile for this CPU on first call, without the interpreter lock, in IEEE arithmetic with fused multiply-adds."""
    return _decorated(function, _CONTRACTED)


def reassociated(function: Callable[..., Any]) -> Any:
    """Compile as `compiled` does, and let sums change their order and divisions become products."""
    return _decorated(function, _REASSOCIATED)


def inlined(function: Callable[..., Any]) -> Any:
    """Make a building block of other compiled functions: its code becomes part of theirs, under their rules."""
    return numba.njit(function, inline="always", error_model="numpy", fastmath=set(_CONTRACTED))
