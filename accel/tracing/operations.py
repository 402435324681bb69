"""Operations: the records a trace is made of: `Operand`, `Buffer`, `Op` and `Trace`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

from accel.cost import Cost
from accel.records import Record

__all__ = ["Buffer", "Op", "Operand", "Scalar", "Trace", "total_cost"]


@dataclass(frozen=True)
class Scalar(Record):
    """A Python or NumPy scalar among the inputs of a call: it moves no bytes but may decide the dtype."""

    position: int
    """Which input of the call it is, from 0."""
    value: float | int | bool | str
    """The value; a string where it is complex, or unknown because only shapes were traced."""
    dtype: str
    """``"int"``, ``"float"``, ``"complex"`` or ``"bool"`` for Python's own; else a NumPy dtype, which promotes."""


@dataclass(frozen=True)
class Operand(Record):
    """One array that a call reads or writes, as a window onto a buffer."""

    buffer: int
    """Key into `Trace.buffers`: views of one array share it, and so does memory that was freed and given out again."""
    offset_bytes: int
    """From the start of the buffer to the first element."""
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    """In bytes, as in NumPy."""
    nbytes: int
    """Elements that are addressed times their size: a broadcast (stride 0) axis counts once."""
    is_contiguous: bool
    """In C or Fortran order, with no gaps."""
    label: str

    @property
    def size(self) -> int:
        """Number of elements of the shape, broadcast axes included."""
        size = 1
        for length in self.shape:
            size *= length
        return size


@dataclass(frozen=True)
class Buffer(Record):
    """A block of memory that the traced calls touched."""

    label: str
    """A parameter's name, ``"temporary 3"``, ``"result"``, or ``"array 1"`` for one made where the trace cannot see."""
    nbytes: int
    created: bool
    """Allocated by a recorded call, and not by the caller of the function."""


@dataclass(frozen=True)
class Op(Record):
    """One NumPy call, or `count` like it in a loop."""

    index: int
    """Position in `Trace.ops`."""
    name: str
    """``"add"``, ``"add.reduce"``, ``"matmul"``, ``"linalg.solve"``…; ``"opaque"`` for time that no call explains."""
    kind: str
    """How it was called: ``"ufunc"`` (operators too), ``"function"``, ``"method"``, ``"declared"``, ``"opaque"``."""
    operands: tuple[Operand, ...]
    """Arrays it reads, in order; the destination of an in-place update is among them."""
    results: tuple[Operand, ...]
    """Arrays it writes."""
    scalars: tuple[Scalar, ...]
    dtype: str
    """Dtype the inner loop computes in: where it differs from an operand's, that operand is cast on the way."""
    loop_dtypes: tuple[str, ...]
    """Dtypes of the loop's inputs and outputs, in order; empty where there is no ufunc loop to name."""
    cost: Cost
    """Counts, over all `count` repetitions."""
    count: int = 1
    fresh_bytes: int = 0
    """Memory that the call allocated for its results."""
    reused_bytes: int = 0
    """The part of `fresh_bytes` that a buffer freed earlier in the trace can supply."""
    scratch_bytes: int = 0
    """Memory that the call allocates and frees inside, such as the deviations in `var`."""
    axis: tuple[int, ...] | None = None
    """Axes reduced or worked along; None where that does not apply."""
    inner_length: int = 0
    """Elements of each inner loop, after NumPy merged the axes it can."""
    rows: int = 0
    """Number of inner loops."""
    product: tuple[int, int, int, int] | None = None
    """(batch, m, k, n) of a matrix product."""
    masked: bool = False
    """Called with ``where=``: the counts are then those of all elements, an upper bound."""
    in_place: bool = False
    """The result overwrites an operand."""
    elided: bool = False
    """It does so because NumPy gave an operator's result the memory of a dying operand: `out` did not say so."""
    opaque: bool = False
    """FLOPs and special calls are not known (bytes may be): `seconds` is all there is to go by."""
    approximate: bool = False
    """The count is a leading-order formula (sort, FFT, linear algebra) and not exact."""
    seconds: float = 0.0
    """Wall time within the traced run (once, unwarmed: `measure` is for timing); 0 where only shapes were traced."""
    views: int = 0
    """Views (slices, reshapes) made since the previous call: each costs a few hundred nanoseconds and moves nothing."""
    function: str = ""
    """The user's function that made the call."""
    file: str = ""
    """Base name of its source file."""
    line: int = 0
    instruction: int = 0
    """Offset of the calling bytecode: the same call in a loop has the same one."""

    @cached_property
    def loop_key(self) -> tuple[Any, ...]:
        """Identify the call within a loop: the same place in the source, on arrays that differ only in the offset.

        The tracer works it out once for all repetitions.
        """
        arrays = tuple((o.shape, o.dtype, o.is_contiguous) for o in (*self.operands, *self.results))
        return self.function, self.file, self.line, self.instruction, self.name, self.axis, arrays

    @property
    def casts(self) -> bool:
        """Whether an operand or a result has another dtype than the loop, so that the call converts on the way."""
        if not self.loop_dtypes:
            return False
        inputs = self.loop_dtypes[: -len(self.results) or None]
        return any(o.dtype not in inputs for o in self.operands if o not in self.results) or any(
            r.dtype not in self.loop_dtypes[len(inputs) :] for r in self.results
        )

    @property
    def call(self) -> str:
        """The call as a reader would write it, such as ``"multiply(x, 0.5)"``."""
        names = [operand.label for operand in self.operands]
        for scalar in self.scalars:
            value = f"{scalar.value:.6g}" if isinstance(scalar.value, float) else str(scalar.value)
            names.insert(scalar.position, value)
        return f"{self.name}({', '.join(names)})"


