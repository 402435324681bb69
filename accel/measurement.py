"""Measurement: how long calls take and how much memory they need, with the run's own noise beside it."""

from __future__ import annotations

import gc
import math
import operator
import statistics
import threading
import time
import tracemalloc
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

from accel import allocator, compilation
from accel.collector import collection_off
from accel.limits import LIMITS
from accel.records import Record, encodable

__all__ = [
    "Measurement",
    "Memory",
    "measure",
    "measure_memory",
    "named_functions",
    "positive_count",
    "single_threaded",
    "threads",
]

Key = TypeVar("Key", bound=Hashable)

STEADY_SPREAD_FRACTION = 0.15
"""A run is called steady while its quartile lies within this share above its best sample."""
INNER_LOOP_SECONDS = 1e-3
"""One sample lasts at least this long, so that the clock and the loop around the call do not show."""
FEW_CALLS = 16
"""With fewer calls than this in a sample, the first one would show in it."""
WARM_CALLS = 3
"""Passes that a cache which learns from the past takes to hold an array again."""
LONG_SAMPLE_SECONDS = 0.05
"""Filling the caches again is a small part of such a sample: it needs no calls before it."""
WARM_UP_SECONDS = 0.02
"""Warm-up is by time: long enough for caches, lazy imports and the clock frequency, whatever the call costs."""


FAST_PHASE = 1.06
"""The machine runs at full speed while `reference_call` takes at most this times the best it ever took."""


def reference_call(step: int = 3) -> int:
    """Spend about a microsecond in the interpreter, away from memory: its time tells a slow phase of the machine."""
    total = 0
    for i in range(0, 60, step):
        total += i * i
    return total


@dataclass(frozen=True)
class Measurement(Record):
    """Seconds for one call, from samples spread over time.

    `best_seconds` is the estimate of what the code costs: noise on a shared machine only ever adds. The median
    and the quartiles are what you will see.
    """

    name: str
    samples_seconds: tuple[float, ...]
    calls_per_sample: int
    span_seconds: float
    """Time from the first sample to the last: slow phases shorter than this cannot hide the best."""
    compile_seconds: float = 0.0
    """Time that Numba took to compile the function in its first calls, before the first sample; 0.0 where nothing was
    compiled or its machine code came from the disk."""

    @property
    def best_seconds(self) -> float:
        """The fastest sample."""
        return min(self.samples_seconds)

    @property
    def median_seconds(self) -> float:
        """The middle sample."""
        return statistics.median(self.samples_seconds)

    @property
    def quartiles_seconds(self) -> tuple[float, float]:
        """The first and third quartile."""
        if len(self.samples_seconds) == 1:
            return self.samples_seconds[0], self.samples_seconds[0]
        first, _, third = statistics.quantiles(self.samples_seconds, n=4, method="inclusive")
        return first, third

    @property
    def interquartile_range_seconds(self) -> float:
        """The third quartile minus the first."""
        first, third = self.quartiles_seconds
        return third - first

    @property
    def spread_fraction(self) -> float:
        """How far the median lies above the best, as a share of the best; NaN where the best is no time at all."""
        return self._above_best(self.median_seconds)

    @property
    def is_steady(self) -> bool:
        """Whether a quarter of the samples came close to the best, and there were enough of them to say so."""
        near = self._above_best(self.quartiles_seconds[0])
        return len(self.samples_seconds) >= 5 and near <= STEADY_SPREAD_FRACTION

    def _above_best(self, seconds: float) -> float:
        return seconds / self.best_seconds - 1 if self.best_seconds else math.nan

    @property
    def verdict(self) -> str:
        """One line on how far to trust the run."""
        if len(self.samples_seconds) < 5:
            return f"too few samples to judge ({len(self.samples_seconds)})"
        word = "steady" if self.is_steady else "noisy"
        return f"{word}: median {self.spread_fraction:.0%} above best over {self.span_seconds:.1f} s"

    def joined(self, other: Measurement) -> Measurement:
        """Return both runs as one."""
        return replace(
            self,
            samples_seconds=self.samples_seconds + other.samples_seconds,
            span_seconds=self.span_seconds + other.span_seconds,
            compile_seconds=self.compile_seconds + other.compile_seconds,
        )

    def __repr__(self) -> str:
        compiled = f", compiled before in {format_seconds(self.compile_seconds)}" if self.compile_seconds else ""
        return (
            f"Measurement({self.name}: best {format_seconds(self.best_seconds)}, "
            f"median {format_seconds(self.median_seconds)}, "
            f"IQR {format_seconds(self.interquartile_range_seconds)}, {self.verdict}{compiled})"
        )


