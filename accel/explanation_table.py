"""Explanation table: an explanation as text of at most 100 columns, and as an accessible table in a page."""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from accel.advice import Advice
from accel.cost import Cost
from accel.explained import ExplainedCall
from accel.explanation import Explanation
from accel.measurement import format_seconds
from accel.tables import NOTHING, Column, Table
from accel.units import DECIMAL, TIME, format_decimal, format_threads, unit_for

__all__ = ["WIDTH", "call_text", "page", "text"]

WIDTH = 100
MOST_ROWS = 40
"""The shortest calls beyond this many are told as one row."""
LEAST_CALL_WIDTH = 10
COMFORTABLE_CALL_WIDTH = 30
LONGEST_BOUND = 11
SHORT_DTYPES = {
    "float": "f", "int": "i", "uint": "u", "complex": "c",
}  # fmt: skip
SHORT_BOUNDS = {"dispatch overhead": "dispatch"}
MARKS = {"exact": "", "approximate": "~", "upper bound": "≤", "unknown": ""}
UNKNOWN = "?"
NO_BREAK = "\u00a0"


# ------------------------------------------------------------------------------------------------------ the two faces


def text(explanation: Explanation) -> str:
    """Return the explanation as text: what was run and where, the table, what else is known, what to try."""
    parts = [_headline(explanation), repr(_fitting(explanation))]
    parts += (_wrapped(line) for line in _remarks(explanation))
    parts += _advice_lines(explanation.advice)
    return "\n".join(parts)


def page(explanation: Explanation) -> str:
    """Return the explanation as HTML: the table with a caption, and below it what the text says there."""
    table = _table(
        _Layout(explanation, _shown(explanation), short_names=True), f"explain {explanation.signature}", call_width=None
    )
    unbroken = (replace(c, cells=tuple(cell.replace(" ", NO_BREAK) for cell in c.cells)) for c in table.columns)
    table = replace(table, columns=tuple(unbroken))
    lines = (_conditions(explanation), *_remarks(explanation))
    remarks = f'<p class="accel-table-note">{"<br/>".join(map(html.escape, lines))}</p>'
    tries = "".join(f"<li>{html.escape(_advised(item))}</li>" for item in explanation.advice)
    advice = f'<p class="accel-table-note">Try</p><ul>{tries}</ul>' if tries else ""
    return f'<div class="accel-explanation">{table._repr_html_()}{remarks}{advice}</div>'


def _headline(explanation: Explanation) -> str:
    """Put what was explained left and where it ran right, on one line if they fit."""
    left, right = f"explain {explanation.signature}", _conditions(explanation)
    gap = WIDTH - len(left) - len(right)
    return f"{left}{' ' * gap}{right}" if gap >= 2 else f"{_wrapped(left)}\n{_wrapped(right)}"


def _conditions(explanation: Explanation) -> str:
    facts = [
        f"{explanation.machine}, {format_threads(explanation.threads)}",
        f"calibrated {_ago(explanation.calibration_age_seconds)}",
        f"run {explanation.measured.verdict}" if explanation.measured else "not run",
    ]
    return " · ".join(facts)


def _ago(seconds: float) -> str:
    for name, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name} ago"
    return "just now"


def _remarks(explanation: Explanation) -> Iterator[str]:
    """Give the lines below the table."""
    low, high = explanation.predicted_low_seconds, explanation.predicted_high_seconds
    yield (
        f"predicted: between {format_seconds(low)} and {format_seconds(high)} · "
        f"textbook roofline: {format_seconds(explanation.textbook_seconds)}"
    )
    count = explanation.peak_temporaries
    pages = format_seconds(explanation.pages_seconds) if explanation.pages_seconds else "none"
    peak = format_decimal(explanation.peak_temporary_bytes, "B")
    alive = f"{count} array{'s' * (count != 1)} alive at peak, {peak}" if count else "none"
    yield f"temporaries and results: {alive} · fresh pages: {pages}"
    for note in explanation.notes:
        yield f"note: {note}"


def _advice_lines(advice: Sequence[Advice]) -> Iterator[str]:
    for number, item in enumerate(advice):
        head = "try   " if number == 0 else "      "
        yield textwrap.fill(_advised(item), WIDTH, initial_indent=head, subsequent_indent="        ")


def _advised(item: Advice) -> str:
    note = f" ({item.note})" if item.note else ""
    return f"{item.change}, in {call_text(item.where)}: predicted {item.predicted_gain:.2f}x faster{note}"


def _wrapped(line: str) -> str:
    return textwrap.fill(line, WIDTH, subsequent_indent="  ")


# ----------------------------------------------------------------------------------------------------------- the rows


