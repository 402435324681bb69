"""SIMD: vector registers as values that Numba-compiled Python can load, compute with and store. Needs Numba.

A compiler vectorizes a plain loop if it can prove that it may, and it says nothing where it cannot. This layer asks for
vector instructions by name. A `Vector` is a value as wide as a register of this CPU: 16 float32 with AVX-512, 8 with
AVX, 4 with SSE and NEON. Every function below becomes one instruction, or the few that it takes:

==========================  ================================================  ==================  ================
here                        what it does                                      x86 (AVX)           ARM (NEON)
==========================  ================================================  ==================  ================
`load`                      read neighbouring elements                        vmovups             ldr q
`store`                     write them                                        vmovups             str q
`load_first`, `store_first` the same for the first few lanes only             vmaskmovps          one by one
`store_non_temporal`        write them around the caches                      vmovntps            stnp
`fence`                     wait until such writes are seen by all            sfence              dmb ish
`broadcast`                 one number in every lane                          vbroadcastss        dup
`fma`                       a * b + c with one rounding                       vfmadd231ps         fmla
``+``, ``-``, ``*``, ``/``  lane by lane, one rounding each                   vaddps …            fadd …
`minimum`, `maximum`        the lesser, the greater, lane by lane             vminps, vmaxps      fcmgt, bsl
`sum_lanes`                 add the lanes up                                  log2(lanes) steps   faddp
`interleave`                a0 b0 a1 b1 … of two vectors                      vunpcklps …         zip1, zip2
`transpose`                 rows of a square block become columns             8 x 3 shuffles      zip1, zip2, …
`prefetch`                  fetch a cache line before it is needed            prefetcht0          prfm
==========================  ================================================  ==================  ================

They are Numba *intrinsics*: Python functions that run while the caller is compiled, and write its instructions in the
language of LLVM. They can only be called from compiled code. Arrays are addressed flat: `load(x, i)` begins at the i-th
element of `x`, which must be contiguous, and **nothing checks that i and the elements after it lie within x**. An
array of any strides has an `address` and `element_strides`, for kernels that compute their own places.

>>> import numba, numpy as np
>>> from accel.kernels import simd
>>> @numba.njit
... def add_product(x, y, z):  # z += x * y; the size is a multiple of the lanes
...     for i in range(0, z.size, simd.lane_count(z)):
...         simd.store(z, i, simd.fma(simd.load(x, i), simd.load(y, i), simd.load(z, i)))
>>> x, z = np.arange(32.0), np.ones(32)
>>> add_product(x, x, z)
>>> z[:5]
array([ 1.,  2.,  5., 10., 17.])

Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (instructions) and volume 1, section
10.4.6 (non-temporal stores); LLVM Language Reference Manual (vectors, `llvm.fma`, ``!nontemporal``).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, errors
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin

from accel.kernels.compiled.llvm import (
    I32,
    I64,
    IS_X86,
    VECTOR_BITS,
    Vector,
    call_fma,
    check_array,
    check_dtype,
    check_vectors,
    element_pointer,
    first_lanes,
    llvm_vector,
    load_masked,
    load_unaligned,
    shuffle,
    splat,
    store_masked,
    store_unaligned,
    transposed,
    vector_bits,
    vector_pointer,
)

__all__ = [
    "VECTOR_BITS",
    "Vector",
    "address",
    "broadcast",
    "byte_address",
    "element_strides",
    "fence",
    "fma",
    "interleave",
    "lane_count",
    "lanes",
    "load",
    "load_first",
    "maximum",
    "minimum",
    "prefetch",
    "store",
    "store_first",
    "store_non_temporal",
    "sum_lanes",
    "transpose",
    "vector_bits",
]

_INTO_EVERY_LEVEL = 3


def lanes(dtype: Any) -> int:
    """Elements of `dtype` in one vector register. For Python; compiled code asks `lane_count`.

    >>> from accel.kernels import simd
    >>> simd.lanes("float32") * 32 == simd.lanes("float64") * 64 == simd.VECTOR_BITS
    True
    """
    return VECTOR_BITS // (8 * np.dtype(dtype).itemsize)


# ------------------------------------------------------------------------------------------------ memory


@intrinsic
def lane_count(typing_context: Any, array: Any) -> Any:
    """Elements of this array in one vector: a constant in compiled code."""
    check_dtype(array)
    count = Vector(array.dtype).lanes

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        return I64(count)

    return types.int64(array), generate


@intrinsic
def address(typing_context: Any, array: Any) -> Any:
    """Return where the first element of an array of any strides lies; the functions here take it in place of an array.

    It does not keep the array alive.
    """
    check_dtype(array)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        return context.make_array(array)(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), generate


@intrinsic
def byte_address(typing_context: Any, array: Any) -> Any:
    """Return the same as a number of bytes, to compare where arrays lie."""
    check_dtype(array)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        return builder.ptrtoint(context.make_array(array)(context, builder, arguments[0]).data, I64)

    return types.int64(array), generate


@intrinsic
def element_strides(typing_context: Any, array: Any) -> Any:
    """Return the strides of an array in elements: element (i, j) lies i * s0 + j * s1 after the first."""
    if not isinstance(array, types.Array):
        raise errors.TypingError(f"element_strides needs an array; got {array}")
    strides = types.UniTuple(types.int64, array.ndim)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        in_bytes = context.make_array(array)(context, builder, arguments[0]).strides
        itemsize = I64(array.dtype.bitwidth // 8)
        counts = [builder.sdiv(stride, itemsize, flags=["exact"]) for stride in cgutils.unpack_tuple(builder, in_bytes)]
        return context.make_tuple(builder, strides, counts)

    return strides(array), generate


@intrinsic
def load(typing_context: Any, array: Any, index: Any) -> Any:
    """Read the vector that begins at element `index`; it need not lie on a vector boundary."""
    check_array(array)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        return load_unaligned(builder, vector_pointer(context, builder, array, *arguments))

    return Vector(array.dtype)(array, types.int64), generate


@intrinsic
def store(typing_context: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write a vector from element `index` on; it need not lie on a vector boundary."""
    check_array(array)
    check_vectors(vector, Vector(array.dtype))

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        to, index, value = arguments
        store_unaligned(builder, value, vector_pointer(context, builder, array, to, index))
        return context.get_dummy_value()

    return types.void(array, types.int64, vector), generate


