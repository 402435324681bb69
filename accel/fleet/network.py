"""Network: how long Dask takes to move a result between two workers, and its scheduler for each task.

A task on one worker depends on a result that lies on another. Dask then fetches it, and keeps in the receiving worker
how long that took: from the request to the last byte received and put together. That is what is read here, so that the
scheduler's own time is not part of it.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from accel.fleet import workbench
from accel.fleet.cluster import FleetLostError, Seat, distributed, seats
from accel.fleet.records import Link, Network

__all__ = ["measure_network", "measure_scheduler"]

KIB, MIB = 2**10, 2**20
SIZES_BYTES = (8, 8 * KIB, 128 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
QUICK_SIZES_BYTES = SIZES_BYTES[:-1]
REPEATS = 7
FEWEST_REPEATS = 3
REPEATED_BYTES = 4 * MIB
"""Larger messages are sent `FEWEST_REPEATS` times only."""
MOST_LINKS = 32
TASKS = 500
TRANSFER_SECONDS = 60.0
MEMORY_SHARE = 10
"""A message is at most this part of a worker's memory limit."""


def measure_network(client: Any, *, quick: bool = True, sizes_bytes: Sequence[int] | None = None) -> Network:
    """Measure transfers around a ring of the workers, in both directions, one at a time.

    Where there are several hosts, only links between hosts count. Each time is the best of several.

    Parameters
    ----------
    quick : bool
        Messages up to 16 MB instead of 64 MB.
    sizes_bytes : sequence of int, optional
        Sizes of messages, ascending, instead of those.

    Raises
    ------
    ValueError
        If there are fewer than two workers, or they are in one process.
    FleetLostError
        If a worker or the scheduler goes away meanwhile.

    Examples
    --------
    >>> from accel import fleet
    >>> with fleet.local(workers=2) as client:  # doctest: +SKIP
    ...     network = fleet.measure_network(client)
    >>> network.latency_seconds, network.bandwidth_bytes_per_second  # doctest: +SKIP
    """
    distributed()
    there = seats(client)
    if len(there) < 2 or any(seat.address.startswith("inproc") for seat in there):
        raise ValueError(f"a network is between two processes or more; got {[seat.address for seat in there]}.")
    sizes = tuple(sizes_bytes or (QUICK_SIZES_BYTES if quick else SIZES_BYTES))
    limit = min((seat.memory_limit_bytes for seat in there if seat.memory_limit_bytes), default=None)
    if sizes_bytes is None and limit is not None:
        sizes = tuple(size for size in sizes if size <= limit // MEMORY_SHARE)
    links = tuple(_link(client, source, target, sizes) for source, target in _pairs(there))
    seconds = tuple(statistics.median(link.seconds[place] for link in links) for place in range(len(sizes)))
    return Network(
        sizes_bytes=sizes,
        seconds=seconds,
        latency_seconds=seconds[0],
        same_host=len({seat.host for seat in there}) == 1,
        taken_at=datetime.now().astimezone().isoformat(timespec="seconds"),
        links=links,
    )


def _pairs(there: Sequence[Seat]) -> list[tuple[Seat, Seat]]:
    """Return neighbours around a ring, both ways; between hosts only, where there are several."""
    hosts = dict.fromkeys(seat.host for seat in there)
    if len(hosts) > 1:  # the first worker of each host, then the second of each…: neighbours are on different hosts
        ranks = [[seat for seat in there if seat.host == host] for host in hosts]
        there = [seat for rank in itertools.zip_longest(*ranks) for seat in rank if seat is not None]
    ring = [(a, b) for a, b in itertools.pairwise([*there, there[0]]) if len(hosts) == 1 or a.host != b.host]
    both = [pair for a, b in ring for pair in ((a, b), (b, a))]
    return list(dict.fromkeys(both))[:MOST_LINKS]


def _link(client: Any, source: Seat, target: Seat, sizes: Sequence[int]) -> Link:
    best = []
    for size in sizes:
        repeats = REPEATS if size <= REPEATED_BYTES else FEWEST_REPEATS
        best.append(min(_transfer(client, source, target, size) for _ in range(repeats)))
    return Link(source.name, target.name, tuple(best))


def _transfer(client: Any, source: Seat, target: Seat, size: int) -> float:
    """Make a result on one worker, let a task on another depend on it, and return how long fetching it took."""
    made = client.submit(_message, size, workers=[source.address], pure=False)
    try:
        distributed().wait(made, timeout=TRANSFER_SECONDS)
        used = client.submit(workbench.nothing, made, workers=[target.address], pure=False)
        used.result(timeout=TRANSFER_SECONDS)
        logs = client.run(_transfers_of, str(made.key), workers=[target.address])
    except (OSError, TimeoutError, distributed().KilledWorker) as error:
        raise FleetLostError(f"no message came from {source.address} to {target.address} ({error!r})") from error
    return max(min(logs[target.address]), 1e-9)


def _message(size: int) -> Any:
    """Return an array of this many bytes that no compression makes smaller."""
    import numpy as np

    return np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)


def _transfers_of(key: str, dask_worker: Any) -> list[float]:
    """Return how long this worker took to fetch a result."""
    return [log["stop"] - log["start"] for log in dask_worker.transfer_incoming_log if key in map(str, log["keys"])]


def measure_scheduler(client: Any, *, tasks: int = TASKS, repeats: int = 3) -> float:
    """Return the seconds that each of many empty tasks takes, from sending them to knowing that they are done.

    It is what this scheduler, this client and all workers together reach, with no work and nothing to move.

    Examples
    --------
    >>> from accel import fleet
    >>> with fleet.local(workers=1) as client:  # doctest: +SKIP
    ...     fleet.measure_scheduler(client)
    """
    wait = distributed().wait

    def once() -> float:
        start = time.perf_counter()
        futures = client.map(workbench.nothing, range(tasks), pure=False)
        wait(futures, timeout=TRANSFER_SECONDS)
        return (time.perf_counter() - start) / tasks

    return min(once() for _ in range(repeats))
