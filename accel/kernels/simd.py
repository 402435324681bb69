"""SIMD probes: compiled loops that show what the hardware can do at best. Needs Numba.

Two things a compiler does not promise are asked for by name in LLVM's language: a fused multiply-add on whole
vector registers, and a store that goes around the caches. The plain loops are left to LLVM, which vectorizes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["CHAINS", "copy", "copy_non_temporal", "fma_chains", "lanes", "load", "triad", "vector_bits"]

CHAINS = 12
"""Independent chains of fused multiply-adds: more than latency x issue width (4 x 2 to 5 x 2 cycles) on current
CPUs, few enough for the 16 registers of AVX2."""

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def vector_bits() -> int:
    """Width of the widest vector registers of this CPU, in bits: 512, 256 or 128 (SSE2, NEON)."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 512
    return 256 if features.get("avx2") or features.get("avx") else 128


VECTOR_BITS = vector_bits()


def lanes(dtype: Any) -> int:
    """Elements of `dtype` in one vector register.

    >>> from accel.kernels import simd
    >>> simd.lanes("float32") * 32 == simd.lanes("float64") * 64 == simd.VECTOR_BITS
    True
    """
    return VECTOR_BITS // (8 * np.dtype(dtype).itemsize)


def _vector_type(number: types.Float) -> ir.VectorType:
    """Return the LLVM vector of as many `number` as fill a register."""
    scalar = ir.FloatType() if number == types.float32 else ir.DoubleType()
    return ir.VectorType(scalar, VECTOR_BITS // number.bitwidth)


def _splat(builder: ir.IRBuilder, scalar: ir.Value, vector: ir.VectorType) -> ir.Value:
    """Return a vector with `scalar` in every lane."""
    empty = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(empty, scalar, _I32(0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count))


def _sum_lanes(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Add up the lanes of a vector."""
    total = builder.extract_element(value, _I32(0))
    for lane in range(1, value.type.count):
        total = builder.fadd(total, builder.extract_element(value, _I32(lane)))
    return total


def _fma(module: ir.Module, vector: ir.VectorType) -> ir.Function:
    """Return LLVM's fused multiply-add for this vector type: a * b + c with one rounding."""
    kind = "f32" if isinstance(vector.element, ir.FloatType) else "f64"
    return cgutils.get_or_insert_function(
        module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{vector.count}{kind}"
    )


@intrinsic
def _chained_fma(typing_context: Any, steps: types.Integer, x: types.Float) -> Any:
    """Advance CHAINS vectors by acc = acc * x + x, `steps` times; return the sum, so that nothing is dead code."""
    signature = x(types.int64, x)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        steps, x = arguments
        vector = _vector_type(signature.return_type)
        fma = _fma(builder.module, vector)
        factor = _splat(builder, x, vector)
        before = builder.block
        body = builder.append_basic_block("chains")
        after = builder.append_basic_block("chains.end")
        starts = [builder.fadd(factor, ir.Constant(vector, [float(k)] * vector.count)) for k in range(CHAINS)]
        builder.branch(body)
        builder.position_at_end(body)
        step = builder.phi(_I64)
        step.add_incoming(_I64(0), before)
        chains = [builder.phi(vector) for _ in range(CHAINS)]
        advanced = [builder.call(fma, [chain, factor, factor]) for chain in chains]
        for chain, start, new in zip(chains, starts, advanced, strict=True):
            chain.add_incoming(start, before)
            chain.add_incoming(new, body)
        following = builder.add(step, _I64(1))
        step.add_incoming(following, body)
        builder.cbranch(builder.icmp_signed("<", following, steps), body, after)
        builder.position_at_end(after)
        total = advanced[0]
        for chain in advanced[1:]:
            total = builder.fadd(total, chain)
        return _sum_lanes(builder, total)

    return signature, generate


@intrinsic
def _store_around_caches(typing_context: Any, target: types.Array, source: types.Array) -> Any:
    """Copy whole vectors with non-temporal stores; `target` must start on a vector boundary."""
    signature = types.void(target, source)
    number = target.dtype

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        vector = _vector_type(number)
        to, of = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, arguments, strict=True)
        )
        count = builder.udiv(of.nitems, _I64(vector.count))
        vectors_to = builder.bitcast(to.data, vector.as_pointer())
        vectors_of = builder.bitcast(of.data, vector.as_pointer())
        hint = builder.module.add_metadata([_I32(1)])
        with cgutils.for_range(builder, count) as loop:
            value = builder.load(builder.gep(vectors_of, [loop.index]), align=number.bitwidth // 8)
            store = builder.store(value, builder.gep(vectors_to, [loop.index]), align=VECTOR_BITS // 8)
            store.set_metadata("nontemporal", hint)
        return context.get_dummy_value()

    return signature, generate


def _compiled(function: Callable[..., Any]) -> Any:
    """Compile for this CPU, without the interpreter lock, and keep the result on disk."""
    return numba.njit(function, nogil=True, fastmath=True, cache=True)


@_compiled
def fma_chains(steps: int, x: float) -> float:
    """Run ``steps * CHAINS`` vector multiply-adds in the dtype of `x`: 2 * lanes * CHAINS * steps FLOPs, no memory."""
    return _chained_fma(steps, x)


@_compiled
def load(source: np.ndarray, unused: np.ndarray, repeats: int) -> float:
    """Read `source` `repeats` times; return the sum."""
    total = source.dtype.type(0)
    for _ in range(repeats):
        for i in range(source.size):
            total += source[i]
    return total


@_compiled
def copy(source: np.ndarray, target: np.ndarray, repeats: int) -> float:
    """Copy `source` to `target` `repeats` times."""
    for r in range(repeats):
        change = source.dtype.type(r)  # makes each repetition differ, so that none can be left out
        for i in range(source.size):
            target[i] = source[i] + change
    return target[0]


@_compiled
def triad(source: np.ndarray, target: np.ndarray, repeats: int) -> float:
    """Add to half of `source` a multiple of its other half, into `target` (half as long), `repeats` times."""
    half = target.size
    for r in range(repeats):
        factor = source.dtype.type(r)
        for i in range(half):
            target[i] = source[i] + factor * source[half + i]
    return target[0]


@_compiled
def copy_non_temporal(source: np.ndarray, target: np.ndarray, repeats: int) -> float:
    """Copy `source` to `target` `repeats` times with stores that do not fetch the line first."""
    for _ in range(repeats):
        _store_around_caches(target, source)
    return target[0]
