"""Count, predict and measure what NumPy code costs, on the machine it runs on.

>>> import accel
>>> accel.Cost(flops=2) + accel.Cost(flops=3)
Cost(flops=5, special=0, bytes_read=0, bytes_written=0, bytes_write_allocate=0, calls=0, interpreted=0)
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public name -> module that defines it. Loaded on first use, so that `import accel` stays as cheap as NumPy.
_HOMES = {
    "Cost": "accel.cost",
    "Comparison": "accel.comparison",
    "Machine": "accel.machine",
    "Measurement": "accel.measurement",
    "measure": "accel.measurement",
    "measure_memory": "accel.measurement",
}
_MODULES = frozenset({"kernels", "machine", "measurement", "cost", "plot", "explore", "roofline"})

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"accel.{name}")
    raise AttributeError(f"module 'accel' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
