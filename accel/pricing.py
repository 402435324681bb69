"""Pricing: what one NumPy call costs on a calibrated machine, part by part."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from accel.machine import Ceiling, Machine, MatmulRate, interpolate
from accel.reuse import LINE_BYTES, piece_of
from accel.tracing.operations import Op, Operand

__all__ = ["Price", "PriceList"]

SCALAR = ":scalar"
PYTHON_NUMBERS = frozenset({"int", "float", "bool"})
RESERVES = frozenset({"empty"})
GATHERS = frozenset({"take"})
NEAREST = 0.05
"""Squared distance between shapes, in octaves, below which a measured product is as good as the shape itself."""
PROXIES = {
    "less": "greater", "less_equal": "greater", "greater_equal": "greater", "equal": "greater", "not_equal": "greater",
    "floor_divide": "divide", "remainder": "divide", "reciprocal": "divide", "positive": "copy", "fmax": "maximum",
    "fmin": "minimum", "exp2": "exp", "expm1": "exp", "sinh": "exp", "cosh": "exp", "log2": "log", "log10": "log",
    "log1p": "log", "arctan": "cos", "arctan2": "cos", "tan": "cos", "floor": "rint", "ceil": "rint", "trunc": "rint",
    "multiply.reduce": "add.reduce", "minimum.reduce": "maximum.reduce", "mean": "add.reduce",
}  # fmt: skip
"""Operations priced as one that was measured and does the same kind of work."""


@dataclass(frozen=True)
class Price:
    """Seconds of one call (or of all its repetitions), by cause."""

    overhead_seconds: float
    arithmetic_seconds: float
    memory_seconds: float
    pages_seconds: float
    overlap_exponent: float
    uncertainty_fraction: float
    level: str
    arithmetic_name: str

    @property
    def seconds(self) -> float:
        """The whole: overhead, the overlapped part, fresh pages."""
        longer = max(self.arithmetic_seconds, self.memory_seconds)
        shorter = min(self.arithmetic_seconds, self.memory_seconds)
        p = self.overlap_exponent
        overlapped = longer
        if shorter and p < math.inf:
            overlapped = longer * (1 + (shorter / longer) ** p) ** (1 / p)
        return self.overhead_seconds + overlapped + self.pages_seconds

    @property
    def bound_by(self) -> str:
        """The largest part, by name."""
        parts = {
            "dispatch overhead": self.overhead_seconds,
            self.arithmetic_name: self.arithmetic_seconds,
            f"{self.level} bandwidth": self.memory_seconds,
            "fresh pages": self.pages_seconds,
        }
        return max(parts, key=lambda name: parts[name])


class PriceList:
    """A machine's measured costs, ready to price calls."""

    def __init__(self, machine: Machine, threads: int) -> None:
        self.machine = machine
        self.threads = threads
        self._roofs = machine.roofs
        self._ceilings = {(c.operation, c.dtype): c for c in self._roofs.ceilings}
        self._streams = {stream.shape: stream for stream in self._roofs.streams}

        self._calls = {(call.name, call.kind): call.seconds for call in self._roofs.calls}
        self._overlaps = {overlap.operation: overlap.exponent for overlap in self._roofs.overlaps}
        self._usual_overlap = statistics.median(self._overlaps.values())

    @property
    def largest_working_set_bytes(self) -> int:
        """Where the measured curves end: beyond, all is DRAM."""
        return max(stream.working_set_bytes[-1] for stream in self._roofs.streams)

    def price(self, op: Op, distances: Sequence[float]) -> Price:
        """Price a call whose operands and results were last touched at these distances (in order, bytes)."""
        if op.opaque or op.kind == "declared":
            return self._declared(op)
        memory, level, spread = self._memory(op, distances)
        overhead, arithmetic, name = self._work(op)
        if op.name in RESERVES:  # touches nothing yet
            memory = arithmetic = 0.0
        if (wrapped := self._call_seconds(op)) is not None:
            overhead = wrapped * op.count
        return Price(
            overhead_seconds=overhead + op.views * self._roofs.view_seconds,
            arithmetic_seconds=arithmetic,
            memory_seconds=memory,
            pages_seconds=self._pages(op),
            overlap_exponent=self._overlap(op),
            uncertainty_fraction=spread,
            level=level,
            arithmetic_name=name,
        )

    def _work(self, op: Op) -> tuple[float, float, str]:
        """Return (overhead, arithmetic, what the arithmetic is); a compiled pass states its arithmetic itself."""
        if op.kind == "compiled":
            return self._ceiling("add", op.dtype).call_seconds * op.count, op.seconds, "compiled arithmetic"
        if op.name == "einsum" and op.cost.flops:
            call = self._ceiling("add", op.dtype).call_seconds
            return call * op.count, self._sum_of_products_seconds(op), "einsum"
        return self._product(op) if op.product else self._elementwise(op)

    def _sum_of_products_seconds(self, op: Op) -> float:
        """Return the time of the loops of `einsum`, which are NumPy's own: a multiply-add for each 2 FLOPs."""
        return self._ceiling("multiply", op.dtype).element_seconds * op.cost.flops / 2

    def _call_seconds(self, op: Op) -> float | None:
        """Return what calling this function or method costs, where that was measured apart from the work it does."""
        kind = op.kind
        if kind == "ufunc" and any(scalar.dtype in PYTHON_NUMBERS for scalar in op.scalars):
            return self._calls.get(("multiply", "operator"))
        return self._calls.get((op.name, kind))

    def _overlap(self, op: Op) -> float:
        """Return how well arithmetic and traffic of a call overlap.

        Where loads and stores are all the work, the measured curve has the arithmetic in it, and the longer one counts.
        """
        if op.product:
            return self._usual_overlap
        name = PROXIES.get(op.name, op.name)
        return self._overlaps.get(name, math.inf)

    def _declared(self, op: Op) -> Price:
        """Price a compiled kernel by its declared cost, an opaque stretch by the time it took in the trace."""
        cost = op.cost
        known = not op.opaque and (cost.flops or cost.bytes_algorithmic or cost.interpreted)
        dtype = op.dtype if op.dtype in ("float32", "float64") else "float32"
        if known:
            arithmetic = cost.flops / self.machine.peak_flops_per_second(dtype, self.threads)
            arithmetic += cost.interpreted * self._roofs.interpreted_seconds
        else:
            arithmetic = op.seconds
        bandwidth = self.machine.bandwidth_bytes_per_second(max(cost.bytes_algorithmic, 1), self.threads)
        call = self._ceiling("add", "float32").call_seconds
        return Price(
            overhead_seconds=cost.calls * call,
            arithmetic_seconds=arithmetic,
            memory_seconds=cost.bytes_algorithmic / bandwidth if known else 0.0,
            pages_seconds=0.0,
            overlap_exponent=self._usual_overlap,
            uncertainty_fraction=self._roofs.spread_fraction,
            level=self.machine.level_of(cost.bytes_algorithmic),
            arithmetic_name="opaque" if not known else "interpreter" if cost.interpreted else "peak",
        )

    def _ceiling(self, name: str, dtype: str, *, special: bool = False) -> Ceiling:
        """Return the measured cost of an operation, of its closest relative, or of the closest dtype."""
        base, _, variant = name.partition(":")
        suffix = f":{variant}" if variant else ""
        if variant == "strided" and (name, dtype) not in self._ceilings:
            dtype = "float32" if np.dtype(dtype).itemsize <= 4 else "float64"
        candidates = [base, PROXIES.get(base, base), "add.reduce" if ".reduce" in base else "exp" if special else "add"]
        float_like = "float32" if np.dtype(dtype).itemsize <= 4 else "float64"
        for candidate in candidates:
            for with_suffix in dict.fromkeys((suffix, "")):
                for kind in dict.fromkeys((dtype, float_like)):
                    if found := self._ceilings.get((candidate + with_suffix, kind)):
                        return found
        return self._ceilings["add", "float32"]

    def _elementwise(self, op: Op) -> tuple[float, float, str]:
        """Return (overhead, arithmetic, what the arithmetic is) of a ufunc, a reduction, a copy or a cast."""
        name, dtype = op.name, op.dtype
        if name in ("astype", "copy", "setitem", "copyto", "ascontiguousarray"):
            source = op.operands[0].dtype if op.operands else dtype
            target = op.results[0].dtype if op.results else dtype
            name, dtype = ("copy", target) if source == target else (f"cast:{target}", source)
            if (name, dtype) not in self._ceilings:
                name, dtype = "copy", target
        reduces = ".reduce" in name or name in ("sum", "max", "min", "mean")
        size = max([operand.size for operand in (*op.operands, *op.results)], default=0)
        special = op.cost.special > 0
        inner = self._ceiling(name, dtype, special=special)
        call = inner.call_seconds
        if reduces and op.axis is not None and op.operands and op.operands[0].shape and 0 in op.axis and op.rows > 1:
            inner = self._ceiling(f"{name}:axis0", dtype)
        elif self._has_scalar(op) and not reduces:
            inner = self._ceiling(name + SCALAR, dtype, special=special)
            call = inner.call_seconds if op.scalars else call
        element = max(inner.element_seconds, self._gap_seconds(op, dtype))
        rows = op.rows if op.rows > 1 else 0
        arithmetic = element * size + inner.row_seconds * rows + self._cast_seconds(op)
        return call * op.count, arithmetic, op.name

    def _gap_seconds(self, op: Op, dtype: str) -> float:
        """Return what an element costs at least where operands have gaps: no vector loop takes them."""
        gaps = any(
            array.strides and array.shape[-1] > 1 and array.strides[-1] not in (0, np.dtype(array.dtype).itemsize)
            for array in (*op.operands, *op.results)
        )
        return self._ceiling("add:strided", dtype).element_seconds if gaps else 0.0

    @staticmethod
    def _has_scalar(op: Op) -> bool:
        """Whether the inner loop holds one input fixed, which has a loop of its own."""
        held = [
            o for o in op.operands if o.size < max(r.size for r in op.results or op.operands) or 0 in o.strides[-1:]
        ]
        return bool(op.scalars) or any(not o.shape or o.strides[-1:] == (0,) or o.shape[-1:] == (1,) for o in held)

    def _cast_seconds(self, op: Op) -> float:
        """Return the time of converting operands on the way into the loop."""
        if not op.loop_dtypes or not op.casts:
            return 0.0
        seconds = 0.0
        for operand in op.operands:
            if operand.dtype not in op.loop_dtypes:
                cast = self._ceilings.get((f"cast:{op.dtype}", operand.dtype)) or self._ceiling("copy", op.dtype)
                seconds += cast.element_seconds * operand.size
        return seconds

    def _memory(self, op: Op, distances: Sequence[float]) -> tuple[float, str, float]:
        """Return (seconds, level, relative spread) of the traffic of a call."""
        arrays = [*op.operands, *op.results]
        traffic = _traffic(op, arrays, distances)
        if not traffic:
            return 0.0, "L1", self._roofs.spread_fraction
        dense = _stream_shape(op, arrays)
        largest = self.largest_working_set_bytes
        seconds = spread = moved = 0.0
        for part in traffic:
            stream = self._streams.get(part.shape or dense) or self._streams["1R1W"]
            at = min(part.distance_bytes, largest)
            seconds += part.moved_bytes * interpolate(at, stream.working_set_bytes, stream.seconds_per_byte)
            spread += part.moved_bytes * interpolate(at, stream.working_set_bytes, stream.spread_fraction)
            moved += part.moved_bytes
        farthest = max(traffic, key=lambda part: part.moved_bytes * min(part.distance_bytes, largest))
        return seconds, self.machine.level_of(farthest.distance_bytes), spread / moved if moved else 0.0

    def _pages(self, op: Op) -> float:
        """Return what a newly allocated result costs."""
        if not op.fresh_bytes:
            return 0.0
        curve, each = self._roofs.allocations, op.fresh_bytes / op.count
        if each < curve.allocation_bytes[0]:
            return 0.0
        return op.fresh_bytes * interpolate(each, curve.allocation_bytes, curve.seconds_per_byte)

    def _product(self, op: Op) -> tuple[float, float, str]:
        """Return (overhead, arithmetic, name) of a matrix product."""
        assert op.product is not None
        batch, m, k, n = op.product
        call = self._ceiling("add", op.dtype).call_seconds
        one = self._products.seconds(op.dtype, m, k, n)
        return call * op.count, batch * op.count * max(one - call, one * 0.2) if one > 0 else 0.0, "matmul rate"

    @cached_property
    def _products(self) -> ProductModel:
        return ProductModel(self._roofs.matmuls, self.threads)


