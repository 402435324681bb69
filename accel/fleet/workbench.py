"""Workbench: what runs on a worker to measure it; nothing here needs Dask, so that any worker can load it."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from typing import Any

from accel.probes import Plan

__all__ = ["cpu_share", "look_at_worker", "nothing", "versions"]

SHARE_SECONDS = 0.4
"""Longer than the period of a quota, which is 0.1 s as a rule."""
LIBRARIES = ("numpy", "numba", "dask", "distributed")


def look_at_worker(quick: bool, plan: Plan | None) -> dict[str, Any]:
    """Calibrate the machine that this runs on, from nothing, and say which libraries it has."""
    from accel.calibration import calibrate

    share = cpu_share()
    machine = calibrate(quick=quick, plan=plan, progress=False, save=False, fresh=True)
    return {"machine": machine.to_dict(), "versions": versions(), "cpu_share_fraction": (share + cpu_share()) / 2}


def versions() -> dict[str, str]:
    """Return the versions that decide whether two workers compute the same in the same time."""
    from accel import __version__

    found = {"python": platform.python_version(), "accel": __version__}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def cpu_share(seconds: float = SHARE_SECONDS) -> float:
    """Return how much of one CPU this thread gets while it is busy: its CPU time over the time that passed.

    >>> from accel.fleet.workbench import cpu_share
    >>> 0 < cpu_share(0.01) <= 1.1
    True
    """
    start, cpu_start = time.perf_counter(), time.thread_time()
    while (passed := time.perf_counter() - start) < seconds:
        for _ in range(1000):
            pass
    return max(time.thread_time() - cpu_start, 1e-9) / passed


def nothing(*_: Any) -> None:
    """Do nothing: what a task takes beyond its work."""
