"""Progress: which exercises a reader has passed, kept in a small file between sessions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from accel import storage
from accel.check.grades import WORDS, Grade
from accel.records import Record, RecordError

if TYPE_CHECKING:
    from accel.tables import Table

__all__ = ["Attempt", "Progress", "keep", "progress"]


@dataclass(frozen=True)
class Attempt(Record):
    """What became of one exercise so far."""

    exercise: str
    title: str
    attempts: int
    last_outcome: bool | None
    """Of the latest check: True, False, or None where it was inconclusive."""
    first_passed_at: str = ""
    """Local time, ISO 8601; empty where it has not been passed."""

    @property
    def passed(self) -> bool:
        """Whether it was ever passed."""
        return bool(self.first_passed_at)


@dataclass(frozen=True, repr=False)
class Progress(Record):
    """All exercises that were tried. What `accel.progress` returns; shows itself as a table."""

    attempts: tuple[Attempt, ...] = ()

    def __repr__(self) -> str:
        return repr(self._table()) if self.attempts else "No exercise was checked yet."

    def _repr_html_(self) -> str:
        return self._table()._repr_html_() if self.attempts else f"<p>{self!r}</p>"

    def _table(self) -> Table:
        from accel.tables import Column, Table

        done = sum(attempt.passed for attempt in self.attempts)
        return Table(
            f"{done} of {len(self.attempts)} exercises tried are passed",
            (
                Column("exercise", tuple(a.title for a in self.attempts), is_text=True),
                Column("checked", tuple(str(a.attempts) for a in self.attempts)),
                Column("last", tuple(WORDS[a.last_outcome] for a in self.attempts), is_text=True),
                Column("first passed", tuple(a.first_passed_at[:16].replace("T", " ") or "–" for a in self.attempts)),
            ),
        )


def path() -> Path:
    """Return where the progress is kept: beside the calibrations."""
    return storage.directory() / "progress.json"


def progress(*, reset: bool = False) -> Progress:
    """Return which exercises were checked and passed on this account.

    Parameters
    ----------
    reset : bool
        Forget all of it first.

    >>> import accel
    >>> accel.progress(reset=True)
    No exercise was checked yet.
    """
    if reset:
        path().unlink(missing_ok=True)
    return _load()


def _load() -> Progress:
    try:
        return Progress.from_json(path().read_bytes())
    except FileNotFoundError:
        return Progress()
    except (RecordError, OSError) as error:
        warnings.warn(f"The progress in {path()} cannot be read ({error}); it begins anew.", stacklevel=3)
        return Progress()


def keep(grade: Grade) -> None:
    """Add a grade to the file. Where that cannot be written, a warning says so and the grade stands."""
    try:
        path().parent.mkdir(parents=True, exist_ok=True)
        with storage.locked(path().with_suffix(".lock")):
            known = {attempt.exercise: attempt for attempt in _load().attempts}
            before = known.get(grade.exercise, Attempt(grade.exercise, grade.title, 0, None))
            known[grade.exercise] = replace(
                before,
                title=grade.title,
                attempts=before.attempts + 1,
                last_outcome=grade.passed,
                first_passed_at=before.first_passed_at or (grade.graded_at if grade.passed else ""),
            )
            storage.write_atomically(path(), Progress(tuple(known.values())).to_json().encode())
    except OSError as error:
        warnings.warn(f"Progress was not kept: {error}.", stacklevel=3)
