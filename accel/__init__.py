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
    "Advice": "accel.advice",
    "Comparison": "accel.comparison",
    "Cost": "accel.cost",
    "ExplainedCall": "accel.explained",
    "Explanation": "accel.explanation",
    "Machine": "accel.machine",
    "MachineFileError": "accel.storage",
    "Measurement": "accel.measurement",
    "Op": "accel.tracing",
    "Operand": "accel.tracing",
    "Prediction": "accel.prediction",
    "Profiler": "accel.profiler",
    "Trace": "accel.tracing",
    "advise": "accel.advice",
    "array_like": "accel.tracing",
    "calibrate": "accel.calibration",
    "compare": "accel.comparison",
    "explain": "accel.explanation",
    "load_numbers": "accel.numbers",
    "measure": "accel.measurement",
    "measure_memory": "accel.measurement",
    "predict": "accel.prediction",
    "progress": "accel.check",
    "sweep": "accel.comparison",
    "this_machine": "accel.calibration",
    "trace": "accel.tracing",
}
# The names that readers coming from the course look for.
_COURSE = {
    "fused_gelu": ("accel.kernels.gelu", "fused"),
    "tiled_matmul": ("accel.kernels.matmul", "tiled"),
    "unfused_gelu": ("accel.kernels.gelu", "unfused"),
    "vectorized_matmul": ("accel.kernels.matmul", "vectorized"),
}
_MODULES = frozenset(
    {
        "access",
        "cache",
        "check",
        "cost",
        "explore",
        "figure",
        "fleet",
        "kernels",
        "machine",
        "measurement",
        "numbers",
        "plot",
        "profiler",
        "quiz",
        "roofline",
        "storage",
        "tables",
        "whatif",
    }
)

__all__ = sorted([*_HOMES, *_COURSE, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"accel.{name}")
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _COURSE:
        module, attribute = _COURSE[name]
        value = getattr(importlib.import_module(module), attribute)
    else:
        raise AttributeError(f"module 'accel' has no attribute {name!r}")
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """Make ``%%explain`` known to IPython; ``%load_ext accel`` calls this."""
    from accel import magic

    magic.load_ipython_extension(shell)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
