"""Calibrating: measures the machine of every worker, the network between them and the scheduler."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from accel.fleet import workbench
from accel.fleet.cluster import FleetLostError, Seat, distributed, seats
from accel.fleet.network import measure_network, measure_scheduler
from accel.fleet.records import Fleet, FleetWorker, Network, Unmeasured
from accel.fleet.spread import Job, Spread
from accel.machine import Machine
from accel.probes import Plan

__all__ = ["calibrate"]


def calibrate(
    client: Any, *, quick: bool = True, plan: Plan | None = None, network: bool = True, progress: bool = True
) -> Fleet:
    """Measure the machine of every worker, the network between them, and what the scheduler takes for a task.

    On each host one worker is measured at a time, so that neighbours do not disturb each other; hosts are measured
    side by side. What earlier calibrations found is neither used nor changed: a host that is slow today shows.

    Parameters
    ----------
    client : distributed.Client
        Of the fleet, such as `accel.fleet.local` gives.
    quick : bool
        4 s for each worker instead of 20 s, and coarser.
    plan : accel.probes.Plan, optional
        What to measure on each machine, instead of what `quick` says.
    network : bool
        Measure transfers between workers too. There are none with one worker, or with workers in one process.

    Returns
    -------
    Fleet
        Workers that could not be measured are in `Fleet.unmeasured`, with the reason.

    Raises
    ------
    FleetLostError
        If the scheduler goes away, there is no worker, or none could be measured.

    Examples
    --------
    >>> from accel import fleet
    >>> with fleet.local(workers=2) as client:  # doctest: +SKIP
    ...     measured = fleet.calibrate(client)
    >>> print(measured)  # doctest: +SKIP
    """
    from tqdm.auto import tqdm

    distributed()
    there = {seat.address: seat for seat in seats(client)}
    if not there:
        raise FleetLostError("the scheduler has no workers; start some with `dask worker ADDRESS`")
    jobs = [
        Job(address, workbench.look_at_worker, (quick, plan), f"calibrating {address}", address) for address in there
    ]
    workers, unmeasured = [], []
    with tqdm(total=len(jobs) + 1 + network, desc="calibrating", disable=not progress, leave=False) as bar:
        for done in Spread(client, jobs, attempts=1, patience_seconds=10.0):
            seat = there[str(done.job.key)]
            if done.failure:
                unmeasured.append(Unmeasured(seat.name, seat.address, done.failure))
            else:
                workers.append(_worker(seat, done.value))
            bar.update()
        if not workers:
            raise FleetLostError("no worker could be measured: " + "; ".join(u.reason for u in unmeasured))
        order = list(there)
        workers.sort(key=lambda worker: order.index(worker.address))
        found = measure_network(client, quick=quick) if network and _can_move(workers) else None
        bar.update(network)
        overhead = measure_scheduler(client)
        bar.update()
    return _fleet(workers, unmeasured, found, overhead)


def _can_move(workers: list[FleetWorker]) -> bool:
    """Whether results travel between these workers: inside one process they only change hands."""
    return len(workers) > 1 and not any(worker.address.startswith("inproc") for worker in workers)


def _fleet(workers: list[FleetWorker], unmeasured: list[Unmeasured], network: Network | None, overhead: float) -> Fleet:
    taken_at = datetime.now().astimezone().isoformat(timespec="seconds")
    return Fleet(tuple(workers), network, overhead, taken_at, tuple(unmeasured))


def _worker(seat: Seat, seen: dict[str, Any]) -> FleetWorker:
    return FleetWorker(
        name=seat.name,
        address=seat.address,
        host=seat.host,
        machine=Machine.from_dict(seen["machine"]),
        threads=seat.threads,
        memory_limit_bytes=seat.memory_limit_bytes,
        versions=seen["versions"],
        cpu_share_fraction=seen["cpu_share_fraction"],
    )
