"""Pricing: what one NumPy call costs on a calibrated machine, part by part."""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from accel.function_probes import COMPILED_SPECIAL, NARROW_ELEMENTS, STREAMING
from accel.machine import RAMP_ELEMENTS, Ceiling, Machine, Rate, interpolate
from accel.product_model import ProductModel
from accel.rates import rate_name, row_length, units
from accel.steps import accesses, buffered_operands
from accel.tracing.operations import Op
from accel.traffic import stream_shape, traffic

__all__ = [
    "Price",
    "PriceList",
    "dearer_kinds",
    "has_reduced_rows",
    "has_scalar",
    "is_reduction",
]

SCALAR = ":scalar"
STACKED = (4, 4, 4)
"""The products of which a stack was measured."""
LEAST_ARITHMETIC = 0.2
"""Share of a small product's time that is arithmetic at least."""
PYTHON_NUMBERS = frozenset({"int", "float", "bool", "complex"})
RESERVES = frozenset({"empty"})
COPIES = frozenset({"astype", "copy", "setitem", "copyto", "ascontiguousarray"})
SUMMARIES = frozenset({"argmax", "var", "std"})
"""Functions with a rate that start a loop for each element of their result."""
OUT_OF_ORDER = frozenset({"columns", "columns:conflict", "take", "take:rows", "put"})
"""Functions with a rate that do not go through memory from one end to the other."""
NARROW = ":narrow"
LEARNED_ELEMENTS = 8192
"""A branch predictor has learned a shorter array by heart when the same call comes again."""
STEP = 1.5
"""A pass that is so much slower per byte lies further out in the memory."""
CONFLICT_BYTES = 2048
"""Lines that are a multiple of this apart share a few sets of a cache."""
PROXIES = {
    "less": "greater", "less_equal": "greater", "greater_equal": "greater", "equal": "greater", "not_equal": "greater",
    "true_divide": "divide", "positive": "copy", "conjugate": "copy", "fill": "copy", "fmax": "maximum",
    "fmin": "minimum", "cosh": "sinh", "arcsinh": "log1p", "arccosh": "log1p", "arctanh": "log1p",
    "arccos": "arcsin", "logaddexp2": "logaddexp", "ceil": "floor", "trunc": "floor", "isinf": "isfinite",
    "signbit": "isnan", "copysign": "sign", "fabs": "absolute", "divmod": "floor_divide",
    "bitwise_or": "bitwise_and", "bitwise_xor": "bitwise_and", "right_shift": "left_shift", "invert": "negative",
    "logical_or": "logical_and", "logical_xor": "logical_and", "float_power": "power",
    "multiply.reduce": "add.reduce", "minimum.reduce": "maximum.reduce", "mean": "add.reduce",
}  # fmt: skip
"""Operations priced as one that was measured and does the same kind of work."""
OF_TRUTHS = {
    "bitwise_and": "logical_and", "bitwise_or": "logical_and", "bitwise_xor": "logical_and", "invert": "logical_not",
    "multiply": "logical_and", "add": "logical_and",
}  # fmt: skip
"""Operations that are logical ones where the operands are truth values."""
SIMILAR_DTYPES = {
    "uint32": "int32", "uint64": "int64", "int16": "int32", "uint16": "int32", "int8": "uint8",
    "complex64": "complex128",
}  # fmt: skip


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
        self._rates = {(rate.operation, rate.dtype): rate for rate in self._roofs.rates}
        self._calls = {(call.name, call.kind): call.seconds for call in self._roofs.calls}
        self._usual_overlap = statistics.median(overlap.exponent for overlap in self._roofs.overlaps)

    @property
    def largest_working_set_bytes(self) -> int:
        """Where the measured curves end: beyond, all is DRAM."""
        return max(stream.working_set_bytes[-1] for stream in self._roofs.streams)

    def price(self, op: Op, distances: Sequence[float]) -> Price:
        """Price a call whose operands and results were last touched at these distances (in order, bytes)."""
        if op.opaque or op.kind == "declared":
            return self._declared(op)
        name = rate_name(op)
        if rate := self._rate(name, op.dtype):
            return self._by_rate(op, name, rate, distances)
        memory, level, spread = self._memory(op, distances)
        overhead, arithmetic, name = self._work(op)
        if op.name in RESERVES:  # touches nothing yet
            memory = arithmetic = 0.0
        else:
            arithmetic = max(arithmetic, self._column_seconds(op, distances))
        return Price(
            overhead_seconds=overhead + op.views * self._roofs.view_seconds,
            arithmetic_seconds=arithmetic,
            memory_seconds=memory,
            pages_seconds=self._pages(op),
            overlap_exponent=self._overlap(op, max(distances, default=0.0)),
            uncertainty_fraction=spread,
            level=level,
            arithmetic_name=name,
        )

    def _rate(self, name: str, dtype: str) -> Rate | None:
        """Return the measured rate of a function, for the dtype or else for one as wide."""
        for kind in (dtype, float_as_wide(dtype), "float32", "float64", "bool"):
            if found := self._rates.get((name, kind)):
                return found
        return None

    def _by_rate(self, op: Op, name: str, rate: Rate, distances: Sequence[float]) -> Price:
        """Price a function that was measured as a whole, at the working set that its operands were last seen at."""
        at = min(max(distances, default=0.0), self.largest_working_set_bytes)
        memory = 0.0
        streams = name in STREAMING or len(rate.working_set_bytes) == 1  # in L1 alone, by an earlier version
        if streams:
            memory, _, _ = self._memory(op, distances)
            seconds = units(op, name) * min(rate.seconds_per_unit)
        else:
            seconds = units(op, name) * (self._unit_seconds(rate, at) + self._short_row_seconds(op, name, rate, at))
        if name in SUMMARIES and not self._rate(name + NARROW, op.dtype):
            seconds += self._row_seconds("add.reduce", op.dtype) * sum(result.size for result in op.results)
        call = self._calls.get((name, op.kind), rate.call_seconds)
        return Price(
            overhead_seconds=call * op.count + op.views * self._roofs.view_seconds,
            arithmetic_seconds=seconds,
            memory_seconds=memory,
            pages_seconds=self._pages(op) if streams else 0.0,
            overlap_exponent=math.inf,
            uncertainty_fraction=self._roofs.spread_fraction,
            level=self.machine.level_of(at),
            arithmetic_name=op.name,
        )

    def _short_row_seconds(self, op: Op, name: str, wide: Rate, working_set_bytes: float) -> float:
        """Return what a unit costs more in rows as short as this call's than in those that the rate is for.

        Starting a row is what rows of `NARROW_ELEMENTS` cost more; in longer ones more elements share it.
        """
        narrow, length = self._rate(name + NARROW, op.dtype), row_length(op, name)
        if not narrow or not length:
            return 0.0
        more = self._unit_seconds(narrow, working_set_bytes) - self._unit_seconds(wide, working_set_bytes)
        return max(more, 0.0) * NARROW_ELEMENTS / length

    def _unit_seconds(self, rate: Rate, working_set_bytes: float) -> float:
        """Read the curve of a rate, which has few points, at a working set.

        Between two points it rises as the time of a byte of a plain pass does, whose curve has many points: at once
        near a level's edge, and hardly within a level. Where that is flat, or memory is not gone through in order, it
        is linear in log size.
        """
        sizes, each = rate.working_set_bytes, rate.seconds_per_unit
        plain = self._streams["1R1W"]
        place = bisect.bisect_right(sizes, working_set_bytes)
        if 0 < place < len(sizes) and rate.operation not in OUT_OF_ORDER:
            low, here, high = (
                interpolate(size, plain.working_set_bytes, plain.seconds_per_byte)
                for size in (sizes[place - 1], working_set_bytes, sizes[place])
            )
            if high > STEP * low:
                return each[place - 1] + (here - low) / (high - low) * (each[place] - each[place - 1])
        return interpolate(working_set_bytes, sizes, each)

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

    def _call_seconds(self, op: Op, plain: float) -> float:
        """Return what it costs to call this function or method, or to call a ufunc on operands such as these."""
        if op.kind != "ufunc":
            reduction = "add.reduce" if ".reduce" in op.name else op.name
            return self._calls.get((op.name, op.kind), self._calls.get((reduction, op.kind), plain))
        if "." in op.name:
            return plain
        return plain + sum(self._extra_seconds(kind) for kind in dearer_kinds(op))

    def _extra_seconds(self, kind: str) -> float:
        """Return how much dearer a call with such operands is than a plain one."""
        found, plain = (self._calls.get(("multiply", each)) for each in (kind, "plain"))
        return max(found - plain, 0.0) if found is not None and plain is not None else 0.0

    def _overlap(self, op: Op, distance_bytes: float) -> float:
        """Return how well arithmetic and traffic of a call overlap, as was measured closest to this working set.

        Where loads and stores are all the work, the measured curve has the arithmetic in it, and the longer one counts.
        """
        if op.product:
            return self._usual_overlap
        name = PROXIES.get(op.name, op.name)
        known = [overlap for overlap in self._roofs.overlaps if overlap.operation in (op.name, name)]
        if not known and op.cost.special:
            known = [overlap for overlap in self._roofs.overlaps if overlap.operation == "exp"]
        at = math.log(max(min(distance_bytes, self.largest_working_set_bytes), 1))
        nearest = min(known, key=lambda o: abs(math.log(max(o.working_set_bytes, 1)) - at), default=None)
        return math.inf if nearest is None else nearest.exponent

    def _declared(self, op: Op) -> Price:
        """Price a compiled kernel by its declared cost, an opaque stretch by the time it took in the trace."""
        cost = op.cost
        known = not op.opaque and (cost.flops or cost.bytes_algorithmic or cost.interpreted)
        dtype = op.dtype if op.dtype in ("float32", "float64") else "float32"
        if known:
            arithmetic = cost.flops / self.machine.peak_flops_per_second(dtype, self.threads)
            arithmetic += cost.interpreted * self._roofs.interpreted_seconds
            arithmetic += cost.special * self._special_seconds(dtype) / self.threads
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

    def _special_seconds(self, dtype: str) -> float:
        """Return what an elementary function takes in a compiled loop; in NumPy's loop where none was measured."""
        rate = self._rates.get((COMPILED_SPECIAL, dtype))
        return min(rate.seconds_per_unit) if rate else self._ceiling("exp", dtype).element_seconds

    def _ceiling(self, name: str, dtype: str, *, special: bool = False) -> Ceiling:
        """Return the measured cost of an operation, of its closest relative, or of the closest dtype."""
        base, _, variant = name.partition(":")
        if dtype == "bool":
            base = OF_TRUTHS.get(base, base)
        suffix = f":{variant}" if variant else ""
        if variant == "strided" and (name, dtype) not in self._ceilings:
            dtype = float_as_wide(dtype)
        candidates = [base, PROXIES.get(base, base), "add.reduce" if ".reduce" in base else "exp" if special else "add"]
        for candidate in candidates:
            for with_suffix in dict.fromkeys((suffix, "")):
                for kind in dict.fromkeys((dtype, SIMILAR_DTYPES.get(dtype, dtype), float_as_wide(dtype))):
                    if found := self._ceilings.get((candidate + with_suffix, kind)):
                        return found
        return self._ceilings["add", "float32"]

    def _elementwise(self, op: Op) -> tuple[float, float, str]:
        """Return (overhead, arithmetic, what the arithmetic is) of a ufunc, a reduction, a copy or a cast."""
        name, dtype = self._measured_as(op)
        reduces = is_reduction(name)
        size = max([operand.size for operand in (*op.operands, *op.results)], default=0)
        special = op.cost.special > 0
        inner = self._ceiling(name, dtype, special=special)
        call = self._call_seconds(op, inner.call_seconds)
        if reduces and has_reduced_rows(op):
            inner = self._ceiling(f"{name}:axis0", dtype)
        elif has_scalar(op) and not reduces:
            inner = self._ceiling(name + SCALAR, dtype, special=special)
        element = max(
            inner.element_seconds, self._gap_seconds(op, dtype), self._branch_seconds(name, dtype, size / op.count)
        )
        element += self._buffering_seconds(dtype) * buffered_operands(op)
        rows = (inner.row_seconds or self._row_seconds("add.reduce" if reduces else "add", dtype)) * op.rows
        started = rows if op.rows > 1 else inner.ramp_seconds * op.count * min(size / op.count / RAMP_ELEMENTS, 1.0)
        return call * op.count, element * size + started + self._cast_seconds(op), op.name

    def _measured_as(self, op: Op) -> tuple[str, str]:
        """Return the operation and dtype whose ceiling a call has."""
        if op.name not in COPIES:
            return op.name, op.dtype
        source = op.operands[0].dtype if op.operands else op.dtype
        target = op.results[0].dtype if op.results else op.dtype
        cast = f"cast:{target}", source
        return cast if source != target and cast in self._ceilings else ("copy", target)

    def _row_seconds(self, name: str, dtype: str) -> float:
        """Return what it costs to start an inner loop."""
        return self._ceiling(name, dtype).row_seconds

    def _buffering_seconds(self, dtype: str) -> float:
        """Return what it costs to copy an element into a buffer of NumPy's iterator."""
        buffered, plain = (self._ceilings.get((name, float_as_wide(dtype))) for name in ("add:buffered", "add"))
        return max(buffered.element_seconds - plain.element_seconds, 0.0) if buffered and plain else 0.0

    def _branch_seconds(self, name: str, dtype: str, size: float) -> float:
        """Return what an element costs at least where an array is too long for its branches to be learned."""
        if size <= LEARNED_ELEMENTS:
            return 0.0
        many = self._ceilings.get((PROXIES.get(name, name) + ":long", dtype))
        return many.element_seconds if many else 0.0

    def _gap_seconds(self, op: Op, dtype: str) -> float:
        """Return what an element costs at least where operands have gaps: no vector loop takes them.

        A copy has loops of its own for elements at equal steps, of which going backwards is one.
        """
        if not any(access.has_gaps for access in accesses(op)):
            return 0.0
        copied = self._ceilings.get(("copy:reversed", dtype)) if op.name in COPIES else None
        return (copied or self._ceiling("add:strided", dtype)).element_seconds

    def _column_seconds(self, op: Op, distances: Sequence[float]) -> float:
        """Return the time of going down the columns of an array that lies in rows, line by line."""
        if op.product:
            return 0.0
        at = min(max(distances, default=0.0), self.largest_working_set_bytes)
        seconds = 0.0
        for access in accesses(op):
            if not access.is_by_column:
                continue
            conflict = access.step_bytes % CONFLICT_BYTES == 0
            rate = (conflict and self._rate("columns:conflict", op.dtype)) or self._rate("columns", op.dtype)
            if rate:
                seconds += access.array.size * self._unit_seconds(rate, at)
        return seconds

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
        parts = traffic(op, arrays, distances)
        if not parts:
            return 0.0, "L1", self._roofs.spread_fraction
        dense = stream_shape(op, arrays)
        largest = self.largest_working_set_bytes
        seconds = spread = moved = 0.0
        for part in parts:
            stream = self._streams.get(part.shape or dense) or self._streams.get("strided" if part.shape else "1R1W")
            stream = stream or self._streams["1R1W"]
            at = min(part.distance_bytes, largest)
            seconds += part.moved_bytes * interpolate(at, stream.working_set_bytes, stream.seconds_per_byte)
            spread += part.moved_bytes * interpolate(at, stream.working_set_bytes, stream.spread_fraction)
            moved += part.moved_bytes
        farthest = max(parts, key=lambda part: part.moved_bytes * min(part.distance_bytes, largest))
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
        """Return (overhead, arithmetic, name) of a matrix product, or of a stack of them."""
        assert op.product is not None
        batch, m, k, n = op.product
        call = self._calls.get(("matmul", "ufunc"), self._ceiling("add", op.dtype).call_seconds)
        one = self._products.seconds(op.dtype, m, k, n)
        if one <= 0:
            return call * op.count, 0.0, "matmul rate"
        started = self._rate("stacked products", op.dtype)
        if batch > 1 and started:
            more = max(one - self._products.seconds(op.dtype, *STACKED), 0.0)
            return call * op.count, batch * op.count * (min(started.seconds_per_unit) + more), "matmul rate"
        return call * op.count, batch * op.count * max(one - call, one * LEAST_ARITHMETIC), "matmul rate"

    @cached_property
    def _products(self) -> ProductModel:
        return ProductModel(self._roofs.matmuls, self.threads)


