"""Resident memory: what one call of a form and of each peer needs at its peak, as the operating system sees it.

    python benchmarks/resident.py FAMILY NUMBER [--quick]     the case of that number, as JSON

NumPy, torch and oneDNN each get memory in their own way, and `tracemalloc` sees the first alone. All share
the process: Linux keeps the most of its memory that was ever resident, and forgets it when asked to. Each case is
measured in a process of its own whose allocator gives large blocks back at once, so that no call lives on what an
earlier one left. A result that is written to memory made before (``out=``) is added: who makes a new one has it in
the peak.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

__all__ = ["SLACK_BYTES", "of_case", "peak_bytes"]

SLACK_BYTES = 512 * 1024
"""Peaks of one call differ by so much from run to run: small blocks stay with the allocator, in whole pages."""
_FORGET_PEAK = Path("/proc/self/clear_refs")
_GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
_CALLS = 3


def of_case(family: str, number: int, *, quick: bool) -> dict[str, int]:
    """Return the peak bytes of a case's form and of its peers, by name; empty where the system does not tell them."""
    if not _FORGET_PEAK.exists():
        return {}
    command = [sys.executable, __file__, family, str(number), *(["--quick"] if quick else [])]
    done = subprocess.run(command, env=os.environ | _GIVE_BACK, capture_output=True, text=True, check=True)
    peaks: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return peaks


def peak_bytes(call: Callable[[], Any]) -> int:
    """Return the most that a call adds to the resident memory of this process, its result included; least of three."""
    first = call()
    written_to = getattr(first, "nbytes", 0) if call() is first else 0
    del first
    peaks = []
    for _ in range(_CALLS):
        _FORGET_PEAK.write_text("5")
        before = _status("VmRSS")
        call()
        peaks.append(_status("VmHWM") - before)
    return max(0, min(peaks)) + int(written_to)


def _status(name: str) -> int:
    """Return a number of bytes that the system keeps of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def main() -> None:
    """Measure the case that the command line names, and print its peaks."""
    parser = argparse.ArgumentParser(description="Measure the resident memory of a case of a family.")
    parser.add_argument("family")
    parser.add_argument("number", type=int)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if not _GIVE_BACK.items() <= os.environ.items():  # the allocator reads them when a process starts
        print(json.dumps(of_case(options.family, options.number, quick=options.quick)))
        return

    from peers import limit_threads
    from verdicts import FORM

    from accel.measurement import threads

    cases = importlib.import_module(f"families.{options.family}").cases(options.quick)
    case = next(islice(cases, options.number, None))
    limit_threads(case.threads)
    with threads(case.threads):
        print(json.dumps({name: peak_bytes(call) for name, call in {FORM: case.run, **case.peers}.items()}))


if __name__ == "__main__":
    main()
