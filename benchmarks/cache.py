"""How fast is the cache simulator, and does it count what cachegrind counts?

    python benchmarks/cache.py          all
    python benchmarks/cache.py --quick  small problems

Goals: 100 million accesses a second; misses within 1 % of cachegrind's, which `tests/cache/test_cachegrind.py` compares
on C programs where gcc and valgrind are installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from accel import cache
from accel.measurement import measure_calls

GOAL = 100e6
CACHES = cache.Hierarchy((cache.CacheLevel("D1", 32 << 10, 8), cache.CacheLevel("LL", 1 << 20, 8)))
SECONDS = 1.0
TESTS = Path(__file__).resolve().parent.parent / "tests" / "cache" / "test_cachegrind.py"


def streams(n: int) -> dict[str, cache.Stream]:
    """Return the streams of the chapters, of matrices of n rows and columns."""
    matrices = cache.square_matrices(n)
    padded = cache.square_matrices(n, leading_dimension=n - 1 + 16)
    [vector] = cache.place({"x": n**2 * 16})
    return {
        f"matmul ijk, {n}": cache.matmul(*matrices),
        f"matmul ijk, {n}, padded": cache.matmul(*padded),
        f"matmul ikj, {n}": cache.matmul(*matrices, order="ikj"),
        **{f"matmul tiled {tile}, {n}": cache.matmul(*matrices, tile_size=tile) for tile in (16, 32, 64)},
        f"transpose, {8 * n}": cache.transpose(*cache.square_matrices(8 * n, "AB")),
        f"transpose tiled 16, {8 * n}": cache.transpose(*cache.square_matrices(8 * n, "AB"), tile_size=16),
        "sequential": cache.sequential(vector),
        "every 16th element": cache.strided(vector, 16),
        "random": cache.random(vector, 2_000_000),
    }


def speed_table(quick: bool) -> Table:
    """Measure every stream against the others."""
    cases = streams(128 if quick else 256)
    results = {name: cache.simulate(stream, CACHES) for name, stream in cases.items()}
    measured = measure_calls(
        {name: (lambda stream=stream: cache.simulate(stream, CACHES)) for name, stream in cases.items()},
        seconds=SECONDS / 4 if quick else SECONDS,
        samples=5,
    )
    table = Table(title=f"Simulated: {CACHES}")
    for head in ("accesses of", "accesses (M)", "D1 misses (M)", "LL misses (M)", "M accesses/s, best", "median", ""):
        table.add_column(head, justify="left" if head in ("accesses of", "") else "right")
    for name, result in results.items():
        count = result.accesses
        best, median = count / measured[name].best_seconds, count / measured[name].median_seconds
        misses = (f"{level.misses / 1e6:.3f}" for level in result.levels)
        verdict = "" if best >= GOAL else "below 100"
        table.add_row(name, f"{count / 1e6:.2f}", *misses, f"{best / 1e6:.0f}", f"{median / 1e6:.0f}", verdict)
    return table


def cachegrind_table() -> Table | None:
    """Compare misses with cachegrind's; None where gcc or valgrind is missing."""
    tests = _tests()
    if not (tests.GCC and tests.VALGRIND):
        return None
    table = Table(title="D1 and LL misses, ours and cachegrind's")
    for head in ("program", "D1", "cachegrind", "difference", "LL", "cachegrind", "difference"):
        table.add_column(head, justify="left" if head == "program" else "right")
    with tempfile.TemporaryDirectory() as folder:
        start_up = tests.cachegrind(Path(folder), "nothing", 64)
        for name in tests.CASES:
            ours, theirs = tests.both(name, start_up, Path(folder))
            cells = []
            for level in ("D1", "LL"):
                mine, other = sum(ours[level]), sum(theirs[level])
                cells += [f"{mine:,}", f"{other:,}", f"{mine / other - 1:+.2%}"]
            table.add_row(name, *cells)
    return table


def _tests() -> Any:
    """Return the test module, which has the programs and how to run them."""
    spec = importlib.util.spec_from_file_location("test_cachegrind", TESTS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small problems")
    options = parser.parse_args(arguments)
    console = Console(width=110)
    console.print(speed_table(options.quick))
    console.print(cachegrind_table() or "gcc or valgrind is missing: no comparison with cachegrind")


if __name__ == "__main__":
    main()