@dataclass(frozen=True, slots=True)
class _Traffic:
    """Bytes that a call moves for one operand."""

    moved_bytes: float
    distance_bytes: float
    shape: str
    """Stream shape where the operand has one of its own; empty where it streams with the others."""


def _traffic(op: Op, arrays: Sequence[Operand], distances: Sequence[float]) -> list[_Traffic]:
    """Return what each distinct operand moves; one that is updated moves twice."""
    read = {(o.buffer, o.offset_bytes) for o in op.operands}
    written = {(r.buffer, r.offset_bytes) for r in op.results}
    parts: dict[tuple[int, int, tuple[int, ...]], _Traffic] = {}
    for index, (array, distance) in enumerate(zip(arrays, distances, strict=True)):
        piece = piece_of(array)
        times = 2 if (array.buffer, array.offset_bytes) in read & written else 1
        shape, moved = "", float(piece.footprint_bytes)
        if op.name in GATHERS and index == (0 if op.operands else -1):
            # One line for each element taken, wherever it lies: the distance is that of the whole source.
            shape, moved = "gather", float(LINE_BYTES) * max((r.size for r in op.results), default=0)
        elif (
            piece.footprint_bytes >= 16 * array.nbytes // np.dtype(array.dtype).itemsize * 4 and not array.is_contiguous
        ):
            shape = "strided"
        parts[array.buffer, array.offset_bytes, array.strides] = _Traffic(moved * times, distance, shape)
    return list(parts.values())


