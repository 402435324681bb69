"""How well does `accel.predict` know the time? Predicted against measured, interleaved with nothing but noise.

    python benchmarks/prediction.py              both sets
    python benchmarks/prediction.py development  the one the model may be tuned on
    python benchmarks/prediction.py held-out     the one it is judged by
    python benchmarks/prediction.py --quick      half the sizes, less time for each

Prints the error by function and by working set, beside the textbook roofline's and the spread of the run itself.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import prediction_development
import prediction_held_out
from rich.console import Console
from rich.table import Table

import accel
from accel.comparison import Row
from accel.units import format_bytes

BANDS = ((0, 2**15, "to 32 KB"), (2**15, 2**20, "to 1 MB"), (2**20, 2**25, "to 32 MB"), (2**25, 2**40, "above"))
SETS = {"development": prediction_development.CASES, "held-out": prediction_held_out.CASES}


def measured(cases: Sequence[prediction_development.Case], *, quick: bool) -> list[tuple[Row, float]]:
    """Return a row for each case and working set, and how slow the machine was during it."""
    found = []
    for case in cases:
        for size in case.working_sets[:: 2 if quick else 1]:
            arrays = case.make(size)
            comparison = accel.compare(
                {case.name: case.function},
                *arrays,
                size=size,
                seconds=0.2 if quick else 0.6,
                patience_seconds=1.0 if quick else 6.0,
            )
            found.append((comparison.rows[0], comparison.slowdown))
    return found


def summary(title: str, groups: dict[str, list[Row]]) -> Table:
    """Return a table with a line for each group."""
    table = Table(title=title, title_justify="left")
    for head in (
        "",
        "pairs",
        "median error",
        "within 20 %",
        "textbook: median",
        "within 20 %",
        "median spread",
        "worst",
    ):
        table.add_column(head, justify="left" if not head else "right")
    for name, rows in groups.items():
        errors = [abs(row.error_fraction) for row in rows]
        textbook = [abs(row.textbook_seconds / row.measured_seconds - 1) for row in rows]
        worst = max(rows, key=lambda row: abs(row.error_fraction))
        table.add_row(
            name,
            str(len(rows)),
            f"{statistics.median(errors):.1%}",
            f"{statistics.mean(error <= 0.2 for error in errors):.0%}",
            f"{statistics.median(textbook):.0%}",
            f"{statistics.mean(error <= 0.2 for error in textbook):.0%}",
            f"{statistics.median(row.measured.spread_fraction for row in rows):.0%}",
            f"{worst.error_fraction:+.0%} at {format_bytes(worst.size)}",
        )
    return table


def report(name: str, rows: list[Row]) -> None:
    """Print the distribution of errors by function and by working set."""
    console = Console(width=120)
    by_function: dict[str, list[Row]] = {}
    for row in rows:
        by_function.setdefault(row.name, []).append(row)
    by_band = {label: [r for r in rows if low < r.size <= high] for low, high, label in BANDS}
    console.print(summary(f"{name}: by function", by_function))
    console.print(summary(f"{name}: by working set", {k: v for k, v in by_band.items() if v} | {"all": rows}))


def main() -> None:
    """Run the sets named on the command line."""
    quick = "--quick" in sys.argv
    wanted = [name for name in SETS if name in sys.argv] or list(SETS)
    machine = accel.this_machine()
    print(machine)
    for name in wanted:
        found = measured(SETS[name], quick=quick)
        slow = [slowdown for _, slowdown in found if slowdown > 1.06]
        print(f"\n{name}: {len(found)} pairs, {len(slow)} of them on a machine slower than when it was calibrated")
        report(name, [row for row, _ in found])
        at_speed = [row for row, slowdown in found if slowdown <= 1.06]
        if slow and at_speed:
            report(f"{name}, at full speed", at_speed)


if __name__ == "__main__":
    main()
