"""Tuples of vectors: registers that compiled code loads, computes with and stores together. Needs Numba.

`accel.kernels.simd` has the single vector. A tuple of vectors is what a kernel keeps in registers over a loop: its
length is part of its type, so the compiler writes each function here out, with no loop and no memory in between. A
count is therefore a literal or a global constant. As in `simd`, arrays are contiguous and addressed flat, and nothing
checks an index.

A *tile* is the tuple of `rows` x `per_row` vectors, row after row, that covers a block of a matrix.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils, errors
from numba.extending import intrinsic

from accel.kernels.compiled import llvm

__all__ = [
    "add_each",
    "broadcast_apart",
    "broadcast_each",
    "fma_each",
    "load_columns",
    "load_part",
    "load_tile",
    "outer_fma",
    "store_part",
    "store_tile",
    "sum_each",
    "zeros",
]


def _literal(count: Any) -> int:
    """Return a number that is part of its type; signatures keep that type, or two lengths would share their code."""
    if not isinstance(count, types.IntegerLiteral):
        raise errors.TypingError(f"a number of vectors must be known while compiling; got {count}")
    return int(count.literal_value)


def _check_tuples(*tuples: Any) -> None:
    for vectors in tuples:
        if not isinstance(vectors, types.UniTuple) or not isinstance(vectors.dtype, llvm.Vector):
            raise errors.TypingError(f"a tuple of vectors is needed; got {vectors}")


def _items(builder: ir.IRBuilder, signature: Any, arguments: Any) -> list[list[ir.Value]]:
    """Take arguments that are tuples apart."""
    tuples = zip(arguments, signature.args, strict=True)
    return [cgutils.unpack_tuple(builder, value, kind.count) for value, kind in tuples]


@intrinsic(prefer_literal=True)
def zeros(typing_context: Any, array: Any, count: Any) -> Any:
    """Return `count` vectors of zeros in the dtype of `array`."""
    vectors = types.UniTuple(llvm.Vector(array.dtype), _literal(count))

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        return cgutils.get_null_value(context.get_value_type(vectors))

    return vectors(array, count), generate


@intrinsic(prefer_literal=True)
def load_tile(typing_context: Any, array: Any, index: Any, row_stride: Any, rows: Any, per_row: Any) -> Any:
    """Read a tile whose first row begins at element `index`, and each other one `row_stride` elements further on."""
    llvm.check_array(array)
    shape = _literal(rows), _literal(per_row)
    tile = types.UniTuple(llvm.Vector(array.dtype), math.prod(shape))

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        value, index, row_stride, _, _ = arguments
        pointers = _tile_pointers(context, builder, array, (value, index, row_stride), *shape)
        return context.make_tuple(builder, tile, [llvm.load_unaligned(builder, pointer) for pointer in pointers])

    return tile(array, types.int64, types.int64, rows, per_row), generate


@intrinsic(prefer_literal=True)
def store_tile(typing_context: Any, array: Any, index: Any, row_stride: Any, tile: Any, per_row: Any) -> Any:
    """Write a tile, rows in order: where rows overlap in memory, the later one stays."""
    llvm.check_array(array)
    _check_tuples(tile)
    shape = tile.count // _literal(per_row), _literal(per_row)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        value, index, row_stride, vectors, _ = arguments
        pointers = _tile_pointers(context, builder, array, (value, index, row_stride), *shape)
        for pointer, vector in zip(pointers, cgutils.unpack_tuple(builder, vectors, tile.count), strict=True):
            llvm.store_unaligned(builder, vector, pointer)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, tile, per_row), generate


def _tile_pointers(
    context: Any, builder: ir.IRBuilder, array: types.Array, place: tuple[Any, Any, Any], rows: int, per_row: int
) -> list[ir.Value]:
    """Return the address of each vector of a tile; `place` is the array's value, the first index and the row stride."""
    value, index, row_stride = place
    width = llvm.Vector(array.dtype).lanes
    pointers = []
    for _ in range(rows):
        for j in range(per_row):
            at = builder.add(index, ir.Constant(index.type, j * width))
            pointers.append(llvm.vector_pointer(context, builder, array, value, at))
        index = builder.add(index, row_stride)
    return pointers


@intrinsic
def load_columns(typing_context: Any, array: Any, index: Any, row_stride: Any, rows: Any, count: Any) -> Any:
    """Return the columns of a square block of which only the first `rows` rows and `count` columns are read.

    Row i begins at element ``index + i * row_stride``. Lane i of column j is lane j of row i; lanes of rows that are
    not read repeat the last one that is, and columns that are not read hold zeros.
    """
    llvm.check_array(array)
    columns = types.UniTuple(llvm.Vector(array.dtype), llvm.Vector(array.dtype).lanes)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        value, index, row_stride, rows, count = arguments
        mask = llvm.first_lanes(builder, count, context.get_value_type(columns.dtype))
        last = builder.add(index, builder.mul(row_stride, builder.sub(rows, llvm.I64(1))))
        block = []
        for row in range(columns.count):
            exists = builder.icmp_signed("<", llvm.I64(row), rows)
            place = builder.select(exists, builder.add(index, builder.mul(row_stride, llvm.I64(row))), last)
            pointer = llvm.vector_pointer(context, builder, array, value, place)
            block.append(llvm.load_masked(builder, pointer, mask))
        return context.make_tuple(builder, columns, llvm.transposed(builder, block))

    return columns(array, types.int64, types.int64, types.int64, types.int64), generate


