"""Mechanism: whether a reader's function works the way that the exercise asks for. Counted, never timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from accel.check.grades import Step
from accel.check.sandbox import call_reader
from accel.measurement import measure_memory
from accel.tracing import trace
from accel.tracing.operations import Op, Trace

__all__ = ["Evidence", "Rule", "array_code", "few_passes", "in_blocks", "keeps_dtype", "lean", "product_tiles"]

ALLOWED_STEPS = 60
"""Lines of Python that may come on top when the input grows, for code that does not loop over elements."""
SMALL_SCRATCH_BYTES = 64 * 1024


@dataclass(frozen=True)
class Evidence:
    """A reader's function on one large input, and on a smaller one to see what grows."""

    function: Callable[..., Any]
    arrays: tuple[Any, ...]
    smaller: tuple[Any, ...]

    @cached_property
    def trace(self) -> Trace:
        """Every NumPy call on the large input."""
        return trace(lambda *arrays: call_reader(self.function, *arrays), *self.arrays)

    @cached_property
    def calls(self) -> tuple[Op, ...]:
        """The calls without the time that no call explains."""
        return tuple(op for op in self.trace.ops if op.kind != "opaque")

    @cached_property
    def result_bytes(self) -> int:
        """Size of the result."""
        return np.asarray(self.trace.result).nbytes

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """The arrays that come in."""
        return tuple(array for array in self.arrays if isinstance(array, np.ndarray))

    @cached_property
    def peak_bytes(self) -> int:
        """Memory allocated at the peak, result included."""
        return measure_memory(lambda: call_reader(self.function, *self.arrays)).peak_bytes

    @cached_property
    def python_steps(self) -> tuple[int, int]:
        """Lines of Python executed on the smaller and the large input."""
        return _python_steps(self.function, self.smaller), _python_steps(self.function, self.arrays)


Rule = Callable[[Evidence], Step]


def _python_steps(function: Callable[..., Any], arrays: tuple[Any, ...]) -> int:
    """Count the lines and calls that the interpreter goes through: the same on every run."""
    steps = 0

    def local(frame: Any, event: str, argument: Any) -> Any:  # noqa: ARG001
        nonlocal steps
        steps += 1
        return local

    before = sys.gettrace()
    sys.settrace(local)
    try:
        call_reader(function, *arrays)
    finally:
        sys.settrace(before)
    return steps


def array_code(evidence: Evidence) -> Step:
    """No loop over elements: a larger input takes no more lines of Python."""
    small, large = evidence.python_steps
    figures = {"Python steps on the larger input": float(large)}
    if large - small <= ALLOWED_STEPS:
        return Step("array code", True, figures=figures)
    return Step(
        "array code",
        False,
        f"The interpreter takes {small:,} steps on a small input and {large:,} on a larger one: there is a Python "
        "loop over elements or rows. Write it as operations on whole arrays.",
        figures,
    )


def lean(arrays: float, what: str = "the result") -> Rule:
    """No more memory at the peak than `arrays` times the result."""

    def rule(evidence: Evidence) -> Step:
        share = evidence.peak_bytes / max(evidence.result_bytes, 1)
        figures = {"peak memory in results": share}
        if evidence.peak_bytes <= arrays * evidence.result_bytes + SMALL_SCRATCH_BYTES:
            return Step("lean in memory", True, figures=figures)
        worst = max(evidence.calls, key=lambda op: op.fresh_bytes, default=None)
        culprit = f" The largest new array comes from {worst.call} in line {worst.line}." if worst else ""
        return Step(
            "lean in memory",
            False,
            f"At the peak it holds {share:.1f} times the memory of the result, and {arrays:g} times ({what}) is enough."
            f"{culprit} Write with out= or in place, or work on one block at a time.",
            figures,
        )

    return rule


def keeps_dtype(evidence: Evidence) -> Step:
    """No call computes in a wider dtype than the input's."""
    itemsize = max(array.dtype.itemsize for array in evidence.inputs)
    for op in evidence.calls:
        wide = op.dtype in ("float64", "complex128") and np.dtype(op.dtype).itemsize > itemsize
        if wide and any(result.size > 1 for result in op.results):
            return Step(
                "keeps float32",
                False,
                f"{op.call} in line {op.line} computes in {op.dtype}: twice the bytes and half the lanes. A NumPy "
                "float64 scalar (np.sqrt(2), np.pi as an array) promotes; a Python float does not.",
            )
    return Step("keeps float32", True)


def few_passes(most: float) -> Rule:
    """Operands and results of all calls together are at most `most` times what must be read and written once."""

    def rule(evidence: Evidence) -> Step:
        once = sum(array.nbytes for array in evidence.inputs) + evidence.result_bytes
        times = evidence.trace.cost.bytes_algorithmic / once
        figures = {"bytes asked for, in inputs and results": times}
        if times <= most:
            return Step("few passes", True, figures=figures)
        return Step(
            "few passes",
            False,
            f"Its calls read and write {times:.1f} times the input and the result together; {most:g} times is enough. "
            "Look for a value that is computed twice, or for calls that can be one.",
            figures,
        )

    return rule


def in_blocks(most_share: float = 0.3) -> Rule:
    """No call works on more than this share of the input at a time."""

    def rule(evidence: Evidence) -> Step:
        whole = max(array.nbytes for array in evidence.inputs)
        largest = max(evidence.calls, key=_widest, default=None)
        if largest is None:
            return Step(
                "in blocks",
                False,
                "No NumPy call was seen. Work with NumPy on slices of the input, one after the other.",
            )
        share = _widest(largest) / whole
        figures = {"largest operand, share of the input": share}
        if share <= most_share:
            return Step("in blocks", True, figures=figures)
        return Step(
            "in blocks",
            False,
            f"{largest.call} in line {largest.line} works on {share:.0%} of the input at once, so the next call finds "
            "it gone from the cache. Do all steps on one slice before you take the next.",
            figures,
        )

    return rule


def _widest(op: Op) -> int:
    """Return the bytes of the largest array that a call works on. Memory that is only made, as by np.empty, is not."""
    if not op.operands:
        return 0
    return max((operand.nbytes for operand in (*op.operands, *op.results)), default=0)


def product_tiles(evidence: Evidence) -> Step:
    """Every matrix product is of tiles, each at most a quarter of the matrices in every direction."""
    products = [op for op in evidence.calls if op.product]
    if not products:
        return Step("tiled", False, "No matrix product was seen. Multiply tiles with @ and add up along k.")
    whole = max(max(array.shape) for array in evidence.inputs)
    largest = max(max(op.product[1:]) for op in products if op.product)
    figures = {"products": float(sum(op.count for op in products)), "largest side of a tile": float(largest)}
    if largest * 4 <= whole:
        return Step("tiled", True, figures=figures)
    return Step(
        "tiled",
        False,
        f"A product has a side of {largest}, in matrices of {whole}: that is no tile. All three loops go in steps: "
        "rows, columns and k.",
        figures,
    )
