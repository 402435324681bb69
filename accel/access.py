"""Access: how long memory takes to answer, and how much it delivers, by order of access and working set, as measured.

`latency` follows a random chain of links through every cache line; `bandwidth` reads lines in order, at equal steps or
at random, where the processor can fetch ahead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from accel import allocator
from accel.calibration import this_machine
from accel.kernels import access as patterns
from accel.kernels import fallback
from accel.machine import Cache, Machine
from accel.measurement import Measurement, measure_calls, positive_count, single_threaded
from accel.probes import aligned
from accel.records import Record

if TYPE_CHECKING:
    from accel.figure import Chart
    from accel.tables import Table

__all__ = ["AccessCurve", "AccessRow", "bandwidth", "latency", "working_sets"]

PATTERNS = ("sequential", "strided", "random")
CHASE = "chase"
SAMPLE_SECONDS = 2e-3
"""What one sample of a chase lasts, about: it follows as many links as fit."""
FLOAT_BYTES = 4


@dataclass(frozen=True)
class AccessRow(Record):
    """One working set: what a call reads of it, and how long that takes."""

    working_set_bytes: int
    accesses: int
    """Elements read in one call."""
    lines: int
    """Cache lines read in one call, each once."""
    measured: Measurement

    @property
    def seconds_per_access(self) -> float:
        """Best time of a call for each element read: for a chase, the latency of memory."""
        return self.measured.best_seconds / self.accesses

    @property
    def seconds_per_line(self) -> float:
        """Best time of a call for each line read."""
        return self.measured.best_seconds / self.lines


@dataclass(frozen=True, repr=False)
class AccessCurve(Record):
    """One pattern of access over a range of working sets, measured interleaved. It shows itself as a table."""

    pattern: str
    """``"sequential"``, ``"strided"``, ``"random"`` or ``"chase"``."""
    method: str
    """``"compiled"`` or ``"numpy"``."""
    machine: str
    taken_at: str
    """Local time, ISO 8601 with the UTC offset."""
    element_bytes: int
    line_bytes: int
    caches: tuple[Cache, ...]
    rows: tuple[AccessRow, ...]

    @property
    def working_set_bytes(self) -> tuple[int, ...]:
        """The working sets, in rising order."""
        return tuple(row.working_set_bytes for row in self.rows)

    @property
    def seconds_per_access(self) -> tuple[float, ...]:
        """Time of each element read, by working set."""
        return tuple(row.seconds_per_access for row in self.rows)

    @property
    def bytes_per_second(self) -> tuple[float, ...]:
        """Bytes of the elements read in a second, by working set: what the program asked for."""
        return tuple(self.element_bytes / row.seconds_per_access for row in self.rows)

    @property
    def line_bytes_per_second(self) -> tuple[float, ...]:
        """Bytes of the lines read in a second, by working set: what memory had to move."""
        return tuple(self.line_bytes / row.seconds_per_line for row in self.rows)

    def table(self) -> Table:
        """Return a table with a row for each working set."""
        from accel.access_table import access_table

        return access_table(self)

    def plot(self, *, title: str) -> Chart:
        """Draw time per access against the working set; see `accel.plot.latency`."""
        from accel import plot

        return plot.latency(self, title=title)

    def __repr__(self) -> str:
        return repr(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def working_sets(machine: Machine, *, most_bytes: int | None = None) -> tuple[int, ...]:
    """Return powers of two from 4 KB to four times the last cache, or to `most_bytes`, and never an eighth of memory.

    >>> import accel
    >>> accel.access.working_sets(accel.this_machine(), most_bytes=20_000)
    (4096, 8192, 16384)
    """
    last = max((cache.size_bytes for cache in machine.caches), default=32 << 20)
    top = min(4 * last if most_bytes is None else most_bytes, machine.memory_bytes // 8)
    return tuple(2**k for k in range(12, max(13, int(top).bit_length())) if 2**k <= max(4096, top))


def latency(
    sizes: Iterable[int] | None = None, *, machine: Machine | None = None, seconds: float = 0.05
) -> AccessCurve:
    """Measure the time of one access that waits for the one before it, by working set. Needs Numba.

    The links of a working set go through all of its cache lines on one random round (`accel.kernels.access.cycle`), so
    neither the next line nor its page can be guessed. Misses of the address translation are part of the time, as in
    any program that follows pointers; larger pages would lower them.

    Parameters
    ----------
    sizes : iterable of int, optional
        Working sets in bytes, each of two lines or more; by default those of `working_sets`.
    machine : Machine, optional
        Whose caches and lines to go by; this machine unless given.
    seconds : float
        Time to spread the samples of each working set over.

    Raises
    ------
    RuntimeError
        Without Numba: a step of a Python loop takes longer than any cache, so there would be nothing to see.
        ``bandwidth("random")`` works without it.
    TypeError, ValueError
        Working sets that are not whole numbers, or smaller than two lines; none; `seconds` not above zero.
    """
    machine = this_machine() if machine is None else machine
    line = _line_bytes(machine)
    wanted = _checked(sizes, machine, 2 * line, seconds)
    code = fallback.compiled("access")
    if code is None:
        raise RuntimeError(
            "latency() follows links in compiled code, and Numba cannot be imported: in plain Python a step takes "
            "longer than any cache does. Install it: pip install numba. bandwidth('random') works without it."
        )
    arena = aligned(sum(wanted) // 8, "int64", max(line, 64))  # one piece of memory, so that all have pages of one size
    starts = np.cumsum([0, *wanted]) // line * line // 8
    chases = {
        size: _Chase(code.chase, arena[start : start + size // line * line // 8], line)
        for size, start in zip(wanted, starts.tolist(), strict=False)
    }
    calls: dict[int, Callable[[], Any]] = dict(chases.items())
    before: Mapping[int, Callable[[], Any]] = {size: chase.refill for size, chase in chases.items()}
    measured = _measure(calls, seconds, before)
    rows = (AccessRow(size, chases[size].steps, chases[size].steps, measured[size]) for size in wanted)
    return _curve(CHASE, "compiled", machine, 8, line, tuple(rows))


class _Chase:
    """A round through the lines of a working set, followed from where the last call ended."""

    def __init__(self, follow: Callable[..., int], links: np.ndarray, line_bytes: int) -> None:
        step = line_bytes // 8
        lines = links.size // step
        self._follow, self._place, self._links = follow, 0, links
        self._links[::step] = patterns.cycle(lines) * step
        self._step = step
        self.steps = max(64, lines // 4)
        self.steps = self._steps_in(SAMPLE_SECONDS)

    def __call__(self) -> None:
        self._place = self._follow(self._links, self._place, self.steps)

    def refill(self) -> None:
        """Read every line in order: what other working sets drove out is back, as far as the caches hold it."""
        self._links[:: self._step].max()

    def _steps_in(self, seconds: float) -> int:
        """Return about how many links can be followed in a time."""
        self.refill()
        self()
        start = time.perf_counter()
        self()
        return max(64, int(self.steps * seconds / max(time.perf_counter() - start, 1e-7)))


def bandwidth(
    pattern: str = "sequential",
    sizes: Iterable[int] | None = None,
    *,
    machine: Machine | None = None,
    seconds: float = 0.05,
) -> AccessCurve:
    """Measure how fast one thread reads a working set of float32 in a pattern, by its size.

    ``"sequential"`` adds up all elements; ``"strided"`` one element of each cache line, in order; ``"random"`` one of
    each line, in random order. All three read every line once. The order of the last is read too, 8 bytes a line beside
    the working set. Compiled loops, or where Numba is missing the NumPy forms in `accel.kernels.access`.

    Parameters
    ----------
    pattern : {"sequential", "strided", "random"}
        In which order.
    sizes, machine, seconds
        See `latency`; a working set has one line or more.

    Raises
    ------
    TypeError, ValueError
        As `latency`; an unknown pattern.
    """
    if pattern not in PATTERNS:
        raise ValueError(f"pattern must be one of {', '.join(PATTERNS)}; got {pattern!r}. latency() measures a chase.")
    machine = this_machine() if machine is None else machine
    line = _line_bytes(machine)
    wanted = _checked(sizes, machine, line, seconds)
    code: Any = fallback.compiled("access")
    arena = aligned(max(wanted) // FLOAT_BYTES)
    calls = {size: _reader(pattern, arena[: size // line * (line // FLOAT_BYTES)], line, code) for size in wanted}
    measured = _measure(calls, seconds, {})
    rows = []
    for size in wanted:
        lines = size // line
        accesses = lines * (line // FLOAT_BYTES) if pattern == "sequential" else lines
        rows.append(AccessRow(size, accesses, lines, measured[size]))
    return _curve(pattern, "numpy" if code is None else "compiled", machine, FLOAT_BYTES, line, tuple(rows))


def _reader(pattern: str, x: np.ndarray, line_bytes: int, code: Any) -> Callable[[], Any]:
    """Return a call that reads `x` in a pattern, compiled where there is compiled code."""
    step = line_bytes // FLOAT_BYTES
    if pattern == "sequential":
        if code is None:
            return partial(patterns.sequential_sum, x)
        from accel.kernels.compiled import streams

        return partial(streams.load, x, x, 1)
    if pattern == "strided":
        return partial(patterns.strided_sum, x, step) if code is None else partial(code.strided_sum, x, step)
    order = np.random.default_rng(0).permutation(x.size // step) * step
    if code is not None:
        return partial(code.gathered_sum, x, order)
    gathered = np.empty(order.size, x.dtype)  # without `mode` NumPy would gather into a buffer of its own first
    return lambda: np.add.reduce(np.take(x, order, out=gathered, mode="clip"))


def _measure(
    calls: Mapping[int, Callable[[], Any]], seconds: float, before: Mapping[int, Callable[[], Any]]
) -> dict[int, Measurement]:
    """Time the working sets against each other on one thread."""
    allocator.settle()
    for call in calls.values():
        call()  # compiles on first use
    with single_threaded():
        repeats = dict.fromkeys(calls, 1) if before else None
        return measure_calls(calls, seconds=seconds, repeats=repeats, before=before)


def _line_bytes(machine: Machine) -> int:
    return machine.caches[0].line_bytes if machine.caches else 64


def _checked(sizes: Iterable[int] | None, machine: Machine, least: int, seconds: float) -> list[int]:
    """Return the working sets in rising order, or say which cannot be."""
    if not seconds > 0:
        raise ValueError(f"seconds must be above 0; got {seconds}.")
    wanted = sorted({positive_count(size, "a working set in bytes") for size in sizes or working_sets(machine)})
    if wanted[0] < least:
        raise ValueError(f"a working set must be at least {least} bytes; got {wanted[0]}.")
    return wanted


def _curve(
    pattern: str, method: str, machine: Machine, element_bytes: int, line_bytes: int, rows: tuple[AccessRow, ...]
) -> AccessCurve:
    taken_at = datetime.now().astimezone().isoformat(timespec="seconds")
    return AccessCurve(pattern, method, str(machine), taken_at, element_bytes, line_bytes, machine.caches, rows)