@intrinsic(prefer_literal=True)
def load_part(typing_context: Any, array: Any, index: Any, row_stride: Any, shape: Any, height: Any, width: Any) -> Any:
    """Read the first `height` rows and `width` columns of a tile of (rows, vectors a row), and zeros."""
    llvm.check_array(array)
    rows, per_row = (_literal(count) for count in shape)
    tile = types.UniTuple(llvm.Vector(array.dtype), rows * per_row)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        value, index, row_stride, _, height, width = arguments
        pointers = _tile_pointers(context, builder, array, (value, index, row_stride), rows, per_row)
        masks = _tile_masks(context, builder, tile, (height, width), per_row)
        loaded = [llvm.load_masked(builder, pointer, mask) for pointer, mask in zip(pointers, masks, strict=True)]
        return context.make_tuple(builder, tile, loaded)

    return tile(array, types.int64, types.int64, shape, types.int64, types.int64), generate


@intrinsic(prefer_literal=True)
def store_part(
    typing_context: Any, array: Any, index: Any, row_stride: Any, tile: Any, per_row: Any, height: Any, width: Any
) -> Any:
    """Write the first `height` rows and `width` columns of a tile."""
    llvm.check_array(array)
    _check_tuples(tile)
    shape = tile.count // _literal(per_row), _literal(per_row)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        value, index, row_stride, vectors, _, height, width = arguments
        pointers = _tile_pointers(context, builder, array, (value, index, row_stride), *shape)
        masks = _tile_masks(context, builder, tile, (height, width), shape[1])
        items = cgutils.unpack_tuple(builder, vectors, tile.count)
        for vector, pointer, mask in zip(items, pointers, masks, strict=True):
            llvm.store_masked(builder, vector, pointer, mask)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, tile, per_row, types.int64, types.int64), generate


def _tile_masks(
    context: Any, builder: ir.IRBuilder, tile: types.UniTuple, part: tuple[ir.Value, ir.Value], per_row: int
) -> list[ir.Value]:
    """Return the mask of each vector of a tile: which of its lanes lie within the part's height and width."""
    height, width = part
    kind = context.get_value_type(tile.dtype)
    masks = []
    for row in range(tile.count // per_row):
        exists = builder.icmp_signed("<", llvm.I64(row), height)
        count = builder.select(exists, width, llvm.I64(0))
        for vector in range(per_row):
            left_over = builder.sub(count, llvm.I64(vector * tile.dtype.lanes))
            masks.append(llvm.first_lanes(builder, left_over, kind))
    return masks


@intrinsic(prefer_literal=True)
def broadcast_each(typing_context: Any, array: Any, index: Any, count: Any) -> Any:
    """Return a vector for each of `count` neighbouring elements, filled with that element."""
    llvm.check_array(array)
    vectors = types.UniTuple(llvm.Vector(array.dtype), _literal(count))

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        value, index, _ = arguments
        at = [builder.add(index, ir.Constant(index.type, i)) for i in range(vectors.count)]
        return _splats(context, builder, array, value, at, vectors)

    return vectors(array, types.int64, count), generate


@intrinsic(prefer_literal=True)
def broadcast_apart(typing_context: Any, array: Any, index: Any, stride: Any, count: Any) -> Any:
    """Return a vector for each of `count` elements that lie `stride` apart, filled with that element."""
    llvm.check_array(array)
    vectors = types.UniTuple(llvm.Vector(array.dtype), _literal(count))

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        value, index, stride, _ = arguments
        at = [builder.add(index, builder.mul(stride, ir.Constant(stride.type, i))) for i in range(vectors.count)]
        return _splats(context, builder, array, value, at, vectors)

    return vectors(array, types.int64, types.int64, count), generate


def _splats(
    context: Any, builder: ir.IRBuilder, array: types.Array, value: ir.Value, at: list[ir.Value], vectors: Any
) -> ir.Value:
    """Return a vector for each of these elements, filled with it."""
    numbers = [builder.load(llvm.element_pointer(context, builder, array, value, place)) for place in at]
    kind = context.get_value_type(vectors.dtype)
    return context.make_tuple(builder, vectors, [llvm.splat(builder, number, kind) for number in numbers])


@intrinsic
def outer_fma(typing_context: Any, tile: Any, column: Any, row: Any) -> Any:
    """Add the outer product of a column and a row of vectors to a tile: tile[i, j] += column[i] * row[j]."""
    _check_tuples(tile, column, row)
    if tile.count != column.count * row.count:
        raise errors.TypingError(f"a tile of {tile.count} vectors is not {column.count} x {row.count}")

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        sums, left, right = _items(builder, signature, arguments)
        pairs = [(a, b) for a in left for b in right]
        return context.make_tuple(
            builder, tile, [llvm.call_fma(builder, a, b, c) for (a, b), c in zip(pairs, sums, strict=True)]
        )

    return tile(tile, column, row), generate


@intrinsic
def fma_each(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a[i] * b + c for each i: one vector `b` and one `c` for all."""
    _check_tuples(a)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        vectors, b, c = arguments
        items = cgutils.unpack_tuple(builder, vectors, a.count)
        return context.make_tuple(builder, a, [llvm.call_fma(builder, item, b, c) for item in items])

    return a(a, b, c), generate


@intrinsic
def add_each(typing_context: Any, a: Any, b: Any) -> Any:
    """Return a[i] + b[i] for each i."""
    _check_tuples(a, b)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        pairs = zip(*_items(builder, signature, arguments), strict=True)
        return context.make_tuple(builder, a, [builder.fadd(x, y) for x, y in pairs])

    return a(a, b), generate


@intrinsic
def sum_each(typing_context: Any, vectors: Any) -> Any:
    """Return the sum of the vectors, lane by lane."""
    _check_tuples(vectors)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        [[total, *others]] = _items(builder, signature, arguments)
        for vector in others:
            total = builder.fadd(total, vector)
        return total

    return vectors.dtype(vectors), generate
