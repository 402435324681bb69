"""Calibration: measures the roofs of this machine, and keeps them until the machine changes."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib.util import find_spec
from itertools import accumulate

from accel import allocator, hardware, storage
from accel.machine import (
    Bandwidth,
    Calibration,
    CallCost,
    Ceiling,
    FreshPages,
    Machine,
    MatmulRate,
    Overlap,
    Peak,
    Probe,
    Stream,
    interpolate,
)
from accel.measurement import FAST_PHASE, STEADY_SPREAD_FRACTION, Measurement, measure_calls, reference_call, threads
from accel.probes import ROWS, STREAM_BYTES_PER_ELEMENT, Batch, Key, Plan, batches, plan_for

__all__ = ["calibrate", "this_machine"]


Raw = Mapping[Key, Probe]


def calibrate(*, quick: bool = False, progress: bool = True, save: bool = True, fresh: bool = False) -> Machine:
    """Measure this machine's roofs: arithmetic peak, bandwidth by working set, NumPy's own costs.

    Takes up to 20 s, or up to 4 s with ``quick=True`` (fewer probes, one pass: coarser and noisier). The result is
    kept in the user's cache directory and reloaded by `accel.this_machine` until hardware or library versions change.
    Each calibration adds to the one kept for this machine: noise only ever adds time, so the best total of each probe
    is what counts, whenever it was seen.

    Parameters
    ----------
    quick : bool
        Measure less.
    progress : bool
        Show a progress bar on standard error.
    save : bool
        Keep the result for `accel.this_machine`.
    fresh : bool
        Forget what was measured before.

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
    kept = None if fresh else storage.find(machine)[0]
    allocator.settle()
    plan = plan_for(machine, quick=quick)
    start = time.perf_counter()
    raw = _run(plan, progress=progress)
    if kept:
        raw = merged(raw, kept.roofs.probes)
        quick = quick and kept.roofs.quick
    calibrated = machine.with_calibration(fit(raw, quick=quick, duration_seconds=time.perf_counter() - start))
    if save:
        storage.save(calibrated)
    return calibrated


def merged(raw: Raw, earlier: Sequence[Probe]) -> Raw:
    """Return the probes of both runs, each with the best total of either and the spread of the later run."""
    best = {probe.key: probe for probe in earlier} | dict(raw)
    for probe in earlier:
        latest = best[probe.key]
        if probe.best_seconds < latest.best_seconds:
            best[probe.key] = replace(latest, best_seconds=probe.best_seconds)
    return best


