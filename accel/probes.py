"""Probes: the small measurements a calibration is made of, each a call under a key that says what it is."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from accel.function_probes import COMPILED_SPECIAL, FAMILIES, FAMILY_DTYPES, function_batch
from accel.machine import Machine
from accel.operation_probes import (
    BINARY,
    OTHER_DTYPES,
    TINY_ELEMENTS,
    UNARY,
    Batch,
    Key,
    aligned,
    branching_batch,
    call_batch,
    cast_batch,
    interpreter_batch,
    operation_batch,
    other_dtype_batch,
    power_batch,
    row_batch,
    strided_batch,
    values,
)

__all__ = ["Batch", "Key", "Plan", "batches", "fresh_array", "plan_for", "stream_batch"]

KIB, MIB = 2**10, 2**20
HUGE_PAGE_BYTES = 2 * MIB
HEAVY = ("sqrt", "exp", "log", "tanh", "divide")
STREAM_SHAPES = ("1R1W", "2R1W", "in place", "in place + read", "reduce")
FAR_LINES = 4
"""Cache lines from one element to the next where the hardware's prefetching no longer helps."""
SCATTERED = ("strided", "strided far", "gather")
"""Passes that use one element of each cache line, or of each fourth: in order, and in random order."""
STREAM_BYTES_PER_ELEMENT = {
    "1R1W": 8,
    "2R1W": 12,
    "in place": 8,
    "in place + read": 12,
    "reduce": 4,
    "strided": 64,
    "strided far": 64,
    "gather": 64,
}
"""Algorithmic bytes that one float32 element costs in a pass of each shape."""
STREAM_OPERANDS = {"1R1W": 2, "2R1W": 3, "in place": 1, "in place + read": 2, "reduce": 1}
LINE_ELEMENTS = 16
"""float32 elements in a cache line of 64 bytes."""
OVERLAP_ELEMENTS = (2**15, 2**19, 2**23)
"""float32 elements of each of two operands: in L2, in L3, out of most caches. Such arrays tend to lie a
multiple of a page apart, which some loops do not like."""
THREADED_STEP = 2
"""Of the working sets of the memory roof, one in so many is measured with several threads as well."""
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
    overlap_elements: tuple[int, ...]
    products: tuple[tuple[int, int, int], ...]
    page_bytes: tuple[int, ...]
    compiled_streams: tuple[str, ...]
    families: tuple[str, ...]
    """Of functions that are no plain pass (`accel.function_probes`)."""
    largest_function_bytes: int
    all_dtypes: bool
    """Measure those functions, and dtypes other than `dtypes`, in full."""


SQUARE = tuple((n, n, n) for n in (8, 16, 32, 64, 92, 128, 192, 256, 512, 768))
SKINNY = (
    (1024, 64, 64), (64, 1024, 64), (64, 64, 1024), (1024, 32, 1024), (1024, 8, 1024), (2048, 72, 32), (32, 2048, 32),
    (1024, 1, 1024), (256, 256, 16), (16, 256, 256), (4096, 9, 8), (48, 20_000, 48),
)  # fmt: skip


