"""Verdicts: what was measured of a case, its share of the roof, and whether it meets its targets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cases import Case, Target
from resident import SLACK_BYTES

from accel.machine import Machine
from accel.measurement import FAST_PHASE, Measurement, format_seconds
from accel.records import Record
from accel.units import format_bytes

FORM = "form"
"""Name of the case's own form among the calls that are measured against each other."""
COMPILE_SECONDS = 2.0
"""A first call may compile for so long."""
ABOVE_ROOF = 1.06
"""Bandwidths are known to some 6 %; a share above this is an error of a count or of the calibration."""


@dataclass(frozen=True)
class Row(Record):
    """A row of the table. Times are the best of one interleaved run."""

    family: str
    form: str
    size: str
    threads: int
    seconds: float
    median_seconds: float
    ratios: dict[str, float]
    """Own time over each peer's."""
    roof: str
    """The roof that the case is closest to: "compute", or a memory level; empty where none was measured."""
    roof_fraction: float
    peak_bytes: int
    """Of one call, beyond what was in use before it: what Python and NumPy asked for."""
    resident_bytes: dict[str, int]
    """Of one call of the form and of each peer, result included, as the operating system sees it; empty if unknown."""
    error: float
    compile_seconds: float
    """Of the first call; 0.0 where nothing had to be compiled."""
    slowdown: float
    """How many times slower than at its calibration the machine was at best."""
    verdict: str
    missed: bool


def row_of(
    case: Case,
    machine: Machine,
    measured: dict[str, Measurement],
    *,
    peak_bytes: int,
    error: float,
    compile_seconds: float,
    slowdown: float,
    resident_bytes: dict[str, int] | None = None,
) -> Row:
    """Join what was measured of a case."""
    own = measured[FORM]
    ratios = {name: own.best_seconds / m.best_seconds for name, m in measured.items() if name != FORM}
    roof, fraction = closest_roof(case, machine, own.best_seconds)
    reached = ratios | ({"roof": fraction} if roof else {})
    misses = [miss for target in case.targets if (miss := missed(target, reached))]
    if compile_seconds > COMPILE_SECONDS:
        misses.append(f"compiled for {format_seconds(compile_seconds)}, target {format_seconds(COMPILE_SECONDS)}")
    resident = resident_bytes or {}
    misses += [miss for name in case.peers if name.startswith("torch") and (miss := more_memory(name, resident))]
    judged = any(target.against in reached for target in case.targets)
    verdict = [f"MISSED {'; '.join(misses)}"] if misses else ["met"] * judged
    absent = sorted({target.against for target in case.targets} - set(reached))
    if absent:
        verdict.append(f"not judged: no {' and no '.join(absent)} to compare with")
    return Row(
        family=case.family,
        form=case.form,
        size=case.size,
        threads=case.threads,
        seconds=own.best_seconds,
        median_seconds=own.median_seconds,
        ratios=ratios,
        roof=roof,
        roof_fraction=fraction,
        peak_bytes=peak_bytes,
        resident_bytes=resident,
        error=error,
        compile_seconds=compile_seconds,
        slowdown=slowdown,
        verdict="; ".join([*verdict, *remarks(measured, fraction, slowdown)]),
        missed=bool(misses),
    )


def closest_roof(case: Case, machine: Machine, seconds: float) -> tuple[str, float]:
    """Return the roof that a case reaches the larger share of, and the share; ("", 0.0) where none was measured.

    Compute: the cost's FLOPs against the peak. Memory: the compulsory bytes against the highest bandwidth of all
    streams at the working set. Both for the case's number of threads.
    """
    shares: dict[str, float] = {}
    if case.threads in {peak.threads for peak in machine.roofs.peaks}:
        shares["compute"] = case.cost.flops / seconds / machine.peak_flops_per_second(dtype_of(case), case.threads)
    if case.threads in {curve.threads for curve in machine.roofs.bandwidths}:
        working_set = case.working_set_bytes or case.compulsory_bytes
        roof = machine.bandwidth_bytes_per_second(working_set, case.threads)
        shares[machine.level_of(working_set)] = case.compulsory_bytes / seconds / roof
    return max(shares.items(), key=lambda item: item[1], default=("", 0.0))


def dtype_of(case: Case) -> str:
    """Return the dtype that `Case.size` begins with."""
    found = re.match(r"float(?:16|32|64)\b", case.size)
    if found is None:
        raise ValueError(f"a case's size begins with its dtype, as in 'float32[10M]'; {case.form} has {case.size!r}.")
    return found[0]


def missed(target: Target, reached: dict[str, float]) -> str:
    """Return how a target is missed, or "" where it is met or there is nothing to judge it by."""
    value = reached.get(target.against)
    if value is None:
        return ""
    if target.against == "roof":
        return f"{value:.0%} of the roof, target {target.ratio:.0%}" if value < target.ratio else ""
    return f"{value:.2f} of {target.against}, target {target.ratio:g}" if value > target.ratio else ""


def more_memory(peer: str, resident: dict[str, int]) -> str:
    """Return how a form needs more memory than a peer, or "" where it does not or nothing was measured."""
    if not {FORM, peer} <= set(resident) or resident[FORM] <= resident[peer] + SLACK_BYTES:
        return ""
    return f"memory {format_bytes(resident[FORM])}, {peer} {format_bytes(resident[peer])}"


def remarks(measured: dict[str, Measurement], fraction: float, slowdown: float) -> list[str]:
    """Return what to know before trusting a row."""
    found = []
    if fraction > ABOVE_ROOF:
        found.append("above the roof: a count or the calibration is wrong")
    if slowdown > FAST_PHASE:
        found.append(f"machine {slowdown:.1f}x slower than calibrated: the share is too low")
    noisy = [name for name, m in measured.items() if not m.is_steady]
    return found + ([f"noisy: {', '.join(noisy)}"] if noisy else [])
