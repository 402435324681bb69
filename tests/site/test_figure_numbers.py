"""Under every figure of the site stand its numbers: files beside the page, for accel and for spreadsheets."""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path

import pytest
from bs4 import BeautifulSoup, Tag
from chromium import Browser
from pages import chapters, read_html, table_of_contents, widget_state
from selenium.webdriver.common.keys import Keys

from accel import load_numbers


def documents(site: Path, page: str) -> list[BeautifulSoup]:
    """Return a page and each frame of its sliders."""
    html = read_html(site, page)
    values = [model["state"].get("value") for model in widget_state(html).values()]
    return [html, *(BeautifulSoup(value, "html.parser") for value in values if isinstance(value, str))]


def figures(site: Path, page: str) -> list[Tag]:
    """Return the charts of a page, those in frames included."""
    return [figure for document in documents(site, page) for figure in document.select(".accel-chart")]


def cells(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def same(cell: str, value: float | str | None) -> bool:
    if value is None or isinstance(value, str):
        return cell.removeprefix("'") == (value or "")
    return float(cell) == value


@pytest.mark.parametrize("page", table_of_contents())
def test_every_figure_has_its_numbers(page: str, site: Path) -> None:
    found = figures(site, page)
    if page in chapters():
        assert found
    for figure in found:
        line = figure.find_next_sibling(class_="accel-numbers")
        assert line is not None, figure.svg["aria-label"]
        links = [(site / page).parent / str(link["href"]) for link in line.select("a[download]")]
        assert [link.suffix for link in links] == [".json", ".csv"]
        numbers = load_numbers(links[0])
        assert numbers.title == figure.svg.title.text
        assert numbers.results
        assert numbers.machine
        assert numbers.threads >= 1
        assert datetime.fromisoformat(numbers.taken_at).tzinfo
        rows = cells(links[1])
        assert rows
        assert {len(column) for column in numbers.table.values()} == {len(rows)}
        for i, row in enumerate(rows):
            assert all(same(row[name], column[i]) for name, column in numbers.table.items())
            assert (row["machine"], row["threads"]) == (numbers.machine, str(numbers.threads))
            assert row["taken_at"] == numbers.taken_at


@pytest.mark.parametrize("page", table_of_contents())
def test_no_numbers_stay_in_the_page_and_no_file_is_left_over(page: str, site: Path) -> None:
    path = site / f"{page}.html"
    text = path.read_text(encoding="utf-8")
    assert "accel=numbers" not in text
    for file in (path.parent / "numbers").glob(f"{path.stem}-[0-9]*"):
        assert f"numbers/{file.name}" in text


@pytest.mark.browser
@pytest.mark.parametrize("page", chapters())
def test_the_numbers_of_the_shown_frame_are_at_hand(page: str, site: Path, site_url: str, browser: Browser) -> None:
    script = """
        const box = arguments[0].closest(".accel-explorer");
        return [...box.querySelectorAll(".accel-numbers a")].filter(a => a.checkVisibility()).map(a => a.href);
    """
    for base in (site_url, site.as_uri()):
        browser.open(f"{base}/{page}.html")
        sliders = browser.all(".accel-explorer .noUi-handle")
        assert sliders
        for slider in sliders:
            before = browser.script(script, slider)
            assert len(before) == 2
            at_end = slider.get_attribute("aria-valuenow") == slider.get_attribute("aria-valuemax")
            browser.press(slider, Keys.ARROW_LEFT if at_end else Keys.ARROW_RIGHT)
            browser.wait(lambda slider=slider, before=before: browser.script(script, slider) != before, "other numbers")
            for link in browser.script(script, slider):
                assert (site / link.removeprefix(base).lstrip("/")).is_file()
