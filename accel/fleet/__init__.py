"""Fleet: the machines behind a Dask scheduler, measured, compared and put to work on measurements.

Needs the optional extra: ``pip install 'accel[fleet]'``. Fleets that were saved can be read without it.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "ChunkAdvice": "accel.fleet.chunks",
    "Failure": "accel.fleet.sweeping",
    "Fleet": "accel.fleet.records",
    "FleetFileError": "accel.fleet.records",
    "FleetLostError": "accel.fleet.cluster",
    "FleetPrediction": "accel.fleet.prediction",
    "FleetWorker": "accel.fleet.records",
    "Link": "accel.fleet.records",
    "LostWorker": "accel.fleet.losses",
    "Network": "accel.fleet.records",
    "Outlier": "accel.fleet.comparison",
    "Overhead": "accel.fleet.overhead",
    "Point": "accel.fleet.ledger",
    "Rescheduled": "accel.fleet.losses",
    "Schedule": "accel.fleet.simulation",
    "SweepFileError": "accel.fleet.ledger",
    "SweepReport": "accel.fleet.sweeping",
    "TaskGraph": "accel.fleet.graph",
    "Unmeasured": "accel.fleet.records",
    "advise_chunks": "accel.fleet.chunks",
    "calibrate": "accel.fleet.calibrating",
    "connected": "accel.fleet.cluster",
    "fingerprint": "accel.fleet.identity",
    "fleet_of": "accel.fleet.prediction",
    "fleet_table": "accel.fleet.tables",
    "local": "accel.fleet.cluster",
    "measure_network": "accel.fleet.network",
    "measure_overhead": "accel.fleet.overhead",
    "measure_scheduler": "accel.fleet.network",
    "network_table": "accel.fleet.tables",
    "outlier_table": "accel.fleet.tables",
    "persisting_seconds": "accel.fleet.overhead",
    "outliers": "accel.fleet.comparison",
    "predict": "accel.fleet.prediction",
    "seats": "accel.fleet.cluster",
    "simulate": "accel.fleet.simulation",
    "stored": "accel.fleet.graph",
    "sweep": "accel.fleet.sweeping",
    "task_graph": "accel.fleet.graph",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'accel.fleet' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
