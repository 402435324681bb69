"""Products: what BLAS can compute, and with how many threads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from accel.cost import Cost
from accel.rewrites.dataflow import Rewrite, Situation, packed, places, recounted
from accel.tracing.operations import Buffer, Op, Operand

__all__ = ["blas_for_einsum", "blas_for_loops", "threads_for_products"]

BLAS_DTYPES = frozenset({"float32", "float64", "complex64", "complex128"})


def blas_for_einsum(situation: Situation) -> Iterator[Rewrite]:
    """Replace `einsum` of two floating-point arrays that is a matrix product by `@`, or by `tensordot`.

    Each index must stand in exactly two of operand, operand and result, or in all three as one leading batch axis;
    the result must have its indices in the order in which the product gives them. Not with `optimize=`, which finds
    BLAS of its own accord, nor for integers, for which NumPy has no fast product.
    """
    ops = situation.trace.ops
    for i, op in enumerate(ops):
        if op.name != "einsum" or not op.scalars or op.approximate or op.dtype not in BLAS_DTYPES:
            continue
        found = _as_product(op)
        if found is None:
            continue
        text, shape, name = found
        new = recounted(
            replace(op, name=name, kind="ufunc" if name == "matmul" else "function", product=shape, scalars=())
        )
        yield Rewrite(
            where=places([op]),
            change=f"{text} instead of np.einsum({op.scalars[0].value!r}, …)",
            note="BLAS sums in another order, so the last bits differ; optimize=True finds the same product",
            ops=(*ops[:i], new, *ops[i + 1 :]),
            buffers=situation.trace.buffers,
        )


def _as_product(op: Op) -> tuple[str, tuple[int, int, int, int], str] | None:
    """Return what to write, (batch, m, k, n), and the function; None where the subscripts are no plain product."""
    matched = re.fullmatch(r"([a-zA-Z]+),([a-zA-Z]+)->([a-zA-Z]*)", str(op.scalars[0].value).replace(" ", ""))
    if matched is None or len(op.operands) != 2:
        return None
    left, right, out = matched.groups()
    if any(len(set(term)) < len(term) for term in (left, right, out)):
        return None
    lengths = dict(zip(left + right, op.operands[0].shape + op.operands[1].shape, strict=True))
    shared = [i for i in left if i in right and i in out]
    rows = [i for i in left if i not in right]
    columns = [i for i in right if i not in left]
    summed = [i for i in left if i in right and i not in out]
    if not summed or set(rows) - set(out) or set(columns) - set(out) or len(shared) > 1:
        return None
    if list(out) != shared + rows + columns:
        return None
    size = [int(np.prod([lengths[i] for i in group])) for group in (shared, rows, summed, columns)]
    a, b = (
        operand.label if operand.label.isidentifier() else name for operand, name in zip(op.operands, "ab", strict=True)
    )
    if len(summed) == 1 and len(rows) <= 1 and len(columns) <= 1:
        factors = _factor(a, left, shared, rows, summed), _factor(b, right, shared, summed, columns)
        if None not in factors:
            return f"{factors[0]} @ {factors[1]}", (size[0], size[1], size[2], size[3]), "matmul"
    if shared:
        return None
    axes = [left.index(i) for i in summed], [right.index(i) for i in summed]
    return f"np.tensordot({a}, {b}, {axes})", (1, size[1], size[2], size[3]), "tensordot"


def _factor(name: str, term: str, shared: list[str], first: list[str], second: list[str]) -> str | None:
    """Name a factor of `@`, transposed where its axes come the other way round."""
    if list(term) == shared + first + second:
        return name
    if list(term) == shared + second + first:
        return f"{name}.mT" if shared else f"{name}.T"
    return None


def blas_for_loops(situation: Situation) -> Iterator[Rewrite]:
    """Replace loops over single elements of arrays (m x k) and (k x n), or (k), that fill a result (m x n), by `a @ b`.

    The number of elements that the interpreter touched must be that of a product: 2 to 4 for each of the mnk terms.
    That the terms are products is checked against the result where there is one to compare with.
    """
    trace = situation.trace
    opaque = [op for op in trace.ops if op.kind == "opaque" and op.cost.interpreted]
    arguments = re.findall(r"(\w+): (float32|float64)\[([\d, ]+)\]", trace.signature)
    made = {r: op for op in trace.ops for r in op.results if r.label == "result"}
    if len(opaque) != 1 or len(arguments) != 2 or len(made) != 1 or trace.signature.count(": ") != 2:
        return
    (a, dtype, left), (b, other, right) = arguments
    shapes = [tuple(int(n) for n in text.split(",")) for text in (left, right)]
    [result] = made
    if dtype != other or len(shapes[0]) != 2 or shapes[0][1] != shapes[1][0]:
        return
    (m, k), n = shapes[0], shapes[1][1] if len(shapes[1]) == 2 else 1
    items = opaque[0].cost.interpreted
    if result.shape != (m, *shapes[1][1:]) or not 2 * m * n * k <= items <= 4 * m * n * k + 2 * m * n:
        return
    numbers = situation.new_buffers()
    itemsize = np.dtype(dtype).itemsize
    operands = tuple(
        packed(next(numbers), name, shape, dtype, itemsize) for name, shape in zip((a, b), shapes, strict=True)
    )
    yield Rewrite(
        where=f"loop over single elements in {opaque[0].function}, line {opaque[0].line}",
        change=f"{a} @ {b} instead of loops over single elements",
        note="if each element is a sum of products; BLAS sums in another order, so the last bits differ",
        ops=(_matmul(opaque[0], operands, replace(result, dtype=dtype), (1, m, k, n)),),
        buffers={**trace.buffers, **{o.buffer: Buffer(o.label, o.nbytes, created=False) for o in operands}},
        check=lambda result, arrays: _is_product(result, arrays),
    )


def _matmul(like: Op, operands: tuple[Operand, ...], result: Operand, shape: tuple[int, int, int, int]) -> Op:
    _, m, k, n = shape
    return recounted(
        replace(
            like, name="matmul", kind="ufunc", operands=operands, results=(result,), dtype=result.dtype,
            loop_dtypes=(result.dtype,) * 3, cost=Cost(flops=2 * m * n * k, calls=1), fresh_bytes=result.nbytes,
            product=shape, opaque=False, seconds=0.0, views=0,
        )
    )  # fmt: skip


def _is_product(result: object, arrays: tuple[object, ...]) -> bool:
    given = [array for array in arrays if isinstance(array, np.ndarray)]
    if not isinstance(result, np.ndarray) or len(given) != 2:
        return False
    return bool(np.allclose(result, given[0] @ given[1], rtol=1e-3))


def threads_for_products(situation: Situation) -> Iterator[Rewrite]:
    """Give matrix products as many BLAS threads as the process may use CPUs.

    Applies where the machine was calibrated with as many threads.
    """
    machine = situation.machine
    count = machine.usable_cpus
    products = [op for op in situation.trace.ops if op.product is not None and op.dtype in BLAS_DTYPES]
    rates, peaks = machine.roofs.matmuls, machine.roofs.peaks
    measured = {(rate.dtype, rate.threads) for rate in rates} & {(peak.dtype, peak.threads) for peak in peaks}
    if count <= situation.threads or not products or not all((op.dtype, count) in measured for op in products):
        return
    yield Rewrite(
        where=places(products),
        change=f"{count} BLAS threads instead of {situation.threads} (threadpoolctl, OPENBLAS_NUM_THREADS)",
        note="only if nothing else keeps those CPUs busy",
        ops=situation.trace.ops,
        buffers=situation.trace.buffers,
        threads=count,
    )
