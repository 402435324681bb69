"""Calibration: measures the roofs of this machine, and keeps them until the machine changes."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.util import find_spec

from accel import allocator, hardware, storage
from accel.machine import (
    Bandwidth,
    Calibration,
    Ceiling,
    FreshPages,
    Machine,
    MatmulRate,
    Peak,
    Stream,
)
from accel.measurement import STEADY_SPREAD_FRACTION, Measurement, measure_calls, threads
from accel.probes import ELEMENTS, ROWS, STREAM_BYTES_PER_ELEMENT, Batch, Key, Plan, batches, plan_for

__all__ = ["calibrate", "this_machine"]


@dataclass(frozen=True)
class Samples:
    """What the passes over one probe gave: totals, before anything is subtracted from them."""

    best_seconds: float
    median_seconds: float
    quartile_seconds: float

    @property
    def spread_fraction(self) -> float:
        """How far the median lies above the best."""
        return self.median_seconds / self.best_seconds - 1


Raw = Mapping[Key, Samples]


def calibrate(*, quick: bool = False, progress: bool = True, save: bool = True) -> Machine:
    """Measure this machine's roofs: arithmetic peak, bandwidth by working set, NumPy's own costs.

    Takes up to 20 s, or up to 4 s with ``quick=True`` (fewer probes, one pass: coarser and noisier). The result is
    kept in the user's cache directory and reloaded by `accel.this_machine` until hardware or library versions change.

    Parameters
    ----------
    quick : bool
        Measure less.
    progress : bool
        Show a progress bar on standard error.
    save : bool
        Keep the result for `accel.this_machine`.

    Returns
    -------
    Machine
        With `Machine.calibration` filled in.

    Examples
    --------
    >>> import accel
    >>> machine = accel.calibrate(quick=True, progress=False, save=False)
    >>> machine.calibration.quick and machine.calibration.duration_seconds > 0
    True
    """
    machine = hardware.detect()
    allocator.settle()
    plan = plan_for(machine, quick=quick)
    start = time.perf_counter()
    raw = _run(plan, progress=progress)
    calibrated = machine.with_calibration(fit(raw, quick=quick, duration_seconds=time.perf_counter() - start))
    if save:
        storage.save(calibrated)
    return calibrated


def this_machine(*, quick: bool = False, progress: bool = True) -> Machine:
    """Return this computer with its measured roofs, calibrating it first where no valid calibration is kept.

    A kept file that is damaged, edited, or from other hardware or library versions is not used; a warning says why,
    and the machine is measured again.

    Parameters
    ----------
    quick : bool
        If a calibration is needed, make it a quick one. A kept full calibration serves in either case.
    progress : bool
        Show a progress bar if a calibration is needed.
    """
    detected = hardware.detect()
    identity = replace(detected, blas=replace(detected.blas, threads=0))  # the limit of the moment is not the machine
    if identity in _CURRENT:
        return _CURRENT[identity]
    found, reason = storage.find(detected)
    if found is None and reason:
        warnings.warn(f"Calibrating this machine again: {reason}.", stacklevel=2)
    machine = found or calibrate(quick=quick, progress=progress)
    _CURRENT[identity] = machine
    return machine


_CURRENT: dict[Machine, Machine] = {}
"""Detected -> calibrated, so that one process reads the file once."""


def _run(plan: Plan, *, progress: bool) -> Raw:
    """Measure every batch once a pass; passes lie apart, so that one slow phase cannot spoil all."""
    from tqdm.auto import tqdm

    jobs = batches(plan, numba=find_spec("numba") is not None)
    taken: dict[Key, list[Measurement]] = {}
    with tqdm(
        total=plan.passes * len(jobs), desc="calibrating", unit="batch", disable=not progress, leave=False
    ) as bar:
        start = time.perf_counter()
        for done in range(plan.passes):
            if (time.perf_counter() - start) * (done + 1) > plan.limit_seconds * max(done, 1):
                break  # this machine is slow just now: another pass would not fit
            for thread_count, make in jobs:
                with threads(thread_count):
                    _take(make(), plan, taken)
                bar.update()
    return {key: _summary([s for m in runs for s in m.samples_seconds]) for key, runs in taken.items()}


def _take(batch: Batch, plan: Plan, taken: dict[Key, list[Measurement]]) -> None:
    """Measure one batch and add its samples to `taken`."""
    known = {key: taken[key][0].calls_per_sample for key in batch if key in taken}
    measured = measure_calls(
        batch,
        seconds=plan.seconds_per_probe,
        least=plan.least_samples,
        warm_up_seconds=plan.seconds_per_probe,
        repeats=known or None,
    )
    for key, measurement in measured.items():
        taken.setdefault(key, []).append(measurement)


def _summary(samples: list[float]) -> Samples:
    """Reduce the samples of all passes."""
    quartile = statistics.quantiles(samples, n=4, method="inclusive")[0]
    return Samples(min(samples), statistics.median(samples), quartile)


def fit(raw: Raw, *, quick: bool, duration_seconds: float) -> Calibration:
    """Turn raw totals into the roofs and costs that predictions use; pure."""
    ceilings = _ceilings(raw)
    streams = _streams(raw, {(c.operation, c.dtype): c for c in ceilings})
    near = [s.quartile_seconds / s.best_seconds - 1 for s in raw.values()]
    return Calibration(
        taken_at=datetime.now().astimezone().isoformat(timespec="seconds"),
        duration_seconds=duration_seconds,
        quick=quick,
        steady=statistics.median(near) <= STEADY_SPREAD_FRACTION,
        spread_fraction=statistics.median(s.spread_fraction for s in raw.values()),
        peaks=tuple(Peak(k[1], k[2], k[4] / s.best_seconds, k[3]) for k, s in _of(raw, "peak")),
        bandwidths=_bandwidths(raw),
        streams=streams,
        ceilings=ceilings,
        fresh_pages=_fresh_pages(raw),
        matmuls=tuple(
            MatmulRate(dtype, thread_count, m, k, n, samples.best_seconds)
            for (_, dtype, thread_count, m, k, n), samples in _of(raw, "product")
        ),
        interpreted_seconds=next(s.best_seconds / k[1] for k, s in _of(raw, "interpreter")),
        python_call_seconds=raw["python call",].best_seconds,
        view_seconds=raw["view",].best_seconds,
        overlap_exponent=_overlap_exponent(raw, ceilings, streams),
    )


def _of(raw: Raw, kind: str) -> list[tuple[Key, Samples]]:
    """Return the probes of one kind."""
    return [(key, samples) for key, samples in raw.items() if key[0] == kind]


def _ceilings(raw: Raw) -> tuple[Ceiling, ...]:
    """Cost of a call from the smallest operands, of an element from the difference of larger ones, of a row on top."""
    seconds = {key[1:]: samples.best_seconds for key, samples in _of(raw, "operation")}
    rows = {key[1:]: samples.best_seconds for key, samples in _of(raw, "rows")}
    small, middle, large = ELEMENTS
    found = []
    for operation, dtype in dict.fromkeys(key[:2] for key in seconds):
        tiny, some, many = (seconds[operation, dtype, n] for n in ELEMENTS)
        element = max((many - some) / (large - middle), 0.0)
        call = max(tiny - small * element, 0.0)
        row = max((rows.get((operation, dtype), 0.0) - call - element * ROWS[0] * ROWS[1]) / ROWS[0], 0.0)
        found.append(Ceiling(operation, dtype, call, element, row))
        if axis0 := rows.get((f"{operation}:axis0", dtype)):
            per_row = max((axis0 - call - element * ROWS[0] * ROWS[1]) / ROWS[0], 0.0)
            found.append(Ceiling(f"{operation}:axis0", dtype, call, element, per_row))
    return tuple(found)


_STREAM_OPERATION = {
    "1R1W": "multiply:scalar",
    "2R1W": "add",
    "in place": "multiply:scalar",
    "in place + read": "minimum",
    "reduce": "maximum.reduce",
}
"""The operation whose call cost is inside each stream's total."""


