"""What the tests of explanations share: this computer with invented roofs, and functions to explain."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from machines import CALIBRATION

import accel
from accel import hardware
from accel.explanation import Explanation
from accel.machine import Machine


@cache
def here() -> Machine:
    """Return this computer with roofs that are not its own; nothing waits for it to be faster."""
    return hardware.detect().with_calibration(replace(CALIBRATION, reference_seconds=1.0))


def explained(function: Any, *arrays: Any, **options: Any) -> Explanation:
    """Explain in a fraction of a second."""
    return accel.explain(function, *arrays, **{"machine": here(), "seconds": 0.01, **options})


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)
