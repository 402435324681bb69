"""The numbers behind each chart: the results it was drawn from, and a table with a row for each mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from accel.access import AccessCurve
from accel.cache.maps import MissMap
from accel.comparison import Comparison
from accel.machine import Bandwidth, Machine
from accel.numbers import BandwidthCurves, Cell, Numbers, Roofs
from accel.records import Record
from accel.roofline import Position

if TYPE_CHECKING:
    from accel.explanation import Explanation
    from accel.plot.lines import Line
    from accel.plot.roofline import Position as Placed

__all__ = ["bandwidth_numbers", "comparison_numbers", "explanation_numbers", "gathered"]
__all__ += ["latency_numbers", "line_numbers", "miss_numbers", "roofline_numbers"]

MOST_CELLS = 64
"""Of a miss map's side in its numbers: with more, they would outweigh the page."""


def _table(rows: Sequence[Mapping[str, Cell]]) -> dict[str, tuple[Cell, ...]]:
    """Turn rows into columns."""
    return {name: tuple(row[name] for row in rows) for name in rows[0]} if rows else {}


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def comparison_numbers(title: str, comparison: Comparison) -> Numbers:
    """Return the numbers of a chart of times, a row for each function and size."""
    rows: list[dict[str, Cell]] = [
        {
            "name": row.name,
            "size": row.size,
            "flops": row.cost.flops,
            "special": row.cost.special,
            "bytes_algorithmic": row.cost.bytes_algorithmic,
            "measured_seconds": row.measured_seconds,
            "measured_quartile_1_seconds": row.measured.quartiles_seconds[0],
            "measured_quartile_3_seconds": row.measured.quartiles_seconds[1],
            "predicted_seconds": row.predicted_seconds,
            "predicted_low_seconds": row.predicted_low_seconds,
            "predicted_high_seconds": row.predicted_high_seconds,
            "textbook_seconds": row.textbook_seconds,
            "bound_by": row.bound_by,
            "slowdown": row.slowdown,
        }
        for row in comparison.rows
    ]
    return Numbers(title, comparison.machine, comparison.threads, comparison.taken_at, (comparison,), _table(rows))


def latency_numbers(title: str, curves: Sequence[AccessCurve]) -> Numbers:
    """Return the numbers of a latency chart, a row for each pattern and working set."""
    rows: list[dict[str, Cell]] = [
        {
            "pattern": curve.pattern,
            "working_set_bytes": row.working_set_bytes,
            "accesses": row.accesses,
            "lines": row.lines,
            "seconds_per_access": row.seconds_per_access,
            "seconds_per_line": row.seconds_per_line,
        }
        for curve in curves
        for row in curve.rows
    ]
    return Numbers(title, curves[0].machine, 1, curves[0].taken_at, tuple(curves), _table(rows))


def line_numbers(
    title: str, lines: Sequence[Line], labels: tuple[str, str], machine: str | Machine, threads: int
) -> Numbers:
    """Return the numbers of a line chart, a row for each point; `labels` name the axes. The time is that of drawing."""
    rows: list[dict[str, Cell]] = [
        {"line": line.name, "role": line.role, labels[0]: x, labels[1]: y} for line in lines for x, y in line.points
    ]
    return Numbers(title, str(machine), threads, _now(), tuple(lines), _table(rows))


def bandwidth_numbers(title: str, machine: Machine, curves: Sequence[Bandwidth]) -> Numbers:
    """Return the numbers of a bandwidth chart, a row for each stream and working set."""
    rows: list[dict[str, Cell]] = [
        {
            "operation": curve.operation,
            "stream_threads": curve.threads,
            "working_set_bytes": size,
            "bytes_per_second": rate,
        }
        for curve in curves
        for size, rate in zip(curve.working_set_bytes, curve.bytes_per_second, strict=True)
    ]
    result = BandwidthCurves(machine.caches, tuple(curves))
    threads = max(curve.threads for curve in curves)
    return Numbers(title, str(machine), threads, machine.roofs.taken_at, (result,), _table(rows))