def _streams(raw: Raw, ceilings: Mapping[tuple[str, str], Ceiling]) -> tuple[Stream, ...]:
    """Time per byte of each stream shape, the call taken out."""
    curves: dict[str, list[tuple[int, float, float]]] = {}
    for (_, shape, working_set, count), samples in _of(raw, "stream"):
        operation = _STREAM_OPERATION[shape]
        ceiling = ceilings.get((operation, "float32")) or ceilings["add", "float32"]
        pass_seconds = max(samples.best_seconds - ceiling.call_seconds, samples.best_seconds * 0.05)
        per_byte = pass_seconds / (count * STREAM_BYTES_PER_ELEMENT[shape])
        curves.setdefault(shape, []).append((working_set, per_byte, samples.spread_fraction))
    return tuple(Stream(shape, *map(tuple, zip(*sorted(points), strict=True))) for shape, points in curves.items())


def _bandwidths(raw: Raw) -> tuple[Bandwidth, ...]:
    """Bandwidth of each compiled stream by working set."""
    curves: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for (_, operation, thread_count, working_set, moved), samples in _of(raw, "roof"):
        curves.setdefault((operation, thread_count), []).append((working_set, moved / samples.best_seconds))
    return tuple(Bandwidth(*key, *map(tuple, zip(*sorted(points), strict=True))) for key, points in curves.items())


def _fresh_pages(raw: Raw) -> FreshPages:
    """Return what a new array costs beyond one in use, per byte."""
    seconds = {key[1:]: samples.best_seconds for key, samples in _of(raw, "pages")}
    sizes = sorted({size for _, size in seconds})
    extra = tuple(max(seconds["fresh", size] - seconds["used", size], 0.0) / size for size in sizes)
    return FreshPages(tuple(sizes), extra)


def _overlap_exponent(raw: Raw, ceilings: Sequence[Ceiling], streams: Sequence[Stream]) -> float:
    """Find p such that (arithmetic^p + memory^p)^(1/p) is what a pass slow in both took; between 1 (none) and 8."""
    [((_, operation, count), samples)] = _of(raw, "overlap")
    arithmetic = count * next(c.element_seconds for c in ceilings if (c.operation, c.dtype) == (operation, "float32"))
    curve = next(stream for stream in streams if stream.shape == "1R1W")
    memory = count * STREAM_BYTES_PER_ELEMENT["1R1W"] * curve.seconds_per_byte[-1]
    longer, shorter = max(arithmetic, memory), min(arithmetic, memory)
    exponents = [1 + step / 20 for step in range(141)]
    return min(exponents, key=lambda p: abs(longer * (1 + (shorter / longer) ** p) ** (1 / p) - samples.best_seconds))
