"""The tables of the book add up: time x rate = work, and no share is above 100 %."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from bs4 import BeautifulSoup, Tag
from pages import read_html, source_of, table_of_contents

PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
TIMES = {"s": 1.0, "seconds": 1.0, "ms": 1e-3, "milliseconds": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}
RATE = re.compile(r"([kMGT]?)(FLOP|B)/s")
WORK = re.compile(r"([kMGT]?)(FLOP|B)s?\b(?!/)")
SHARE_WORDS = ("share", "efficiency", "of the peak", "of peak", "of the roof", "of the time")
MEASURED_UNITS = re.compile(r"\d\s*(GFLOP|MFLOP|GB/s|ms\b|µs\b|ns\b|times as fast)|\d\s?%")


def numbers(texts: list[str]) -> list[float | None]:
    """Return what cells say; None for those that are no plain number."""
    found = []
    for text in texts:
        cleaned = text.strip().replace(",", "").replace("−", "-").removesuffix("%").strip()
        try:
            found.append(float(cleaned))
        except ValueError:
            found.append(None)
    return found


def columns(table: Tag) -> dict[str, list[str]]:
    """Return the cells of each column by its head."""
    heads = [cell.get_text(" ", strip=True) for cell in table.select("thead th")]
    rows = [[cell.get_text(" ", strip=True) for cell in row.find_all(["th", "td"])] for row in table.select("tbody tr")]
    return {head: [row[place] for row in rows if place < len(row)] for place, head in enumerate(heads)}


def time_unit(head: str) -> float | None:
    """Return the seconds that a column of times counts in."""
    words = re.findall(r"[\wµ]+", head)
    return next((TIMES[word] for word in reversed(words) if word in TIMES), None) if "/" not in head else None


def triples(table: Tag) -> Iterator[tuple[str, float, float, float]]:
    """Yield (row, seconds, work, rate) where a table has all three, in one unit of work."""
    cells = columns(table)
    times = [(head, unit) for head in cells if (unit := time_unit(head)) and "predicted" not in head]
    for rate_head in cells:
        rate = RATE.search(rate_head)
        if not rate or len(times) != 1 or "predicted" in rate_head:
            continue
        for work_head in cells:
            work = WORK.search(work_head.replace("FLOPs", "FLOP"))
            if not work or work.group(2) != rate.group(2) or RATE.search(work_head):
                continue
            time_head, unit = times[0]
            found = (numbers(cells[head]) for head in (time_head, work_head, rate_head))
            for row, values in enumerate(zip(*found, strict=True)):
                if None not in values:
                    seconds, done, speed = values
                    yield (
                        f"row {row + 1}: {time_head}, {work_head}, {rate_head}",
                        seconds * unit,
                        done * PREFIXES[work.group(1)],
                        speed * PREFIXES[rate.group(1)],
                    )


def shares(table: Tag) -> Iterator[tuple[str, float]]:
    """Yield what stands in columns of shares and efficiencies, in per cent."""
    for head, cells in columns(table).items():
        if any(word in head.lower() for word in SHARE_WORDS) or head.strip() in ("time", "%"):
            for text, value in zip(cells, numbers(cells), strict=True):
                if value is not None and "%" in text + head:
                    yield f"{head}: {text}", value


def tables(page: BeautifulSoup) -> list[Tag]:
    return page.select("article.bd-article .cell_output table")


def problems(table: Tag) -> list[str]:
    """Return what does not add up in a table; three significant digits may be lost in each factor."""
    wrong = [
        f"{where}: {seconds * rate:.4g} is not {work:.4g}"
        for where, seconds, work, rate in triples(table)
        if abs(seconds * rate / work - 1) > 0.06
    ]
    return wrong + [f"{where} is above 100 %" for where, share in shares(table) if share > 100]


@pytest.mark.parametrize("page", table_of_contents())
def test_tables_of_a_page_add_up(page: str, site: Path) -> None:
    assert [problem for table in tables(read_html(site, page)) for problem in problems(table)] == []


@pytest.mark.parametrize("page", table_of_contents())
def test_tables_with_measurements_come_out_of_code(page: str) -> None:
    by_hand = [line for line in source_of(page).splitlines() if line.startswith("|")]
    assert [line for line in by_hand if MEASURED_UNITS.search(line)] == []


def table_of(heads: str, *rows: str) -> Tag:
    head = "".join(f"<th>{text}</th>" for text in heads.split("|"))
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row.split("|")) + "</tr>" for row in rows)
    page = BeautifulSoup(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", "html.parser")
    return page.table


@pytest.mark.parametrize(
    ("table", "count"),
    [
        (table_of("N|GFLOP|ms|GFLOP/s", "64|0.5|10.0|50.0"), 0),
        (table_of("N|GFLOP|ms|GFLOP/s", "64|0.5|10.0|5.0"), 1),
        (table_of("N|MFLOP|µs|GFLOP/s", "64|0.524|10.5|49.9", "128|4.19|100|49.9"), 1),
        (table_of("name|bytes (MB)|measured (ms)|GB/s", "add|12.0|1.00|12.0", "copy|–|1.00|12.0"), 0),
        (table_of("name|bytes (MB)|measured (ms)|GB/s", "add|12.0|1.00|14.0"), 1),
        (table_of("call|share of the peak", "matmul|104%", "add|3%"), 1),
        (table_of("call|efficiency (%)", "matmul|104", "add|3"), 1),
        (table_of("call|gain", "matmul|140%"), 0),
    ],
)
def test_a_table_that_does_not_add_up_is_found(table: Tag, count: int) -> None:
    assert len(problems(table)) == count
