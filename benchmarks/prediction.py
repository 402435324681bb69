"""How well does `accel.predict` know the time? Predicted against measured, interleaved with a reference.

    python benchmarks/prediction.py                        both sets
    python benchmarks/prediction.py development            the one the model may be tuned on
    python benchmarks/prediction.py held-out --totals      the one it is judged by, without single functions
    python benchmarks/prediction.py --quick                half the sizes, less time for each

Prints the error by function and by working set: once for the machine at the speed that it had during each measurement,
which the reference tells, and once for the machine as fast as when it was calibrated. Beside them stand the textbook
roofline, and how well a second measurement agrees with the first: on new arrays at once, and on new arrays again after
the whole set, minutes later. No model can be expected to do better than that.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
Case = prediction_development.Case


@dataclass(frozen=True)
class Pair:
    """A function at a working set: predicted and measured, and measured twice more."""

    row: Row
    at_once: Row
    """On new arrays, straight after."""
    later: Row
    """On new arrays, after the whole set."""


Error = Callable[[Pair], float]


def measured(pairs: Sequence[tuple[Case, int]], *, quick: bool) -> list[Pair]:
    """Return what was measured of each function and working set."""
    seconds = 0.2 if quick else 0.4
    first = [
        (compared(case, size, seconds), compared(case, size, seconds / 2)) for case, size in tqdm(pairs, leave=False)
    ]
    later = [compared(case, size, seconds / 2) for case, size in tqdm(pairs, leave=False)]
    return [Pair(row, at_once, again) for (row, at_once), again in zip(first, later, strict=True)]


def compared(case: Case, size: int, seconds: float) -> Row:
    """Return the row of a function on new arrays."""
    arrays = case.make(size)
    [row] = accel.compare(
        {case.name: case.function}, *arrays, size=size, seconds=seconds, patience_seconds=2 * seconds
    ).rows
    return row


def pairs_of(cases: Sequence[Case], *, quick: bool) -> list[tuple[Case, int]]:
    """Return each function with each working set; with half of them if quick."""
    return [(case, size) for case in cases for size in case.working_sets[:: 2 if quick else 1]]


def at_speed(pair: Pair) -> float:
    """Return the error of the prediction for the machine as it ran."""
    return pair.row.error_fraction


def as_calibrated(pair: Pair) -> float:
    """Return the error of the prediction for the machine as it was calibrated."""
    return (pair.row.full_speed_seconds or pair.row.predicted_seconds) / pair.row.measured_seconds - 1


def textbook(pair: Pair) -> float:
    """Return the error of the plain roofline."""
    return pair.row.textbook_seconds / pair.row.measured_seconds - 1


def again_at_once(pair: Pair) -> float:
    """Return how far a second measurement is from the first, for the same speed of the machine."""
    return _full_speed(pair.at_once) / _full_speed(pair.row) - 1


def again_later(pair: Pair) -> float:
    """Return how far a measurement minutes later is from the first, for the same speed of the machine."""
    return _full_speed(pair.later) / _full_speed(pair.row) - 1


def _full_speed(row: Row) -> float:
    """Return the measured time, less what the slower machine is predicted to have added."""
    return row.measured_seconds * (row.full_speed_seconds or row.predicted_seconds) / row.predicted_seconds


YARDSTICKS: dict[str, Error] = {
    "accel.predict": at_speed,
    "accel.predict, as calibrated": as_calibrated,
    "measured again, at once": again_at_once,
    "measured again, later": again_later,
    "textbook roofline": textbook,
}


def quality(pairs: Sequence[Pair], error: Error) -> tuple[str, str, str]:
    """Return the median error, the 90th percentile, and how many are within 20 %."""
    errors = sorted(abs(error(pair)) for pair in pairs)
    ninth = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
    return (
        f"{statistics.median(errors):.1%}",
        f"{ninth:.0%}",
        f"{statistics.mean(each <= 0.2 for each in errors):.0%}",
    )


def by_function(title: str, groups: dict[str, list[Pair]]) -> Table:
    """Return a table with a line for each function."""
    table = Table(title=title, title_justify="left")
    heads = ["", "pairs", "median error", "nine in ten", "within 20 %", "again, at once", "again, later", "textbook"]
    for head in (*heads, "median spread", "worst"):
        table.add_column(head, justify="left" if not head else "right")
    for name, pairs in groups.items():
        far = max((pair.row for pair in pairs), key=lambda row: abs(row.error_fraction))
        others = (quality(pairs, error)[0] for error in (again_at_once, again_later, textbook))
        spread = statistics.median(pair.row.measured.spread_fraction for pair in pairs)
        worst = f"{far.error_fraction:+.0%} at {format_bytes(far.size)}"
        table.add_row(name, str(len(pairs)), *quality(pairs, at_speed), *others, f"{spread:.0%}", worst)
    return table


def by_band(title: str, groups: dict[str, list[Pair]]) -> Table:
    """Return a table with a line for each yardstick: median error, and share within 20 %, of each group."""
    table = Table(title=title, title_justify="left")
    table.add_column("median error, within 20 %")
    for name, pairs in groups.items():
        table.add_column(f"{name} ({len(pairs)})", justify="right")
    for name, error in YARDSTICKS.items():
        found = (quality(pairs, error) for pairs in groups.values())
        table.add_row(name, *(f"{median}, {within}" for median, _, within in found))
    spreads = (statistics.median(pair.row.measured.spread_fraction for pair in pairs) for pairs in groups.values())
    table.add_row("spread within a measurement", *(f"{spread:.0%}" for spread in spreads))
    return table


def report(name: str, pairs: list[Pair], *, totals: bool) -> None:
    """Print the distribution of errors by function and by working set."""
    console = Console(width=150)
    functions: dict[str, list[Pair]] = {}
    for pair in pairs:
        functions.setdefault(pair.row.name, []).append(pair)
    groups = {label: [p for p in pairs if low < p.row.size <= high] for low, high, label in BANDS}
    groups["at full speed"] = [pair for pair in pairs if pair.row.slowdown <= FAST_PHASE]
    groups["slower"] = [pair for pair in pairs if pair.row.slowdown > FAST_PHASE]
    groups = {label: found for label, found in groups.items() if found} | {"all": pairs}
    if not totals:
        console.print(by_function(f"{name}: by function", functions))
    console.print(by_band(f"{name}: by working set and speed", groups))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sets named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"{' or '.join(SETS)}; both if none is named")
    parser.add_argument("--quick", action="store_true", help="half the sizes, less time for each")
    parser.add_argument("--totals", action="store_true", help="without single functions")
    options = parser.parse_args(arguments)
    for name in options.sets:
        if name not in SETS:
            parser.error(f"SET is {' or '.join(SETS)}; got {name!r}")
    quick = options.quick
    print(accel.this_machine())
    for name in options.sets or SETS:
        pairs = measured(pairs_of(SETS[name], quick=quick), quick=quick)
        slow = sum(pair.row.slowdown > FAST_PHASE for pair in pairs)
        print(f"\n{name}: {len(pairs)} pairs, {slow} of them on a machine slower than when it was calibrated")
        report(name, pairs, totals=options.totals)


if __name__ == "__main__":
    main()