def _shown(explanation: Explanation) -> list[tuple[str, ExplainedCall]]:
    """Return the rows with their numbers; of many, the shortest as one, so that the rows still add up."""
    numbered = [(str(i), call) for i, call in enumerate(explanation.calls, start=1)]
    if len(numbered) <= MOST_ROWS:
        return numbered
    by_time = sorted(numbered, key=lambda row: -max(row[1].predicted_seconds, row[1].measured_seconds or 0.0))
    kept = {number for number, _ in by_time[: MOST_ROWS - 1]}
    others = [call for number, call in numbered if number not in kept]
    return [*(row for row in numbered if row[0] in kept), ("", _together(others, f"{len(others)} shorter rows"))]


def _together(calls: Sequence[ExplainedCall], title: str) -> ExplainedCall:
    """Sum calls up."""
    measured = [call.measured_seconds for call in calls if call.measured_seconds is not None]
    inexact = [call.counted for call in calls if call.counted != "exact"]
    return replace(
        calls[0],
        name=title,
        call=title,
        count=1,
        result_dtype="",
        result_shape=None,
        casts=False,
        cost=sum((call.cost for call in calls), Cost()),
        counted=inexact[0] if inexact else "exact",
        level="",
        predicted_seconds=sum(call.predicted_seconds for call in calls),
        measured_seconds=sum(measured) if measured else None,
        bound_by=NOTHING,
    )


def call_text(call: str) -> str:
    """Write a call shorter: temporaries by number, fractions to three digits.

    >>> from accel.explanation_table import call_text
    >>> call_text("multiply(temporary 1, 0.044715)")
    'multiply(t1, 0.0447)'
    """
    numbered = re.sub(r"\btemporary (\d+)", r"t\1", call)
    return re.sub(r"(?<![\w.])\d+\.\d{3,}(?:e[+-]?\d+)?\b", _three_digits, numbered)


def _three_digits(found: re.Match[str]) -> str:
    """Shorten a fraction, but not to a whole number."""
    short = f"{float(found[0]):.3g}"
    return short if "." in short else found[0]


def short_dtype(dtype: str) -> str:
    """Write a dtype shorter.

    >>> from accel.explanation_table import short_dtype
    >>> short_dtype("float32"), short_dtype("complex128"), short_dtype("bool")
    ('f32', 'c128', 'bool')
    """
    return re.sub(r"^(float|int|uint|complex)(?=\d)", lambda found: SHORT_DTYPES[found[1]], dtype)


def _result(call: ExplainedCall) -> str:
    """Write the dtype and number of elements of a result; of a scalar, the dtype."""
    dtype = short_dtype(call.result_dtype)
    if call.result_shape is None:
        return dtype or NOTHING
    elements = math.prod(call.result_shape)
    prefix, size = unit_for([elements / 10], DECIMAL)
    return f"{dtype}[{elements / size:.1f}{prefix}]" if prefix else f"{dtype}[{elements}]"


def _loop(call: ExplainedCall) -> str:
    """Write the dtype that a call computes in, where an operand or the result has another."""
    return short_dtype(call.loop_dtype) if call.casts else ""


# -------------------------------------------------------------------------------------------------------- the columns


@dataclass(frozen=True)
class _Layout:
    """What is written, and how short."""

    explanation: Explanation
    shown: list[tuple[str, ExplainedCall]]
    short_names: bool = False
    coarse: bool = False
    """Three digits of the total in every cell, and not two of the smallest."""


def _fitting(explanation: Explanation) -> Table:
    """Return the table with as much detail as leaves room for the calls."""
    shown = _shown(explanation)
    longest = max(len(f"{_times(call)}{call_text(call.call)}") + _number_width(shown) for _, call in shown)
    wanted = min(longest, COMFORTABLE_CALL_WIDTH)
    for layout in (
        _Layout(explanation, shown),
        _Layout(explanation, shown, short_names=True),
        _Layout(explanation, shown, short_names=True, coarse=True),
    ):
        room = WIDTH - _width(_numbers(layout))
        if room >= wanted:
            break
    return _table(layout, "", call_width=max(room, LEAST_CALL_WIDTH))


def _width(columns: Sequence[Column]) -> int:
    """Return the width of the columns with the space before each."""
    return sum(2 + max(map(len, (column.head, *column.cells))) for column in columns)


def _number_width(shown: Sequence[tuple[str, ExplainedCall]]) -> int:
    return max(len(number) for number, _ in shown) + 2


def _table(layout: _Layout, caption: str, *, call_width: int | None) -> Table:
    width = _number_width(layout.shown) - 2
    rows = [(number, f"{_times(call)}{call_text(call.call)}") for number, call in layout.shown]
    if call_width is None:
        names = [f"{number}. {name}".removeprefix(". ") for number, name in rows]
        first = Column("call", (*names, "total"), is_text=True)
    else:
        names = [_cut(f"{number:>{width}}  {name}", call_width) for number, name in rows]
        first = Column(f"{'#':>{width}}  call", (*names, f"{'':{width}}  total"), is_text=True)
    return Table(caption, (first, *_numbers(layout)))


