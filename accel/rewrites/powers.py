"""Powers: a small whole exponent as multiplications."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby

import numpy as np

from accel import elision
from accel.rewrites.dataflow import Rewrite, Situation, is_elementwise, like, places, site
from accel.tracing.operations import Buffer, Op, Operand

__all__ = ["powers_as_products"]

LARGEST_EXPONENT = 8


def powers_as_products(situation: Situation) -> Iterator[Rewrite]:
    """Write `power(x, n)`, n = 2 … 8, x floating-point, as `x * x`, `x * x * x`, or `y = x * x` and products of y.

    Does not apply to `x**2`, for which NumPy calls `square` of its own accord; with `where=`; to other exponents; to
    powers above the third that overwrite x.
    """
    ops = situation.trace.ops
    found = sorted((op for op in ops if _applies(op)), key=lambda op: (site(op), op.index))
    for _, group in groupby(found, key=site):
        calls = list(group)
        numbers = situation.new_buffers()
        buffers = dict(situation.trace.buffers)
        expanded: dict[int, list[Op]] = {}
        for op in calls:
            expanded[id(op)] = _products(op, numbers, buffers)
        base, exponent = calls[0].operands[0].label, int(calls[0].scalars[0].value)
        yield Rewrite(
            where=places(calls),
            change=f"{_formula(_short(base), exponent)} instead of {_short(base)}**{exponent}",
            note="the last bits differ; power is priced for values of both signs, and is faster on positive ones alone",
            ops=tuple(new for op in ops for new in expanded.get(id(op), [op])),
            buffers=buffers,
        )


def _applies(op: Op) -> bool:
    if op.name != "power" or not is_elementwise(op) or len(op.operands) != 1 or len(op.scalars) != 1:
        return False
    [exponent], [base], [result] = op.scalars, op.operands, op.results
    if exponent.position != 1 or isinstance(exponent.value, (str, bool)) or not float(exponent.value).is_integer():
        return False
    same = base.dtype == result.dtype == op.dtype and base.shape == result.shape
    overwrites = base == result
    largest = 3 if overwrites else LARGEST_EXPONENT
    apart = overwrites or base.buffer != result.buffer
    return same and apart and np.dtype(op.dtype).kind == "f" and 2 <= exponent.value <= largest


def _products(op: Op, numbers: Iterator[int], buffers: dict[int, Buffer]) -> list[Op]:
    """Return the multiplications; what is neither the result nor elided goes to memory of its own."""
    [base], [result], exponent = op.operands, op.results, int(op.scalars[0].value)

    def spare(label: str) -> Operand:
        number = next(numbers)
        buffers[number] = Buffer(label, result.nbytes, created=True)
        return replace(result, buffer=number, offset_bytes=0, label=label)

    if exponent == 2:
        return [like(op, "multiply", (base, base), result, fresh=op.fresh_bytes > 0)]
    if exponent == 3 and base != result:
        return _chain(op, [base] * 3, spare)
    square = spare("square")
    first = like(op, "multiply", (base, base), square, fresh=True)
    if base == result:
        return [first, like(op, "multiply", (square, base), result, step=1)]
    return [first, *_chain(op, [square] * (exponent // 2) + [base] * (exponent % 2), spare, first=1)]


def _chain(op: Op, factors: list[Operand], spare: Callable[[str], Operand], first: int = 0) -> list[Op]:
    """Multiply the factors from left to right, as an expression does."""
    [result] = op.results
    given = not op.fresh_bytes
    in_result = given or (result.nbytes >= elision.ELISION_BYTES and bool(elision.references()))
    steps = len(factors) - 1
    calls, product = [], factors[0]
    for step, factor in enumerate(factors[1:], start=1):
        target = result if in_result or step == steps else spare("product")
        fresh = not given and (step == 1 or not in_result)
        calls.append(like(op, "multiply", (product, factor), target, fresh=fresh, step=first + step - 1))
        product = target
    return calls


def _short(label: str) -> str:
    """Return a name to write in a formula: temporaries have none."""
    return label if label.isidentifier() and label != "result" else "t"


def _formula(name: str, exponent: int) -> str:
    if exponent <= 3:
        return " * ".join([name] * exponent)
    factors = ["y"] * (exponent // 2) + [name] * (exponent % 2)
    return f"y = {name} * {name}, then {' * '.join(factors)}"
