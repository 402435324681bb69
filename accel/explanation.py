"""Explanation: the calls of a function, counted, predicted and measured side by side."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from accel import allocator, compilation
from accel.advice import Advice, advise_trace
from accel.cost import Cost
from accel.explained import ExplainedCall, Times, notes_on, rows
from accel.machine import Machine
from accel.measurement import Measurement, format_seconds
from accel.measurement import threads as limited
from accel.prediction import Prediction, predict_trace, with_opaque_timed
from accel.records import Record
from accel.replay import Arguments, Replay, replay
from accel.speed import at_speed
from accel.tracing import parameter_names, trace
from accel.tracing.operations import Trace

if TYPE_CHECKING:
    from accel.figure import Chart

__all__ = ["ExplainedCall", "Explanation", "explain"]

PROGRESS_FROM_SECONDS = 2.0


@dataclass(frozen=True, repr=False)
class Explanation(Record):
    """Where the time of a function goes, call by call. What `accel.explain` returns.

    It shows itself as a text table, and as an HTML table in notebooks; `plot()` and `roofline()` draw it. The times of
    `calls` add up to those of the whole.
    """

    function: str
    signature: str
    """The function and its arrays, such as ``"gelu(x: float32[2000, 2000])"``."""
    machine: str
    """The processor that predictions are for."""
    threads: int
    taken_at: str
    """Local time, ISO 8601 with the UTC offset."""
    calibrated_at: str
    calls: tuple[ExplainedCall, ...]
    cost: Cost
    predicted_seconds: float
    predicted_low_seconds: float
    predicted_high_seconds: float
    textbook_seconds: float
    """What the plain roofline says: FLOPs at peak, or arguments and result at DRAM bandwidth."""
    measured: Measurement | None
    """The untraced function; None where only shapes were given."""
    slowdown: float
    """How many times slower than at its calibration the machine was at best during the measurement."""
    peak_temporaries: int
    """Arrays alive at the peak of memory, results included."""
    peak_temporary_bytes: int
    peaks_flops_per_second: dict[str, float]
    """By dtype, for the threads of this run."""
    bandwidths_bytes_per_second: dict[str, float]
    """By memory level."""
    notes: tuple[str, ...]
    """What to know before trusting the figures, a sentence each."""
    advice: tuple[Advice, ...] = ()

    @property
    def measured_seconds(self) -> float | None:
        """The best sample of the untraced function."""
        return None if self.measured is None else self.measured.best_seconds

    @property
    def error_fraction(self) -> float | None:
        """Signed error of the prediction, as a share of the measured time; None where there is nothing to compare."""
        if self.measured_seconds is None:
            return None
        return self.predicted_seconds / self.measured_seconds - 1

    @property
    def pages_seconds(self) -> float:
        """The predicted time of fresh memory, all calls together."""
        return sum(call.pages_seconds for call in self.calls)

    @property
    def bound_by(self) -> str:
        """What the largest share of the predicted time is bound by."""
        shares: dict[str, float] = {}
        for call in self.calls:
            shares[call.bound_by] = shares.get(call.bound_by, 0.0) + call.predicted_seconds
        return max(shares, key=lambda name: shares[name])

    @property
    def calibration_age_seconds(self) -> float:
        """Time from the calibration to this explanation."""
        return (datetime.fromisoformat(self.taken_at) - datetime.fromisoformat(self.calibrated_at)).total_seconds()

    def __repr__(self) -> str:
        from accel.explanation_table import text

        return text(self)

    def _repr_html_(self) -> str:
        from accel.explanation_table import page

        return page(self)

    def plot(self, *, title: str | None = None) -> Chart:
        """Draw the time of each call, measured and predicted.

        The title states the finding: which call takes the most.
        """
        from accel.plot.calls import call_times

        return call_times(self, title=title)

    def roofline(self, *, title: str | None = None) -> Chart:
        """Draw the calls that do FLOPs under the roofs of every memory level.

        Raises
        ------
        ValueError
            If no call does any FLOPs.
        """
        from accel.plot.calls import call_positions

        return call_positions(self, title=title)


def explain(
    fn: Callable[..., Any],
    *arrays: Any,
    machine: Machine | None = None,
    threads: int = 1,
    seconds: float = 1.2,
    progress: bool = True,
    advice: bool = True,
    **keywords: Any,
) -> Explanation:
    """Count, predict and measure every NumPy call of `fn(*arrays, **keywords)`.

    The function runs once to see its calls, then again and again: untraced, for the time of the whole, and recorded,
    for the times of the calls, in turn. The time of a call is its median in the three fastest recorded runs. What is
    left of the whole is a row of its own, called opaque: it is Python between the calls, memory given back, and all
    that no recorded call accounts for. Where the calls add up to more than the whole, because the tracer between them
    leaves colder caches, they are scaled to it and a note says so. A function that changes its arguments begins each
    run from copies of them, and leaves them as they were.

    With `accel.array_like(shape, dtype)` in the place of arrays nothing is run or measured.

    Parameters
    ----------
    fn : callable
        Any function of NumPy arrays. It runs many times: what it prints or appends, it does many times.
    *arrays, **keywords
        Its arguments, as for `accel.trace`. A keyword that `explain` itself has is passed with `functools.partial`.
    machine : Machine
        Where it is to run; this machine if not given. Of another machine only predictions are made.
    threads : int
        Threads that BLAS may use.
    seconds : float
        Time to spread the samples over; long functions take at least three samples of either kind.
    progress : bool
        Show a bar in a terminal or notebook, where it will take more than 2 s.
    advice : bool
        Look for rewrites.

    Raises
    ------
    TypeError
        If `fn` is not a function, or an argument or result is of a kind that `accel.trace` refuses.
    ValueError
        If `threads` or `seconds` is not positive, or the machine is not calibrated for this many threads.
    Exception
        Whatever `fn` raises, untouched.

    Examples
    --------
    >>> import accel, numpy as np
    >>> x = np.ones((200, 500), np.float32)
    >>> found = accel.explain(lambda x: (x * 2 + x).sum(axis=0), x, seconds=0.05)
    >>> [(row.call, row.result_shape, row.cost.flops) for row in found.calls[:-1]]
    [('multiply(x, 2)', (200, 500), 100000), ('add(temporary 1, x)', (200, 500), 100000), \
('add.reduce(temporary 1)', (500,), 99500)]
    >>> abs(sum(row.measured_seconds for row in found.calls) - found.measured_seconds) < 1e-12
    True

    Printed, it is a table (times differ from machine to machine, and from run to run)::

        explain gelu(x: float32[2000, 2000])
        AMD EPYC, 1 thread · calibrated 9 min ago · run steady: median 1% above best over 1.4 s
        #  call                   result     FLOPs  special   bytes  from  predicted  measured  bound by
        1  multiply(0.5, x)       f32[4.0M]   4.0M        –   32 MB  DRAM     2.2 ms    2.7 ms  bandwidth
        2  power(x, 3)            f32[4.0M]      –    4.00M   32 MB  DRAM    31.7 ms   25.8 ms  power
        3  multiply(0.0447, t1)   f32[4.0M]   4.0M        –   32 MB  DRAM     2.2 ms    2.7 ms  bandwidth
        4  add(t2, x)             f32[4.0M]   4.0M        –   48 MB  L3       2.2 ms    2.2 ms  bandwidth
        5  multiply(0.798, t2)    f32[4.0M]   4.0M        –   32 MB  DRAM     2.2 ms    2.7 ms  bandwidth
        6  tanh(t3)               f32[4.0M]      –    4.00M   32 MB  L3      13.2 ms   11.4 ms  tanh
        7  add(1, t4)             f32[4.0M]   4.0M        –   32 MB  L3       2.1 ms    2.5 ms  bandwidth
        8  multiply(result, t5)   f32[4.0M]   4.0M        –   48 MB  DRAM     2.3 ms    2.3 ms  bandwidth
        9  opaque, between calls  –              –        –       –  –       <0.1 ms         –  opaque
           total                             24.0M    8.00M  288 MB          57.9 ms   52.1 ms  error +11%
        predicted: between 31 ms and 114 ms · textbook roofline: 1.6 ms
        temporaries and results: 3 arrays alive at peak, 48 MB · fresh pages: none
        note: The machine ran 1.2 times slower than when it was calibrated, and is predicted to.
    """
    _check(fn, threads, seconds)
    elsewhere = machine is not None and _is_another(machine)
    if machine is None:
        from accel.calibration import this_machine

        machine = this_machine()
    machine.peak_flops_per_second(threads=threads)  # a machine that will not do is refused before anything runs
    allocator.settle()
    arguments = Arguments(parameter_names(fn, len(arrays)), arrays, keywords)
    compiled_before = compilation.seconds()
    try:
        with limited(threads):
            found, remarks = _traced(fn, arguments)
        prediction = predict_trace(found, machine, threads=threads)
        replayed = None
        if not (found.shapes_only or elsewhere):
            with _bar(fn, found.seconds, seconds, wanted=progress) as after_round:
                replayed = replay(
                    fn,
                    arguments,
                    machine,
                    calls=sum(op.kind != "opaque" for op in found.ops),
                    threads=threads,
                    seconds=seconds,
                    run_seconds=found.seconds,
                    after_round=after_round,
                )
            prediction = predict_trace(found, at_speed(machine, replayed.speed), threads=threads)
    finally:
        arguments.restore()
    if compiled := compilation.seconds() - compiled_before:
        remarks.append(f"Numba compiled for {format_seconds(compiled)} in the first call, which no time here includes.")
    if elsewhere:
        remarks.append("Nothing was measured: the predictions are for another machine than this one.")
    rewrites = advise_trace(found, machine, threads=threads) if advice else ()
    return _joined(found, prediction, replayed, machine, remarks, rewrites)


def _check(fn: Any, threads: int, seconds: float) -> None:
    if not callable(fn):
        raise TypeError(
            f"explain(fn, *arrays) runs a function, so fn must be callable; got {type(fn).__name__}. Pass the function "
            "and its arrays apart: explain(np.add, x, y), not explain(np.add(x, y))."
        )
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads is a whole number of at least 1; got {threads!r}.")
    if not 0 < seconds < math.inf:
        raise ValueError(f"seconds is a positive time to spread the samples over; got {seconds!r}.")


def _is_another(machine: Machine) -> bool:
    from accel import hardware, storage

    return storage.path_for(machine) != storage.path_for(hardware.detect())


def _traced(fn: Callable[..., Any], arguments: Arguments) -> tuple[Trace, list[str]]:
    """Trace a function, without keeping its result alive, and say what it does to its arguments."""
    with_result = trace(fn, *arguments.arrays, **arguments.keywords)
    returns_nothing = with_result.result is None
    found = replace(with_result)
    del with_result
    changed = arguments.changed()
    arguments.forget_unchanged()
    arguments.restore()
    remarks = []
    if changed:
        remarks.append(f"It changes {' and '.join(changed)}: each run began from a copy of the first values.")
    elif not found.shapes_only:
        found = with_opaque_timed(found, fn, arguments.arrays, arguments.keywords)
    written = {found.buffers[result.buffer].label for op in found.ops for result in op.results}
    if any(label.startswith("array ") for label in written):
        remarks.append("It changes arrays that it was not given: no run could begin from their first values.")
    if returns_nothing and not written - {b.label for b in found.buffers.values() if b.created} and not changed:
        remarks.append("It returns nothing and changes none of its arguments.")
    return found, remarks


@contextmanager
def _bar(
    fn: Callable[..., Any], run_seconds: float, seconds: float, *, wanted: bool
) -> Iterator[Callable[[float], None] | None]:
    """Show how far the measurement is, where it takes long and someone watches; give what tells the bar of a round."""
    whole = max(seconds, 16 * run_seconds)
    if not wanted or whole <= PROGRESS_FROM_SECONDS or not _is_watched():
        yield None
        return
    from tqdm.auto import tqdm

    name = getattr(fn, "__name__", type(fn).__name__)
    started = time.perf_counter()
    with tqdm(total=round(whole, 1), desc=f"explain {name}", unit="s", leave=False) as bar:

        def after_round(_elapsed: float) -> None:
            bar.update(min(time.perf_counter() - started, bar.total) - bar.n)

        yield after_round


def _is_watched() -> bool:
    """Whether progress would be seen: in a terminal or a notebook."""
    kernel = sys.modules.get("ipykernel.zmqshell")
    ipython = sys.modules.get("IPython")
    return sys.stderr.isatty() or (
        kernel is not None and ipython is not None and isinstance(ipython.get_ipython(), kernel.ZMQInteractiveShell)
    )


def _joined(
    traced: Trace,
    prediction: Prediction,
    replayed: Replay | None,
    machine: Machine,
    remarks: Sequence[str],
    rewrites: tuple[Advice, ...],
) -> Explanation:
    """Put everything together."""
    times = Times.of(traced, replayed)
    calls = tuple(rows(traced, prediction, times))
    peaks = machine.roofs.peaks
    slowdown = 1.0 if replayed is None else replayed.speed.core
    return Explanation(
        function=traced.function,
        signature=traced.signature,
        machine=machine.cpu_name,
        threads=prediction.threads,
        taken_at=datetime.now().astimezone().isoformat(timespec="seconds"),
        calibrated_at=machine.roofs.taken_at,
        calls=calls,
        cost=prediction.cost,
        predicted_seconds=prediction.seconds,
        predicted_low_seconds=prediction.low_seconds,
        predicted_high_seconds=prediction.high_seconds,
        textbook_seconds=prediction.textbook_seconds,
        measured=None if replayed is None else replace(replayed.measured, name=traced.function),
        slowdown=slowdown,
        peak_temporaries=traced.peak_temporaries,
        peak_temporary_bytes=traced.peak_temporary_bytes,
        peaks_flops_per_second={p.dtype: p.flops_per_second for p in peaks if p.threads == prediction.threads},
        bandwidths_bytes_per_second=machine.level_bandwidths(prediction.threads),
        notes=(*remarks, *times.notes, *notes_on(traced, calls, slowdown)),
        advice=rewrites,
    )