def _times(call: ExplainedCall) -> str:
    return f"{call.count:,} × " if call.count > 1 else ""


def _cut(name: str, width: int) -> str:
    """Shorten a call to a width, keeping its parentheses closed."""
    if len(name) <= width:
        return name
    return f"{name[: width - 2]}…)" if name.endswith(")") else f"{name[: width - 1]}…"


def _numbers(layout: _Layout) -> list[Column]:
    """Return all columns but the first; counts that no call has are left out."""
    explanation, calls = layout.explanation, [call for _, call in layout.shown]
    columns = [Column("result", (*map(_result, calls), ""), is_text=True)]
    if any(call.casts for call in calls):
        columns.append(Column("loop", (*map(_loop, calls), ""), is_text=True))
    for head, field in (("FLOPs", "flops"), ("special", "special")):
        if getattr(explanation.cost, field):
            columns.append(_counts(head, field, calls, explanation.cost, layout))
    if explanation.cost.bytes_algorithmic:
        columns.append(_counts("bytes", "bytes_algorithmic", calls, explanation.cost, layout, unit="B"))
        columns.append(Column("from", (*(call.level or NOTHING for call in calls), ""), is_text=True))
    columns += _times_of(explanation, calls, coarse=layout.coarse)
    bounds = (_bound(call.bound_by, layout.short_names) for call in calls)
    error = explanation.error_fraction
    told = _bound(explanation.bound_by, layout.short_names) if error is None else f"error {error:+.0%}"
    columns.append(Column("bound by", (*bounds, told), is_text=True))
    return columns


def _times_of(explanation: Explanation, calls: Sequence[ExplainedCall], *, coarse: bool) -> list[Column]:
    """Return predicted and measured times, in the same unit."""
    times = [*(call.predicted_seconds for call in calls), explanation.predicted_seconds]
    if explanation.measured_seconds is not None:
        times += [*(call.measured_seconds or 0.0 for call in calls), explanation.measured_seconds]
    cells = _fixed(times, TIME, coarse=coarse)
    rows = len(calls) + 1
    parts = (cells[i : i + rows] for i in range(0, len(cells), rows))
    return [Column(head, tuple(part)) for head, part in zip(("predicted", "measured"), parts, strict=False)]


def _counts(
    head: str, field: str, calls: Sequence[ExplainedCall], total: Cost, layout: _Layout, unit: str = ""
) -> Column:
    """Return exact, approximate and unknown counts in one unit, with their total."""
    counts = [*(getattr(call.cost, field) for call in calls), getattr(total, field)]
    cells = _fixed(counts, DECIMAL, unit=unit, coarse=layout.coarse)
    if unit:
        return Column(head, tuple(cells))
    marked = [
        UNKNOWN if call.is_opaque else f"{MARKS[call.counted] * (cell != NOTHING)}{cell}"
        for cell, call in zip(cells, calls, strict=False)
    ]
    return Column(head, (*marked, cells[-1]))


def _fixed(
    values: Sequence[float], units: tuple[tuple[str, float], ...], *, unit: str = "", coarse: bool = False
) -> list[str]:
    """Write numbers in one unit and with the same number of decimals: three digits of the largest, two of the others.

    Those below a thousandth of the largest have no say.
    """
    largest = max(values)
    if not largest:
        return [NOTHING] * len(values)
    prefix, size = unit_for([largest / 10], units)
    decimals = max(0, 2 - math.floor(math.log10(largest / size)))
    if not coarse:
        smallest = min(value for value in values if value >= largest / 1000) / size
        decimals = max(decimals, min(3, 1 - math.floor(math.log10(smallest))))
    if size == 1 and units is DECIMAL:
        decimals = 0
    least = 0.5 * 10**-decimals
    space = " " * (units is TIME or bool(unit))
    ending = f"{space}{prefix}{unit}".rstrip()
    return [
        NOTHING
        if not value
        else f"{value / size:,.{decimals}f}{ending}"
        if value / size >= least
        else f"<{10**-decimals:.{decimals}f}{ending}"
        for value in values
    ]


def _bound(name: str, short: bool) -> str:
    """Write what bounds a call; the level has a column of its own, so a short name leaves it out."""
    if not short:
        return name
    name = SHORT_BOUNDS.get(name, re.sub(r"^\S+ (?=bandwidth$)", "", name))
    return name if len(name) <= LONGEST_BOUND else f"{name[: LONGEST_BOUND - 1]}…"
