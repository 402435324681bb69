"""Losses: workers that went away during a run, and why, as far as Dask knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel.fleet.cluster import Seat, asking
from accel.records import Record
from accel.units import format_bytes

__all__ = ["LostWorker", "Rescheduled", "why_lost"]


@dataclass(frozen=True)
class LostWorker(Record):
    """A worker that the scheduler no longer has."""

    name: str
    address: str
    host: str
    reason: str


@dataclass(frozen=True)
class Rescheduled(Record):
    """A job that was sent to another worker, because the one it was on was lost."""

    job: str
    worker: str
    """The name of the one that was lost."""
    reason: str


def why_lost(client: Any, seat: Seat) -> str:
    """Return why a worker is gone: its nanny tells the scheduler before it kills a worker for its memory."""
    with asking(client):
        events = client.get_events("worker-restart-memory") or ()
    for _, event in events:
        if event["worker"] == seat.address:
            limit = f", limit {format_bytes(seat.memory_limit_bytes)}" if seat.memory_limit_bytes else ""
            return f"out of memory: it used {format_bytes(event['rss'])}{limit}"
    return "its process ended, or its connection did"
