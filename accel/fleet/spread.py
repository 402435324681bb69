"""Spread: runs jobs on the workers of a fleet, one at a time on each host, whatever becomes of the workers.

Dask would run a task again by itself, but not say so, and not keep two measurements from running beside each other on
one host. So each job is sent to one worker by name, and sent to another where that one is lost.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from accel.fleet.cluster import FleetLostError, Seat, asking, check_scheduler, distributed, seats
from accel.fleet.losses import LostWorker, Rescheduled, why_lost

__all__ = ["Done", "Job", "Spread"]

LOOK_SECONDS = 0.5
"""How often the scheduler is asked which workers there are."""
RESULT_SECONDS = 30.0
"""A small result that takes longer was lost with its worker."""


@dataclass(frozen=True)
class Job:
    """One call to make on some worker."""

    key: Hashable
    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    label: str
    """What it is called in a report."""
    address: str | None = None
    """The only worker that will do; where it is lost, so is the job."""


@dataclass(frozen=True)
class Done:
    """What became of a job: a value, or the reason why there is none."""

    job: Job
    value: Any
    failure: str
    """Empty where there is a value."""
    seats: tuple[Seat, ...]
    """Where it ran, the last one last."""


@dataclass
class _Running:
    job: Job
    seat: Seat
    future: Any


@dataclass
class Spread:
    """Jobs on their way; iterate to run them, in the order in which they end."""

    client: Any
    jobs: Sequence[Job]
    attempts: int
    """Workers that a job may cost before it is given up."""
    patience_seconds: float
    """How long to wait while there is no worker at all."""
    lost: list[LostWorker] = field(default_factory=list)
    rescheduled: list[Rescheduled] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._waiting = deque(self.jobs)
        self._running: dict[str, _Running] = {}
        self._tried: dict[Hashable, list[Seat]] = {job.key: [] for job in self.jobs}
        self._losses: Counter[Hashable] = Counter()
        self._used: Counter[str] = Counter()
        self._seats: dict[str, Seat] = {}
        self._looked = self._seen = float("-inf")
        self._news = threading.Event()

    def __iter__(self) -> Iterator[Done]:
        self._seen = time.monotonic()
        try:
            while self._waiting or self._running:
                yield from self._look()
                yield from self._hand_out()
                self._news.wait(LOOK_SECONDS / 5)
                self._news.clear()
                yield from self._collect()
        finally:
            for running in self._running.values():
                _let_go(running.future)

    # ------------------------------------------------------------------------------------------------ who is there

    def _look(self) -> Iterator[Done]:
        """See which workers there are, and take back the jobs of those that are gone."""
        check_scheduler(self.client)
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        present = {seat.address: seat for seat in seats(self.client)}
        for address in self._seats.keys() - present.keys():
            yield from self._lose(self._seats[address])
        self._seats = present
        if present:
            self._seen = now
        elif now - self._seen > self.patience_seconds:
            raise FleetLostError(f"no worker is left, and none came back within {self.patience_seconds:g} s")

    def _lose(self, seat: Seat) -> Iterator[Done]:
        reason = why_lost(self.client, seat)
        self.lost.append(LostWorker(seat.name, seat.address, seat.host, reason))
        running = self._running.get(seat.host)
        if running is not None and running.seat.address == seat.address:
            del self._running[seat.host]
            _let_go(running.future)
            yield from self._again(running, reason)

    def _again(self, running: _Running, reason: str) -> Iterator[Done]:
        """Put a job back in the queue, behind the others, unless it cost too many workers."""
        job = running.job
        self._losses[job.key] += 1
        count = self._losses[job.key]
        if job.address is not None:
            yield self._failed(job, f"its worker was lost: {reason}")
        elif count >= self.attempts:
            yield self._failed(job, f"{reason}, {count} time{'s' * (count > 1)}")
        else:
            self.rescheduled.append(Rescheduled(job.label, running.seat.name, reason))
            self._waiting.append(job)

    # --------------------------------------------------------------------------------------------------- the jobs

    def _hand_out(self) -> Iterator[Done]:
        """Give each idle host a job that may run there."""
        free = [seat for seat in self._seats.values() if seat.accepts_tasks and seat.host not in self._running]
        for job in list(self._waiting):
            if job.address is not None and self._seats and job.address not in self._seats:
                self._waiting.remove(job)
                yield self._failed(job, "its worker was lost before its turn")
                continue
            fitting = [seat for seat in free if job.address in (None, seat.address)]
            if not fitting:
                continue
            tried = {seat.address for seat in self._tried[job.key]}
            seat = min(fitting, key=lambda seat: (seat.address in tried, self._used[seat.address]))
            self._waiting.remove(job)
            self._send(job, seat)
            free = [other for other in free if other.host != seat.host]

    def _send(self, job: Job, seat: Seat) -> None:
        with asking(self.client):
            future = self.client.submit(
                job.call, *job.arguments, workers=[seat.address], allow_other_workers=False, pure=False
            )
        future.add_done_callback(lambda _future: self._news.set())
        self._tried[job.key].append(seat)
        self._used[seat.address] += 1
        self._running[seat.host] = _Running(job, seat, future)

    def _collect(self) -> Iterator[Done]:
        """Take the results that are there."""
        for host, running in list(self._running.items()):
            if running.future.status == "pending":
                continue
            check_scheduler(self.client)
            del self._running[host]
            yield from self._ended(running)

    def _ended(self, running: _Running) -> Iterator[Done]:
        try:
            value = running.future.result(timeout=RESULT_SECONDS)
        except Exception as error:  # the caller's function may raise anything; the other points go on
            check_scheduler(self.client)
            if running.future.status != "error" or isinstance(error, distributed().KilledWorker):
                yield from self._again(running, why_lost(self.client, running.seat))
            elif isinstance(error, MemoryError):
                yield self._failed(running.job, f"out of memory: {error or 'Python could not allocate'}")
            else:
                yield self._failed(running.job, f"{type(error).__name__}: {error}")
        else:
            yield Done(running.job, value, "", tuple(self._tried[running.job.key]))
        finally:
            _let_go(running.future)

    def _failed(self, job: Job, reason: str) -> Done:
        return Done(job, None, reason, tuple(self._tried[job.key]))


def _let_go(future: Any) -> None:
    """Take a task back, also where the client is closed by now."""
    if future.client is not None and future.client.status == "running":
        future.cancel() if future.status == "pending" else future.release()