@dataclass(frozen=True)
class Memory(Record):
    """Peak memory of one call beyond what was in use before it."""

    name: str
    peak_bytes: int
    method: str
    sees: str
    misses: str


def format_seconds(seconds: float) -> str:
    """Write a duration with a unit that suits it.

    >>> from accel.measurement import format_seconds
    >>> format_seconds(0.00123), format_seconds(4.2e-8)
    ('1.23 ms', '42 ns')
    """
    if not math.isfinite(seconds) or seconds == 0:
        return f"{seconds:g} s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= size * 0.9995:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run the body with BLAS and OpenMP limited to `count` threads.

    The limit holds for the whole process. Where several threads limit at once, the latest limit counts, and the last
    of them to leave restores what was there before the first came.

    Raises
    ------
    TypeError, ValueError
        If `count` is not a whole number, or is below 1, which the libraries would take for "as you like".
    """
    count = positive_count(count, "the number of threads")
    with LIMITS.at(count):
        yield


def single_threaded() -> Any:
    """Run the body with BLAS limited to one thread."""
    return threads(1)


def _timed(call: Callable[[], Any], repeats: int) -> float:
    """Return the seconds that `repeats` calls take together."""
    loop = range(repeats)
    start = time.perf_counter_ns()
    for _ in loop:
        call()
    return (time.perf_counter_ns() - start) * 1e-9


def _warm_up(call: Callable[[], Any], seconds: float, sample_seconds: float) -> tuple[int, float]:
    """Call for `seconds`, until warm; return how many calls fill one sample, and how long these take together.

    The first call does not count: what it compiles or imports says nothing of the others.
    """
    deadline = time.perf_counter() + seconds
    call()
    repeats = 1
    while True:
        took = _timed(call, repeats)
        if took >= sample_seconds and time.perf_counter() >= deadline:
            fill = max(1, math.ceil(repeats * sample_seconds / took))
            return fill, took * fill / repeats
        if took < sample_seconds:
            repeats = max(repeats + 1, min(repeats * 10, math.ceil(1.2 * repeats * sample_seconds / max(took, 1e-9))))


def positive_count(value: Any, name: str) -> int:
    """Return `value` as an int that is at least 1.

    >>> from accel.measurement import positive_count
    >>> positive_count(0, "thread_count")
    Traceback (most recent call last):
      ...
    ValueError: thread_count must be at least 1; got 0.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number; got {value!r}. Pass an int such as 1.")
    count = operator.index(value)
    if count < 1:
        raise ValueError(f"{name} must be at least 1; got {count}.")
    return count


def named_functions(
    functions: Callable[..., Any] | Mapping[str, Callable[..., Any]], caller: str
) -> dict[str, Callable[..., Any]]:
    """Return the functions by name, or say for `caller`, such as ``"measure"``, what is wrong with them."""
    if callable(functions):
        return {encodable(getattr(functions, "__name__", type(functions).__name__)): functions}
    if not isinstance(functions, Mapping):
        raise TypeError(
            f"{caller}() takes a function or a dict of name -> function; got {type(functions).__name__}. "
            f"Pass {caller}({{'add': np.add}}, …)."
        )
    if not functions:
        raise ValueError(f"{caller}() needs at least one function; got an empty dict.")
    for name, function in functions.items():
        if not isinstance(name, str):
            raise TypeError(f"{caller}() takes a dict with names; {name!r} is {type(name).__name__}. Pass a str.")
        if not callable(function):
            raise TypeError(
                f"{caller}() takes functions; {name!r} is {type(function).__name__}, which is not callable."
            )
    return {encodable(name): function for name, function in functions.items()}


