"""Ledger: the file in which a sweep keeps each point as soon as it is measured, so that a later run can go on.

JSON lines. The first says what is measured and how; each further one is a point with a digest of its text. A last line
that was cut short, as by a crash, is dropped; any other damage is refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from accel import documents, storage
from accel.measurement import Measurement
from accel.records import Record, RecordError

__all__ = ["Ledger", "Point", "SweepFileError"]

SCHEMA = 1
_FORMAT = "accel sweep"


class SweepFileError(ValueError):
    """Raised for a file that is no sweep, is damaged, or is of a sweep that measured something else."""


@dataclass(frozen=True)
class Point(Record):
    """One function at one size, measured."""

    name: str
    size: int
    worker: str
    host: str
    attempts: int
    """1 unless workers were lost on the way."""
    measured: Measurement

    @property
    def seconds(self) -> float:
        """The best sample."""
        return self.measured.best_seconds


@dataclass(frozen=True)
class _Head(Record):
    format: str
    schema: int
    functions: dict[str, str]
    """Name to fingerprint of the function and its arrays."""
    threads: int
    seconds: float


@dataclass(frozen=True)
class _Line(Record):
    sha256: str
    point: Point


class Ledger:
    """The points of a sweep in a file; without a path they are kept nowhere.

    Parameters
    ----------
    path : Path or None
        Made where it is not there.
    functions : dict of str to str
        Fingerprints. More functions than the file knows are added to it; another fingerprint is refused.
    threads, seconds
        How points are measured: other values than those of the file are refused.

    Raises
    ------
    SweepFileError
        As its docstring says, with the name of what differs.
    OSError
        If the file cannot be read or written.
    """

    def __init__(self, path: Path | None, functions: Mapping[str, str], *, threads: int, seconds: float) -> None:
        self.path = path
        self.points: dict[tuple[str, int], Point] = {}
        if path is None:
            return
        head = _Head(_FORMAT, SCHEMA, dict(functions), threads, seconds)
        if storage.writable_path(path).exists():
            head = self._read(path, head)
        lines = [_compact(head), *(_line(point) for point in self.points.values())]
        storage.write_atomically(path, b"".join(lines))

    def add(self, point: Point) -> None:
        """Keep a point: when this returns, it is on the disk."""
        self.points[point.name, point.size] = point
        if self.path is None:
            return
        with open(self.path, "ab") as file:
            file.write(_line(point))
            file.flush()
            os.fsync(file.fileno())

    def _read(self, path: Path, now: _Head) -> _Head:
        """Take over the points of an earlier run; return the head of both runs together."""
        head, *lines = path.read_bytes().split(b"\n")[:-1] or [b""]  # what follows the last line break was cut short
        try:
            then = _Head.from_json(head)
        except RecordError as error:
            raise SweepFileError(f"{path} is not a sweep ({error}); name another file") from error
        if (then.format, then.schema) != (_FORMAT, SCHEMA):
            raise SweepFileError(f"{path} holds {then.format!r}, schema {then.schema}; name another file")
        _check_same(path, then, now)
        for number, line in enumerate(lines, start=2):
            point = _parsed(path, number, line)
            self.points.setdefault((point.name, point.size), point)
        return _Head(_FORMAT, SCHEMA, then.functions | now.functions, now.threads, now.seconds)


def _check_same(path: Path, then: _Head, now: _Head) -> None:
    changed = [name for name in now.functions if then.functions.get(name, now.functions[name]) != now.functions[name]]
    if changed:
        raise SweepFileError(
            f"{', '.join(map(repr, changed))} changed since {path} was written, or Python did: what was measured then "
            "is not what would be measured now. Name another file, or delete that one."
        )
    for what in ("threads", "seconds"):
        if getattr(then, what) != getattr(now, what):
            raise SweepFileError(
                f"{path} was measured with {what}={getattr(then, what)}, not {what}={getattr(now, what)}. "
                "Pass the same again, or name another file."
            )


def _compact(record: Record) -> bytes:
    import msgspec

    return msgspec.json.encode(record) + b"\n"


def _line(point: Point) -> bytes:
    return _compact(_Line(documents.digest(point.to_json().encode()), point))


def _parsed(path: Path, number: int, line: bytes) -> Point:
    try:
        read = _Line.from_json(line)
    except RecordError as error:
        raise SweepFileError(f"line {number} of {path} is damaged ({error}); delete that line") from error
    if read.sha256 != documents.digest(read.point.to_json().encode()):
        raise SweepFileError(f"line {number} of {path} does not match its digest; delete that line")
    return read.point
