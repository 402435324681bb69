"""What several families' tests measure: memory, and the time of a first call."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

SMALL_CHANGE = 50_000
"""Bytes of Python objects and ufunc buffers."""


def peak_bytes(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> int:
    """Return the most memory allocated at once during a call that is not the first, the result included."""
    function(*arguments, **keywords)
    tracemalloc.start()
    try:
        function(*arguments, **keywords)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def compile_seconds(call: str, empty: Path) -> float:
    """Return the CPU seconds that a first call takes beyond a second one, in a new process that finds no machine code.

    `call` is Python with `np`, `softmax` and `layer_norm` at hand; `empty` is a folder for its cache. The compiler is
    imported, and has compiled something, before the clock starts.
    """
    program = f"""
import time
import numba, numpy as np
from accel.kernels import layer_norm, softmax
from accel.kernels.compiled import exponential
numba.njit(lambda x: x + 1)(1.0)
def seconds():
    start = time.process_time()
    {call}
    return time.process_time() - start
print(seconds() - seconds())
"""
    environment = {**os.environ, "ACCEL_CACHE_DIR": str(empty)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)
