"""Calibration: measures the roofs of this machine, and keeps them until the machine changes."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from importlib.util import find_spec

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
    Rate,
    Stream,
    interpolate,
)
from accel.measurement import FAST_PHASE, STEADY_SPREAD_FRACTION, measure_calls, reference_call, threads
from accel.operation_probes import ROWS
from accel.probes import STREAM_BYTES_PER_ELEMENT, Batch, Key, Plan, batches, plan_for, stream_batch
from accel.speed import probe_slowdown

__all__ = ["calibrate", "this_machine"]


Raw = Mapping[Key, Probe]


def calibrate(
    *, quick: bool = False, progress: bool = True, save: bool = True, fresh: bool = False, plan: Plan | None = None
) -> Machine:
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
    plan : accel.probes.Plan, optional
        What to measure, instead of what `accel.probes.plan_for` returns; ``quick`` then only says how to call it.

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
    plan = plan or plan_for(machine, quick=quick)
    start = time.perf_counter()
    raw = _run(plan, machine, progress=progress)
    if kept:
        raw = merged(raw, kept.roofs.probes)
        quick = quick and kept.roofs.quick
    calibrated = machine.with_calibration(fit(raw, quick=quick, duration_seconds=time.perf_counter() - start))
    if save:
        storage.save(calibrated)
    return calibrated


def merged(raw: Raw, earlier: Sequence[Probe]) -> Raw:
    """Return the probes of both runs, each with the best total of either and the spread of the later run.

    Passes through a shared cache or memory have the mean of the two: they depend on where the pages happen to lie, and
    a lucky run tells no more than an unlucky one.
    """
    best = {probe.key: probe for probe in earlier} | dict(raw)
    for probe in earlier:
        latest = best[probe.key]
        if latest is probe:
            continue
        if probe.key[0] in PLACED and _working_set_bytes(probe.key) >= SHARED_BYTES:
            best[probe.key] = _scaled(latest, math.sqrt(probe.best_seconds / latest.best_seconds))
        elif probe.best_seconds < latest.best_seconds:
            best[probe.key] = replace(latest, best_seconds=probe.best_seconds)
    return best


def _working_set_bytes(key: Key) -> int:
    """Return the bytes that a pass goes through, from the key of its probe."""
    if key[0] == "overlap":
        return int(key[2]) * STREAM_BYTES_PER_ELEMENT["1R1W"]
    return int(key[3] if key[0] == "function" else key[2])


def _scaled(probe: Probe, factor: float) -> Probe:
    return Probe(probe.key, probe.best_seconds * factor, probe.median_seconds * factor, probe.quartile_seconds * factor)


def this_machine(*, quick: bool = False, progress: bool = True) -> Machine:
    """Return this computer with its measured roofs, calibrating it first where no valid calibration is kept.

    A kept file that is damaged, edited, or from other hardware or library versions is not used; a warning says why,
    and the machine is measured again. Where the machine, or after an hour its memory, now runs faster than it ever did
    while it was calibrated, it was calibrated in a slow phase, and a further calibration is added.

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
CHUNK = 8
"""Probes measured together with the reference, so that it sees the same phases of the machine."""
PLACED = frozenset({"stream", "pages", "overlap", "function"})
"""Passes through memory."""
SHARED_BYTES = 2**20
"""Working sets from here on lie in caches that a core shares with others, or in memory."""
MEASURED_ONCE_MORE = 0.85
"""How much less urgent a batch becomes with every further time it is measured."""
PUT_RIGHT = 0.75
"""Share of a slowdown that is taken off: a probe may have met a better moment than the reference, and a later
calibration can better what was put right too little, but not what was put right too much."""
SAMPLE_SECONDS = 2e-4
"""On a shared machine, times at full speed may last for less than a millisecond, but there are many of them."""


RECHECKED = timedelta(hours=1)
"""Age from which the memory of a calibrated machine is looked at again: neighbours on a shared one come and go."""
FAST_MEMORY = 1.15
"""Memory was slow during a calibration if a pass now takes less than its time by this factor."""
RECHECKED_BYTES = 2**26


def _was_slow(machine: Machine) -> bool:
    """Whether this machine, or its memory, is faster now than it was seen to be during its calibration."""
    now = measure_calls({REFERENCE: reference_call}, seconds=0.03)[REFERENCE].best_seconds
    if now * FAST_PHASE < machine.roofs.reference_seconds:
        return True
    taken = datetime.fromisoformat(machine.roofs.taken_at).astimezone()
    return datetime.now().astimezone() - taken > RECHECKED and _memory_was_slow(machine.roofs.probes)