@overload
def measure(
    functions: Mapping[str, Callable[..., Any]],
    *args: Any,
    seconds: float = ...,
    samples: int = ...,
    thread_count: int | None = ...,
) -> dict[str, Measurement]: ...
@overload
def measure(
    functions: Callable[..., Any], *args: Any, seconds: float = ..., samples: int = ..., thread_count: int | None = ...
) -> Measurement: ...
def measure(
    functions: Callable[..., Any] | Mapping[str, Callable[..., Any]],
    *args: Any,
    seconds: float = 1.2,
    samples: int = 100,
    thread_count: int | None = 1,
) -> Measurement | dict[str, Measurement]:
    """Time one function, or several against each other, called with `args`.

    Samples of the functions alternate, so that a slow phase of the machine falls on all of them, and go on for
    `seconds` for each function (at least 5 rounds, at most `samples` once the time is up). One sample repeats
    the call for a millisecond or more. Calls before the first sample warm up; what Numba compiles in them is kept
    apart, as `compile_seconds`. On glibc the allocator is settled first (`accel.allocator`), for the rest of the
    process: without that, the same code runs up to 10 times slower or faster after other code has run.

    Parameters
    ----------
    functions : callable, or dict of str to callable
        What to time. With a dict the result is a dict with the same names.
    seconds : float
        Time to spread the samples of each function over.
    samples : int
        Rounds after which measuring stops if it has also spread over 1.2 s or `seconds`, whichever is less.
    thread_count : int or None
        Limit for BLAS threads; None leaves the limit as it is.

    Raises
    ------
    TypeError
        If something is not callable, a name is not a str, or `thread_count` is not a whole number.
    ValueError
        If there is no function, or `seconds`, `samples` or `thread_count` is not positive.

    Examples
    --------
    >>> import accel, numpy as np
    >>> m = accel.measure(np.add, np.ones(1000), np.ones(1000), seconds=0.05)
    >>> 1e-8 < m.best_seconds <= m.median_seconds
    True
    """
    if not seconds > 0 or samples < 1:
        raise ValueError(f"measure() needs seconds > 0 and samples >= 1; got seconds={seconds}, samples={samples}.")
    named = named_functions(functions, "measure")
    if thread_count is not None:
        thread_count = positive_count(thread_count, "thread_count")
    allocator.settle()
    calls = {name: (lambda function=function: function(*args)) for name, function in named.items()}
    if thread_count is None:
        results = measure_calls(calls, seconds=seconds, samples=samples)
    else:
        with threads(thread_count):
            results = measure_calls(calls, seconds=seconds, samples=samples)
    return next(iter(results.values())) if callable(functions) else results


def _nothing() -> None:
    """Stand for what there is not to do."""


def measure_calls(
    calls: Mapping[Key, Callable[[], Any]],
    *,
    seconds: float,
    samples: int = 100,
    least: int = 5,
    warm_up_seconds: float = WARM_UP_SECONDS,
    sample_seconds: float = INNER_LOOP_SECONDS,
    repeats: Mapping[Key, int] | None = None,
    before: Mapping[Key, Callable[[], Any]] | None = None,
    after_round: Callable[[float], Any] | None = None,
) -> dict[Key, Measurement]:
    """Time argument-less calls against each other; `measure` without its checks, for calibration and sweeps.

    A sample lasts `sample_seconds` at least: a short one has better chances to fall between two disturbances, and a
    long one shows less of the clock. `repeats` says how many calls fill a sample where an earlier run found that out;
    a single call then warms up.
    `before` is run, untimed, ahead of the samples of a function: where it is to precede every call, one call must fill
    a sample. `after_round` is told the seconds since the first sample.
    """
    prepare = before or {}
    for name in prepare:
        if repeats is None or repeats[name] != 1:
            raise ValueError(f"what comes before each call of {name!r} is left out within a sample of several calls.")
    found, compiled, lasts = {}, {}, {}
    for name, call in calls.items():
        before_warm_up = compilation.seconds()
        if repeats is None:
            found[name], lasts[name] = _warm_up(call, warm_up_seconds, sample_seconds)
        else:
            found[name] = repeats[name]
            prepare.get(name, _nothing)()
            lasts[name] = _timed(call, 1) * repeats[name]
        compiled[name] = compilation.seconds() - before_warm_up
    repeats = found
    taken: dict[Key, list[float]] = {name: [] for name in calls}
    budget = seconds * len(calls)
    spread_over = min(budget, 1.2)
    with collection_off():
        start = time.perf_counter()
        rounds, elapsed = 0, 0.0
        while rounds < least or (elapsed < budget and (rounds < samples or elapsed < spread_over)):
            for name, call in calls.items():
                if repeats[name] < FEW_CALLS and lasts[name] < LONG_SAMPLE_SECONDS:
                    for _ in range(min(repeats[name], WARM_CALLS)):  # what ran before has emptied the caches
                        prepare.get(name, _nothing)()
                        call()
                prepare.get(name, _nothing)()
                lasts[name] = _timed(call, repeats[name])
                taken[name].append(lasts[name] / repeats[name])
            rounds, elapsed = rounds + 1, time.perf_counter() - start
            if after_round is not None:
                after_round(elapsed)
    return {name: Measurement(str(name), tuple(taken[name]), repeats[name], elapsed, compiled[name]) for name in calls}


