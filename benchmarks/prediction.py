"""How well does `accel.predict` know the time? Predicted against measured, interleaved with a reference.

    python benchmarks/prediction.py                        both sets
    python benchmarks/prediction.py development            the one the model may be tuned on
    python benchmarks/prediction.py held-out --totals      the one it is judged by, without single functions
    python benchmarks/prediction.py --quick                half the sizes, less time for each

Prints the error by function and by working set, beside the textbook roofline's and the spread of the run itself: once
for the machine at the speed that it had during each measurement, which the reference tells, and once for the machine
as fast as when it was calibrated.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import prediction_development
import prediction_held_out
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

import accel
from accel.comparison import Row
from accel.units import format_bytes

BANDS = ((0, 2**15, "to 32 KB"), (2**15, 2**20, "to 1 MB"), (2**20, 2**25, "to 32 MB"), (2**25, 2**40, "above"))
SETS = {"development": prediction_development.CASES, "held-out": prediction_held_out.CASES}
FAST_PHASE = 1.06
Error = Callable[[Row], float]


def measured(cases: Sequence[prediction_development.Case], *, quick: bool) -> list[Row]:
    """Return a row for each case and working set."""
    pairs = [(case, size) for case in cases for size in case.working_sets[:: 2 if quick else 1]]
    found = []
    for case, size in tqdm(pairs, leave=False):
        comparison = accel.compare(
            {case.name: case.function},
            *case.make(size),
            size=size,
            seconds=0.2 if quick else 0.4,
            patience_seconds=0.4 if quick else 0.8,
        )
        found.append(comparison.rows[0])
    return found


def at_speed(row: Row) -> float:
    """Return the error of the prediction for the machine as it ran."""
    return row.error_fraction


def as_calibrated(row: Row) -> float:
    """Return the error of the prediction for the machine as it was calibrated."""
    return (row.full_speed_seconds or row.predicted_seconds) / row.measured_seconds - 1


def textbook(row: Row) -> float:
    """Return the error of the plain roofline."""
    return row.textbook_seconds / row.measured_seconds - 1


def quality(rows: Sequence[Row], error: Error) -> tuple[str, str, str]:
    """Return the median error, the 90th percentile, and how many are within 20 %."""
    errors = sorted(abs(error(row)) for row in rows)
    ninth = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
    return (
        f"{statistics.median(errors):.1%}",
        f"{ninth:.0%}",
        f"{statistics.mean(each <= 0.2 for each in errors):.0%}",
    )


def summary(title: str, groups: dict[str, list[Row]], *, worst: bool) -> Table:
    """Return a table with a line for each group."""
    table = Table(title=title, title_justify="left")
    heads = ["", "pairs", "median error", "nine in ten", "within 20 %", "as calibrated: median", "within 20 %"]
    heads += ["textbook: median", "within 20 %", "median spread", *(["worst"] if worst else [])]
    for head in heads:
        table.add_column(head, justify="left" if not head else "right")
    for name, rows in groups.items():
        calibrated, plain = quality(rows, as_calibrated), quality(rows, textbook)
        cells = [name, str(len(rows)), *quality(rows, at_speed), calibrated[0], calibrated[2], plain[0], plain[2]]
        cells.append(f"{statistics.median(row.measured.spread_fraction for row in rows):.0%}")
        if worst:
            far = max(rows, key=lambda row: abs(row.error_fraction))
            cells.append(f"{far.error_fraction:+.0%} at {format_bytes(far.size)}")
        table.add_row(*cells)
    return table


def report(name: str, rows: list[Row], *, totals: bool) -> None:
    """Print the distribution of errors by function and by working set."""
    console = Console(width=140)
    by_function: dict[str, list[Row]] = {}
    for row in rows:
        by_function.setdefault(row.name, []).append(row)
    by_band = {label: [r for r in rows if low < r.size <= high] for low, high, label in BANDS}
    by_speed = {
        "at full speed": [row for row in rows if row.slowdown <= FAST_PHASE],
        "slower": [row for row in rows if row.slowdown > FAST_PHASE],
    }
    groups = {label: found for label, found in (by_band | by_speed).items() if found} | {"all": rows}
    if not totals:
        console.print(summary(f"{name}: by function", by_function, worst=True))
    console.print(summary(f"{name}: by working set and speed", groups, worst=not totals))


def main() -> None:
    """Run the sets named on the command line."""
    quick, totals = "--quick" in sys.argv, "--totals" in sys.argv
    wanted = [name for name in SETS if name in sys.argv] or list(SETS)
    print(accel.this_machine())
    for name in wanted:
        rows = measured(SETS[name], quick=quick)
        slow = sum(row.slowdown > FAST_PHASE for row in rows)
        print(f"\n{name}: {len(rows)} pairs, {slow} of them on a machine slower than when it was calibrated")
        report(name, rows, totals=totals)


if __name__ == "__main__":
    main()
