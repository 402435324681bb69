"""Case: one kernel on one size, beside its peers, for the table that `make bench` prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from accel.cost import Cost


@dataclass(frozen=True)
class Target:
    """What performance.md or the issue asks of a case."""

    ratio: float
    """At most this share of the peer's time, or at least this share of the roof."""
    against: str
    """Name of a peer, or "roof"."""


@dataclass(frozen=True)
class Case:
    """A form of a kernel, ready to be called, and what it is compared to. Arrays are made before, warm and filled."""

    family: str
    form: str
    """As in the package: "gelu.fused"."""
    size: str
    """What the reader sees: "float32[10M]", "float32 1024 x 1024". It begins with the dtype, whose peak is the roof."""
    run: Callable[[], Any]
    """One call, with ``out=`` where the form takes one."""
    cost: Cost
    """Of one call."""
    error: Callable[[], float]
    """Largest absolute error of one call against the float64 reference (relative to the largest value for products)."""
    peers: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    """Calls that do the same on the same data, with as many threads; only those that are installed (`peers.peer`).

    Who measures sets the number of threads of BLAS, torch and numexpr before.
    """
    threads: int = 1
    targets: tuple[Target, ...] = ()
    working_set_bytes: int = 0
    """Bytes of the operands and the result: which memory roof the case is held against."""
    compulsory_bytes: int = 0
    """Bytes that any implementation must move: each input once, each output once."""
