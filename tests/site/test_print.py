"""On paper: no frame and no dead control, nothing cut, and the whole book in one PDF with bookmarks."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pypdf
import pytest
from chromium import Browser, find_chromium
from pages import ROOT, read_html, table_of_contents

pytestmark = pytest.mark.browser
PAGES = table_of_contents()
SHOWN = ".sidebar-toggle, .bd-sidebar-primary, .bd-sidebar-secondary, .prev-next-area, .accel-quiz button, .copybtn"


@contextmanager
def on_paper(browser: Browser) -> Iterator[None]:
    """Have the browser lay its page out as for a printer."""
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        yield
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("page", PAGES[:3])
def test_paper_shows_the_text_and_no_control(page: str, site_url: str, browser: Browser) -> None:
    browser.open(f"{site_url}/{page}.html")
    with on_paper(browser):
        assert browser.all("article.bd-article h1")[0].is_displayed()
        assert [element.tag_name for element in browser.all(SHOWN) if element.is_displayed()] == []
        assert browser.script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_a_page_in_dark_mode_is_printed_on_white(site_url: str, browser: Browser) -> None:
    browser.open(f"{site_url}/{PAGES[1]}.html")
    browser.script("document.documentElement.dataset.theme = 'dark'")
    with on_paper(browser):
        ink = browser.script(
            "return getComputedStyle(document.querySelector('.bd-article section > p:not([class])')).color"
        )
        assert ink == "rgb(0, 0, 0)"
        paper = browser.driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
        assert len(pypdf.PdfReader(io.BytesIO(base64.b64decode(paper))).pages) > 1


@pytest.mark.parametrize("page", ["book/fusion", "book/profiling"])
def test_nothing_scrolls_on_paper(page: str, site_url: str, browser: Browser) -> None:
    browser.open(f"{site_url}/{page}.html")
    with on_paper(browser):
        scrolling = browser.script(
            """
            return [...document.querySelectorAll(".bd-article :is(div, pre):not(.math, .math *)")]
                .filter(box => ["auto", "scroll"].includes(getComputedStyle(box).overflowY))
                .map(box => box.className);
            """
        )
        assert scrolling == []


@pytest.fixture(scope="module")
def book(site: Path, tmp_path_factory: pytest.TempPathFactory) -> pypdf.PdfReader:
    """Print the book as `make pdf` does."""
    if find_chromium() is None:
        pytest.skip("no chromium with chromedriver on this machine")
    target = tmp_path_factory.mktemp("pdf") / "book.pdf"
    subprocess.run([sys.executable, ROOT / "book" / "paper.py", site, target], check=True)
    return pypdf.PdfReader(target)


def titles(outline: list[object]) -> list[str]:
    """Return the titles of bookmarks, those below others too."""
    found: list[str] = []
    for entry in outline:
        found += titles(entry) if isinstance(entry, list) else [str(entry.title)]  # type: ignore[attr-defined]
    return found


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_the_book_in_one_pdf(book: pypdf.PdfReader, site: Path) -> None:
    texts = [sheet.extract_text() for sheet in book.pages]
    assert len(texts) >= 4 * len(PAGES)
    whole = squeezed("".join(texts))
    for page in PAGES:
        article = read_html(site, page).select_one("article.bd-article")
        assert article is not None
        heading = article.select_one("h1")
        assert heading is not None
        assert str(heading.find(string=True)) in titles(book.outline)
        for section in article.select("h2"):
            assert squeezed(str(section.find(string=True))) in whole, (page, section)
    assert all(f"Under the Roof · {number}" in text for number, text in enumerate(texts, 1))


def test_links_in_the_pdf_lead_inside_it_or_to_the_world(book: pypdf.PdfReader) -> None:
    links = [note.get_object() for sheet in book.pages for note in sheet.get("/Annots", [])]
    assert any("/Dest" in link for link in links)
    addresses = [str(link["/A"]["/URI"]) for link in links if "/URI" in link.get("/A", {})]
    assert [address for address in addresses if address.startswith("http://127.0.0.1") and ".html" in address] == []
