"""Numbers: what a chart was drawn from, with the machine it was measured on; as JSON that accel loads, and as CSV."""

from __future__ import annotations

import base64
import csv
import html
import importlib
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accel.machine import Bandwidth, Cache
from accel.records import Record, RecordError, encodable
from accel.roofline import Position

__all__ = ["BandwidthCurves", "Cell", "Numbers", "Roofs", "load_numbers"]

Cell = float | int | str | None
FORMAT, SCHEMA = "accel numbers", 1
KINDS = {
    "AccessCurve": "accel.access",
    "BandwidthCurves": "accel.numbers",
    "Comparison": "accel.comparison",
    "Explanation": "accel.explanation",
    "Line": "accel.plot.lines",
    "MissMap": "accel.cache.maps",
    "Roofs": "accel.numbers",
}
"""The results that charts are drawn from, and where each is defined. Nothing else is read from a file."""
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""JSON has no such numbers: a file holds ``{"float": "NaN"}``."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes text that begins like this for a formula, and would run it."""
LINK = "data:{kind};accel=numbers;base64,{data}"
"""How the numbers travel in a notebook. The built site moves them to files beside the page."""


@dataclass(frozen=True)
class Roofs(Record):
    """What a roofline chart shows: the roofs, and the kernels under them."""

    peaks_flops_per_second: dict[str, float]
    bandwidths_bytes_per_second: dict[str, float]
    positions: tuple[Position, ...]


@dataclass(frozen=True)
class BandwidthCurves(Record):
    """The bandwidth curves of a machine that a chart shows, and the caches it marks."""

    caches: tuple[Cache, ...]
    curves: tuple[Bandwidth, ...]


