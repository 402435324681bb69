"""Compiled kernels: loops in Python that Numba turns into machine code. Needs Numba.

The public forms in `accel.kernels` import these modules when first called, by `accel.kernels.fallback.compiled`, so
that `import accel` does not pay for a compiler and works without one.

Two decorators say what the compiler may do:

- `compiled` keeps IEEE arithmetic, save that a * b + c may become one fused multiply-add;
- `reassociated` also lets sums be added up in another order and a division become a product with the reciprocal, which
  is what turns a reduction into vector code. Infinities, NaN and the sign of zero keep their meaning under both.

`error_model="numpy"` lets a division by zero give infinity as in NumPy: the check that Python's rule needs keeps a loop
from being vectorized.

Machine code is kept on disk between processes, where that is possible. Numba notices a change in the function's own
file only, and these kernels call each other across files; the folder is therefore named by a digest of all of their
sources. Folders of other versions of the sources go when they have not been used for 30 days.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, config

from accel import compilation, storage

__all__ = ["compile_for", "compiled", "component", "inlined", "reassociated"]

_CONTRACTED = frozenset({"contract"})
_REASSOCIATED = frozenset({"contract", "reassoc", "arcp"})
_UNUSED_SECONDS = 30 * 24 * 3600

compilation.listen()  # from the first kernel on, so that what a first call compiles is told apart from what it computes


def _sources_digest() -> str:
    """Return a digest of every source file that compiled code, or a constant in it, can come from."""
    kernels = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(kernels.rglob("*.py")):
        digest.update(path.relative_to(kernels).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _prepared(directory: Path) -> Path | None:
    """Make the folder for machine code and mark it as used; return None where nothing can be written to it.

    Numba would then write beside the sources or to a folder of its own, or refuse to run at all.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
        os.utime(directory)
    except OSError:
        return None
    return directory


def _remove_unused(parent: Path, keep: Path) -> None:
    """Remove the folders of other versions of the sources that no process has begun to use for 30 days.

    A process that still uses one has its machine code in memory, and compiles again what it does not find.
    """
    limit = time.time() - _UNUSED_SECONDS
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            is_ours = re.fullmatch("[0-9a-f]{16}", entry.name) and entry.is_dir(follow_symlinks=False)
            if is_ours and entry.name != keep.name and entry.stat().st_mtime < limit:
                shutil.rmtree(entry.path, ignore_errors=True)


_CODE_DIRECTORY = _prepared(storage.directory() / "compiled" / _sources_digest())
if _CODE_DIRECTORY is not None:
    _remove_unused(_CODE_DIRECTORY.parent, keep=_CODE_DIRECTORY)


class _CodeOnDisk(caching.FunctionCache):
    """Numba's store of a function's machine code; where a file cannot be read or written, the function compiles."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            return super().load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            super().save_overload(sig, data)


def _keep_on_disk(dispatcher: Any, directory: Path) -> None:
    """Give a compiled function its store in our folder, and leave Numba's setting for all others as it was."""
    before = config.CACHE_DIR
    config.CACHE_DIR = str(directory)
    try:
        with suppress(OSError, RuntimeError):
            store = _CodeOnDisk(dispatcher.py_func)
            if directory in Path(store.cache_path).parents:  # elsewhere, if the folder went since it was prepared
                dispatcher._cache = store
    finally:
        config.CACHE_DIR = before


def _decorated(function: Callable[..., Any], fastmath: frozenset[str], **options: Any) -> Any:
    dispatcher = numba.njit(function, nogil=True, error_model="numpy", fastmath=set(fastmath), **options)
    if _CODE_DIRECTORY is not None:
        _keep_on_disk(dispatcher, _CODE_DIRECTORY)
    return dispatcher


def compiled(function: Callable[..., Any]) -> Any:
    """Compile for this CPU on first call, without the interpreter lock, in IEEE arithmetic with fused multiply-adds."""
    return _decorated(function, _CONTRACTED)


def reassociated(function: Callable[..., Any]) -> Any:
    """Compile as `compiled` does, and let sums change their order and divisions become products."""
    return _decorated(function, _REASSOCIATED)


def component(function: Callable[..., Any]) -> Any:
    """Compile as `compiled` does what only compiled code calls: the entry for Python, which takes time, is left out."""
    return _decorated(function, _CONTRACTED, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Callable[..., Any]) -> Any:
    """Make a building block of other compiled functions: its code becomes part of theirs, under their rules."""
    return numba.njit(function, inline="always", error_model="numpy", fastmath=set(_CONTRACTED))


_compiling = threading.Lock()


def compile_for(function: Any, *types: Any) -> None:
    """Compile `function` for arguments of these types, and from then on for no others by itself.

    It then takes every array that may stand for one of these: read-only and strided ones where the types say so. By
    default Numba compiles anew for each combination of layouts.
    """
    with _compiling:
        function.disable_compile(False)
        function.compile(types)
        function.disable_compile()