def measure_memory(function: Callable[..., Any], *args: Any, method: str = "allocations") -> Memory:
    """Call `function(*args)` once; return the peak memory of that call, beyond what is in use before it.

    Both methods see the whole process. Of several threads that measure memory, one measures at a time; what other
    threads allocate meanwhile counts as the function's own.

    Parameters
    ----------
    method : {"allocations", "resident"}
        ``"allocations"`` follows every allocation that Python and NumPy make (`tracemalloc`).
        ``"resident"`` samples the resident memory of the process (memory-profiler): what the operating system sees.
        A helper process takes the samples.

    Raises
    ------
    ValueError
        If the method is unknown.
    RuntimeError
        If `function` itself measures memory, or ``"resident"`` is asked for in a worker of a `multiprocessing.Pool`,
        which may not start the helper process. What `function` raises is passed on.

    Examples
    --------
    >>> import accel, numpy as np
    >>> memory = accel.measure_memory(lambda x: (x * 2) + 1, np.ones(1_000_000))
    >>> 8_000_000 <= memory.peak_bytes < 8_100_000
    True
    """
    name = encodable(getattr(function, "__name__", type(function).__name__))
    if method == "allocations":
        return Memory(
            name,
            _alone(_peak_allocated_bytes, function, args),
            "tracemalloc",
            sees="memory asked for by Python and NumPy, to the byte, touched or not",
            misses="memory that C libraries take for themselves, such as BLAS packing buffers",
        )
    if method == "resident":
        return Memory(
            name,
            _alone(_peak_resident_bytes, function, args),
            "memory-profiler",
            sees="pages of the whole process that are in memory, C libraries included",
            misses="peaks between two samples, memory reused from earlier calls, and pages never touched",
        )
    raise ValueError(f"measure_memory() knows the methods 'allocations' and 'resident'; got {method!r}.")


_memory_lock = threading.RLock()
_memory_depth = 0
"""How many measurements of memory are under way in the thread that holds the lock."""


def _alone(
    peak: Callable[[Callable[..., Any], tuple[Any, ...]], int], function: Callable[..., Any], args: tuple[Any, ...]
) -> int:
    """Return ``peak(function, args)`` while no other thread measures memory: tracemalloc keeps one peak for all."""
    global _memory_depth
    with _memory_lock:
        if _memory_depth:
            raise RuntimeError(
                "measure_memory() was called by a function whose memory is being measured, and there is one peak for "
                "the whole process. Measure the inner function apart."
            )
        _memory_depth += 1
        try:
            return peak(function, args)
        finally:
            _memory_depth -= 1


def _peak_allocated_bytes(function: Callable[..., Any], args: tuple[Any, ...]) -> int:
    """Peak of tracemalloc during one call, above the level before it."""
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        gc.collect()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        function(*args)
        return max(0, tracemalloc.get_traced_memory()[1] - before)
    finally:
        if not was_tracing:
            tracemalloc.stop()


def _peak_resident_bytes(function: Callable[..., Any], args: tuple[Any, ...]) -> int:
    """Peak of resident memory during one call, above the level before it."""
    import multiprocessing

    from memory_profiler import memory_usage

    if multiprocessing.current_process().daemon:
        raise RuntimeError(
            "method='resident' starts a helper process, which a daemonic process, such as a worker of "
            "multiprocessing.Pool, may not. Use concurrent.futures.ProcessPoolExecutor, or method='allocations'."
        )
    raised: list[BaseException] = []

    def call() -> None:
        # memory-profiler answers an exception by killing every child of this process, the caller's own among them.
        try:
            function(*args)
        except BaseException as error:
            raised.append(error)

    gc.collect()
    before = memory_usage(-1, max_usage=True)
    # Without a limit, memory-profiler calls a fast function again until it has samples enough.
    peak = memory_usage((call, ()), interval=0.001, max_usage=True, include_children=False, max_iterations=1)
    if raised:
        raise raised[0]
    return max(0, int((peak - before) * 2**20))