def _memory_was_slow(probes: Sequence[Probe]) -> bool:
    """Whether a pass through memory is clearly faster now than in the best moment of the calibration."""
    kept: dict[Key, float] = {p.key: p.best_seconds for p in probes if p.key[:2] == ("stream", "1R1W")}
    key = max((key for key in kept if key[2] <= RECHECKED_BYTES), key=lambda key: key[2], default=None)
    if key is None:
        return False
    now = measure_calls(stream_batch(("1R1W",), key[2]), seconds=0.05)[key].best_seconds
    return now * FAST_MEMORY < kept[key]


_CURRENT: dict[Machine, Machine] = {}
"""Detected -> calibrated, so that one process reads the file once."""


@dataclass
class _Chunk:
    """What was seen of a few probes that are measured together."""

    samples: dict[Key, list[float]] = field(default_factory=dict)
    repeats: dict[Key, int] = field(default_factory=dict)

    def take(self, calls: Batch, plan: Plan) -> None:
        """Measure the probes for a while."""
        measured = measure_calls(
            {REFERENCE: reference_call, **calls},
            seconds=plan.seconds_per_probe,
            least=plan.least_samples,
            warm_up_seconds=plan.seconds_per_probe / 3,
            sample_seconds=SAMPLE_SECONDS,
            repeats=self.repeats or None,
        )
        self.repeats = {key: measurement.calls_per_sample for key, measurement in measured.items()}
        for key, measurement in measured.items():
            self.samples.setdefault(key, []).extend(measurement.samples_seconds)

    @property
    def reference_seconds(self) -> float:
        """The best time of the reference beside these probes."""
        return min(self.samples[REFERENCE], default=math.inf) if self.samples else math.inf


def _run(plan: Plan, machine: Machine, *, progress: bool) -> Raw:
    """Measure every probe, then, while time lasts, again those that met only slow phases of the machine.

    Shared machines slow down by up to 1.9 times for seconds on end. A reference that is the same everywhere tells:
    where its best is above the best of all, the probes beside it have only seen slow phases.
    """
    from tqdm.auto import tqdm

    jobs = batches(plan, numba=find_spec("numba") is not None)
    chunks: list[list[_Chunk]] = [[] for _ in jobs]
    visits = [0] * len(jobs)

    def run(index: int) -> None:
        thread_count, make = jobs[index]
        visits[index] += 1
        with threads(thread_count):
            parts = _parts(make())
            chunks[index] = chunks[index] or [_Chunk() for _ in parts]
            enough = FAST_PHASE * _fastest(chunks)
            slow = [chunk.reference_seconds > enough for chunk in chunks[index]]
            for chunk, part, again in zip(chunks[index], parts, slow, strict=True):
                if again or not any(slow):
                    chunk.take(part, plan)

    def urgency(index: int) -> float:
        return max(chunk.reference_seconds for chunk in chunks[index]) * MEASURED_ONCE_MORE ** visits[index]

    start = time.perf_counter()
    total = round(plan.limit_seconds)
    with tqdm(total=total, desc="calibrating", unit="s", disable=not progress, leave=False) as bar:
        for index in range(len(jobs)):
            run(index)
            bar.update(min(round(time.perf_counter() - start), total) - bar.n)
        while time.perf_counter() - start < plan.limit_seconds:
            run(max(range(len(jobs)), key=urgency))
            bar.update(min(round(time.perf_counter() - start), total) - bar.n)
    return _summaries([chunk for parts in chunks for chunk in parts], machine)


def _parts(batch: Batch) -> list[Batch]:
    """Split a batch into chunks; what passes through memory is alone, for others would push it out of the caches."""
    keys = list(batch)
    size = 1 if keys[0][0] in PLACED else CHUNK
    return [{key: batch[key] for key in keys[i : i + size]} for i in range(0, len(keys), size)]


def _fastest(chunks: Iterable[Sequence[_Chunk]]) -> float:
    """Return the best time of the reference so far."""
    return min((chunk.reference_seconds for parts in chunks for chunk in parts), default=math.inf)


def _summaries(chunks: Sequence[_Chunk], machine: Machine) -> Raw:
    """Reduce the samples of each probe.

    Where the reference beside it was never as fast as elsewhere, the probe is taken to have been slower with the core.
    """
    fastest = _fastest([chunks])
    found: dict[Key, Probe] = {}
    reference: list[float] = []
    for chunk in chunks:
        slowdown = 1 + (chunk.reference_seconds / fastest - 1) * PUT_RIGHT
        for key, samples in chunk.samples.items():
            if key == REFERENCE:
                reference += samples
            else:
                found[key] = _summary(key, samples, probe_slowdown(key, machine, slowdown))
    found[REFERENCE] = _summary(REFERENCE, reference)
    return found