@dataclass(frozen=True)
class Trace(Record):
    """Every NumPy call that a function made, in order; what `accel.trace` returns.

    The value that the function returned is `trace.result`. It is not part of the saved record.
    """

    function: str
    signature: str
    """The function and its arrays, such as ``"gelu(x: float32[2000, 2000])"``."""
    ops: tuple[Op, ...]
    buffers: dict[int, Buffer]
    cost: Cost
    """Sum over `ops`."""
    peak_temporary_bytes: int
    """Most memory that the calls had allocated at one time, results included: what `tracemalloc` sees."""
    peak_temporaries: int
    """Number of arrays that made up that peak."""
    seconds: float
    """Wall time of the traced run, the tracer's own share included; 0 where only shapes were traced."""
    shapes_only: bool = False

    @property
    def has_result(self) -> bool:
        """Whether the function's result is at hand: not in a trace that was loaded, or kept without it."""
        return "_result" in self.__dict__

    @property
    def result(self) -> Any:
        """What the function returned: plain arrays, bit for bit what it returns untraced."""
        if not self.has_result:
            raise AttributeError("this trace was loaded from a file, and a file does not hold the function's result")
        return self.__dict__["_result"]

    @cached_property
    def rows(self) -> tuple[Op, ...]:
        """The ops with each loop's repetitions merged: `count` says how many, costs and seconds are their sums."""
        return tuple(_total(group) for group in self.groups)

    @cached_property
    def groups(self) -> tuple[tuple[Op, ...], ...]:
        """The ops that each of the rows stands for."""
        return _merge(self.ops)


Group = tuple[Op, ...]


def _merge(ops: Group) -> tuple[Group, ...]:
    """Merge the repetitions of periodic stretches, inner loops first; unexplained time does not interrupt a loop."""
    groups: list[Group] = [(op,) for op in ops if op.kind != "opaque"]
    keys: list[Any] = [op.loop_key for (op,) in groups]
    while True:
        shorter, shorter_keys = _merge_once(groups, keys)
        if len(shorter) == len(groups):
            break
        groups, keys = shorter, shorter_keys
    for op in ops:
        if op.kind == "opaque":
            place = next((i for i, group in enumerate(groups) if group[0].index > op.index), len(groups))
            groups.insert(place, (op,))
    return tuple(groups)


def _numbered(keys: Iterable[Any]) -> list[int]:
    """Give equal keys equal numbers. Those that are the same object, as a loop's are, need no comparing."""
    numbers: dict[Any, int] = {}
    by_identity: dict[int, int] = {}
    found = []
    for key in keys:
        number = by_identity.get(id(key))
        if number is None:
            number = by_identity[id(key)] = numbers.setdefault(key, len(numbers))
        found.append(number)
    return found


def _merge_once(groups: list[Group], keys: list[Any]) -> tuple[list[Group], list[Any]]:
    ids = _numbered(keys)
    following = _following(ids)
    merged: list[Group] = []
    merged_keys: list[Any] = []
    i = 0
    while i < len(ids):
        period = following[i] - i
        repeats = _repeats(ids, i, period) if 0 < period <= _LONGEST_LOOP_BODY else 1
        body = period if repeats > 1 else 1
        for j in range(i, i + body):
            merged.append(tuple(chain.from_iterable(groups[j : j + body * repeats : body])))
            merged_keys.append((ids[j], repeats))
        i += body * repeats
    return merged, merged_keys


def _following(ids: list[int]) -> list[int]:
    """Return for each place where its number occurs next, or 0."""
    places: dict[int, int] = {}
    following = [0] * len(ids)
    for i in range(len(ids) - 1, -1, -1):
        following[i] = places.get(ids[i], 0)
        places[ids[i]] = i
    return following


_LONGEST_LOOP_BODY = 512
"""Calls within one repetition of a loop that is still recognized."""


def _repeats(ids: list[int], i: int, period: int) -> int:
    block, repeats = ids[i : i + period], 1
    while ids[i + repeats * period : i + (repeats + 1) * period] == block:
        repeats += 1
    return repeats


def total_cost(ops: Iterable[Op]) -> Cost:
    """Return the sum of the costs of ops: those that repetitions share are multiplied and not added up."""
    costs = [op.cost for op in ops]
    shared = Counter(map(id, costs))
    return sum((cost * shared.pop(id(cost)) for cost in costs if id(cost) in shared), Cost())


def _total(ops: Group) -> Op:
    if len(ops) == 1:
        return ops[0]
    return replace(
        ops[0],
        cost=total_cost(ops),
        count=sum(op.count for op in ops),
        seconds=sum(op.seconds for op in ops),
        fresh_bytes=sum(op.fresh_bytes for op in ops),
        reused_bytes=sum(op.reused_bytes for op in ops),
        views=sum(op.views for op in ops),
    )
