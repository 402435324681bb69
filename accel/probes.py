"""Probes: the small measurements a calibration is made of, each a call under a key that says what it is."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from accel.machine import Machine

__all__ = ["Batch", "Key", "Plan", "batches", "plan_for"]

Key = tuple[Any, ...]
Batch = dict[Key, Callable[[], Any]]

KIB, MIB = 2**10, 2**20
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "greater")
UNARY = ("negative", "absolute", "sqrt", "square", "exp", "log", "tanh", "sin", "cos", "rint")
CASTS = (
    ("float32", "float64"),
    ("float64", "float32"),
    ("int64", "float64"),
    ("int32", "float64"),
    ("float16", "float32"),
    ("float32", "float16"),
)
HEAVY = ("sqrt", "exp", "log", "tanh", "sin", "cos", "divide")
REDUCTIONS = ("add", "maximum")
STREAM_SHAPES = ("1R1W", "2R1W", "in place", "in place + read", "reduce")
SCATTERED = ("strided", "gather")
"""Passes that use one element of each cache line: in order, and in random order."""
STREAM_BYTES_PER_ELEMENT = {
    "1R1W": 8,
    "2R1W": 12,
    "in place": 8,
    "in place + read": 12,
    "reduce": 4,
    "strided": 64,
    "gather": 64,
}
"""Algorithmic bytes that one float32 element costs in a pass of each shape."""
STREAM_OPERANDS = {"1R1W": 2, "2R1W": 3, "in place": 1, "in place + read": 2, "reduce": 1}
TINY_ELEMENTS = 16
"""Operands so small that the call is all there is to see."""
POWER_ELEMENTS = 64 * KIB
"""More than a branch predictor remembers."""
OPERAND_BYTES = 8 * KIB
"""Three operands of this size fit any L1, and the cost of an element stands out from that of the call."""
ROWS = (64, 16)
"""An array in short rows: it gives the cost of starting a row."""
LINE_ELEMENTS = 16
"""float32 elements in a cache line of 64 bytes."""
OVERLAP_ELEMENTS = 4 * MIB
"""float32 elements of each of the two operands: 32 MB in all, out of most caches."""
ARENA_SLACK = 64 * LINE_ELEMENTS


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    limit_seconds: float
    """Every probe is measured once; until then, as often as time allows."""
    least_samples: int
    seconds_per_probe: float
    working_sets: tuple[int, ...]
    roof_working_sets: tuple[int, ...]
    scattered_working_sets: tuple[int, ...]
    dtypes: tuple[str, ...]
    thread_counts: tuple[int, ...]
    stream_shapes: tuple[str, ...]
    operations: tuple[str, ...]
    heavy: tuple[str, ...]
    """Operations whose arithmetic takes longer than their traffic from the nearest cache."""
    products: tuple[tuple[int, int, int], ...]
    page_bytes: tuple[int, ...]
    compiled_streams: tuple[str, ...]


SQUARE = tuple((n, n, n) for n in (8, 16, 32, 64, 96, 128, 192, 256, 512, 768))
SKINNY = (
    (1024, 64, 64), (64, 1024, 64), (64, 64, 1024), (1024, 32, 1024), (1024, 8, 1024), (2048, 72, 32), (32, 2048, 32),
    (1024, 1024, 1), (1, 1024, 1024), (1024, 1, 1024), (256, 256, 16), (16, 256, 256),
)  # fmt: skip


def plan_for(machine: Machine, *, quick: bool) -> Plan:
    """Return what to measure on this machine, within its memory."""
    last_level = max((cache.size_bytes for cache in machine.caches), default=32 * MIB)
    largest = min(max(128 * MIB, 4 * last_level), machine.memory_bytes // 8)
    ladder = [2**k for k in (12, 13, 14)] + [int(2 ** (k / 2)) for k in range(29, 65)]
    threads = tuple(dict.fromkeys((1, machine.usable_cpus)))
    pages = tuple(2**k for k in (11, 13, 16, 20, 22, 24, 26) if 2**k <= largest)
    if quick:
        coarse = tuple(size for size in (2**14, 2**18, 2**22, 2**24, 2**26) if size <= largest)
        return Plan(
            1.0, 3, 2e-3, coarse, coarse, coarse[::2], ("float32", "float64"), threads, ("1R1W", "2R1W", "reduce"),
            ("add", "multiply", "divide", "sqrt", "exp", "tanh", "power"), ("exp",), SQUARE[1:8:2] + SKINNY[:3],
            pages[1:4], ("load", "copy"),
        )  # fmt: skip
    return Plan(
        16.0, 3, 3e-3, tuple(size for size in ladder if size <= largest),
        tuple(2**k for k in range(13, 33) if 2**k <= largest), tuple(2**k for k in range(14, 33, 2) if 2**k <= largest),
        ("float32", "float64"), threads, STREAM_SHAPES,
        BINARY + UNARY, HEAVY, SQUARE + SKINNY, pages, ("load", "copy", "triad", "copy, non-temporal"),
    )  # fmt: skip


def batches(plan: Plan, *, numba: bool) -> list[tuple[int, Callable[[], Batch]]]:
    """Return (threads, maker) for each batch of probes; a maker's arrays live only while its batch does."""
    jobs: list[tuple[int, Callable[[], Batch]]] = []
    for dtype in plan.dtypes:
        peak = _fma_batch if numba else _product_peak_batch
        jobs += [(t, partial(peak, dtype, t)) for t in plan.thread_counts]
        jobs += [(1, partial(_operation_batch, plan.operations, dtype)), (1, partial(_row_batch, dtype))]
        jobs += [(1, partial(_strided_batch, dtype)), (1, partial(_power_batch, dtype))]
        jobs += [(t, partial(_product_batch, plan.products, dtype, t)) for t in plan.thread_counts]
    jobs += [
        (1, _cast_batch),
        (1, _other_dtype_batch),
        (1, _call_batch),
        (1, _interpreter_batch),
        (1, partial(_page_batch, plan.page_bytes)),
    ]
    arena = aligned(max(plan.working_sets + plan.roof_working_sets) // 4 + ARENA_SLACK)
    jobs.append((1, partial(_overlap_batch, plan.heavy, arena)))
    jobs += [(1, partial(_stream_batch, plan.stream_shapes, size, arena)) for size in plan.working_sets]
    jobs += [(1, partial(_scattered_batch, size, arena)) for size in plan.scattered_working_sets]
    for size in plan.roof_working_sets:
        if numba:
            streams = plan.compiled_streams
            jobs += [(t, partial(_compiled_stream_batch, streams, size, t, arena)) for t in plan.thread_counts]
        else:
            jobs.append((1, partial(_numpy_copy_batch, size, arena)))
    return jobs


def aligned(count: int, dtype: str = "float32", alignment: int = 64) -> np.ndarray:
    """Return `count` ones whose first byte lies on a cache-line boundary."""
    itemsize = np.dtype(dtype).itemsize
    raw = np.empty(count * itemsize + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    array = raw[start : start + count * itemsize].view(dtype)
    array.fill(1)
    return array


def _values(count: int, dtype: str) -> np.ndarray:
    """Return values in [0.5, 1.5): inside every function's domain, away from its special cases."""
    array = aligned(count, dtype)
    array[:] = np.random.default_rng(count).random(count) + 0.5
    return array


def _in_threads(run: Callable[[int], Any], threads: int) -> Callable[[], Any]:
    """Return a call that runs `run(0) … run(threads - 1)` at once."""
    if threads == 1:
        return lambda: run(0)
    pool = ThreadPoolExecutor(threads)
    return lambda: list(pool.map(run, range(threads)))


def _fma_batch(dtype: str, threads: int) -> Batch:
    """Chains of multiply-adds in registers; long enough that starting threads does not show."""
    from accel.kernels import simd

    steps, x = 40_000 * threads, np.dtype(dtype).type(0.5)
    simd.fma_chains(1, x)
    flops = 2 * simd.lanes(dtype) * simd.CHAINS * steps * threads
    return {
        ("peak", dtype, threads, "fma probe", flops): _in_threads(lambda _thread: simd.fma_chains(steps, x), threads)
    }


def _product_peak_batch(dtype: str, threads: int) -> Batch:
    """Without a compiler, the best rate to be had is the library's own product."""
    n = 512
    a, out = _values(n * n, dtype).reshape(n, n), np.empty((n, n), dtype)
    return {("peak", dtype, threads, "matmul", 2 * n**3): partial(np.matmul, a, a, out=out)}


def element_counts(dtype: str) -> tuple[int, int]:
    """Return the operand sizes, in elements, that give the cost of a call and of an element."""
    return TINY_ELEMENTS, OPERAND_BYTES // np.dtype(dtype).itemsize


def _operation_batch(operations: tuple[str, ...], dtype: str) -> Batch:
    """Ufuncs on operands in L1, at two sizes; binary ones with an array and with a scalar operand."""
    batch: Batch = {}
    scalar = np.dtype(dtype).type(3.0)
    for n in element_counts(dtype):
        a, b = _values(n, dtype), _values(n, dtype)
        for name in operations:
            ufunc = getattr(np, name)
            out = np.empty(n, bool if name == "greater" else dtype)
            if name in UNARY:
                batch["operation", name, dtype, n] = partial(ufunc, a, out=out)
                continue
            batch["operation", name, dtype, n] = partial(ufunc, a, b, out=out)
            if name != "power":
                batch["operation", f"{name}:scalar", dtype, n] = partial(ufunc, a, scalar, out=out)
    return batch


def _power_batch(dtype: str) -> Batch:
    """Cubes of values of either sign: its branches follow the sign, and a short array would let them be learned."""
    batch: Batch = {}
    for n in (TINY_ELEMENTS, POWER_ELEMENTS):
        signed = np.random.default_rng(n).standard_normal(n).astype(dtype)
        out, cube = np.empty(n, dtype), np.dtype(dtype).type(3.0)
        batch["operation", "power:scalar", dtype, n] = partial(np.power, signed, cube, out=out)
    return batch


def _row_batch(dtype: str) -> Batch:
    """Reductions and broadcasts: whole arrays and short rows."""
    batch: Batch = {}
    rows, width = ROWS
    for n in element_counts(dtype):
        a = _values(n, dtype)
        for name in REDUCTIONS:
            ufunc = getattr(np, name)
            batch["operation", f"{name}.reduce", dtype, n] = partial(ufunc.reduce, a)
    matrix = _values(rows * width, dtype).reshape(rows, width)
    row, column, out = _values(width, dtype), _values(rows, dtype).reshape(rows, 1), np.empty((rows, width), dtype)
    sums, totals = np.empty(rows, dtype), np.empty(width, dtype)
    for name in REDUCTIONS:
        ufunc = getattr(np, name)
        batch["rows", f"{name}.reduce", dtype] = partial(ufunc.reduce, matrix, axis=1, out=sums)
        batch["rows", f"{name}.reduce:axis0", dtype] = partial(ufunc.reduce, matrix, axis=0, out=totals)
    for name in ("add", "multiply"):
        ufunc = getattr(np, name)
        batch["rows", name, dtype] = partial(ufunc, matrix, row, out=out)
        batch["rows", f"{name}:scalar", dtype] = partial(ufunc, matrix, column, out=out)
    return batch


def _strided_batch(dtype: str) -> Batch:
    """Operands with gaps, which no vector loop takes."""
    batch: Batch = {}
    for n in element_counts(dtype):
        a, b, out = (_values(2 * n, dtype)[::2] for _ in range(3))
        for name in ("add", "multiply"):
            batch["operation", f"{name}:strided", dtype, n] = partial(getattr(np, name), a, b, out=out)
    return batch


def _other_dtype_batch() -> Batch:
    """Dtypes without a floating-point unit of their own, and integers."""
    batch: Batch = {}
    for dtype in ("float16", "int32", "int64"):
        for n in (TINY_ELEMENTS, OPERAND_BYTES // 8):
            a, out = aligned(n, dtype), np.empty(n, dtype)
            for name in ("add", "multiply"):
                batch["operation", name, dtype, n] = partial(getattr(np, name), a, a, out=out)
            batch["operation", "add.reduce", dtype, n] = partial(np.add.reduce, a)
    return batch


def _cast_batch() -> Batch:
    """Conversions and copies."""
    batch: Batch = {}
    for n in (TINY_ELEMENTS, OPERAND_BYTES // 8):
        for source, target in CASTS:
            a, out = aligned(n, source), np.empty(n, target)
            batch["operation", f"cast:{target}", source, n] = partial(np.copyto, out, a, casting="unsafe")
        for dtype in ("float32", "float64"):
            a, out = aligned(n, dtype), np.empty(n, dtype)
            batch["operation", "copy", dtype, n] = partial(np.copyto, out, a)
        where = np.zeros(n, bool)
        where[::2] = True
        a, b = aligned(n), aligned(n)
        batch["operation", "where", "float32", n] = partial(np.where, where, a, b)
        batch["operation", "take", "float32", n] = partial(np.take, a, np.arange(n))
    return batch


def _call_batch() -> Batch:
    """Functions and methods that wrap a ufunc or do little of their own, on arrays where the wrapping is all."""
    x, y = aligned(TINY_ELEMENTS), aligned(TINY_ELEMENTS)
    matrix, order = aligned(TINY_ELEMENTS).reshape(4, 4), np.arange(TINY_ELEMENTS)
    return {
        ("call", "add.reduce", "function"): partial(np.sum, x),
        ("call", "add.reduce", "method"): x.sum,
        ("call", "maximum.reduce", "function"): partial(np.max, x),
        ("call", "maximum.reduce", "method"): x.max,
        ("call", "mean", "function"): partial(np.mean, x),
        ("call", "mean", "method"): x.mean,
        ("call", "var", "function"): partial(np.var, x),
        ("call", "std", "function"): partial(np.std, x),
        ("call", "matmul", "ufunc"): partial(np.matmul, matrix, matrix),
        ("call", "dot", "function"): partial(np.dot, x, y),
        ("call", "astype", "method"): partial(x.astype, np.float64),
        ("call", "copy", "method"): x.copy,
        ("call", "where", "function"): partial(np.where, x > 1, x, y),
        ("call", "take", "method"): lambda: x[order],
        ("call", "concatenate", "function"): partial(np.concatenate, (x, y)),
        ("call", "copyto", "method"): partial(x.__setitem__, slice(None), y),
        ("call", "empty", "function"): partial(np.empty_like, x),
        ("call", "multiply", "operator"): lambda: x * 2.0,
    }


def _interpreter_batch() -> Batch:
    """Step through the loops of a textbook matrix product in Python."""
    n = 8
    a, b = aligned(n * n).reshape(n, n), aligned(n * n).reshape(n, n)

    def loop() -> Any:
        total = np.float32(0)
        for i in range(n):
            for j in range(n):
                for k in range(n):
                    total += a[i, k] * b[k, j]
        return total

    return {("interpreter", n**3): loop, ("python call",): lambda: None, ("view",): lambda: a[1:5]}


def _page_batch(sizes: tuple[int, ...]) -> Batch:
    """Write the same pass into an array in use, into a new one, and into memory fresh from the operating system."""
    batch: Batch = {}
    for size in sizes:
        a, out = aligned(size // 4), aligned(size // 4)
        batch["pages", "used", size] = partial(np.add, a, a, out=out)
        batch["pages", "new", size] = partial(np.add, a, a)
        batch["pages", "fresh", size] = partial(_add_into_fresh_pages, a, size)
    return batch


def _add_into_fresh_pages(a: np.ndarray, size: int) -> None:
    """Add into a mapping of its own, asking for huge pages where NumPy does (from 4 MB on, on Linux)."""
    pages = mmap.mmap(-1, size)
    if size >= 4 * MIB and hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    np.add(a, a, out=np.frombuffer(pages, np.float32))


def _stream_call(shape: str, operands: list[np.ndarray]) -> Callable[[], Any]:
    """Return one NumPy pass of a stream shape."""
    one = np.float32(1)
    first, last = operands[0], operands[-1]
    if shape == "1R1W":
        return partial(np.multiply, first, one, out=last)
    if shape == "2R1W":
        return partial(np.add, first, operands[1], out=last)
    if shape == "in place":
        return partial(np.multiply, first, one, out=first)
    if shape == "in place + read":
        return partial(np.minimum, first, last, out=first)  # stays in range, however often
    return partial(np.maximum.reduce, first)


def _cut(arena: np.ndarray, counts: Sequence[int]) -> list[np.ndarray]:
    """Return neighbouring pieces of the arena, each beginning one line further into its set of cache lines.

    Operands whose addresses differ by a power of two would compete for the same sets; real arrays seldom do.
    """
    pieces, start = [], 0
    for count in counts:
        pieces.append(arena[start : start + count])
        pieces[-1].fill(1)  # earlier probes left sums behind, which would grow to infinity
        start += -(-count // LINE_ELEMENTS) * LINE_ELEMENTS + LINE_ELEMENTS
    return pieces


def _stream_batch(shapes: tuple[str, ...], working_set: int, arena: np.ndarray) -> Batch:
    """Make passes of each shape whose operands together fill the working set."""
    batch: Batch = {}
    for shape in shapes:
        operands = STREAM_OPERANDS[shape]
        count = working_set // 4 // operands
        batch["stream", shape, working_set, count] = _stream_call(shape, _cut(arena, [count] * operands))
    return batch


def _scattered_batch(working_set: int, arena: np.ndarray) -> Batch:
    """Touch one element of each cache line of the working set: at equal steps, and in random order."""
    [piece] = _cut(arena, [working_set // 4])
    lines = piece[::LINE_ELEMENTS]
    out = np.empty(lines.size, np.float32)
    order = np.random.default_rng(0).permutation(lines.size) * LINE_ELEMENTS
    return {
        ("stream", "strided", working_set, lines.size): partial(np.multiply, lines, np.float32(1), out=out),
        ("stream", "gather", working_set, lines.size): partial(np.take, piece, order, out=out, mode="clip"),
    }


def _compiled_stream_batch(operations: tuple[str, ...], working_set: int, threads: int, arena: np.ndarray) -> Batch:
    """Compiled streams, the working set split over the threads."""
    from accel.kernels import simd

    functions = {
        "load": simd.load,
        "copy": simd.copy,
        "triad": simd.triad,
        "copy, non-temporal": simd.copy_non_temporal,
    }
    lines = working_set // 4 // threads // LINE_ELEMENTS
    sizes = {"load": (lines, 0), "triad": (lines // 3 * 2, lines // 3)}
    repeats = max(1, round(1e-3 * threads * 2e10 / working_set))
    batch: Batch = {}
    for operation in operations:
        function = functions[operation]
        source, target = (count * LINE_ELEMENTS for count in sizes.get(operation, (lines // 2, lines // 2)))
        pieces = _cut(arena, [source, target or 1] * threads)
        function(pieces[0][:64], pieces[1][:64], 1)

        def run(thread: int, function: Any = function, pieces: Any = pieces) -> None:
            function(pieces[2 * thread], pieces[2 * thread + 1], repeats)

        moved = (source + target) * 4 * threads * repeats
        batch["roof", operation, threads, working_set, moved] = _in_threads(run, threads)
    return batch


def _numpy_copy_batch(working_set: int, arena: np.ndarray) -> Batch:
    """Make NumPy's own copy the memory roof, where there is no compiler."""
    a, out = _cut(arena, [working_set // 8] * 2)
    return {("roof", "numpy copy", 1, working_set, working_set): partial(np.copyto, out, a)}


def _overlap_batch(operations: tuple[str, ...], arena: np.ndarray) -> Batch:
    """Make passes that are slow in arithmetic and in memory both, to see how much of one hides behind the other."""
    count = min(arena.size - ARENA_SLACK, OVERLAP_ELEMENTS * 2) // 2
    a, out = _cut(arena, [count] * 2)
    batch: Batch = {}
    for name in operations:
        operands = (a,) if name in UNARY else (a, np.float32(3.0))
        batch["overlap", name if name in UNARY else name + ":scalar", count] = partial(
            getattr(np, name), *operands, out=out
        )
    return batch


def _product_batch(shapes: tuple[tuple[int, int, int], ...], dtype: str, threads: int) -> Batch:
    """Matrix products from tiny to out of cache, square and skinny."""
    batch: Batch = {}
    for m, k, n in shapes:
        a, b = _values(m * k, dtype).reshape(m, k), _values(k * n, dtype).reshape(k, n)
        out = np.empty((m, n), dtype)
        batch["product", dtype, threads, m, k, n] = partial(np.matmul, a, b, out=out)
    return batch