def _summary(key: Key, samples: Sequence[float], slowdown: float = 1.0) -> Probe:
    """Reduce the samples of one probe, of which the best was so much slower than at full speed."""
    quartile = statistics.quantiles(samples, n=4, method="inclusive")[0]
    return Probe(key, min(samples) / slowdown, statistics.median(samples) / slowdown, quartile / slowdown)


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
        rates=_rates(raw),
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
        whole = _ceiling(operation, dtype, sorted(points))
        found.append(replace(whole, row_seconds=_row_seconds(whole, rows.get((operation, dtype)))))
        down = f"{operation}:axis0"
        if (down, dtype) in rows:
            added = totals.get((operation.partition(".")[0], dtype), points)  # rows are added to rows as arrays are
            whole = replace(_ceiling(down, dtype, sorted(added)), call_seconds=whole.call_seconds)
            found.append(replace(whole, row_seconds=_row_seconds(whole, rows[down, dtype])))
    return tuple(found)


def _ceiling(operation: str, dtype: str, points: Sequence[tuple[int, float]]) -> Ceiling:
    """Cost of a call, of getting up to speed, and of an element, from totals by number of elements."""
    (small, tiny), (middle, several), (large, many) = points[0], points[-2], points[-1]
    element = max((many - several) / (large - middle), 0.0)
    call = max(tiny - small * element, 0.0)
    ramp = max(several - call - middle * element, 0.0) if middle > small else 0.0
    return Ceiling(operation, dtype, call, element, ramp_seconds=ramp)


def _row_seconds(ceiling: Ceiling, short_rows: float | None) -> float:
    """Cost of starting a row, from the total of an array in short ones."""
    if short_rows is None:
        return 0.0
    height, width = ROWS
    rest = short_rows - ceiling.call_seconds - ceiling.element_seconds * height * width
    return max(rest / height, 0.0)


def _rates(raw: Raw) -> tuple[Rate, ...]:
    """Cost of the call from the least work, of a unit of it at each larger working set."""
    curves: dict[tuple[str, str], list[tuple[int, int, float]]] = {}
    for (_, name, dtype, working_set, units), probe in _of(raw, "function"):
        curves.setdefault((name, dtype), []).append((working_set, units, probe.best_seconds))
    return tuple(_rate(name, dtype, sorted(points)) for (name, dtype), points in curves.items() if len(points) > 1)


def _rate(name: str, dtype: str, points: list[tuple[int, int, float]]) -> Rate:
    (_, little, least), (_, more, longer) = points[:2]
    call = max(least - little * max(longer - least, 0.0) / (more - little), 0.0)
    sizes, each = [], []
    for working_set, units, seconds in points[1:]:
        sizes.append(working_set)
        each.append(max(seconds - call, seconds * 0.05) / units)
    return Rate(name, dtype, call, tuple(sizes), tuple(each))


_STREAM_OPERATION = {
    "1R1W": "multiply:scalar",
    "2R1W": "add",
    "in place": "multiply:scalar",
    "in place + read": "minimum",
    "reduce": "maximum.reduce",
    "strided": "multiply:scalar",
    "strided far": "multiply:scalar",
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
    sizes, per_byte, spreads = zip(*points, strict=True)
    return Stream(shape, sizes, tuple(never_falling(per_byte)), spreads)


def never_falling(measured: Sequence[float]) -> list[float]:
    """Return the rising sequence that is closest to the logarithms of what was measured (pool adjacent violators).

    >>> [round(each, 3) for each in never_falling([1.0, 4.0, 1.0, 8.0])]
    [1.0, 2.0, 2.0, 8.0]
    """
    pools: list[tuple[float, int]] = []  # (mean logarithm, how many)
    for value in measured:
        mean, count = math.log(value), 1
        while pools and pools[-1][0] > mean:
            earlier, members = pools.pop()
            mean, count = (mean * count + earlier * members) / (count + members), count + members
        pools.append((mean, count))
    return [math.exp(mean) for mean, count in pools for _ in range(count)]


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
        exponent = _exponent(count * ceiling.element_seconds, memory, took)
        found.append(Overlap(operation.split(":")[0], exponent, moved))
    return tuple(found)


def _exponent(arithmetic: float, memory: float, together: float) -> float:
    """Find p such that (arithmetic^p + memory^p)^(1/p) comes closest to the time together; between 0.7 and 8."""
    longer, shorter = max(arithmetic, memory), min(arithmetic, memory)
    exponents = [0.7 + step / 20 for step in range(147)]
    return min(exponents, key=lambda p: abs(longer * (1 + (shorter / longer) ** p) ** (1 / p) - together))
