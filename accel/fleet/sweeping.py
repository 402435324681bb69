"""Sweeping: spreads the measurements of a sweep over the workers of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from accel.comparison import arguments_of, thinned, whole_number
from accel.fleet.cluster import FleetLostError, distributed
from accel.fleet.identity import fingerprint
from accel.fleet.ledger import Ledger, Point
from accel.fleet.losses import LostWorker, Rescheduled
from accel.fleet.spread import Done, Job, Spread
from accel.measurement import Measurement, format_seconds, measure, positive_count
from accel.records import Record
from accel.tables import NOTHING, Column, Table, numbers_column
from accel.units import TIME, unit_for

__all__ = ["Failure", "SweepReport", "sweep"]

Functions = Mapping[str, tuple[Callable[..., Any], Callable[[int], Sequence[Any]]]]


@dataclass(frozen=True)
class Failure(Record):
    """One point that could not be measured."""

    name: str
    size: int
    reason: str
    """``"out of memory: …"``, ``"ValueError: …"``…"""
    workers: tuple[str, ...]
    """Names of those it was tried on."""


@dataclass(frozen=True)
class SweepReport(Record):
    """What a sweep measured, and what happened on the way."""

    finished: tuple[Point, ...]
    """In the order in which functions and sizes were given."""
    rescheduled: tuple[Rescheduled, ...]
    failed: tuple[Failure, ...]
    lost_workers: tuple[LostWorker, ...]
    continued: int
    """Finished points that an earlier run had left in the file."""
    path: str | None

    def named(self, name: str) -> tuple[Point, ...]:
        """Return the points of one function; raise KeyError where there are none."""
        points = tuple(point for point in self.finished if point.name == name)
        if not points:
            raise KeyError(f"no point is named {name!r}; there are {sorted({p.name for p in self.finished})}")
        return points

    def table(self) -> Table:
        """Return all points, also those that failed, with what became of each."""
        done, failed = self.finished, self.failed
        unit, size = unit_for([point.seconds for point in done], TIME)
        seconds = numbers_column(f"best ({unit})", [point.seconds for point in done], size)
        return Table(
            self.summary,
            (
                Column("name", (*(p.name for p in done), *(f.name for f in failed)), is_text=True),
                Column("size", (*(f"{p.size:,}" for p in done), *(f"{f.size:,}" for f in failed))),
                Column(seconds.head, (*seconds.cells, *(NOTHING for _ in failed))),
                Column("worker", (*(p.worker for p in done), *(", ".join(f.workers) for f in failed)), is_text=True),
                Column("result", (*(_verdict(p) for p in done), *(f.reason for f in failed)), is_text=True),
            ),
            self._losses(),
        )

    @property
    def summary(self) -> str:
        """What was finished, and what was not, in one line."""
        parts = [f"{len(self.finished)} points finished"]
        parts += [f"{self.continued} of them earlier"] * bool(self.continued)
        parts += [f"{len(self.failed)} failed"] * bool(self.failed)
        parts += [f"{len(self.rescheduled)} sent to another worker"] * bool(self.rescheduled)
        parts += [f"{len(self.lost_workers)} workers lost"] * bool(self.lost_workers)
        return ", ".join(parts)

    def _losses(self) -> str:
        return "; ".join(f"lost worker {lost.name} on {lost.host}: {lost.reason}" for lost in self.lost_workers)

    def __str__(self) -> str:
        """Show the table; the summary alone where there is no point."""
        return repr(self.table()) if self.finished or self.failed else self.summary

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def _verdict(point: Point) -> str:
    word = "steady" if point.measured.is_steady else f"noisy, median {format_seconds(point.measured.median_seconds)}"
    return word if point.attempts == 1 else f"{word}, at attempt {point.attempts}"


def sweep(
    client: Any,
    functions: Functions,
    sizes: Sequence[int],
    *,
    path: str | Path | None = None,
    seconds: float = 0.2,
    threads: int = 1,
    attempts: int | None = None,
    patience_seconds: float = 60.0,
    progress: bool = True,
) -> SweepReport:
    """Measure functions over a range of sizes on all workers, one measurement at a time on each host.

    A point whose worker is lost is sent to another worker. Each finished point is written to `path` at once; a run
    with the same path measures only what is missing there: further sizes or functions, and what failed. Where a
    function or its `make_arrays` changed, that is refused (`accel.fleet.fingerprint` says what counts).

    Parameters
    ----------
    client : distributed.Client
        Of the fleet, such as `accel.fleet.local` gives.
    functions : dict of str to (callable, callable)
        Name to the function and to `make_arrays`, which makes the list or tuple of its arguments from a size. The
        arrays are made on the worker.
    path : str or Path, optional
        Where points are kept.
    seconds, threads
        Time to spread the samples of each point over, and threads that BLAS may use.
    attempts : int, optional
        Workers that one point may cost before it is given up; by default what Dask allows
        (``distributed.scheduler.allowed-failures``).
    patience_seconds : float
        How long to wait while there is no worker at all.

    Returns
    -------
    SweepReport
        Exceptions of the functions are in `SweepReport.failed`; they do not stop the sweep.

    Raises
    ------
    FleetLostError
        If the scheduler goes away, or all workers do for longer than `patience_seconds`; it names the path.
    SweepFileError
        If the file at `path` is damaged or is of a sweep that measured something else.
    TypeError, ValueError
        If there is no function or size, or one of them is none.

    Examples
    --------
    >>> import numpy as np
    >>> from accel import fleet
    >>> with fleet.local(workers=1) as client:  # doctest: +SKIP
    ...     report = fleet.sweep(client, {"sqrt": (np.sqrt, lambda n: [np.ones(n)])}, [100, 1000], path="sqrt.jsonl")
    >>> report.summary  # doctest: +SKIP
    '2 points finished'
    """
    distributed()
    import dask.config

    _check_functions(functions)
    if not seconds > 0:
        raise ValueError(f"a measurement needs seconds > 0; got {seconds}.")
    wanted = [(name, whole_number(size)) for name in functions for size in dict.fromkeys(sizes)]
    if not wanted:
        raise ValueError("a sweep needs at least one size; got none.")
    threads = positive_count(threads, "threads")
    prints = {name: fingerprint(*pair) for name, pair in functions.items()}
    ledger = Ledger(Path(path) if path is not None else None, prints, threads=threads, seconds=seconds)
    there = [key for key in wanted if key in ledger.points]
    jobs = [
        Job(key, measure_point, (*functions[key[0]], key[1], seconds, threads), f"{key[0]} at {key[1]}")
        for key in wanted
        if key not in there
    ]
    default = dask.config.get("distributed.scheduler.allowed-failures", 3)
    spread = Spread(client, jobs, positive_count(attempts or default, "attempts"), patience_seconds)
    try:
        failed = _run(spread, ledger, len(there), len(wanted), progress=progress)
    except FleetLostError as error:
        raise FleetLostError(f"{error}. {_kept(ledger, wanted)}") from error
    order = {key: place for place, key in enumerate(wanted)}
    return SweepReport(
        finished=tuple(ledger.points[key] for key in wanted if key in ledger.points),
        rescheduled=tuple(spread.rescheduled),
        failed=tuple(sorted(failed, key=lambda failure: order[failure.name, failure.size])),
        lost_workers=tuple(spread.lost),
        continued=len(there),
        path=str(path) if path is not None else None,
    )


def _check_functions(functions: Any) -> None:
    if not isinstance(functions, Mapping) or not functions:
        raise TypeError("a fleet sweep needs a dict of name to (function, make_arrays), with one entry at least.")
    for name, pair in functions.items():
        fits = isinstance(pair, tuple | list) and len(pair) == 2 and all(map(callable, pair))
        if not (isinstance(name, str) and fits):
            raise TypeError(f"each entry is a name and a pair (function, make_arrays); {name!r} is {pair!r}.")


def _run(spread: Spread, ledger: Ledger, there: int, total: int, *, progress: bool) -> list[Failure]:
    """Keep what is finished as it comes; return what failed."""
    from tqdm.auto import tqdm

    failed = []
    with tqdm(total=total, initial=there, desc="sweeping", unit="point", disable=not progress, leave=False) as bar:
        for done in spread:
            if done.failure:
                failed.append(_failure(done))
            else:
                ledger.add(_point(done))
            bar.set_postfix({"failed": len(failed), "workers lost": len(spread.lost)}, refresh=False)
            bar.update()
    return failed


def _point(done: Done) -> Point:
    name, size = _key(done)
    seat = done.seats[-1]
    return Point(name, size, seat.name, seat.host, len(done.seats), Measurement.from_dict(done.value))


def _key(done: Done) -> tuple[str, int]:
    name, size = cast(tuple[str, int], done.job.key)
    return name, size


def _failure(done: Done) -> Failure:
    name, size = _key(done)
    return Failure(name, size, done.failure, tuple(dict.fromkeys(seat.name for seat in done.seats)))


def _kept(ledger: Ledger, wanted: Sequence[tuple[str, int]]) -> str:
    finished = sum(key in ledger.points for key in wanted)
    done = f"{finished} of {len(wanted)} points were finished"
    if ledger.path is None:
        return f"{done}, and are lost, for there is no path= to keep them in."
    return f"{done}, and are kept: sweep again with path={str(ledger.path)!r} to go on."


def measure_point(
    function: Callable[..., Any], make_arrays: Callable[[int], Sequence[Any]], size: int, seconds: float, threads: int
) -> dict[str, Any]:
    """Measure one point where this runs; the result is plain data, which any version of Python and NumPy can read."""
    arrays = arguments_of(make_arrays(size))
    measured = measure({"point": partial(function, *arrays)}, seconds=seconds, thread_count=threads)["point"]
    return thinned(measured).to_dict()