@intrinsic
def load_first(typing_context: Any, array: Any, index: Any, count: Any) -> Any:
    """Read the first `count` lanes from element `index` on, and zeros for the others, whose memory is not touched."""
    check_array(array)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        value, index, count = arguments
        pointer = vector_pointer(context, builder, array, value, index)
        return load_masked(builder, pointer, first_lanes(builder, count, pointer.type.pointee))

    return Vector(array.dtype)(array, types.int64, types.int64), generate


@intrinsic
def store_first(typing_context: Any, array: Any, index: Any, vector: Any, count: Any) -> Any:
    """Write the first `count` lanes from element `index` on. For the ends of rows: slower than `store`."""
    check_array(array)
    check_vectors(vector, Vector(array.dtype))

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        to, index, value, count = arguments
        mask = first_lanes(builder, count, value.type)
        store_masked(builder, value, vector_pointer(context, builder, array, to, index), mask)
        return context.get_dummy_value()

    return types.void(array, types.int64, vector, types.int64), generate


@intrinsic
def store_non_temporal(typing_context: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write a vector around the caches: **element `index` must lie on a boundary of VECTOR_BITS / 8 bytes**.

    An ordinary store first fetches the line it changes (write-allocate) and leaves it in the caches. This one does
    neither, which saves a third of a copy's traffic where the result is larger than the caches and not read soon, and
    costs time where it is. Call `fence` after the last one, before another thread may read the result.
    """
    check_array(array)
    check_vectors(vector, Vector(array.dtype))

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        to, index, value = arguments
        pointer = vector_pointer(context, builder, array, to, index)
        written = builder.store(value, pointer, align=VECTOR_BITS // 8)
        written.set_metadata("nontemporal", builder.module.add_metadata([I32(1)]))
        return context.get_dummy_value()

    return types.void(array, types.int64, vector), generate


@intrinsic
def fence(typing_context: Any) -> Any:
    """Let every store before it, non-temporal ones included, be seen before any store after it.

    x86 keeps ordinary stores in order, but non-temporal ones wait in write-combining buffers that it may empty late.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        if IS_X86:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse.sfence"), [])
        else:
            builder.fence("release")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of element `index`, into every level, without waiting. Any address will do."""
    check_array(array)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        pointer = builder.bitcast(element_pointer(context, builder, array, *arguments), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, I32, I32, I32])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read, data = I32(0), I32(1)
        builder.call(ask, [pointer, to_read, I32(_INTO_EVERY_LEVEL), data])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


# ------------------------------------------------------------------------------------------------ arithmetic


@intrinsic
def broadcast(typing_context: Any, number: Any) -> Any:
    """Return a vector with a float32 or float64 number in every lane; its dtype decides the vector's."""
    if number not in (types.float32, types.float64):
        raise errors.TypingError(f"broadcast needs a float32 or float64; got {number}. Convert it: x.dtype.type(…).")
    vector = Vector(number)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        return splat(builder, arguments[0], llvm_vector(vector))

    return vector(number), generate


@intrinsic
def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once: 2 FLOPs a lane in the time of one multiplication."""
    check_vectors(a, b, c)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        return call_fma(builder, *arguments)

    return a(a, b, c), generate


@intrinsic
def minimum(typing_context: Any, a: Any, b: Any) -> Any:
    """Return a where a < b, else b, lane by lane: NaN in either gives b, so put the operand whose NaN counts second."""
    check_vectors(a, b)
    return a(a, b), _choosing("<")


@intrinsic
def maximum(typing_context: Any, a: Any, b: Any) -> Any:
    """Return a where a > b, else b, lane by lane: NaN in either gives b, so put the operand whose NaN counts second."""
    check_vectors(a, b)
    return a(a, b), _choosing(">")


def _choosing(comparison: str) -> Callable[..., ir.Value]:
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        a, b = arguments
        return builder.select(builder.fcmp_ordered(comparison, a, b), a, b)

    return generate


@intrinsic
def sum_lanes(typing_context: Any, vector: Any) -> Any:
    """Add the lanes up, in pairs: halves of the vector, then halves of what that leaves."""
    check_vectors(vector)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        value = arguments[0]
        while value.type.count > 1:
            half = value.type.count // 2
            first = shuffle(builder, value, value, range(half))
            value = builder.fadd(first, shuffle(builder, value, value, range(half, 2 * half)))
        return builder.extract_element(value, I32(0))

    return vector.dtype(vector), generate


def _define_operator(symbol: Callable[..., Any], instruction: str) -> None:
    """Let ``a + b`` and the like be written for two vectors of one type."""

    @infer_global(symbol)
    class _Rule(AbstractTemplate):
        def generic(self, operands: Any, keywords: Any) -> Any:
            if len(operands) == 2 and isinstance(operands[0], Vector) and operands[0] == operands[1]:
                return signature(operands[0], *operands)
            return None

    @lower_builtin(symbol, Vector, Vector)
    def _lower(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        return getattr(builder, instruction)(*arguments)


for _symbol, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _define_operator(_symbol, _instruction)


# ------------------------------------------------------------------------------------------------ shuffles


@intrinsic
def interleave(typing_context: Any, a: Any, b: Any) -> Any:
    """Return the two vectors a0 b0 a1 b1 …: first the lower halves of `a` and `b`, then the upper ones."""
    check_vectors(a, b)
    pair = types.UniTuple(a, 2)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        half = a.lanes // 2
        orders = [[start + lane for k in range(half) for lane in (k, a.lanes + k)] for start in (0, half)]
        return context.make_tuple(builder, pair, [shuffle(builder, *arguments, order) for order in orders])

    return pair(a, b), generate


@intrinsic
def transpose(typing_context: Any, rows: Any) -> Any:
    """Return the columns of a square block that is given as a tuple of rows, each one vector.

    Lane i of column j is lane j of row i. Fewer rows than lanes leave the last lanes of each column undefined.
    """
    if not isinstance(rows, types.UniTuple) or not isinstance(rows.dtype, Vector) or rows.count > rows.dtype.lanes:
        raise errors.TypingError(f"transpose needs a tuple of at most as many vectors as they have lanes; got {rows}")
    count = rows.dtype.lanes
    columns = types.UniTuple(rows.dtype, count)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        block = cgutils.unpack_tuple(builder, arguments[0], rows.count)
        missing = ir.Constant(llvm_vector(rows.dtype), ir.Undefined)
        block = transposed(builder, [*block, *[missing] * (count - rows.count)])
        return context.make_tuple(builder, columns, block)

    return columns(rows), generate
