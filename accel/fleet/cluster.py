"""Cluster: the workers behind a Dask client, and a cluster on this computer for those who have no other."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from accel.records import Record

__all__ = ["FleetLostError", "Seat", "asking", "connected", "distributed", "local", "seats"]

INSTALL = "accel.fleet needs Dask, which is not installed. Install it: pip install 'accel[fleet]'"
MOST_LOCAL_WORKERS = 4


class FleetLostError(ConnectionError):
    """Raised where the scheduler went away, or all workers did and none came back; says what was kept."""


def distributed() -> ModuleType:
    """Return the module `distributed`; where it is missing, the error says how to install it.

    Raises
    ------
    ModuleNotFoundError
        If Dask or its scheduler is not installed.
    """
    try:
        return importlib.import_module("distributed")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"dask", "distributed"}:
            raise
        raise ModuleNotFoundError(INSTALL, name=error.name) from None


@dataclass(frozen=True)
class Seat(Record):
    """One worker, as its scheduler knows it at the moment."""

    name: str
    address: str
    host: str
    threads: int
    memory_limit_bytes: int | None
    accepts_tasks: bool
    """False while it is paused for want of memory, or retires."""


def seats(client: Any) -> tuple[Seat, ...]:
    """Return the workers that are there now, in the order of their names.

    Raises
    ------
    FleetLostError
        If the scheduler does not answer.
    """
    with asking(client):
        # Not client.scheduler_info(): the copy that it returns is overwritten every 2 s by one without workers.
        known = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    found = [_seat(address, about) for address, about in known.items()]
    return tuple(sorted(found, key=lambda seat: (len(seat.name), seat.name)))  # "10" after "9"


def check_scheduler(client: Any) -> None:
    """Raise `FleetLostError` where the client is no longer connected."""
    if client.status != "running":
        raise FleetLostError(f"the scheduler went away (the client is {client.status})")


@contextmanager
def asking(client: Any) -> Iterator[None]:
    """Run the body, which asks the scheduler for something; raise `FleetLostError` where it goes away meanwhile."""
    check_scheduler(client)
    try:
        yield
    except (OSError, TimeoutError) as error:
        raise FleetLostError(f"the scheduler went away ({error})") from error
    except Exception:
        check_scheduler(client)  # a client that closes on the way raises whatever was in progress
        raise


def _seat(address: str, about: dict[str, Any]) -> Seat:
    return Seat(
        name=str(about["name"]),
        address=address,
        host=str(about["host"]),
        threads=int(about["nthreads"]),
        memory_limit_bytes=int(about["memory_limit"]) or None,
        accepts_tasks=about.get("status", "running") == "running",
    )


@contextmanager
def local(workers: int | None = None, *, threads: int = 1, memory_limit_bytes: int | None = None) -> Iterator[Any]:
    """Run a cluster on this computer, reachable from nowhere else, and give its client.

    Parameters
    ----------
    workers : int, optional
        Processes; by default one for each usable CPU, at most four.
    threads : int
        Tasks that each runs at once.
    memory_limit_bytes : int, optional
        Above which a worker is killed and started again; by default its share of the memory.

    Examples
    --------
    >>> from accel import fleet
    >>> with fleet.local(workers=1) as client:  # doctest: +SKIP
    ...     client.submit(sum, [1, 2]).result()
    3
    """
    from accel import hardware

    dask = distributed()
    usable = hardware.detect().usable_cpus
    with (
        tempfile.TemporaryDirectory(prefix="accel-fleet-", ignore_cleanup_errors=True) as folder,
        dask.LocalCluster(
            n_workers=workers or min(usable, MOST_LOCAL_WORKERS),
            threads_per_worker=threads,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=memory_limit_bytes or "auto",
            local_directory=folder,
        ) as cluster,
        dask.Client(cluster) as client,
    ):
        yield client


@contextmanager
def connected(scheduler: str | None) -> Iterator[Any]:
    """Give a client of the scheduler at an address, or of a cluster on this computer where there is no address.

    Raises
    ------
    FleetLostError
        If nothing answers at the address.
    """
    if scheduler is None:
        with local() as client:
            yield client
        return
    dask = distributed()
    try:
        client = dask.Client(scheduler, timeout="10s")
    except (OSError, TimeoutError, ValueError) as error:
        raise FleetLostError(f"no scheduler answers at {scheduler!r} ({error})") from error
    with client:
        yield client
