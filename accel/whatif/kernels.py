"""Kernels: what the explorer offers, traced at every size of its slider and in every dtype."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accel.kernels import elementwise, gelu, layer_norm, matmul, softmax
from accel.tracing import array_like, trace
from accel.tracing.operations import Trace
from accel.whatif.description import describe

__all__ = ["DTYPES", "EXPONENTS", "OFFERED", "Offer", "descriptions"]

DTYPES = ("float32", "float64")
EXPONENTS = tuple(range(10, 25))
"""The sizes: powers of two, in elements."""
COLUMNS = 1024
"""Elements of each row that softmax and layer norm work on."""


@dataclass(frozen=True)
class Offer:
    """A kernel of the explorer."""

    label: str
    function: Callable[..., Any]
    arrays: Callable[[int, str], tuple[Any, ...]]
    """Make its arguments for so many elements of a dtype: their shapes, unless the kernel is compiled."""
    shape: Callable[[int], str]
    """Write what shape so many elements have."""

    def trace(self, elements: int, dtype: str) -> Trace:
        """Trace the kernel; `accel.predict` on the same arrays prices the same calls.

        Time that no call explains is left out: it is known for the machine that ran the trace and for no other.
        """
        traced = trace(self.function, *self.arrays(elements, dtype))
        return replace(traced, ops=tuple(op for op in traced.ops if op.kind != "opaque"))


def _side(elements: int) -> int:
    return round(math.sqrt(elements))


def _vector_text(elements: int) -> str:
    return f"{elements:,} elements"


def _rows_text(elements: int) -> str:
    return f"{elements // COLUMNS:,} × {COLUMNS:,}"


def _square_text(elements: int) -> str:
    return f"{_side(elements):,} × {_side(elements):,}"


def _vectors(count: int) -> Callable[[int, str], tuple[Any, ...]]:
    return lambda elements, dtype: tuple(array_like(elements, dtype) for _ in range(count))


def _real_vector(elements: int, dtype: str) -> tuple[Any, ...]:
    """Return data: what a compiled kernel returns is not known from shapes. Memory that is only reserved is enough."""
    return (np.zeros(elements, dtype),)


def _rows(elements: int, dtype: str) -> tuple[Any, ...]:
    return (array_like((elements // COLUMNS, COLUMNS), dtype),)


def _normed(elements: int, dtype: str) -> tuple[Any, ...]:
    return (*_rows(elements, dtype), array_like(COLUMNS, dtype), array_like(COLUMNS, dtype))


def _squares(count: int) -> Callable[[int, str], tuple[Any, ...]]:
    return lambda elements, dtype: tuple(array_like((_side(elements),) * 2, dtype) for _ in range(count))


def _add_into(x1: Any, x2: Any, out: Any) -> Any:
    return np.add(x1, x2, out=out)


def _sum(x: Any) -> Any:
    return np.sum(x)


def _copy(x: Any, out: Any) -> None:
    np.copyto(out, x)


def _transpose(x: Any) -> Any:
    return np.ascontiguousarray(x.T)


OFFERED: dict[str, Offer] = {
    "add": Offer("add: x + y", elementwise.add, _vectors(2), _vector_text),
    "add-into": Offer("add into memory at hand", _add_into, _vectors(3), _vector_text),
    "sum": Offer("sum", _sum, _vectors(1), _vector_text),
    "copy": Offer("copy", _copy, _vectors(2), _vector_text),
    "transpose": Offer("transpose, as a copy", _transpose, _squares(1), _square_text),
    "gelu-unfused": Offer("GELU, textbook: 8 calls", gelu.unfused, _vectors(1), _vector_text),
    "gelu-in-place": Offer("GELU, in place", gelu.in_place, _vectors(1), _vector_text),
    "gelu-fused": Offer("GELU, fused: one compiled pass", gelu.fused, _real_vector, _vector_text),
    "softmax": Offer("softmax, three passes", softmax.three_pass, _rows, _rows_text),
    "softmax-in-place": Offer("softmax, in place", softmax.in_place, _rows, _rows_text),
    "layer-norm": Offer("layer norm, textbook", layer_norm.textbook, _normed, _rows_text),
    "layer-norm-two-pass": Offer("layer norm, two passes", layer_norm.two_pass, _normed, _rows_text),
    "matmul": Offer("matrix product", matmul.vectorized, _squares(2), _square_text),
}
"""By the name that stands in links."""


@functools.cache
def descriptions() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the description of each kernel, by dtype, at each of the sizes in `EXPONENTS`."""
    return {
        name: {dtype: [describe(offer.trace(2**exponent, dtype)) for exponent in EXPONENTS] for dtype in DTYPES}
        for name, offer in OFFERED.items()
    }
