"""Precision: the same calls on narrower elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from accel import elision
from accel.rewrites.dataflow import Rewrite, Situation, Value, is_elementwise, places, recounted, value_of
from accel.tracing.operations import Buffer, Op, Operand

__all__ = ["float32_for_float64", "no_float64_promotion"]

WIDE, NARROW = "float64", "float32"
SMALLER = frozenset({"float32", "float16", "bool"})
"""Dtypes that compute in float32 together with float32."""
CONVERSIONS = frozenset({"astype", "asarray", "array"})
OPERATORS = frozenset({"add", "subtract", "multiply", "divide", "negative", "absolute"})


def no_float64_promotion(situation: Situation) -> Iterator[Rewrite]:
    """Keep float32 data float32 where it meets a NumPy float64 constant: a scalar, or an array smaller than the data.

    Everything that is float64 only because of the constant becomes float32, the result too. Does not apply where the
    float64 values go on into an array that is float64 for another reason, nor to conversions written out (`astype`).
    Calls that write over a temporary are taken to do so still, as in `float32_for_float64`.
    """
    ops = situation.trace.ops
    narrowing = _Narrowing(situation)
    new = [narrowing.narrowed(i, op) for i, op in enumerate(ops)]
    if not narrowing.roots or narrowing.impossible:
        return
    constant = _constant(narrowing.roots[0])
    yield Rewrite(
        where=places(narrowing.roots),
        change=f"float({constant}) instead of the NumPy float64 {constant}, which makes float32 data float64"
        if not constant.isidentifier()
        else f"{constant}.astype(np.float32) instead of float64 {constant}, which makes float32 data float64",
        note="what follows is computed, and returned, in float32, as the data are",
        ops=tuple(new),
        buffers=situation.trace.buffers | narrowing.buffers,
    )


@dataclass
class _Narrowing:
    """Follows which values are float64 only because of a constant."""

    situation: Situation
    roots: list[Op] = field(default_factory=list)
    impossible: bool = False
    buffers: dict[int, Buffer] = field(default_factory=dict)
    values: dict[Value, Value] = field(default_factory=dict)
    """Value -> where it lies as float32."""

    def __post_init__(self) -> None:
        self._numbers = self.situation.new_buffers()

    def narrowed(self, place: int, op: Op) -> Op:
        """Return the call as it is without promotion."""
        constants = [o for o in op.operands if self._is_constant(o, op)]
        known = [o for o in op.operands if value_of(o) in self.values]
        narrow = bool(known) or any(o.dtype == NARROW for o in op.operands)
        others = [o for o in op.operands if o not in constants and o not in known]
        all_narrow = narrow and all(o.dtype in SMALLER for o in others)
        promotes = op.dtype == WIDE and all_narrow and op.name not in CONVERSIONS
        if not promotes:
            if any(value_of(r) in self.values for r in op.results):
                self.impossible = True  # an update in place with values that are float64 of their own
            moved = tuple(self._moved(o) for o in op.operands)
            return recounted(replace(op, operands=moved)) if known else op
        if any(scalar.dtype == WIDE for scalar in op.scalars) or (constants and not known):
            self.roots.append(op)
        elif not known:
            return op  # asked for: dtype=np.float64, or a result that the caller gave
        for constant in constants:
            self._place(constant)
        return self._computed(place, op)

    def _computed(self, place: int, op: Op) -> Op:
        """Return a promoted call in float32."""
        operands = tuple(self._moved(o) for o in op.operands)
        fresh = op.fresh_bytes
        for result in op.results:
            if result.dtype != WIDE or value_of(result) in self.values:
                continue
            if not fresh:
                return recounted(replace(op, operands=operands))  # the caller's own float64 array is written
            spare = self._elided(place, op, operands, result)
            if spare is not None:
                self.values[value_of(result)] = value_of(spare)
                fresh = 0
            else:
                self._place(result)
        results = tuple(self._moved(r) for r in op.results)
        scalar_bytes = op.cost.bytes_written - sum(r.nbytes for r in op.results)
        if fresh and fresh == sum(r.nbytes for r in op.results):
            fresh = sum(r.nbytes for r in results)
        changed = replace(
            op, operands=operands, results=results, dtype=NARROW, fresh_bytes=fresh,
            reused_bytes=min(op.reused_bytes, fresh), scratch_bytes=op.scratch_bytes // 2,
            loop_dtypes=tuple(NARROW if d == WIDE else d for d in op.loop_dtypes),
            scalars=tuple(replace(s, dtype="float") if s.dtype == WIDE else s for s in op.scalars),
        )  # fmt: skip
        return recounted(changed, scalar_bytes=scalar_bytes // 2)

    def _elided(self, place: int, op: Op, operands: tuple[Operand, ...], result: Operand) -> Operand | None:
        """Return the dying float32 operand that an operator now writes over, as it could not while dtypes differed."""
        # NumPy never takes a Python number to fit a dying float32 array (`elision.fits_scalar`).
        if not (is_elementwise(op) and op.name in OPERATORS and not op.scalars and elision.references()):
            return None
        for before, now in zip(op.operands, operands, strict=True):
            dies = self.situation.is_temporary(before) and self.situation.last_use[value_of(before)] == place
            fits = now.shape == result.shape and now.nbytes >= elision.ELISION_BYTES and now.dtype == NARROW
            # A float64 operand was not elided before though it fitted: it is no operator, or the operand has a name.
            if dies and fits and before.dtype != WIDE:
                return now
        return None

    def _is_constant(self, operand: Operand, op: Op) -> bool:
        largest = max(array.size for array in (*op.operands, *op.results)) if op.results else operand.size
        made = self.situation.trace.buffers[operand.buffer].created
        return operand.dtype == WIDE and not made and (operand.size == 1 or operand.size < largest)

    def _place(self, array: Operand) -> None:
        """Give a value memory of half the size."""
        if value_of(array) not in self.values:
            number = next(self._numbers)
            old = self.situation.trace.buffers[array.buffer]
            self.values[value_of(array)] = number, array.label
            self.buffers[number] = Buffer(array.label, old.nbytes // 2, old.created)

    def _moved(self, array: Operand) -> Operand:
        where = self.values.get(value_of(array))
        if where is None or array.dtype != WIDE:
            return array
        return replace(_halved(array), buffer=where[0], label=where[1])


def _halved(array: Operand) -> Operand:
    if array.dtype != WIDE:
        return array
    return replace(
        array,
        dtype=NARROW,
        nbytes=array.nbytes // 2,
        offset_bytes=array.offset_bytes // 2,
        strides=tuple(step // 2 for step in array.strides),
    )


def _constant(op: Op) -> str:
    for scalar in op.scalars:
        if scalar.dtype == WIDE:
            return f"{scalar.value:.6g}" if isinstance(scalar.value, float) else str(scalar.value)
    return next(o.label for o in op.operands if o.dtype == WIDE)


def float32_for_float64(situation: Situation) -> Iterator[Rewrite]:
    """Use float32 where all is float64, arguments included. It changes the precision, and the note says so.

    Does not apply where the function itself mixes the two, or converts: then float64 is there for a reason. Nor to
    operations that are timed and not counted. An operator that wrote over a dying temporary makes a new array where
    NumPy elides no float32 temporary: with a Python number, and where half the memory is too little.
    """
    ops = situation.trace.ops
    dtypes = {array.dtype for op in ops for array in (*op.operands, *op.results)} | {op.dtype for op in ops}
    wide = [op for op in ops if op.dtype == WIDE and op.kind not in ("opaque", "declared")]
    mixed = dtypes & {NARROW, "float16", "complex64", "complex128"} or any(op.name in CONVERSIONS for op in ops)
    if not wide or mixed or any(op.opaque for op in wide):
        return
    arguments = sorted({o.label for op in wide for o in op.operands if not situation.trace.buffers[o.buffer].created})
    floats = {a.buffer for op in ops for a in (*op.operands, *op.results) if a.dtype == WIDE}
    buffers = {
        number: replace(buffer, nbytes=buffer.nbytes // 2) if number in floats else buffer
        for number, buffer in situation.trace.buffers.items()
    }
    elisions = _Elisions(buffers, situation.new_buffers())
    yield Rewrite(
        where=places(wide),
        change=f"float32 instead of float64{' for ' + ', '.join(arguments) if arguments else ''}",
        note="changes the precision: about 7 significant digits instead of 16; not for ill-conditioned problems",
        ops=tuple(elisions.kept(_narrow(op)) for op in ops),
        buffers=buffers,
    )


@dataclass
class _Elisions:
    """Takes back the elisions that NumPy would not make, and moves what comes after to the memory made instead."""

    buffers: dict[int, Buffer]
    numbers: Iterator[int]
    moved: dict[Value, int] = field(default_factory=dict)
    spare: list[int] = field(default_factory=list)
    """Buffers whose arrays died in a call that no longer writes over them."""

    def kept(self, op: Op) -> Op:
        """Return a float32 call with its result where NumPy would put it."""
        if op.fresh_bytes:
            for result in op.results:
                self.moved.pop(value_of(result), None)
        operands = tuple(self._at(operand) for operand in op.operands)
        if not op.elided or self._fits(op):
            results = tuple(self._at(result) for result in op.results)
            unmoved = operands == op.operands and results == op.results
            return op if unmoved else replace(op, operands=operands, results=results)
        [result] = op.results
        before, reused = self._at(result).buffer, bool(self.spare)
        number = self.spare.pop() if reused else next(self.numbers)
        self.buffers.setdefault(number, Buffer(result.label, result.nbytes, created=True))
        self.moved[value_of(result)] = number
        self.spare.append(before)
        return recounted(
            replace(
                op, operands=operands, results=(self._at(result),), in_place=False, elided=False,
                fresh_bytes=result.nbytes, reused_bytes=result.nbytes if reused else 0,
            )
        )  # fmt: skip

    def _fits(self, op: Op) -> bool:
        numbers = [scalar for scalar in op.scalars if scalar.dtype in ("int", "float", "complex")]
        return not numbers and op.results[0].nbytes >= elision.ELISION_BYTES

    def _at(self, array: Operand) -> Operand:
        number = self.moved.get(value_of(array))
        return array if number is None else replace(array, buffer=number)


def _narrow(op: Op) -> Op:
    if op.kind == "opaque":
        return op
    scalar_bytes = op.cost.bytes_written - sum(r.nbytes for r in op.results)
    results = tuple(_halved(r) for r in op.results)
    share = sum(r.nbytes for r in results) / max(sum(r.nbytes for r in op.results), 1)
    changed = replace(
        op,
        operands=tuple(_halved(o) for o in op.operands),
        results=results,
        dtype=NARROW if op.dtype == WIDE else op.dtype,
        loop_dtypes=tuple(NARROW if d == WIDE else d for d in op.loop_dtypes),
        scalars=tuple(replace(s, dtype=NARROW) if s.dtype == WIDE else s for s in op.scalars),
        fresh_bytes=round(op.fresh_bytes * share),
        reused_bytes=round(op.reused_bytes * share),
        scratch_bytes=op.scratch_bytes // 2 if op.dtype == WIDE else op.scratch_bytes,
    )
    if op.cost.calls == 0 or op.kind == "declared":
        return changed  # memory only reserved; a compiled kernel counts its own way
    return recounted(changed, scalar_bytes=scalar_bytes // 2 if op.dtype == WIDE else scalar_bytes)
