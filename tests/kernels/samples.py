"""Arguments for any kernel, so that a test can go over all of `KERNELS`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from accel import kernels

Array = np.ndarray


def values(*shape: int, dtype: Any = np.float32) -> Array:
    """Return values between -2 and 2, the same ones for the same shape."""
    return np.random.default_rng(sum(shape)).uniform(-2, 2, shape).astype(dtype)


# What a family calls its inputs, and shapes that go together.
INPUTS: dict[str, dict[str, Callable[[], Any]]] = {
    "access": {"x": lambda: values(12), "step": lambda: 3, "order": lambda: np.array([7, 0, 3, 11, 2, 5])},
    "attention": {name: (lambda: values(5, 4)) for name in "qkv"},
    "convolution": {"x": lambda: values(2, 3, 6, 5), "weight": lambda: values(4, 3, 3, 3)},
    "elementwise": {"x1": lambda: values(4, 6), "x2": lambda: values(6), "scalar": lambda: 1.5},
    "gelu": {"x": lambda: values(5, 7), "bias": lambda: values(7)},
    "layer_norm": {"x": lambda: values(5, 7), "scale": lambda: values(7), "shift": lambda: values(7)},
    "matmul": {"a": lambda: values(5, 4), "b": lambda: values(4, 6)},
    "mlp": {
        "x": lambda: values(5, 4),
        "w1": lambda: values(4, 6),
        "b1": lambda: values(6),
        "w2": lambda: values(6, 3),
        "b2": lambda: values(3),
    },
    "softmax": {"x": lambda: values(5, 7)},
}


def family_of(kernel: Callable[..., Any]) -> str:
    """Return the name in `accel.kernels` under which a kernel is public, whatever file it is written in."""
    families = (name for name in kernels.__all__ if name != "KERNELS")
    return next(name for name in families if getattr(getattr(kernels, name), kernel.__name__, None) is kernel)


def name_of(kernel: Callable[..., Any]) -> str:
    """Return "family.form"."""
    return f"{family_of(kernel)}.{kernel.__name__}"


def arguments_of(kernel: Callable[..., Any]) -> list[Any]:
    """Return a value for each parameter of a kernel that has no default."""
    required = [p.name for p in inspect.signature(kernel).parameters.values() if p.default is p.empty]
    try:
        return [INPUTS[family_of(kernel)][name]() for name in required]
    except KeyError as missing:
        raise KeyError(f"{name_of(kernel)} takes {required}: add {missing} to INPUTS in {__name__}") from None


def takes_out(kernel: Callable[..., Any]) -> bool:
    """Whether a kernel has the keyword `out`."""
    return "out" in inspect.signature(kernel).parameters