def this_machine(*, quick: bool = False, progress: bool = True) -> Machine:
    """Return this computer with its measured roofs, calibrating it first where no valid calibration is kept.

    A kept file that is damaged, edited, or from other hardware or library versions is not used; a warning says why,
    and the machine is measured again. Where the machine now runs faster than it ever did while it was calibrated, it
    was calibrated in a slow phase, and a further calibration is added.

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
    if found is None or (_was_slow(found) and not quick):
        found = calibrate(quick=quick, progress=progress)
    _CURRENT[identity] = found
    return found


REFERENCE: Key = ("reference",)
MEASURED_ONCE_MORE = 0.85
"""How much less urgent a batch becomes with every further time it is measured."""


def _was_slow(machine: Machine) -> bool:
    """Whether this machine is faster now than it was seen to be during its calibration."""
    now = measure_calls({REFERENCE: reference_call}, seconds=0.03)[REFERENCE].best_seconds
    return now * FAST_PHASE < machine.roofs.reference_seconds


_CURRENT: dict[Machine, Machine] = {}
"""Detected -> calibrated, so that one process reads the file once."""


def _run(plan: Plan, *, progress: bool) -> Raw:
    """Measure every batch, then, while time lasts, again those that met only slow phases of the machine.

    Shared machines slow down by up to 1.9 times for seconds on end. A probe that is the same in every batch tells:
    where its best is above the best of all, the batch has only seen slow phases.
    """
    from tqdm.auto import tqdm

    jobs = batches(plan, numba=find_spec("numba") is not None)
    taken: dict[Key, list[Measurement]] = {}
    reference = [float("inf")] * len(jobs)

    def run(index: int) -> None:
        thread_count, make = jobs[index]
        with threads(thread_count):
            reference[index] = min(reference[index], _take(make(), plan, taken))

    visits = [0] * len(jobs)

    def urgency(index: int) -> float:
        return reference[index] * MEASURED_ONCE_MORE ** visits[index]

    start = time.perf_counter()
    total = round(plan.limit_seconds)
    with tqdm(total=total, desc="calibrating", unit="s", disable=not progress, leave=False) as bar:
        for index in range(len(jobs)):
            run(index)
            bar.update(min(round(time.perf_counter() - start), total) - bar.n)
        while time.perf_counter() - start < plan.limit_seconds:
            index = max(range(len(jobs)), key=urgency)
            run(index)
            visits[index] += 1
            bar.update(min(round(time.perf_counter() - start), total) - bar.n)
    return {key: _summary(key, [s for m in runs for s in m.samples_seconds]) for key, runs in taken.items()}


def _take(batch: Batch, plan: Plan, taken: dict[Key, list[Measurement]]) -> float:
    """Measure one batch and add its samples to `taken`; return the best time of the reference beside it."""
    batch[REFERENCE] = reference_call
    known = {key: taken[key][0].calls_per_sample for key in batch} if all(key in taken for key in batch) else None
    measured = measure_calls(
        batch,
        seconds=plan.seconds_per_probe,
        least=plan.least_samples,
        warm_up_seconds=plan.seconds_per_probe,
        repeats=known,
    )
    for key, measurement in measured.items():
        taken.setdefault(key, []).append(measurement)
    return measured[REFERENCE].best_seconds


def _summary(key: Key, samples: list[float]) -> Probe:
    """Reduce the samples of all passes."""
    quartile = statistics.quantiles(samples, n=4, method="inclusive")[0]
    return Probe(key, min(samples), statistics.median(samples), quartile)


def fit(raw: Raw, *, quick: bool, duration_seconds: float) -> Calibration:
    """Turn raw totals into the roofs and costs that predictions use; pure."""
    ceilings = _ceilings(raw)
    by_name = {(c.operation, c.dtype): c for c in ceilings}
    streams = _streams(raw, by_name)
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
        calls=tuple(CallCost(name, kind, probe.best_seconds) for (_, name, kind), probe in _of(raw, "call")),
        allocations=_page_costs(raw, "new"),
        fresh_pages=_page_costs(raw, "fresh"),
        matmuls=tuple(
            MatmulRate(dtype, thread_count, m, k, n, samples.best_seconds)
            for (_, dtype, thread_count, m, k, n), samples in _of(raw, "product")
        ),
        interpreted_seconds=next(s.best_seconds / k[1] for k, s in _of(raw, "interpreter")),
        reference_seconds=raw[REFERENCE].best_seconds,
        python_call_seconds=raw["python call",].best_seconds,
        view_seconds=raw["view",].best_seconds,
        overlaps=_overlaps(raw, by_name, streams),
        probes=tuple(raw.values()),
    )


def _of(raw: Raw, kind: str) -> list[tuple[Key, Probe]]:
    """Return the probes of one kind."""
    return [(key, samples) for key, samples in raw.items() if key[0] == kind]


def _ceilings(raw: Raw) -> tuple[Ceiling, ...]:
    """Cost of a call from the smallest operands, of an element from the largest in L1, of a row on top."""
    rows = {key[1:]: samples.best_seconds for key, samples in _of(raw, "rows")}
    totals: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for (_, operation, dtype, n), samples in _of(raw, "operation"):
        totals.setdefault((operation, dtype), []).append((n, samples.best_seconds))
    found = []
    for (operation, dtype), points in totals.items():
        (small, tiny), (large, many) = min(points), max(points)
        element = max((many - tiny) / (large - small), 0.0)
        call = max(tiny - small * element, 0.0)
        for variant in (operation, f"{operation}:axis0"):
            short_rows = rows.get((variant, dtype))
            if short_rows is None and variant != operation:
                continue
            row = 0.0 if short_rows is None else max((short_rows - call - element * ROWS[0] * ROWS[1]) / ROWS[0], 0.0)
            found.append(Ceiling(variant, dtype, call, element, row))
    return tuple(found)


_STREAM_OPERATION = {
    "1R1W": "multiply:scalar",
    "2R1W": "add",
    "in place": "multiply:scalar",
    "in place + read": "minimum",
    "reduce": "maximum.reduce",
    "strided": "multiply:scalar",
    "gather": "take",
}
"""The operation whose call cost is inside each stream's total."""