def _stream_shape(op: Op, arrays: Sequence[Operand]) -> str:
    """Name the stream shape of a call by what it reads and writes at full size."""
    full = max(array.nbytes for array in arrays)
    reads = {(o.buffer, o.offset_bytes) for o in op.operands if o.nbytes * 2 > full}
    writes = {(r.buffer, r.offset_bytes) for r in op.results if r.nbytes * 2 > full}
    if not writes:
        return "reduce"
    if reads & writes:
        return "in place" if len(reads) <= 1 else "in place + read"
    return "1R1W" if len(reads) <= 1 else "2R1W"


class ProductModel:
    """Time of a matrix product of any shape, from the shapes measured.

    A sum of terms for the call, the arithmetic and each matrix is fitted to the measured shapes with positive weights;
    what the fit misses at the shapes nearby corrects it.
    """

    def __init__(self, measured: Sequence[MatmulRate], threads: int) -> None:
        self._rates: dict[str, list[MatmulRate]] = {}
        for rate in measured:
            if rate.threads == threads:
                self._rates.setdefault(rate.dtype, []).append(rate)
        self._weights = {dtype: _positive_fit(rates) for dtype, rates in self._rates.items()}
        self._misses = {dtype: self._missed(dtype) for dtype in self._rates}
        self._known: dict[tuple[str, int, int, int], float] = {}

    def seconds(self, dtype: str, m: int, k: int, n: int) -> float:
        """Return the predicted seconds of one (m x k) @ (k x n)."""
        if not m * k * n:
            return 0.0
        if dtype not in self._weights:
            dtype = (
                "float64" if "float64" in self._weights and np.dtype(dtype).itemsize > 4 else next(iter(self._weights))
            )
        if (dtype, m, k, n) not in self._known:
            shapes, misses = self._misses[dtype]
            near = 1 / (((shapes - np.log2([m, k, n])) ** 2).sum(axis=1) + NEAREST)
            fitted = float(_terms(m, k, n) @ self._weights[dtype])
            self._known[dtype, m, k, n] = fitted * math.exp(float(near @ misses / near.sum()))
        return self._known[dtype, m, k, n]

    def _missed(self, dtype: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the logarithms of the measured shapes, and of what was measured over what is fitted."""
        rates = self._rates[dtype]
        fitted = [float(_terms(rate.m, rate.k, rate.n) @ self._weights[dtype]) for rate in rates]
        shapes = np.log2([[rate.m, rate.k, rate.n] for rate in rates])
        return shapes, np.log([rate.seconds / fit for rate, fit in zip(rates, fitted, strict=True)])


def _terms(m: int, k: int, n: int) -> np.ndarray:
    """Return what the time of a product is made of: the call, multiply-adds, and elements of each matrix."""
    return np.array([1.0, m * k * n, m * k, k * n, m * n])


def _positive_fit(rates: Sequence[MatmulRate]) -> np.ndarray:
    """Fit the terms to measured seconds by relative error; a term that wants a negative weight is dropped."""
    seconds = np.array([rate.seconds for rate in rates])
    terms = np.array([_terms(rate.m, rate.k, rate.n) for rate in rates]) / seconds[:, None]
    weights = np.zeros(terms.shape[1])
    active = np.ones(terms.shape[1], bool)
    while active.any():
        scale = np.linalg.norm(terms[:, active], axis=0)
        found = np.linalg.lstsq(terms[:, active] / scale, np.ones(len(rates)), rcond=None)[0] / scale
        if (found >= 0).all():
            weights[active] = found
            return weights
        active[np.flatnonzero(active)[found < 0]] = False
    return weights
