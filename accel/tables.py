"""Tables: results as text in a terminal and as an accessible table in a page."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from accel.comparison import Comparison
from accel.machine import Machine
from accel.measurement import format_seconds
from accel.records import Record
from accel.units import DECIMAL, TIME, format_bytes, format_decimal, format_number, format_threads, unit_for

__all__ = ["Column", "Table", "comparison_table", "counts_column", "machine_table", "numbers_column"]

NOTHING = "–"
"""Stands where there is nothing to count."""


@dataclass(frozen=True)
class Column(Record):
    """The head of a column and the text of its cells."""

    head: str
    cells: tuple[str, ...]
    is_text: bool = False
    """Text stands left, numbers right."""


@dataclass(frozen=True)
class Table(Record):
    """Columns of equal length below a caption. The first column names the rows.

    >>> from accel.tables import Column, Table
    >>> Table("Two rows", (Column("name", ("add", "gelu"), True), Column("calls", ("1", "8"))))
    Two rows
    name  calls
    add       1
    gelu      8
    """

    caption: str
    columns: tuple[Column, ...]
    note: str = ""

    def __post_init__(self) -> None:
        lengths = {column.head: len(column.cells) for column in self.columns}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"the columns of a table have equal lengths; got {lengths}.")

    def __repr__(self) -> str:
        texts = [(column.head, *column.cells) for column in self.columns]
        widths = [max(map(len, cells)) for cells in texts]
        lines = [
            "  ".join(
                cell.ljust(width) if column.is_text else cell.rjust(width)
                for cell, width, column in zip(line, widths, self.columns, strict=True)
            ).rstrip()
            for line in zip(*texts, strict=True)
        ]
        return "\n".join(filter(None, [self.caption, *lines, self.note]))

    def _repr_html_(self) -> str:
        heads = "".join(
            f'<th scope="col"{_alignment(column)}>{html.escape(column.head)}</th>' for column in self.columns
        )
        rows = "".join(self._html_row(index) for index in range(len(self.columns[0].cells)))
        note = f'<p class="accel-table-note">{html.escape(self.note)}</p>' if self.note else ""
        return (
            '<div class="accel-table" style="overflow-x:auto"><table class="dataframe">'
            f'<caption style="text-align:left">{html.escape(self.caption)}</caption>'
            f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{note}</div>"
        )

    def _html_row(self, index: int) -> str:
        first, *others = self.columns
        cells = "".join(f"<td{_alignment(column)}>{html.escape(column.cells[index])}</td>" for column in others)
        return f'<tr><th scope="row"{_alignment(first)}>{html.escape(first.cells[index])}</th>{cells}</tr>'


def _alignment(column: Column) -> str:
    side = "left" if column.is_text else "right"
    wrap = "" if column.is_text else "white-space:nowrap;"  # on a phone words may wrap; numbers are read as one
    return f' style="text-align:{side};{wrap}font-variant-numeric:tabular-nums"'


def comparison_table(comparison: Comparison, *, caption: str | None = None) -> Table:
    """Return a comparison as a table with a row for each function and size, in the order given.

    Raises
    ------
    ValueError
        If the comparison has no row.
    """
    rows = comparison.rows
    if not rows:
        raise ValueError("comparison_table() needs at least one row; got none.")
    seconds = [s for row in rows for s in (row.predicted_seconds, row.measured_seconds)]
    time = unit_for(seconds, TIME)
    errors = [round(row.error_fraction, 2) + 0.0 for row in rows]  # adding 0.0 turns -0 into 0
    unsteady = sum(not row.measured.is_steady for row in rows)
    return Table(
        caption or f"Predicted and measured on {comparison.machine}, {format_threads(comparison.threads)}",
        (
            Column("name", tuple(row.name for row in rows), is_text=True),
            Column("size", tuple(f"{row.size:,}" for row in rows)),
            counts_column("FLOPs", [row.cost.flops for row in rows]),
            counts_column("bytes", [row.cost.bytes_algorithmic for row in rows], "B"),
            numbers_column(f"predicted ({time[0]})", [row.predicted_seconds for row in rows], time[1]),
            numbers_column(f"measured ({time[0]})", [row.measured_seconds for row in rows], time[1]),
            Column("error", tuple(f"{error:+.0%}" if math.isfinite(error) else NOTHING for error in errors)),
            Column("bound by", tuple(row.bound_by for row in rows), is_text=True),
        ),
        f"{unsteady} of {len(rows)} measurements are not steady" if unsteady else "",
    )


def counts_column(head: str, counts: Sequence[float], unit: str = "") -> Column:
    """Return counts with one decimal prefix for the whole column."""
    prefix, size = unit_for(counts, DECIMAL)
    return numbers_column(f"{head} ({prefix}{unit})" if prefix + unit else head, counts, size)


def numbers_column(head: str, values: Sequence[float], size: float) -> Column:
    """Return numbers in units of `size`."""
    drawn = (format_number(value / size) if value and math.isfinite(value) else NOTHING for value in values)
    return Column(head, tuple(drawn))


def machine_table(machine: Machine, *, caption: str | None = None) -> Table:
    """Return what a calibrated machine is and what it was measured to do, a fact in each row; roofs of one thread.

    Raises
    ------
    ValueError
        If the machine was not measured.
    """
    roofs = machine.roofs
    facts = {
        "processor": machine.cpu_name,
        "vectors": f"{machine.simd_bits} bits",
        "usable CPUs": f"{machine.usable_cpus} of {machine.logical_cpus}",
        "BLAS": f"{machine.blas.name} {machine.blas.version} {machine.blas.kernel}".rstrip(),
        "peak, float32": format_decimal(machine.peak_flops_per_second("float32"), "FLOP/s"),
        "peak, float64": format_decimal(machine.peak_flops_per_second("float64"), "FLOP/s"),
    }
    sizes = {cache.name: cache.size_bytes for cache in machine.caches} | {"DRAM": machine.memory_bytes}
    for level, bandwidth in machine.level_bandwidths().items():
        facts[f"{level}, {format_bytes(sizes[level])}"] = format_decimal(bandwidth, "B/s")
    dispatch = [ceiling.call_seconds for ceiling in roofs.ceilings if ceiling.operation == "add"]
    if dispatch:
        facts["dispatch overhead"] = format_seconds(min(dispatch))
    facts["one step of a Python loop"] = format_seconds(roofs.interpreted_seconds)
    return Table(
        caption or f"Measured {roofs.taken_at[:16].replace('T', ' ')} in {format_seconds(roofs.duration_seconds)}",
        (Column("what", tuple(facts), is_text=True), Column("value", tuple(facts.values()), is_text=True)),
        "" if roofs.steady else "The run was noisy: take these figures as approximate.",
    )