def plan_for(machine: Machine, *, quick: bool) -> Plan:
    """Return what to measure on this machine, within its memory."""
    last_level = max((cache.size_bytes for cache in machine.caches), default=32 * MIB)
    largest = min(max(128 * MIB, 4 * last_level), machine.memory_bytes // 8)
    ladder = [2**k for k in range(12, 22)] + [int(2 ** (k / 2)) for k in range(44, 53)] + [2**k for k in range(27, 33)]
    threads = tuple(dict.fromkeys((1, machine.usable_cpus)))
    pages = tuple(2**k for k in (11, 13, 16, 20, 22, 25) if 2**k <= largest)
    if quick:
        coarse = tuple(size for size in (2**14, 2**18, 2**22, 2**24, 2**26) if size <= largest)
        return Plan(
            1.0, 3, 1e-3, coarse, coarse, coarse[::2], ("float32", "float64"), threads, ("1R1W", "2R1W", "reduce"),
            ("add", "multiply", "divide", "sqrt", "exp", "tanh", "power"), ("exp",), OVERLAP_ELEMENTS[:1],
            SQUARE[1:8:2] + SKINNY[:3], pages[1:4], ("load", "copy"), ("passes",), MIB // 4, False,
        )  # fmt: skip
    return Plan(
        17.5, 3, 3e-3, tuple(size for size in ladder if size <= largest),
        tuple(2**k for k in range(13, 33) if 2**k <= largest), tuple(2**k for k in range(14, 33, 2) if 2**k <= largest),
        ("float32", "float64"), threads, STREAM_SHAPES,
        BINARY + UNARY, HEAVY, OVERLAP_ELEMENTS, SQUARE + SKINNY, pages,
        ("load", "copy", "triad", "copy, non-temporal"), tuple(FAMILIES), largest, True,
    )  # fmt: skip


def batches(plan: Plan, *, numba: bool) -> list[tuple[int, Callable[[], Batch]]]:
    """Return (threads, maker) for each batch of probes; a maker's arrays live only while its batch does."""
    jobs: list[tuple[int, Callable[[], Batch]]] = []
    for dtype in plan.dtypes:
        peak = _fma_batch if numba else _product_peak_batch
        jobs += [(t, partial(peak, dtype, t)) for t in plan.thread_counts]
        if numba and plan.all_dtypes:
            jobs.append((1, partial(_special_batch, dtype)))
        jobs += [(1, partial(operation_batch, plan.operations, dtype)), (1, partial(row_batch, dtype))]
        jobs += [(1, partial(strided_batch, dtype)), (1, partial(power_batch, dtype))]
        jobs += [(t, partial(_product_batch, plan.products, dtype, t)) for t in plan.thread_counts]
    jobs += [(1, cast_batch), (1, call_batch), (1, interpreter_batch), (1, partial(_page_batch, plan.page_bytes))]
    if plan.all_dtypes:
        jobs += [(1, partial(branching_batch, dtype)) for dtype in plan.dtypes]
    others = list(OTHER_DTYPES) if plan.all_dtypes else ["int64", "bool"]
    jobs += [(1, partial(other_dtype_batch, dtype)) for dtype in others]
    for family in plan.families:
        for name in FAMILIES[family]:
            for dtype in FAMILY_DTYPES[family] if plan.all_dtypes else FAMILY_DTYPES[family][:1]:
                jobs.append((1, partial(function_batch, family, name, dtype, plan.largest_function_bytes)))
    arena = aligned(max(plan.working_sets + plan.roof_working_sets) // 4 + ARENA_SLACK)
    jobs += [(1, partial(_overlap_batch, plan.heavy, count)) for count in plan.overlap_elements]
    jobs += [(1, partial(stream_batch, plan.stream_shapes, size)) for size in plan.working_sets]
    jobs += [(1, partial(_scattered_batch, size, arena)) for size in plan.scattered_working_sets]
    for size in plan.roof_working_sets:
        if numba:
            streams = plan.compiled_streams
            few = plan.roof_working_sets[::-THREADED_STEP]
            counts = [t for t in plan.thread_counts if t == 1 or size in few]
            jobs += [(t, partial(_compiled_stream_batch, streams, size, t, arena)) for t in counts]
        else:
            jobs.append((1, partial(_numpy_copy_batch, size, arena)))
    return jobs


def _in_threads(run: Callable[[int], Any], threads: int) -> Callable[[], Any]:
    """Return a call that runs `run(0) … run(threads - 1)` at once."""
    if threads == 1:
        return lambda: run(0)
    pool = ThreadPoolExecutor(threads)
    return lambda: list(pool.map(run, range(threads)))


def _fma_batch(dtype: str, threads: int) -> Batch:
    """Chains of multiply-adds in registers; long enough that starting threads does not show."""
    from accel.kernels import simd
    from accel.kernels.compiled import streams

    steps, x = 40_000 * threads, np.dtype(dtype).type(0.5)
    streams.fma_chains(1, x)
    flops = 2 * simd.lanes(dtype) * streams.CHAINS * steps * threads
    return {
        ("peak", dtype, threads, "fma probe", flops): _in_threads(lambda _thread: streams.fma_chains(steps, x), threads)
    }


def _special_batch(dtype: str) -> Batch:
    """Exponentials in a compiled loop over arrays in L1, as compiled kernels compute them."""
    from accel.kernels.compiled.elementary import exponentials

    batch: Batch = {}
    for n, repeats in ((TINY_ELEMENTS, 1), (KIB, 16)):
        x, out = values(n, dtype), np.empty(n, dtype)
        exponentials(x, out, 1)
        key = ("function", COMPILED_SPECIAL, dtype, 2 * x.nbytes, n * repeats)
        batch[key] = partial(exponentials, x, out, repeats)
    return batch


def _product_peak_batch(dtype: str, threads: int) -> Batch:
    """Without a compiler, the best rate to be had is the library's own product."""
    n = 512
    a, out = values(n * n, dtype).reshape(n, n), np.empty((n, n), dtype)
    return {("peak", dtype, threads, "matmul", 2 * n**3): partial(np.matmul, a, a, out=out)}


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
    np.add(a, a, out=fresh_array(size))


def fresh_array(size: int) -> np.ndarray:
    """Return a float32 array in a mapping of its own, placed as the C library places a large array.

    The mapping is private, since the system gives huge pages to no shared one, which are asked for where NumPy does:
    from 4 MB on, on Linux. The array begins in the middle of a huge page, since the C library's own note in front keeps
    arrays from filling huge pages: their ends stay small pages. Left to chance, 4 MB would take a tenth of that now and
    then.
    """
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    pages = mmap.mmap(-1, size + 2 * HUGE_PAGE_BYTES, **private)
    start = (HUGE_PAGE_BYTES // 2 - np.frombuffer(pages, np.uint8).ctypes.data) % HUGE_PAGE_BYTES
    if size >= 4 * MIB and hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE, start, size)
    return np.frombuffer(pages, np.float32, size // 4, offset=start + 16)


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


def _own_arrays(counts: Sequence[int]) -> list[np.ndarray]:
    """Return arrays where NumPy puts them, on pages such as a program's own arrays have."""
    return [np.ones(count, np.float32) for count in counts]


def stream_batch(shapes: tuple[str, ...], working_set: int) -> Batch:
    """Make passes of each shape whose operands together fill the working set; shapes share arrays: pages take time."""
    batch: Batch = {}
    count = working_set // 4
    largest = max((STREAM_OPERANDS[shape] for shape in shapes), default=0)
    arrays = _own_arrays([count // place for place in range(1, largest + 1)])
    for shape in shapes:
        operands = STREAM_OPERANDS[shape]
        each = count // operands
        batch["stream", shape, working_set, each] = _stream_call(shape, [array[:each] for array in arrays[:operands]])
    return batch


def _scattered_batch(working_set: int, arena: np.ndarray) -> Batch:
    """Touch one element of each cache line of the working set: at equal steps, and in random order."""
    [piece] = _cut(arena, [working_set // 4])
    lines, far = piece[::LINE_ELEMENTS], piece[:: FAR_LINES * LINE_ELEMENTS]
    out = np.empty(lines.size, np.float32)
    order = np.random.default_rng(0).permutation(lines.size) * LINE_ELEMENTS
    return {
        ("stream", "strided", working_set, lines.size): partial(np.multiply, lines, np.float32(1), out=out),
        ("stream", "strided far", working_set // FAR_LINES, far.size): partial(
            np.multiply, far, np.float32(1), out=out[: far.size]
        ),
        ("stream", "gather", working_set, lines.size): partial(np.take, piece, order, out=out, mode="clip"),
    }


def _compiled_stream_batch(operations: tuple[str, ...], working_set: int, threads: int, arena: np.ndarray) -> Batch:
    """Compiled streams, the working set split over the threads."""
    from accel.kernels.compiled import streams

    functions = {
        "load": streams.load,
        "copy": streams.copy,
        "triad": streams.triad,
        "copy, non-temporal": streams.copy_non_temporal,
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


def _overlap_batch(operations: tuple[str, ...], count: int) -> Batch:
    """Make passes that are slow in arithmetic and in memory both, to see how much of one hides behind the other."""
    a, out = _own_arrays([count] * 2)
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
        a, b = values(m * k, dtype).reshape(m, k), values(k * n, dtype).reshape(k, n)
        out = np.empty((m, n), dtype)
        batch["product", dtype, threads, m, k, n] = partial(np.matmul, a, b, out=out)
    return batch