@dataclass(frozen=True)
class Numbers:
    """The results behind a chart, and the same as a flat table.

    >>> from accel.numbers import Numbers, Roofs
    >>> roofs = Roofs({"float32 peak": 1e11}, {"L1": 2e11}, ())
    >>> numbers = Numbers("Two roofs", "a machine", 1, "2026-01-02T03:04:05+01:00", (roofs,), {"roof": ("L1",)})
    >>> Numbers.from_json(numbers.to_json()) == numbers
    True
    >>> print(numbers.to_csv(), end="")
    roof,machine,threads,taken_at
    L1,a machine,1,2026-01-02T03:04:05+01:00
    """

    title: str
    """The finding that the chart states."""
    machine: str
    """One line that names what was measured on."""
    threads: int
    taken_at: str
    """When it was measured: local time, ISO 8601 with the UTC offset."""
    results: tuple[Record, ...]
    """All of one type: `Comparison`, `AccessCurve`, `Explanation`, `Line`, `MissMap`, `BandwidthCurves` or `Roofs`."""
    table: Mapping[str, Sequence[Cell]] = field(repr=False)
    """Columns of equal length by name, with the unit in the name; None where there is no finite number."""

    def __post_init__(self) -> None:
        kinds = {type(result).__name__ for result in self.results}
        if len(kinds) != 1 or not kinds <= set(KINDS):
            raise ValueError(f"numbers hold results of one type among {', '.join(KINDS)}; got {sorted(kinds)}.")
        lengths = {name: len(cells) for name, cells in self.table.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the columns of a table have equal lengths; got {lengths}.")
        finite = {name: tuple(map(_finite, cells)) for name, cells in self.table.items()}
        object.__setattr__(self, "table", finite)

    @property
    def kind(self) -> str:
        """The type of the results."""
        return type(self.results[0]).__name__

    def to_json(self) -> str:
        """Return the numbers as one JSON document, in ASCII."""
        import msgspec

        document = {
            "format": FORMAT,
            "schema": SCHEMA,
            "title": self.title,
            "machine": self.machine,
            "threads": self.threads,
            "taken_at": self.taken_at,
            "kind": self.kind,
            "table": self.table,
            "results": [_marked(msgspec.to_builtins(result, enc_hook=_plain)) for result in self.results],
        }
        return json.dumps(document, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Numbers:
        """Build the numbers from JSON text; raise `RecordError` where that is impossible."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RecordError(f"these are not saved numbers: they are no JSON ({error})") from error
        _check(document)
        kind = document["kind"]
        result = getattr(importlib.import_module(KINDS[kind]), kind)
        results = tuple(result.from_dict(_unmarked(data)) for data in document["results"])
        title, machine, threads, taken_at = (document[name] for name in ("title", "machine", "threads", "taken_at"))
        try:
            return cls(title, machine, threads, taken_at, results, document["table"])
        except ValueError as error:
            raise RecordError(f"these are not saved numbers: {error}") from error

    def to_csv(self) -> str:
        """Return the table as CSV, with machine, threads and time in each row.

        Text that a spreadsheet would run as a formula gets an apostrophe before it.
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        origin = (self.machine, self.threads, self.taken_at)
        writer.writerow([_harmless(name) for name in (*self.table, "machine", "threads", "taken_at")])
        writer.writerows(
            [_harmless(cell) for cell in (*row, *origin)] for row in zip(*self.table.values(), strict=True)
        )
        return text.getvalue()

    def save(self, path: str | Path) -> Path:
        """Write ``.json`` or ``.csv``, whole or not at all; return the path."""
        from accel.storage import write_atomically

        path = Path(path)
        if path.suffix not in (".json", ".csv"):
            raise ValueError(f"numbers are saved as .json or .csv; got {path.name!r}.")
        write_atomically(path, (self.to_json() if path.suffix == ".json" else self.to_csv()).encode())
        return path

    def links_html(self) -> str:
        """Return the line that stands below a chart in a page: the numbers, to be kept as JSON and as CSV."""
        texts = {"JSON": ("application/json", self.to_json()), "CSV": ("text/csv", self.to_csv())}
        links = (_link(name, kind, text, self.title) for name, (kind, text) in texts.items())
        return (
            '<p class="accel-numbers" style="margin:.2em 0;font-size:13px;line-height:1.4">The numbers: '
            f"{' · '.join(links)}</p>"
        )


def load_numbers(path: str | Path) -> Numbers:
    """Return the numbers of a chart from a JSON file, as pages of the book and notebooks offer them for download.

    Raises
    ------
    accel.records.RecordError
        If the file holds something else, or a result lacks a field or has one of the wrong type.

    Examples
    --------
    >>> import tempfile, pathlib, accel
    >>> from accel.numbers import Numbers, Roofs
    >>> roofs = Roofs({"float32 peak": 1e11}, {"L1": 2e11}, ())
    >>> numbers = Numbers("Two roofs", "a machine", 1, "2026-01-02T03:04:05+01:00", (roofs,), {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     accel.load_numbers(numbers.save(pathlib.Path(folder, "roofs.json"))).results[0].peaks_flops_per_second
    {'float32 peak': 100000000000.0}
    """
    return Numbers.from_json(Path(path).read_bytes())


def _check(document: Any) -> None:
    """Say what keeps a document from being saved numbers."""
    expected: dict[str, Any] = {
        "title": str, "machine": str, "threads": int, "taken_at": str, "kind": str, "table": dict, "results": list,
    }  # fmt: skip
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise RecordError(f"these are not saved numbers: they do not say {FORMAT!r} in 'format'.")
    if document.get("schema") != SCHEMA:
        raise RecordError(f"these numbers have schema {document.get('schema')!r}; this accel reads schema {SCHEMA}.")
    for name, kind in expected.items():
        if not isinstance(document.get(name), kind) or isinstance(document[name], bool):
            raise RecordError(f"these are not saved numbers: {name!r} must be {kind.__name__}.")
    if document["kind"] not in KINDS:
        raise RecordError(f"numbers of kind {document['kind']!r} are not known; there are {', '.join(KINDS)}.")
    for name, cells in document["table"].items():
        if not isinstance(cells, list) or not all(cell is None or type(cell) in (int, float, str) for cell in cells):
            raise RecordError(f"these are not saved numbers: column {name!r} must be a list of numbers and text.")


def _finite(cell: Cell) -> Cell:
    """Return a cell as JSON can hold it."""
    cell = cell if cell is None or isinstance(cell, float | int | str) else _plain(cell)
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _plain(scalar: Any) -> Any:
    """Return the Python number of a NumPy scalar, which a reader's own sizes may be."""
    return scalar.item()


def _marked(data: Any) -> Any:
    """Replace what JSON cannot hold, everywhere in plain data."""
    if isinstance(data, float) and not math.isfinite(data):
        return {"float": next(name for name, value in NOT_FINITE.items() if repr(value) == repr(data))}
    if isinstance(data, dict):
        return {key: _marked(value) for key, value in data.items()}
    return [_marked(value) for value in data] if isinstance(data, list | tuple) else data


def _unmarked(data: Any) -> Any:
    """Undo `_marked`."""
    if isinstance(data, dict):
        if set(data) == {"float"} and str(data["float"]) in NOT_FINITE:
            return NOT_FINITE[data["float"]]
        return {key: _unmarked(value) for key, value in data.items()}
    return [_unmarked(value) for value in data] if isinstance(data, list) else data


def _harmless(cell: Cell) -> Cell:
    """Return a cell for a spreadsheet, where text stays text."""
    if not isinstance(cell, str):
        return cell
    text = encodable(cell)
    return f"'{text}" if text.startswith(FORMULA) else text


def _link(name: str, kind: str, text: str, title: str) -> str:
    """Return a link that saves a text as a file."""
    file = re.sub(r"[^a-z0-9]+", "-", title.lower())[:48].strip("-") or "numbers"
    address = LINK.format(kind=kind, data=base64.b64encode(text.encode()).decode())
    label = html.escape(encodable(f"{name} with the numbers of: {title}"))
    return f'<a href="{address}" download="{file}.{name.lower()}" aria-label="{label}">{name}</a>'
