"""Records of a fleet: its workers, the network between them, and what its scheduler takes for each task."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from accel import documents, storage
from accel.machine import Machine
from accel.records import Record, RecordError

if TYPE_CHECKING:
    from accel.tables import Table

__all__ = ["SCHEMA", "Fleet", "FleetFileError", "FleetWorker", "Link", "Network", "Unmeasured"]

SCHEMA = 1
"""Raised by one whenever a field of a saved fleet changes its meaning."""
_KIND = documents.Kind("fleet", SCHEMA)


class FleetFileError(ValueError):
    """Raised for a file that is not a whole, unaltered, plausible saved fleet; says why."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(
            f"{source} is not used, because {reason}; measure anew with `python -m accel fleet --output FILE`"
        )


@dataclass(frozen=True)
class FleetWorker(Record):
    """One worker process: where it runs, and what its machine was measured to do."""

    name: str
    address: str
    """As Dask writes it: ``"tcp://10.0.0.2:43211"``."""
    host: str
    """Workers with the same host share its processors, caches and memory."""
    machine: Machine
    threads: int
    """Tasks that the worker runs at once."""
    memory_limit_bytes: int | None
    """Above which Dask's nanny kills the worker; None where there is no limit."""
    versions: dict[str, str]
    """Of ``"python"``, ``"numpy"``, ``"numba"``, ``"accel"``…; ``"missing"`` where there is none."""
    cpu_share_fraction: float = 1.0
    """How much of one CPU a busy thread got: below 1 where a quota, a neighbour or the host stops it in between. The
    roofs do not show that, since they are the best of many short samples."""


@dataclass(frozen=True)
class Unmeasured(Record):
    """A worker that could not be calibrated."""

    name: str
    address: str
    reason: str


@dataclass(frozen=True)
class Link(Record):
    """One direction between two workers: the best time of a transfer, by size of the message."""

    source: str
    """Name of the worker that holds the data."""
    target: str
    seconds: tuple[float, ...]
    """For each of `Network.sizes_bytes`."""


@dataclass(frozen=True)
class Network(Record):
    """What it takes to move a result from one worker to another through Dask, beyond what a task takes without it.

    The time of the smallest message is the latency; of larger ones, latency and transfer with (de)serialization.
    """

    sizes_bytes: tuple[int, ...]
    seconds: tuple[float, ...]
    """Median over the links of their best times, one for each size."""
    latency_seconds: float
    same_host: bool
    """Whether all workers share one host: then this is the loopback device, and no network at all."""
    taken_at: str
    """Local time, ISO 8601 with the UTC offset."""
    links: tuple[Link, ...] = ()

    def transfer_seconds(self, size_bytes: float) -> float:
        """Return the time to move one message: between measured sizes interpolated, beyond at the largest's rate.

        >>> from accel.fleet import Network
        >>> network = Network((8, 1000, 2000), (1e-3, 2e-3, 3e-3), 1e-3, True, "2026-01-02T03:04:05+00:00")
        >>> network.transfer_seconds(1500), network.transfer_seconds(5000)
        (0.0025, 0.0075)
        """
        if size_bytes <= self.sizes_bytes[-1]:
            if size_bytes <= self.sizes_bytes[0]:
                return self.seconds[0]
            pairs = itertools.pairwise(zip(self.sizes_bytes, self.seconds, strict=True))
            (x0, y0), (x1, y1) = next(pair for pair in pairs if size_bytes <= pair[1][0])
            return y0 + (y1 - y0) * (size_bytes - x0) / (x1 - x0)
        rest = (size_bytes - self.sizes_bytes[-1]) / self.bandwidth_bytes_per_second
        return self.seconds[-1] + rest

    @property
    def bandwidth_bytes_per_second(self) -> float:
        """The network roof: the most that messages of any measured size reach, latency included."""
        return max(self.bandwidths_bytes_per_second())

    def bandwidths_bytes_per_second(self) -> tuple[float, ...]:
        """Return what messages of each measured size reach, latency included."""
        return tuple(size / seconds for size, seconds in zip(self.sizes_bytes, self.seconds, strict=True))


