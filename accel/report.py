"""Report: what the doctor found, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from accel.doctor import Checkup, Conditions
from accel.machine import Calibration, Machine
from accel.measurement import format_seconds
from accel.units import format_bytes, format_decimal, format_threads

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["WIDTH", "print_checkup"]

WIDTH = 100
"""Columns that a report never exceeds."""


def print_checkup(checkup: Checkup, console: Console) -> None:
    """Print hardware, libraries, caches, measured roofs where there are any, and the findings."""
    machine = checkup.machine
    console.print(_facts("Hardware", _hardware(machine, checkup.conditions)))
    console.print(_facts("Libraries", _libraries(machine)))
    console.print(_caches(machine))
    if machine.calibration is not None:
        console.print(_facts("Calibration", _calibration(machine.calibration)))
        console.print(_roofs(machine, machine.calibration))
    _print_notes(checkup.notes, console)
    _print_findings(checkup, console)


# --------------------------------------------------------------------------------------------------------- the tables


def _hardware(machine: Machine, conditions: Conditions) -> Iterator[tuple[str, str]]:
    quota = "none" if machine.quota_cpus is None else f"{machine.quota_cpus:g}"
    free = "" if conditions.available_bytes is None else f", {format_bytes(conditions.available_bytes)} free"
    yield "CPU", machine.cpu_name
    yield "Architecture", f"{machine.architecture}, {machine.simd_bits}-bit vectors, {machine.system}"
    yield (
        "Usable CPUs",
        (f"{machine.usable_cpus} ({machine.logical_cpus} logical, affinity {machine.affinity_cpus}, quota {quota})"),
    )
    yield "Memory", f"{format_bytes(machine.memory_bytes)}{free}"
    if conditions.huge_pages is not None:
        yield "Huge pages", conditions.huge_pages
    if conditions.load_average is not None:
        yield "Load", f"{conditions.load_average:.2f} over the last minute"
    if conditions.noise_fraction is not None:
        yield "Noise", f"median of a small call {conditions.noise_fraction:.1%} above its best"


def _libraries(machine: Machine) -> Iterator[tuple[str, str]]:
    blas = machine.blas
    yield "Python", machine.python_version
    yield "NumPy", machine.numpy_version
    yield "Numba", machine.numba_version or "missing"
    yield "BLAS", f"{blas.name} {blas.version}".strip()
    yield "BLAS kernels", f"{blas.kernel or 'not told'}, {format_threads(blas.threads)}"


def _calibration(calibration: Calibration) -> Iterator[tuple[str, str]]:
    yield "Taken", f"{calibration.taken_at} in {format_seconds(calibration.duration_seconds)}"
    yield "Kind", "quick" if calibration.quick else "full"
    steadiness = "steady" if calibration.steady else "not steady"
    yield "Run", f"{steadiness}, median {calibration.spread_fraction:.1%} above best"
    for ceiling in calibration.ceilings:
        if ceiling.operation == "add":
            yield f"add, {ceiling.dtype}", f"{format_seconds(ceiling.call_seconds)} dispatch overhead"


def _facts(title: str, facts: Iterator[tuple[str, str]]) -> Table:
    from rich.markup import escape

    table = _table(title, header=False)
    table.add_column(style="dim", min_width=14)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, escape(value))
    return table


def _caches(machine: Machine) -> Table:
    table = _table("Data caches")
    for heading in ("level", "size", "line", "ways", "shared by"):
        table.add_column(heading, justify="left" if heading == "level" else "right")
    for cache in machine.caches:
        ways = "not told" if cache.ways is None else str(cache.ways)
        shared = "1 CPU" if cache.shared_by_cpus == 1 else f"{cache.shared_by_cpus} CPUs"
        table.add_row(cache.name, format_bytes(cache.size_bytes), f"{cache.line_bytes} B", ways, shared)
    return table


def _roofs(machine: Machine, calibration: Calibration) -> Table:
    """Return the peaks and bandwidths, with the intensity at which each pair meets, one column per thread count."""
    counts = sorted({peak.threads for peak in calibration.peaks} | {band.threads for band in calibration.bandwidths})
    bandwidths = {threads: _levels(machine, calibration, threads) for threads in counts}
    table = _table("Measured roofs")
    table.add_column("roof")
    for threads in counts:
        table.add_column(format_threads(threads), justify="right")
    for dtype in dict.fromkeys(peak.dtype for peak in calibration.peaks):
        rates = [_peak(calibration, dtype, threads) for threads in counts]
        table.add_row(f"peak, {dtype}", *(_cell(rate, "FLOP/s") for rate in rates))
    for level in dict.fromkeys(level for levels in bandwidths.values() for level in levels):
        table.add_row(f"bandwidth, {level}", *(_cell(bandwidths[threads].get(level), "B/s") for threads in counts))
    for level, dtype in _ridges(calibration, bandwidths):
        points = [_ridge(_peak(calibration, dtype, threads), bandwidths[threads].get(level)) for threads in counts]
        table.add_row(f"ridge, {dtype} on {level}", *(_cell(point, "FLOP/byte") for point in points))
    return table


def _levels(machine: Machine, calibration: Calibration, threads: int) -> dict[str, float]:
    measured = any(band.threads == threads for band in calibration.bandwidths)
    return machine.level_bandwidths(threads) if measured else {}


def _ridges(calibration: Calibration, bandwidths: dict[int, dict[str, float]]) -> Iterator[tuple[str, str]]:
    for dtype in dict.fromkeys(peak.dtype for peak in calibration.peaks):
        for level in dict.fromkeys(level for levels in bandwidths.values() for level in levels):
            yield level, dtype


def _peak(calibration: Calibration, dtype: str, threads: int) -> float | None:
    rates = [peak.flops_per_second for peak in calibration.peaks if (peak.dtype, peak.threads) == (dtype, threads)]
    return max(rates, default=None)


def _ridge(flops_per_second: float | None, bytes_per_second: float | None) -> float | None:
    return None if flops_per_second is None or bytes_per_second is None else flops_per_second / bytes_per_second


def _cell(value: float | None, unit: str) -> str:
    return "–" if value is None else format_decimal(value, unit)


def _table(title: str, *, header: bool = True) -> Table:
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE, show_header=header)


def _print_notes(notes: tuple[str, ...], console: Console) -> None:
    from rich.markup import escape

    if notes:
        console.print("[bold]How this was found out[/bold]")
        for note in notes:
            console.print(f"  {escape(note)}", highlight=False)
        console.print()


def _print_findings(checkup: Checkup, console: Console) -> None:
    from rich.markup import escape
    from rich.padding import Padding

    count = len(checkup.warnings)
    console.print(f"[bold]Findings[/bold]: {count or 'no'} {'warning' if count == 1 else 'warnings'}")
    for finding in sorted(checkup.findings, key=lambda finding: finding.level):
        style = "green" if finding.level == "ok" else "yellow"
        line = f"[{style}]{finding.level:7}[/{style}]  {escape(finding.title)}"
        if finding.level == "ok":
            console.print(f"  {line}: {escape(finding.detail)}", highlight=False)
            continue
        console.print(f"  {line}", highlight=False)
        for text in (finding.detail, finding.fix):
            console.print(Padding(escape(text), (0, 0, 0, 11)), highlight=False)
