"""How fast are the kernels? One table: each beside its peers, the roof of this machine, and its targets.

    python benchmarks/kernels.py                  every family, some minutes
    python benchmarks/kernels.py --quick          fewer sizes, a fraction of the time for each
    python benchmarks/kernels.py --family gelu    one family; may be repeated
    python benchmarks/kernels.py --json FILE      the same figures, to read by a program

A form and its peers are called in turn within one run, with the same number of threads. Compiled forms compile afresh,
in a folder of this run, so that the time of that is seen; it is not part of any other.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

import accel
from accel import allocator, compilation, storage
from accel.comparison import measure_at_full_speed
from accel.machine import Machine
from accel.measurement import format_seconds, measure_memory, threads
from accel.tables import NOTHING, Column, Table
from accel.units import format_bytes

sys.path.insert(0, str(Path(__file__).parent))

from cases import Case
from peers import limit_threads, versions
from resident import of_case as resident_memory
from verdicts import FORM, Row, row_of

FAMILIES = Path(__file__).parent / "families"
SECONDS, QUICK_SECONDS = 1.2, 0.25
"""For each call that is measured."""
PATIENCE_SECONDS = 5.0
"""How long to wait for a machine that is slower than when it was calibrated."""

Show = Callable[[str], Any]


def families() -> list[str]:
    """Return the names of the modules in `families/`."""
    return sorted(path.stem for path in FAMILIES.glob("*.py") if path.stem != "__init__")


def run_family(name: str, machine: Machine, *, quick: bool, show: Show) -> Iterator[Row]:
    """Measure the cases of a family, one at a time: the arrays of one live only as long as it takes."""
    compiled_before = compilation.seconds()  # a family may call a form already while it makes the case
    for number, case in enumerate(importlib.import_module(f"families.{name}").cases(quick)):
        show(f"{case.form} {case.size}")
        yield run_case(case, number, machine, quick=quick, compiled_before=compiled_before)
        compiled_before = compilation.seconds()


def run_case(case: Case, number: int, machine: Machine, *, quick: bool, compiled_before: float) -> Row:
    """Measure a case: first call, error, memory, and then the time against its peers.

    Where torch's time is a target, so is its memory: both are then measured in a process of their own.
    """
    limit_threads(case.threads)
    with threads(case.threads):
        case.run()
        compiled = compilation.seconds() - compiled_before
        error = float(case.error())
        memory = measure_memory(case.run)
    against_torch = any(target.against.startswith("torch") for target in case.targets)
    resident = resident_memory(case.family, number, quick=quick) if against_torch else {}
    calls = {FORM: case.run, **case.peers}
    seconds, patience = (QUICK_SECONDS, 0.0) if quick else (SECONDS, PATIENCE_SECONDS)
    measured, speeds = measure_at_full_speed(calls, machine, case.threads, seconds, patience)
    return row_of(
        case,
        machine,
        measured,
        peak_bytes=memory.peak_bytes,
        resident_bytes=resident,
        error=error,
        compile_seconds=compiled,
        slowdown=max(speed.core for speed in speeds.values()),
    )


@contextmanager
def fresh_code(machine: Machine) -> Iterator[None]:
    """Keep machine code in an empty folder, so that what must be compiled is, and its time is seen.

    The calibration goes along: block sizes may depend on it.
    """
    calibration, before = storage.path_for(machine), os.environ.get("ACCEL_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        if calibration.exists():
            shutil.copy(calibration, folder)
        os.environ["ACCEL_CACHE_DIR"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["ACCEL_CACHE_DIR"]
            else:
                os.environ["ACCEL_CACHE_DIR"] = before


def table_of(rows: Sequence[Row], caption: str) -> Table:
    """Return the rows as a table."""
    misses = sum(row.missed for row in rows)
    return Table(
        caption,
        (
            Column("kernel", tuple(row.form for row in rows), is_text=True),
            Column("size", tuple(row.size for row in rows), is_text=True),
            Column("threads", tuple(str(row.threads) for row in rows)),
            Column("time", tuple(format_seconds(row.seconds) for row in rows)),
            Column("time over peer's", tuple(_ratios(row) for row in rows), is_text=True),
            Column("roof", tuple(f"{row.roof_fraction:.0%} {row.roof}" if row.roof else NOTHING for row in rows)),
            Column("memory", tuple(format_bytes(row.peak_bytes) for row in rows)),
            Column("resident", tuple(_resident(row) for row in rows), is_text=True),
            Column("error", tuple(f"{row.error:.1e}" if row.error else "0" for row in rows)),
            Column("compiled", tuple(_duration(row.compile_seconds) for row in rows)),
            Column("verdict", tuple(row.verdict or NOTHING for row in rows), is_text=True),
        ),
        f"{misses} of {len(rows)} rows miss a target" if misses else "",
    )


def _ratios(row: Row) -> str:
    return "  ".join(f"{ratio:.2f} {name}" for name, ratio in row.ratios.items()) or NOTHING


def _resident(row: Row) -> str:
    """Return the memory of one call, and that of torch's."""
    own, torch = (row.resident_bytes.get(name) for name in (FORM, "torch"))
    return NOTHING if own is None or torch is None else f"{format_bytes(own)}, torch {format_bytes(torch)}"


def _duration(seconds: float) -> str:
    return format_seconds(seconds) if seconds else NOTHING


def description(machine: Machine) -> str:
    """Return what the figures depend on, in two lines."""
    libraries = {"NumPy": np.__version__, "Numba": machine.numba_version or "missing", **versions()}
    blas = f"{machine.blas.name} {machine.blas.version}"
    return f"{machine}\n{', '.join(f'{name} {version}' for name, version in libraries.items())}, {blas}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line names, and print the table."""
    parser = argparse.ArgumentParser(description="Measure the kernels against their peers and the roof.")
    parser.add_argument("--quick", action="store_true", help="fewer sizes, less time for each")
    parser.add_argument("--family", action="append", choices=families(), help="only this one; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to a file")
    options = parser.parse_args(arguments)
    chosen = options.family or families()
    machine = accel.this_machine()
    allocator.settle()
    caption = description(machine)
    seconds = QUICK_SECONDS if options.quick else SECONDS
    print(f"families: {', '.join(chosen)}; {seconds:g} s or more for each form and peer", file=sys.stderr, flush=True)
    rows: list[Row] = []
    progress = Progress(*Progress.get_default_columns()[:2], TextColumn("{task.fields[case]}"), TimeElapsedColumn(),
                        console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())  # fmt: skip
    with fresh_code(machine), progress:
        task = progress.add_task("kernels", total=len(chosen), case="")
        for name in chosen:
            rows += run_family(name, machine, quick=options.quick, show=lambda text: progress.update(task, case=text))
            progress.advance(task)
    print(table_of(rows, caption))
    if options.json:
        document = {"machine": caption, "quick": options.quick, "rows": [row.to_dict() for row in rows]}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