@dataclass(frozen=True)
class Fleet(Record):
    """The workers of a scheduler, as measured: machines, network, and scheduling overhead."""

    workers: tuple[FleetWorker, ...]
    network: Network | None
    """None where there is only one worker."""
    scheduler_seconds_per_task: float
    """What an empty task takes in a long queue of them: a floor under the time of a graph of many tasks."""
    taken_at: str
    """Local time, ISO 8601 with the UTC offset."""
    unmeasured: tuple[Unmeasured, ...] = ()
    schema: int = SCHEMA

    def __str__(self) -> str:
        """Compare the machines in a table, and name the outliers."""
        from accel.fleet.tables import outlier_lines

        return "\n".join([repr(self.table()), *outlier_lines(self)])

    def _repr_html_(self) -> str:
        from accel.fleet.tables import outlier_table

        return self.table()._repr_html_() + outlier_table(self)._repr_html_()

    def table(self) -> Table:
        """Return the machines side by side, a row for each worker."""
        from accel.fleet.tables import fleet_table

        return fleet_table(self)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts, each once, in the order of the workers."""
        return tuple(dict.fromkeys(worker.host for worker in self.workers))

    def worker(self, name: str) -> FleetWorker:
        """Return the worker of this name; raise KeyError where there is none."""
        for worker in self.workers:
            if worker.name == name:
                return worker
        raise KeyError(f"no worker is named {name!r}; there are {[worker.name for worker in self.workers]}")

    def save(self, path: str | Path) -> Path:
        """Write the fleet to a file, with a digest; what was there is replaced by the whole or not at all.

        Raises
        ------
        ValueError
            If the fleet is not plausible.
        OSError
            If the file cannot be written, or something is there that is not a regular file.
        """
        if reason := _implausible(self):
            raise ValueError(f"this fleet cannot be saved, because {reason}; calibrate it again")
        storage.write_atomically(Path(path), documents.render(_KIND, self))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Fleet:
        """Return the fleet saved in a file.

        Raises
        ------
        FleetFileError
            If the file is cut short, altered, of another schema, not plausible, or not a saved fleet at all.
        OSError
            If the file cannot be read.
        """
        try:
            fleet = cls.from_json(documents.payload(_KIND, documents.content_of(path)))
        except (documents.DocumentError, RecordError) as error:
            raise FleetFileError(str(path), str(error)) from error
        if reason := _implausible(fleet):
            raise FleetFileError(str(path), reason)
        return fleet


def _implausible(fleet: Fleet) -> str:
    """Say what no real fleet could be; empty where nothing is found."""
    names = [worker.name for worker in fleet.workers]
    if not names or len(set(names)) != len(names):
        return f"a fleet has workers, each with a name of its own, and these are {names}"
    if not _positive(fleet.scheduler_seconds_per_task):
        return "the scheduler's time per task must be positive and finite"
    for worker in fleet.workers:
        if not _positive(worker.cpu_share_fraction):
            return f"the share of a CPU that {worker.name!r} got must be positive and finite"
        if reason := storage.implausible(worker.machine) or _unmeasured(worker.machine):
            return f"of {worker.name!r}, {reason}"
    return _implausible_network(fleet.network) if fleet.network else ""


def _unmeasured(machine: Machine) -> str:
    return "" if machine.is_calibrated else "the machine was not measured"


def _implausible_network(network: Network) -> str:
    curves = [network.seconds, *(link.seconds for link in network.links)]
    if any(len(curve) != len(network.sizes_bytes) for curve in curves) or len(network.sizes_bytes) < 2:
        return "a network is measured at two sizes or more, and each has one time"
    if any(a >= b for a, b in itertools.pairwise(network.sizes_bytes)) or network.sizes_bytes[0] < 1:
        return f"the sizes of messages must grow, and they are {network.sizes_bytes} bytes"
    if not _positive(network.latency_seconds, *itertools.chain(*curves)):
        return "the times of transfers must be positive and finite"
    return ""


def _positive(*values: float) -> bool:
    return all(math.isfinite(value) and value > 0 for value in values)
