"""Allocator: puts the C library's memory allocator into a known state while something is measured.

glibc gives large blocks (above 128 KB at first) straight back to the operating system when they are freed, so that the
next one pays for fresh pages again; each such free raises the threshold, up to 32 MB, and what is free at the end of
the heap is given back too once there is enough of it. How fast an unchanged piece of NumPy code runs therefore depends
on what ran before it, by up to 10 times. `settle` ends that: memory that the process has had once is kept and used
again. What fresh pages cost is measured apart (`Calibration.fresh_pages`).
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache

__all__ = ["settle"]

# Parameters of glibc's mallopt(3).
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_NEVER = 2**31 - 1


@cache
def settle() -> bool:
    """Let the allocator keep all memory for the rest of the process; return whether that was possible.

    On C libraries other than glibc nothing changes and the result is False: there, allocation costs what it costs.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_TRIM_THRESHOLD, _NEVER) and mallopt(_M_MMAP_MAX, 0))
