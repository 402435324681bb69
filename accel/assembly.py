"""Assembly: from the raw log of a traced run to its operations, buffers and costs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from accel.cost import Cost
from accel.counting import Call, Work, count
from accel.layout import addressed_elements, inner_loop, is_contiguous
from accel.names import bound_arguments
from accel.operations import Buffer, Op, Operand, Scalar
from accel.recording import Event, Recorder, Seen

__all__ = ["Assembly"]

_MAKERS = frozenset({"empty"})
_UPDATERS = frozenset({"sort", "partition"})
_GATHERS = frozenset({"take", "compress", "extract", "take_along_axis", "choose"})
_DEFAULT_AXIS = {
    "sort": -1, "argsort": -1, "partition": -1, "argpartition": -1, "diff": -1, "concatenate": 0, "stack": 0,
}  # fmt: skip
_OWN_AXIS = ("reduce", "accumulate", "reduceat")


class Assembly:
    """Replays a recorder's log: follows allocations, and turns each event into an `Op`.

    Freed memory is handed to the next allocation of the same size, the last freed first, as NumPy's and the C
    library's allocators do; such arrays share a buffer number.
    """

    def __init__(self, recorder: Recorder, returned: Iterable[int]) -> None:
        self._recorder = recorder
        self._returned = set(returned)
        self._slots: dict[int, int] = {}
        self._free: dict[int, list[int]] = {}
        self._labels: dict[int, str] = dict(recorder.labels)
        self._live_bytes = self._live_arrays = 0
        self._temporaries = self._foreign = 0
        self._fresh = self._reused = 0
        self.buffers: dict[int, Buffer] = {}
        self.peak_bytes = self.peak_arrays = 0
        for number in recorder.labels:
            self._slot(number)
        self.ops = tuple(self._replay())

    def _replay(self) -> Iterator[Op]:
        index = 0
        for entry in self._recorder.log:
            if isinstance(entry, Event):
                yield self._op(index, entry)
                index += 1
            elif entry >= 0:
                self._allocate(entry)
            elif ~entry in self._slots and self.buffers[self._slots[~entry]].created:
                self._release(~entry)

    def _allocate(self, number: int) -> None:
        nbytes = self._recorder.buffers[number][0]
        spare = self._free.get(nbytes)
        slot = spare.pop() if spare else len(self.buffers)
        self._slots[number] = slot
        if number in self._returned:
            label = "result"
        else:
            self._temporaries += 1
            label = f"temporary {self._temporaries}"
        self._labels[number] = label
        if slot not in self.buffers or label == "result":
            self.buffers[slot] = Buffer(label, nbytes, created=True)
        else:
            self._reused += nbytes
        self._fresh += nbytes
        self._live_bytes += nbytes
        self._live_arrays += 1
        if self._live_bytes > self.peak_bytes:
            self.peak_bytes, self.peak_arrays = self._live_bytes, self._live_arrays

    def _release(self, number: int) -> None:
        nbytes = self._recorder.buffers[number][0]
        self._live_bytes -= nbytes
        self._live_arrays -= 1
        self._free.setdefault(nbytes, []).append(self._slots[number])

    def _slot(self, number: int) -> int:
        """Return the buffer that an array lies in; one made out of sight is entered when it is first met."""
        if number not in self._slots:
            slot = self._slots[number] = len(self.buffers)
            if number not in self._labels:
                self._foreign += 1
                self._labels[number] = f"array {self._foreign}"
            self.buffers[slot] = Buffer(self._labels[number], self._recorder.buffers[number][0], created=False)
        return self._slots[number]

    def _operand(self, seen: Seen, elements: int | None = None) -> Operand:
        itemsize = seen.dtype.itemsize
        if elements is None:
            elements = addressed_elements(seen.shape, seen.strides)
        return Operand(
            buffer=self._slot(seen.buffer),
            offset_bytes=seen.address - self._recorder.buffers[seen.buffer][1],
            shape=seen.shape,
            dtype=_dtype_name(seen.dtype),
            strides=seen.strides,
            nbytes=elements * itemsize,
            is_contiguous=is_contiguous(seen.shape, seen.strides, itemsize),
            label=self._labels[seen.buffer],
        )

    def _op(self, index: int, event: Event) -> Op:
        described = _Description(event)
        reads, writes = described.reads, event.results
        gathered = described.touched
        operands = tuple(self._operand(s, gathered if i == 0 else None) for i, s in enumerate(reads))
        scatter = gathered if described.name == "put" or described.name.endswith(".at") else None
        results = tuple(self._operand(s, scatter) for s in writes)
        work = described.work()
        known = work or Work()
        fresh, reused, self._fresh, self._reused = self._fresh, self._reused, 0, 0
        length, rows = described.loop()
        return Op(
            index=index,
            name=described.name,
            kind=event.kind,
            operands=operands,
            results=results,
            scalars=described.scalars,
            dtype=described.loop_dtypes[0] if described.loop_dtypes else described.fallback_dtype,
            loop_dtypes=described.loop_dtypes,
            cost=described.declared or _cost(described.name, known, operands, results, event.scalar_results),
            fresh_bytes=fresh,
            reused_bytes=reused,
            scratch_bytes=known.scratch_bytes,
            axis=described.axis,
            inner_length=length,
            rows=rows,
            product=described.product(),
            masked=described.masked,
            in_place=bool(results) and any(s in reads for s in writes),
            opaque=work is None and described.declared is None,
            approximate=known.approximate,
            seconds=(event.ended - event.started) * 1e-9,
            views=event.views,
            function=event.code.co_name,
            file=os.path.basename(event.code.co_filename),
            line=event.line or 0,
            instruction=event.instruction,
        )


def _cost(
    name: str, work: Work, operands: tuple[Operand, ...], results: tuple[Operand, ...], scalars: tuple[Any, ...]
) -> Cost:
    """Each distinct operand read once, each result written once; no write-allocate where its memory is read too."""
    distinct = {(o.buffer, o.offset_bytes, o.shape, o.strides): o for o in operands}.values()
    written = 0 if name in _MAKERS else sum(r.nbytes for r in results)
    allocate = 0 if name in _MAKERS else sum(r.nbytes for r in results if not any(_overlap(r, o) for o in operands))
    return Cost(
        flops=work.flops,
        special=work.special,
        bytes_read=sum(o.nbytes for o in distinct),
        bytes_written=written + sum(dtype.itemsize for dtype in scalars if dtype is not None),
        bytes_write_allocate=allocate,
        calls=1,
    )


def _overlap(a: Operand, b: Operand) -> bool:
    """Whether the byte ranges of two operands of one buffer meet."""
    if a.buffer != b.buffer or not a.nbytes or not b.nbytes:
        return False
    (a_low, a_high), (b_low, b_high) = _extent(a), _extent(b)
    return a_low < b_high and b_low < a_high


def _extent(operand: Operand) -> tuple[int, int]:
    low = high = operand.offset_bytes
    for length, step in zip(operand.shape, operand.strides, strict=True):
        reach = (length - 1) * step
        low, high = (low + reach, high) if reach < 0 else (low, high + reach)
    return low, high + np.dtype(operand.dtype).itemsize


def _dtype_name(dtype: np.dtype[Any]) -> str:
    """``"float32"``; with its byte order, as in ``">f4"``, where that is not the machine's."""
    return dtype.name if dtype.isnative else dtype.str