def float_as_wide(dtype: str) -> str:
    """Return the floating-point dtype that stands in for one whose own cost was not measured."""
    return "float32" if np.dtype(dtype).itemsize <= 4 else "float64"


def dearer_kinds(op: Op) -> list[str]:
    """Return what makes a call of a ufunc dearer than a plain one, by the names in `CallCost`."""
    shapes = {array.shape for array in (*op.operands, *op.results)}
    dearer = {
        "number": any(scalar.dtype in PYTHON_NUMBERS for scalar in op.scalars),
        "scalar": any(scalar.dtype not in PYTHON_NUMBERS for scalar in op.scalars),
        "broadcast": op.rows > 1 or len(shapes) > 1,
        "cast": op.casts,
    }
    return [kind for kind, applies in dearer.items() if applies]


def is_reduction(name: str) -> bool:
    """Whether a call of this name is priced as a reduction."""
    return ".reduce" in name or name in ("sum", "max", "min", "mean")


def has_reduced_rows(op: Op) -> bool:
    """Whether a reduction adds rows to rows, and so runs along the axis that is kept."""
    return bool(op.axis is not None and op.operands and op.operands[0].shape and 0 in op.axis and op.rows > 1)


def has_scalar(op: Op) -> bool:
    """Whether the inner loop holds one input fixed, which has a loop of its own."""
    held = [o for o in op.operands if o.size < max(r.size for r in op.results or op.operands) or 0 in o.strides[-1:]]
    return bool(op.scalars) or any(not o.shape or o.strides[-1:] == (0,) or o.shape[-1:] == (1,) for o in held)