def _streams(raw: Raw, ceilings: Mapping[tuple[str, str], Ceiling]) -> tuple[Stream, ...]:
    """Time per byte of each stream shape, the call taken out.

    A larger working set is never faster per byte: where it seems so, the smaller one was measured in noise.
    """
    curves: dict[str, list[tuple[int, float, float]]] = {}
    for (_, shape, working_set, count), samples in _of(raw, "stream"):
        operation = _STREAM_OPERATION[shape]
        ceiling = ceilings.get((operation, "float32")) or ceilings["add", "float32"]
        pass_seconds = max(samples.best_seconds - ceiling.call_seconds, samples.best_seconds * 0.05)
        per_byte = pass_seconds / (count * STREAM_BYTES_PER_ELEMENT[shape])
        curves.setdefault(shape, []).append((working_set, per_byte, samples.spread_fraction))
    return tuple(_stream(shape, sorted(points)) for shape, points in curves.items())


def _stream(shape: str, points: list[tuple[int, float, float]]) -> Stream:
    """Return the curve through the points, never falling."""
    per_byte = list(accumulate((p for _, p, _ in reversed(points)), min))[::-1]
    sizes, _, spreads = zip(*points, strict=True)
    return Stream(shape, sizes, tuple(per_byte), spreads)


def _bandwidths(raw: Raw) -> tuple[Bandwidth, ...]:
    """Bandwidth of each compiled stream by working set."""
    curves: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for (_, operation, thread_count, working_set, moved), samples in _of(raw, "roof"):
        curves.setdefault((operation, thread_count), []).append((working_set, moved / samples.best_seconds))
    return tuple(Bandwidth(*key, *map(tuple, zip(*sorted(points), strict=True))) for key, points in curves.items())


def _page_costs(raw: Raw, kind: str) -> FreshPages:
    """Return what writing there costs beyond memory in use, per byte; nothing where noise explains the difference."""
    probes = {key[1:]: probe for key, probe in _of(raw, "pages")}
    sizes = sorted({size for _, size in probes})
    extras = []
    for size in sizes:
        other, used = probes[kind, size], probes["used", size]
        extra = other.best_seconds - used.best_seconds
        noise = (other.quartile_seconds - other.best_seconds) + (used.quartile_seconds - used.best_seconds)
        extras.append(extra / size if extra > noise / 2 else 0.0)
    return FreshPages(tuple(sizes), tuple(extras))


def _overlaps(raw: Raw, ceilings: Mapping[tuple[str, str], Ceiling], streams: Sequence[Stream]) -> tuple[Overlap, ...]:
    """Return how well each heavy operation overlaps with its traffic."""
    curve = next(stream for stream in streams if stream.shape == "1R1W")
    found = []
    for (_, operation, count), samples in _of(raw, "overlap"):
        ceiling = ceilings[operation, "float32"]
        moved = count * STREAM_BYTES_PER_ELEMENT["1R1W"]
        memory = moved * interpolate(moved, curve.working_set_bytes, curve.seconds_per_byte)
        took = samples.best_seconds - ceiling.call_seconds
        found.append(Overlap(operation.split(":")[0], _exponent(count * ceiling.element_seconds, memory, took)))
    return tuple(found)


def _exponent(arithmetic: float, memory: float, together: float) -> float:
    """Find p such that (arithmetic^p + memory^p)^(1/p) comes closest to the time together; between 1 and 8."""
    longer, shorter = max(arithmetic, memory), min(arithmetic, memory)
    exponents = [1 + step / 20 for step in range(141)]
    return min(exponents, key=lambda p: abs(longer * (1 + (shorter / longer) ** p) ** (1 / p) - together))
