"""Chunks: which size of chunks an array expression is predicted to be fastest with, on a fleet."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from accel.fleet.graph import stored as stored_array
from accel.fleet.overhead import Overhead
from accel.fleet.prediction import predict
from accel.fleet.records import Fleet
from accel.measurement import format_seconds
from accel.records import Record
from accel.tables import Column, Table, counts_column, numbers_column
from accel.units import TIME, format_bytes, format_number, unit_for

__all__ = ["ChunkAdvice", "ChunkCandidate", "advise_chunks"]

MOST_CHUNKS, MOST_TASKS = 2_000, 10_000
"""Candidates that would make more chunks, or a longer graph, are left out: Dask itself takes seconds to prepare one."""
ENOUGH = 1.1
"""A candidate is called as good where it is this close to the best: predictions are no better than that."""


@dataclass(frozen=True)
class ChunkCandidate(Record):
    """One size of chunks and what is predicted with it."""

    chunks: tuple[int, ...]
    chunk_bytes: int
    tasks: int
    seconds: float
    bytes_moved: int
    peak_bytes: int
    """The most that a worker holds at one time."""
    fits: bool
    """Whether that is below the memory limit of every worker, where there is one."""
    bound_by: str


@dataclass(frozen=True)
class ChunkAdvice(Record):
    """The chunks asked about beside other sizes, in order of size; what `accel.fleet.advise_chunks` returns."""

    workers: int
    asked: ChunkCandidate
    candidates: tuple[ChunkCandidate, ...]

    @property
    def best(self) -> ChunkCandidate:
        """The fastest of those that fit into memory, or of all where none does."""
        fitting = [each for each in self.candidates if each.fits]
        return min(fitting or self.candidates, key=lambda each: each.seconds)

    @property
    def gain(self) -> float:
        """How many times as fast the best is predicted to be as what was asked about."""
        return self.asked.seconds / self.best.seconds

    @property
    def advice(self) -> str:
        """The advice in a sentence."""
        if not self.asked.fits:
            return f"Chunks of {_size(self.asked)} do not fit into the workers' memory; take {_size(self.best)}."
        if self.gain < ENOUGH:
            return f"Keep chunks of {_size(self.asked)}: nothing else is predicted to be a tenth faster."
        return (
            f"Take chunks of {_size(self.best)} and not {_size(self.asked)}: predicted "
            f"{format_number(self.gain, 2)} times as fast, {format_seconds(self.best.seconds)} "
            f"and not {format_seconds(self.asked.seconds)}, which is bound by {self.asked.bound_by}."
        )

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def table(self) -> Table:
        """Return the candidates as a table."""
        all_of = self.candidates
        time = unit_for([each.seconds for each in all_of], TIME)
        marks = {self.asked.chunks: "asked about", self.best.chunks: "best"}
        if self.asked.chunks == self.best.chunks:
            marks[self.best.chunks] = "asked about, best"
        return Table(
            f"Chunk sizes on {self.workers} worker{'s' * (self.workers > 1)}",
            (
                Column("chunks", tuple(_size(each) for each in all_of), is_text=True),
                Column("bytes of one", tuple(format_bytes(each.chunk_bytes) for each in all_of)),
                Column("tasks", tuple(f"{each.tasks:,}" for each in all_of)),
                counts_column("moved", [each.bytes_moved for each in all_of], "B"),
                Column("most held", tuple(format_bytes(each.peak_bytes) for each in all_of)),
                numbers_column(f"predicted ({time[0]})", [each.seconds for each in all_of], time[1]),
                Column("bound by", tuple(each.bound_by for each in all_of), is_text=True),
                Column("remark", tuple(marks.get(each.chunks, "") for each in all_of), is_text=True),
            ),
            self.advice,
        )


def _size(candidate: ChunkCandidate) -> str:
    return " x ".join(f"{length:,}" for length in candidate.chunks)


def advise_chunks(
    build: Callable[[Any], Any],
    shape: Sequence[int],
    chunks: int | Sequence[int],
    fleet: Fleet,
    *,
    dtype: Any = "float64",
    candidates: Iterable[int | Sequence[int]] | None = None,
    stored: bool = True,
    overhead: Overhead | None = None,
) -> ChunkAdvice:
    """Predict an expression with the reader's chunks and with others, and say which to take.

    Parameters
    ----------
    build : callable
        Takes a Dask array and returns the expression, such as ``lambda x: x @ x.T``.
    shape, dtype
        Of that array.
    chunks : int or sequence of int
        The chunks to advise on, one length for each axis or one for all.
    candidates : iterable, optional
        Other chunks to try; unless given, those of 1/8 to 8 times the lengths, within the shape.
    stored : bool
        Whether the workers hold the array already. If not, each chunk is made of random numbers first.
    overhead : Overhead, optional
        As in `accel.fleet.predict`. Without it, what it took here to prepare each graph counts, noise included.

    Raises
    ------
    ValueError
        If chunks and shape differ in length, or a length is not positive.

    Examples
    --------
    >>> from accel.fleet import advise_chunks, fleet_of
    >>> import accel
    >>> fleet = fleet_of(accel.this_machine(), 4, bandwidth_bytes_per_second=1e9, latency_seconds=1e-3,
    ...                  scheduler_seconds_per_task=5e-4)
    >>> advice = advise_chunks(lambda x: x + 1, (4000, 4000), 50, fleet)
    >>> advice.asked.tasks, advice.asked.bound_by, advice.best.chunks[0] > 100
    (6400, 'scheduler', True)
    """
    asked = _whole(chunks, shape)
    others = _around(asked, shape) if candidates is None else [_whole(each, shape) for each in candidates]
    sizes = sorted({asked, *others}, key=lambda each: (math.prod(each), each))
    sizes = [each for each in sizes if each == asked or _count(each, shape) <= MOST_CHUNKS]
    found = {
        each: _predicted(build, tuple(shape), each, dtype, fleet, stored, overhead, each == asked) for each in sizes
    }
    kept = {each: told for each, told in found.items() if told is not None}
    return ChunkAdvice(len(fleet.workers), kept[asked], tuple(kept.values()))


def _whole(chunks: int | Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Return a length for each axis, none longer than the axis."""
    lengths = (chunks,) * len(shape) if isinstance(chunks, int) else tuple(chunks)
    if len(lengths) != len(shape) or any(length < 1 for length in (*lengths, *shape)):
        raise ValueError(f"chunks are one positive length for each axis of the shape {tuple(shape)}; got {chunks!r}.")
    return tuple(min(length, whole) for length, whole in zip(lengths, shape, strict=True))


