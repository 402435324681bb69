"""Operators: `+`, `*`, `-x`… for the tracer's array types, which reuse a dying operand's memory where NumPy would."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from accel import elision

__all__ = ["BINARY", "UNARY", "binary_operators", "unary_operator"]

BINARY: dict[str, np.ufunc] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "lshift": np.left_shift, "rshift": np.right_shift, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
"""Operators, by the middle of their method's name, that NumPy may run in place."""
UNARY: dict[str, np.ufunc] = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}

Run = Callable[[np.ufunc, tuple[Any, ...], Any], Any]
"""Runs a ufunc on inputs, into the third argument unless that is None."""
Spare = Callable[[Any, Any, str], bool]
"""Tells whether an array's memory may take its result with another operand, for dtypes of the given kinds."""
Operator = Callable[[Any, Any], Any]


def binary_operators(
    name: str,
    run: Run,
    is_spare: Spare,
    accepts: Callable[[Any], bool] = lambda other: True,  # noqa: ARG005
    default: tuple[Operator, ...] = (),
) -> tuple[Operator, Operator]:
    """Make `__name__` and `__rname__`. Operands that are not accepted go to the methods in `default`.

    Nothing may come between the interpreter and these two: they count the references to their operands.
    """
    ufunc, probed = BINARY[name], f"{name}_" if name in {"and", "or"} else name
    kinds = "fc" if name == "truediv" else "biufc"  # the quotient of integers does not fit an integer's memory
    left, right = elision.references() or (0, 0)

    def reuses(spare: Any, other: Any, side: int) -> bool:
        return is_spare(spare, other, kinds) and elision.binary_elision(probed)[side]

    def forward(self: Any, other: Any) -> Any:
        if not accepts(other):
            return default[0](self, other)
        if sys.getrefcount(self) == left and reuses(self, other, 0):
            return run(ufunc, (self, other), self)
        if type(other) is type(self) and sys.getrefcount(other) == right and reuses(other, self, 1):
            return run(ufunc, (other, self), other)
        return run(ufunc, (self, other), None)

    def reflected(self: Any, other: Any) -> Any:
        if not accepts(other):
            return default[1](self, other)
        if not isinstance(other, np.generic) and sys.getrefcount(self) == left and reuses(self, other, 1):
            return run(ufunc, (self, other), self)
        return run(ufunc, (other, self), None)

    return forward, reflected


def unary_operator(name: str, run: Run, is_spare: Spare) -> Callable[[Any], Any]:
    """Make `__name__` of one operand."""
    ufunc = UNARY[name]
    kinds = "biuf" if name == "abs" else "biufc"  # the magnitude of a complex number is real
    dying, _ = elision.references() or (0, 0)

    def operator(self: Any) -> Any:
        if sys.getrefcount(self) == dying and is_spare(self, None, kinds) and elision.unary_elision(name):
            return run(ufunc, (self,), self)
        return run(ufunc, (self,), None)

    return operator
