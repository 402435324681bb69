"""Advice: what to change in a function, with the gain that the model predicts for it."""

from __future__ import annotations

from dataclasses import dataclass

from accel.records import Record

__all__ = ["Advice"]


@dataclass(frozen=True)
class Advice(Record):
    """One rewrite."""

    rule: str
    where: str
    """The call that it concerns, as `Op.call` writes it."""
    change: str
    """What to write instead, in one line."""
    predicted_gain: float
    """Seconds before over seconds after, of the whole function."""
    predicted_seconds: float
    """Of the whole function after the change."""
    note: str = ""