def _around(asked: Sequence[int], shape: Sequence[int]) -> list[tuple[int, ...]]:
    """Return smaller and larger chunks of about the same form."""
    scales = (1 / 8, 1 / 4, 1 / 2, 2, 4, 8)
    return [_whole([max(1, round(length * scale)) for length in asked], shape) for scale in scales]


def _count(chunks: Sequence[int], shape: Sequence[int]) -> int:
    return math.prod(math.ceil(whole / length) for whole, length in zip(shape, chunks, strict=True))


def _predicted(
    build: Callable[[Any], Any],
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    dtype: Any,
    fleet: Fleet,
    stored: bool,
    overhead: Overhead | None,
    always: bool,
) -> ChunkCandidate | None:
    """Predict one candidate; None where its graph is too long."""
    array = stored_array(shape, chunks, dtype) if stored else _random_array(shape, chunks, dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Increasing number of chunks")  # whether that pays is what is asked here
        expression = build(array)
    if not always and len(expression.dask) > MOST_TASKS:
        return None
    told = predict(expression, fleet, inputs=[array] if stored else [], overhead=overhead)
    limit = min((worker.memory_limit_bytes or math.inf for worker in fleet.workers), default=math.inf)
    return ChunkCandidate(
        chunks=chunks,
        chunk_bytes=math.prod(chunks) * array.dtype.itemsize,
        tasks=told.tasks,
        seconds=told.seconds,
        bytes_moved=told.schedule.bytes_moved,
        peak_bytes=told.schedule.peak_bytes,
        fits=told.schedule.peak_bytes <= limit,
        bound_by=told.bound_by,
    )


def _random_array(shape: tuple[int, ...], chunks: tuple[int, ...], dtype: Any) -> Any:
    import dask.array as da

    return da.random.default_rng(0).standard_normal(shape, chunks=chunks).astype(dtype)
