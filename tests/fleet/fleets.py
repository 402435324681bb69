"""Fleets for tests: the invented laptop of `machines` several times over."""

from __future__ import annotations

from dataclasses import replace

from machines import CALIBRATED

from accel.fleet.records import Fleet, FleetWorker, Link, Network

VERSIONS = {"python": "3.12.1", "numpy": "2.4.6", "numba": "0.68.1", "accel": "0.1.0"}
NETWORK = Network(
    (8, 1000, 1_000_000),
    (2e-4, 2.5e-4, 2e-3),
    2e-4,
    False,
    "2026-01-02T03:04:05+00:00",
    (Link("a", "b", (1e-4, 2e-4, 1e-3)), Link("b", "a", (3e-4, 3e-4, 3e-3))),
)


def worker(name, host="10.0.0.1", machine=CALIBRATED, **changes):
    return replace(
        FleetWorker(name, f"tcp://{host}:{4000 + ord(name[0])}", host, machine, 1, None, VERSIONS), **changes
    )


def fleet_of(*workers, network=NETWORK):
    return Fleet(workers, network, 2e-4, "2026-01-02T03:04:05+00:00")
