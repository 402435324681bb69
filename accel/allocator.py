"""Allocator: puts the C library's memory allocator into a known state while something is measured.

glibc hands allocations above a threshold (128 KB at first) straight back to the operating system when they are
freed, so that the next one pays for fresh pages again; each such free raises the threshold, up to 32 MB. How fast an
unchanged piece of NumPy code runs therefore depends on what ran before it. `settle` moves the thresholds where a
long-running process ends up: blocks up to 32 MB are reused, larger ones are fresh pages every time.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache

__all__ = ["REUSE_LIMIT_BYTES", "settle"]

REUSE_LIMIT_BYTES = 32 * 2**20
"""glibc's upper limit for its own threshold on 64-bit systems (DEFAULT_MMAP_THRESHOLD_MAX)."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER_TRIM = 2**31 - 1


@cache
def settle() -> bool:
    """Fix glibc's thresholds for the rest of the process; return whether that was possible.

    On other C libraries nothing changes and the result is False: there, allocation costs are what they are.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_THRESHOLD, REUSE_LIMIT_BYTES) and mallopt(_M_TRIM_THRESHOLD, _NEVER_TRIM))