def roofline_numbers(
    title: str,
    peaks: Mapping[str, float],
    bandwidths: Mapping[str, float],
    points: Sequence[Placed],
    machine: str | Machine,
    threads: int,
) -> Numbers:
    """Return the numbers of a roofline chart, a row for each roof and each kernel.

    Where only the name of the machine is known, the time is that of drawing.
    """
    positions = [
        Position(p.name, p.intensity_flops_per_byte, p.measured_flops_per_second, p.predicted_flops_per_second)
        for p in points
    ]
    rows = [_roof(name, "peak", flops_per_second=rate) for name, rate in peaks.items()]
    rows += [_roof(name, "bandwidth", bytes_per_second=rate) for name, rate in bandwidths.items()]
    rows += [
        _roof(
            p.name,
            "kernel",
            intensity_flops_per_byte=p.intensity_flops_per_byte,
            measured_flops_per_second=p.measured_flops_per_second,
            predicted_flops_per_second=p.predicted_flops_per_second,
        )
        for p in positions
    ]
    taken_at = machine.roofs.taken_at if isinstance(machine, Machine) else _now()
    result = Roofs(dict(peaks), dict(bandwidths), tuple(positions))
    return Numbers(title, str(machine), threads, taken_at, (result,), _table(rows))


def _roof(name: str, kind: str, **values: Cell) -> dict[str, Cell]:
    """Return a row in which only some columns have a value."""
    columns = (
        "flops_per_second",
        "bytes_per_second",
        "intensity_flops_per_byte",
        "measured_flops_per_second",
        "predicted_flops_per_second",
    )
    return {"name": name, "kind": kind} | {column: values.get(column) for column in columns}


def explanation_numbers(title: str, explanation: Explanation) -> Numbers:
    """Return the numbers of a chart of calls, a row for each of them."""
    rows: list[dict[str, Cell]] = [
        {
            "call": call.call,
            "count": call.count,
            "flops": call.cost.flops,
            "special": call.cost.special,
            "bytes_algorithmic": call.cost.bytes_algorithmic,
            "level": call.level,
            "measured_seconds": call.measured_seconds,
            "predicted_seconds": call.predicted_seconds,
            "predicted_low_seconds": call.predicted_low_seconds,
            "predicted_high_seconds": call.predicted_high_seconds,
            "bound_by": call.bound_by,
        }
        for call in explanation.calls
    ]
    result: tuple[Record, ...] = (explanation,)
    return Numbers(title, explanation.machine, explanation.threads, explanation.taken_at, result, _table(rows))


def miss_numbers(title: str, misses: MissMap) -> Numbers:
    """Return the numbers of a miss map, a row for each cell; many cells are joined to fewer. Misses are simulated."""
    counts, cell = gathered(np.array(misses.misses, np.int64), misses.cell, MOST_CELLS)
    joined = MissMap(misses.stream, misses.level, misses.array, cell, tuple(map(tuple, counts.tolist())))
    rows: list[dict[str, Cell]] = [
        {"first_row": i * cell[0], "first_column": j * cell[1], "misses": count}
        for i, row in enumerate(joined.misses)
        for j, count in enumerate(row)
    ]
    return Numbers(title, f"simulated: {misses.level}", 1, _now(), (joined,), _table(rows))


def gathered(counts: Any, cell: tuple[int, int], most: int) -> tuple[Any, tuple[int, int]]:
    """Return counts in at most `most` cells on a side, and the elements of one such cell."""
    rows, columns = (-(-length // most) for length in counts.shape)
    joined = np.add.reduceat(counts, np.arange(0, counts.shape[0], rows), axis=0)
    joined = np.add.reduceat(joined, np.arange(0, counts.shape[1], columns), axis=1)
    return joined, (cell[0] * rows, cell[1] * columns)