def _arrays(value: Any) -> Iterator[Seen]:
    if isinstance(value, Seen):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _arrays(item)


class _Description:
    """What one event did: its name, what it read, in which dtype, along which axes."""

    def __init__(self, event: Event) -> None:
        self.event = event
        self.declared: Cost | None = event.keywords.get("__cost__") if event.kind == "declared" else None
        if event.kind == "ufunc":
            self.ufunc: np.ufunc | None = event.function
            method = "" if event.method == "__call__" else f".{event.method}"
            self.name = f"{self.ufunc.__name__}{method}"
            self.arguments: dict[str, Any] = dict(event.keywords)
            if method[1:] in _OWN_AXIS and len(event.arguments) > 1:
                position = 2 if method == ".reduceat" else 1
                for name, value in zip(("axis", "dtype"), event.arguments[position:], strict=False):
                    self.arguments.setdefault(name, value)
        else:
            self.name = event.function
            self.ufunc = getattr(np, self.name.partition(".")[0], None)
            if not isinstance(self.ufunc, np.ufunc):
                self.ufunc = None
            self.arguments = bound_arguments(self.name, event.arguments, event.keywords)
        self.reads = tuple(self._reads())
        self.axis = self._axis()
        self.scalars = self._scalars()
        self.masked = isinstance(self.arguments.get("where"), Seen) and self.name != "where"
        self.loop_dtypes = self._loop_dtypes()
        self.fallback_dtype = next((_dtype_name(s.dtype) for s in (*self.reads, *event.results)), "")

    def _reads(self) -> Iterator[Seen]:
        event, skipped = self.event, None
        if event.kind != "ufunc":
            out = self.arguments.get("out")
            if isinstance(out, Seen):
                skipped = out
            if self.name in _WRITERS and self.name not in _UPDATERS:
                skipped = event.results[0]
        given = event.arguments
        if skipped is not None:
            position = next((i for i in range(len(given) - 1, -1, -1) if given[i] is skipped), None)
            if self.name in _WRITERS:
                position = 0
            given = tuple(a for i, a in enumerate(given) if i != position)
        yield from _arrays(given)
        for name, value in event.keywords.items():
            if name != "out":
                yield from _arrays(value)
        if isinstance(self.arguments.get("where"), Seen) and event.kind == "ufunc" and "out" in self.arguments:
            yield from event.results

    def _axis(self) -> tuple[int, ...] | None:
        name, arrays = self.name, self.reads
        if not arrays:
            return None
        method = name.partition(".")[2]
        default = 0 if self.event.kind == "ufunc" else _DEFAULT_AXIS.get(name)
        if self.event.kind == "ufunc" and method not in _OWN_AXIS:
            return None
        axis = self.arguments.get("axis", default)
        if axis is None:
            return tuple(range(len(arrays[0].shape))) if method == "reduce" or name in _STATISTICS else None
        axes = axis if isinstance(axis, tuple) else (axis,)
        if not all(isinstance(a, (int, np.integer)) for a in axes):
            return None
        rank = len(self.event.results[0].shape) if name == "stack" and self.event.results else len(arrays[0].shape)
        return tuple(int(a) % rank if rank else 0 for a in axes)

    def _scalars(self) -> tuple[Scalar, ...]:
        if self.event.kind != "ufunc":
            return ()
        inputs = self.event.arguments[: self.ufunc.nin] if not self.event.method.endswith("reduce") else ()  # type: ignore[union-attr]
        return tuple(
            Scalar(i, _scalar_value(x), _scalar_dtype(x))
            for i, x in enumerate(inputs)
            if isinstance(x, (bool, int, float, complex, np.generic))
        )

    def _loop_dtypes(self) -> tuple[str, ...]:
        if self.ufunc is None:
            return ()
        method = self.name.partition(".")[2]
        if method in _OWN_AXIS:
            made = next((s.dtype for s in self.event.results), None)
            made = made or next((d for d in self.event.scalar_results if d is not None), None)
            read = self.reads[0].dtype if self.reads else None
            chosen = read if self.ufunc.__name__.startswith("logical") else made
            return (_dtype_name(chosen),) * 3 if chosen is not None and read is not None else ()
        if self.event.kind != "ufunc":
            return ()
        inputs = [_promotable(x) for x in self.event.arguments[: self.ufunc.nin]]
        if method == "at":
            inputs = [_promotable(x) for i, x in enumerate(self.event.arguments) if i != 1][: self.ufunc.nin]
        requested = self.arguments.get("signature", self.arguments.get("sig")) or self.arguments.get("dtype")
        return _resolved(self.ufunc, tuple(inputs), requested, self.arguments.get("casting", "same_kind"))

    @property
    def touched(self) -> int | None:
        """Elements of the first operand that are touched where that is not all of it."""
        if self.name in _GATHERS and self.event.results:
            return math.prod(self.event.results[0].shape)
        if "__updates__" in self.event.keywords:
            return int(self.event.keywords["__updates__"])
        if self.name.endswith(".at"):
            return self._updates()
        return None

    def _updates(self) -> int:
        index = next(_arrays(self.event.arguments[1]), None)
        return math.prod(index.shape) if index is not None else 1

    def work(self) -> Work | None:
        if self.declared is not None:
            return Work()
        arguments = dict(self.arguments)
        if self.name.endswith(".at"):
            arguments["updates"] = self._updates()
        sizes = [math.prod(s.shape) for s in self.event.results] + [1 for _ in self.event.scalar_results]
        loop = np.dtype(self.loop_dtypes[0]) if self.loop_dtypes else self._common_dtype()
        inputs = tuple(s.shape for s in (*self.event.results, *self.reads)) if self.name == "put" else None
        call = Call(
            name=self.name,
            shapes=inputs or tuple(s.shape for s in self.reads),
            result_sizes=tuple(sizes),
            dtype=f"{loop.kind}{loop.itemsize}",
            arguments=arguments,
            axis=self.axis,
            ufunc=self.ufunc is not None,
        )
        return count(call)

    def _common_dtype(self) -> np.dtype[Any]:
        found = [s.dtype for s in (*self.reads, *self.event.results)]
        return max(found, key=lambda d: (d.kind == "c", d.itemsize)) if found else np.dtype(float)

    def loop(self) -> tuple[int, int]:
        """Return the length and the number of the inner loops."""
        results, reads = self.event.results, self.reads
        if (self.axis is not None and self.name.endswith(".reduce")) or self.name == "mean":
            shape = reads[0].shape if reads else ()
            kept = [0 if a in (self.axis or ()) else None for a in range(len(shape))]
            out = iter(results[0].strides) if results else iter(())
            if results and len(results[0].shape) == len(shape):
                target = tuple(0 if k == 0 else s for k, s in zip(kept, results[0].strides, strict=True))
            else:
                target = tuple(0 if k == 0 else next(out, 0) for k in kept)
            return inner_loop(shape, [_steps(reads[0], shape), target]) if reads else (0, 0)
        if self.event.kind == "ufunc" and self.event.method == "__call__" and self.product() is None:
            shape = results[0].shape if results else ()
            return inner_loop(shape, [_steps(s, shape) for s in (*reads, *results)])
        size = max((math.prod(s.shape) for s in (*reads, *results)), default=0)
        return size, int(size > 0)

    def product(self) -> tuple[int, int, int, int] | None:
        """Return (batch, m, k, n) of a matrix product."""
        if self.name not in _PRODUCT_NAMES or len(self.reads) < 2:
            return None
        a, b = self.reads[0].shape, self.reads[1].shape
        size = math.prod(self.event.results[0].shape) if self.event.results else 1
        if not a or not b:
            return None
        if self.name == "vdot":
            return 1, 1, math.prod(a), 1
        if self.name == "vecdot":
            return size, 1, a[-1], 1
        if self.name in {"dot", "inner", "tensordot"}:
            k = a[-1]
            if self.name == "tensordot":
                k = math.isqrt(math.prod(a) * math.prod(b) // size) if size else 0
            return 1, math.prod(a) // max(k, 1), k, math.prod(b) // max(k, 1)
        m = a[-2] if len(a) > 1 and self.name != "vecmat" else 1
        n = b[-1] if len(b) > 1 and self.name != "matvec" else 1
        k = b[-2] if self.name == "vecmat" else a[-1]
        return size // max(m * n, 1), m, k, n


_STATISTICS = frozenset({"mean", "var", "std"})
_WRITERS = frozenset({"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "fill", *_UPDATERS})
_PRODUCT_NAMES = frozenset({"matmul", "dot", "inner", "vdot", "vecdot", "matvec", "vecmat", "tensordot"})


def _steps(seen: Seen, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an operand along the axes of the loop: 0 where it is broadcast or has a single element."""
    missing = len(shape) - len(seen.shape)
    own = tuple(0 if n == 1 else s for n, s in zip(seen.shape, seen.strides, strict=True))
    return (0,) * missing + own if missing >= 0 else own[-missing:]


def _promotable(value: Any) -> Any:
    """What decides the promotion of an input: its dtype, or its Python type where NEP 50 calls that weak."""
    if isinstance(value, Seen):
        return value.dtype
    if type(value) in (int, float, complex):
        return type(value)
    return getattr(value, "dtype", None) or np.asarray(value).dtype


@lru_cache(maxsize=4096)
def _resolved(ufunc: np.ufunc, inputs: tuple[Any, ...], requested: Any, casting: str) -> tuple[str, ...]:
    """Return the dtypes of the loop that NumPy picks; () where it cannot say."""
    signature = requested
    if requested is not None and not isinstance(requested, (tuple, str)):
        signature = (None,) * ufunc.nin + (np.dtype(requested),) * ufunc.nout
    elif isinstance(requested, str) and "->" not in requested:
        signature = (None,) * ufunc.nin + (np.dtype(requested),) * ufunc.nout
    try:
        chosen = ufunc.resolve_dtypes((*inputs, *(None,) * ufunc.nout), signature=signature, casting=casting)
    except (TypeError, ValueError):
        return ()
    return tuple(_dtype_name(dtype) for dtype in chosen)


def _scalar_value(value: Any) -> float | int | bool | str:
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if isinstance(plain, (bool, int, float)) else str(plain)


def _scalar_dtype(value: Any) -> str:
    return value.dtype.name if isinstance(value, np.generic) else type(value).__name__
