"""LLVM: how the instructions of the SIMD layer are written down. Needs Numba.

`accel.kernels.simd` is what kernels use. Here is what stands behind it: the type of a vector, and functions that add
instructions to the code under construction, which LLVM calls a *builder*.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, errors
from numba.extending import models, register_model

__all__ = [
    "I32",
    "I64",
    "IS_X86",
    "VECTOR_BITS",
    "Vector",
    "call_fma",
    "check_array",
    "check_dtype",
    "check_vectors",
    "element_pointer",
    "first_lanes",
    "llvm_vector",
    "load_masked",
    "load_unaligned",
    "shuffle",
    "splat",
    "store_masked",
    "store_unaligned",
    "transposed",
    "vector_bits",
    "vector_pointer",
]

I32, I64 = ir.IntType(32), ir.IntType(64)
IS_X86 = platform.machine().lower() in {"x86_64", "amd64", "i386", "i686"}
_FEATURES = binding.get_host_cpu_features()
_PART_BITS = 128
"""Wider registers are rows of 128-bit parts: shuffles within a part are cheap, those across parts cost more."""


def vector_bits() -> int:
    """Width of the widest vector registers of this CPU, in bits: 512, 256 or 128 (SSE2, NEON)."""
    if _FEATURES.get("avx512f"):
        return 512
    return 256 if _FEATURES.get("avx2") or _FEATURES.get("avx") else 128


VECTOR_BITS = vector_bits()
"""Width of a `Vector`, in bits."""


class Vector(types.Type):
    """As many float32 or float64 as fill a register, to Numba."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype
        self.lanes = VECTOR_BITS // dtype.bitwidth
        super().__init__(name=f"Vector({dtype} x {self.lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    """A `Vector` is an LLVM vector, which LLVM keeps in a register."""

    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, llvm_vector(vector))


def llvm_vector(vector: Vector) -> ir.VectorType:
    """Return what LLVM calls this vector, such as ``<8 x float>``."""
    scalar = ir.FloatType() if vector.dtype == types.float32 else ir.DoubleType()
    return ir.VectorType(scalar, vector.lanes)


def check_dtype(array: Any) -> None:
    """Refuse, while compiling, what has no vectors."""
    if not isinstance(array, types.Array | types.CPointer) or array.dtype not in (types.float32, types.float64):
        raise errors.TypingError(f"SIMD needs an array of float32 or float64, or the address of one; got {array}")


def check_array(array: Any) -> None:
    """Refuse, while compiling, what cannot be addressed flat or has no vectors."""
    check_dtype(array)
    if isinstance(array, types.Array) and not array.is_contig:
        raise errors.TypingError(f"SIMD needs a contiguous array; got {array}. Pass np.ascontiguousarray(…).")


def check_vectors(*vectors: Any) -> None:
    """Refuse, while compiling, operands that are not vectors of one type."""
    if not isinstance(vectors[0], Vector) or any(vector != vectors[0] for vector in vectors):
        raise errors.TypingError(f"SIMD needs vectors of one type; got {', '.join(map(str, vectors))}")


def element_pointer(context: Any, builder: ir.IRBuilder, array: types.Type, value: Any, index: Any) -> ir.Value:
    """Return the address of element `index` of a contiguous array, or counted from an address."""
    first = value if isinstance(array, types.CPointer) else context.make_array(array)(context, builder, value).data
    return builder.gep(first, [index])


def vector_pointer(context: Any, builder: ir.IRBuilder, array: types.Type, value: Any, index: Any) -> ir.Value:
    """Return the address of the vector that begins at element `index`."""
    vector = llvm_vector(Vector(array.dtype))
    return builder.bitcast(element_pointer(context, builder, array, value, index), vector.as_pointer())


def load_unaligned(builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    """Read a vector from an address that is a multiple of its element's size."""
    return builder.load(pointer, align=_element_bytes(pointer.type.pointee))


def store_unaligned(builder: ir.IRBuilder, vector: ir.Value, pointer: ir.Value) -> ir.Value:
    """Write a vector to an address that is a multiple of its element's size."""
    return builder.store(vector, pointer, align=_element_bytes(vector.type))


def _element_bytes(vector: ir.VectorType) -> int:
    return VECTOR_BITS // 8 // vector.count


def first_lanes(builder: ir.IRBuilder, count: ir.Value, vector: ir.VectorType) -> ir.Value:
    """Return a mask that is true for the first `count` lanes: none where it is 0 or less, all from the width on."""
    few = builder.select(builder.icmp_signed("<", count, I64(vector.count)), count, I64(vector.count))
    numbers = ir.VectorType(I32, vector.count)
    limits = splat(builder, builder.trunc(few, I32), numbers)
    return builder.icmp_signed("<", ir.Constant(numbers, list(range(vector.count))), limits)


def load_masked(builder: ir.IRBuilder, pointer: ir.Value, mask: ir.Value) -> ir.Value:
    """Read the lanes that the mask names, and zeros for the others; their addresses need not exist."""
    vector = pointer.type.pointee
    zero = ir.Constant(vector, None)
    kind = ir.FunctionType(vector, [pointer.type, I32, mask.type, vector])
    read = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.load.{_suffix(vector)}.p0")
    return builder.call(read, [pointer, I32(_element_bytes(vector)), mask, zero])


def store_masked(builder: ir.IRBuilder, vector: ir.Value, pointer: ir.Value, mask: ir.Value) -> None:
    """Write the lanes that the mask names."""
    kind = ir.FunctionType(ir.VoidType(), [vector.type, pointer.type, I32, mask.type])
    write = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.store.{_suffix(vector.type)}.p0")
    builder.call(write, [vector, pointer, I32(_element_bytes(vector.type)), mask])


def _suffix(vector: ir.VectorType) -> str:
    """Return how LLVM's names say the type, such as ``v8f32``."""
    return f"v{vector.count}{'f32' if isinstance(vector.element, ir.FloatType) else 'f64'}"


def shuffle(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, order: Sequence[int]) -> ir.Value:
    """Pick lanes: those of `a` are numbered from 0, those of `b` follow."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(order)), list(order)))


def splat(builder: ir.IRBuilder, scalar: ir.Value, vector: ir.VectorType) -> ir.Value:
    """Return a vector with `scalar` in every lane."""
    empty = ir.Constant(vector, ir.Undefined)
    return shuffle(builder, builder.insert_element(empty, scalar, I32(0)), empty, [0] * vector.count)


def call_fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Multiply and add with one rounding, or with two on an x86 CPU that would need a call of C code for one."""
    operation = "fmuladd" if IS_X86 and not _FEATURES.get("fma") else "fma"
    kind = ir.FunctionType(a.type, [a.type] * 3)
    fused = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{operation}.{_suffix(a.type)}")
    return builder.call(fused, [a, b, c])


def transposed(builder: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """Transpose as many rows as they have lanes.

    Within 128-bit parts first, by interleaving vectors of one group log2(lanes of a part) times; then whole parts
    change places between groups. Each step is one instruction on x86 for each vector.
    """
    count = rows[0].type.count
    part = _PART_BITS * count // VECTOR_BITS
    groups = [_transposed_parts(builder, rows[start : start + part], part) for start in range(0, count, part)]
    distance = 1
    while distance < len(groups):
        for first in (g for g in range(len(groups)) if not g & distance):
            upper, lower = groups[first], groups[first + distance]
            swapped = [_swapped_parts(builder, a, b, part * distance) for a, b in zip(upper, lower, strict=True)]
            groups[first], groups[first + distance] = [a for a, _ in swapped], [b for _, b in swapped]
        distance *= 2
    return [column for group in groups for column in group]


def _transposed_parts(builder: ir.IRBuilder, rows: Sequence[ir.Value], part: int) -> list[ir.Value]:
    """Transpose the square blocks, of `part` x `part` elements, that lie beside each other in `part` rows."""
    count = rows[0].type.count
    orders = []
    for half in (0, part // 2):
        at = [lane - lane % part + half + (lane % part) // 2 for lane in range(count)]
        orders.append([source + count * (lane % 2) for lane, source in enumerate(at)])
    rows, step = list(rows), part
    while step > 1:
        pairs = [(rows[i], rows[i + part // 2]) for i in range(part // 2)]
        rows = [shuffle(builder, a, b, order) for a, b in pairs for order in orders]
        step //= 2
    return rows


def _swapped_parts(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, width: int) -> tuple[ir.Value, ir.Value]:
    """Exchange the odd blocks of `width` lanes of `a` with the even ones of `b`."""
    count = a.type.count
    odd = [bool(lane // width % 2) for lane in range(count)]
    upper = [count + lane - width if is_odd else lane for lane, is_odd in enumerate(odd)]
    lower = [count + lane if is_odd else lane + width for lane, is_odd in enumerate(odd)]
    return shuffle(builder, a, b, upper), shuffle(builder, a, b, lower)
