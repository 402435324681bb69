"""Prints the built site into one PDF, through Chromium: every page in reading order, with bookmarks.

python book/paper.py _build/html _build/under-the-roof.pdf          # what `make pdf` runs
"""

from __future__ import annotations

import base64
import functools
import http.server
import io
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pypdf
import yaml
from pypdf.generic import ArrayObject, NameObject, NullObject
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 60
PAPER = {"paperWidth": 8.27, "paperHeight": 11.69, "printBackground": True}
MARGINS = {"marginTop": 0.7, "marginBottom": 0.75, "marginLeft": 0.65, "marginRight": 0.65}
FOOTER = """
<div style="width: 100%; text-align: center; font: 8pt sans-serif; color: #555">
  Under the Roof · <span class="pageNumber"></span>
</div>"""
# A page is ready when its widgets are drawn, its formulas set and its fonts there.
READY = """
const views = document.querySelectorAll('script[type="application/vnd.jupyter.widget-view+json"]').length;
const drawn = document.querySelectorAll(".jupyter-widgets-view > *, .widget-subarea > *").length;
const formulas = [...document.querySelectorAll(".math")].every((math) => math.querySelector("mjx-container"));
return document.readyState === "complete" && document.fonts.status === "loaded" && drawn >= views && formulas;
"""
# On paper everything is open; what waits for a reader's guess is shown.
UNFOLD = """
document.documentElement.dataset.theme = "light";
document.querySelectorAll("details").forEach((details) => (details.open = true));
document.querySelectorAll(".cell[hidden]").forEach((cell) => (cell.hidden = false));
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line on the terminal for each."""

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback, at a free port, and give its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """Give a headless Chromium with a profile of its own."""
    browser, driver = next(filter(None, map(shutil.which, BROWSERS)), None), shutil.which("chromedriver")
    if not (browser and driver):
        raise SystemExit("paper.py: chromium and chromedriver are needed; on Debian: apt-get install chromium-driver")
    with tempfile.TemporaryDirectory(prefix="print-", ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"):
            options.add_argument(flag)
        options.add_argument(f"--user-data-dir={profile}")
        driven = webdriver.Chrome(service=Service(driver), options=options)
        try:
            yield driven
        finally:
            driven.quit()


def reading_order() -> list[tuple[str, list[str]]]:
    """Return the parts of the book and their pages, the cover first in a part without a name."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    parts = [(part["caption"], [entry["file"] for entry in part["chapters"]]) for part in contents["parts"]]
    return [("", [contents["root"]]), *parts]


def printed(browser: webdriver.Chrome, **options: Any) -> pypdf.PdfReader:
    """Print the page that is open."""
    answer = browser.execute_cdp_cmd("Page.printToPDF", {**PAPER, **MARGINS, **options})
    return pypdf.PdfReader(io.BytesIO(base64.b64decode(answer["data"])))


def page_numbers(browser: webdriver.Chrome, sheets: int) -> pypdf.PdfReader:
    """Print as many empty sheets with a number at their foot: Chromium counts within one print, not through a book."""
    empty = "<div style='break-after:page'>&nbsp;</div>" * (sheets - 1) + "<div>&nbsp;</div>"
    browser.get("about:blank")
    browser.execute_script("document.body.innerHTML = arguments[0]", empty)
    return printed(browser, displayHeaderFooter=True, headerTemplate="<span></span>", footerTemplate=FOOTER)


def lead_inside(book: pypdf.PdfWriter, page: Any, source: pypdf.PdfReader, first: int) -> None:
    """Make links to sections of the same page of the site lead to their place in the book.

    Chromium names those places, and the pages of a site share names ("exercises"): a name alone would lead anywhere.
    """
    for annotation in page.get("/Annots", []):
        link = annotation.get_object()
        place = source.named_destinations.get(link.get("/Dest"))
        if place is not None:
            sheet = book.pages[first + source.get_destination_page_number(place)]
            link[NameObject("/Dest")] = ArrayObject(
                [sheet.indirect_reference, NameObject("/XYZ"), NullObject(), place.top or NullObject(), NullObject()]
            )


def lead_across(book: pypdf.PdfWriter, address: str, firsts: dict[str, int]) -> None:
    """Make links between pages of the site lead to where those pages begin in the book."""
    for page in book.pages:
        for annotation in page.get("/Annots", []):
            link = annotation.get_object()
            target = str(link.get("/A", {}).get("/URI", ""))
            name = target.removeprefix(address + "/").split("#")[0].removesuffix(".html")
            if target.startswith(address) and name in firsts:
                del link["/A"]
                sheet = book.pages[firsts[name]]
                link[NameObject("/Dest")] = ArrayObject([sheet.indirect_reference, NameObject("/Fit")])


def print_book(site: Path, target: Path) -> int:
    """Write the PDF and return how many sheets it has."""
    book = pypdf.PdfWriter()
    firsts: dict[str, int] = {}
    with serve(site) as address, chromium() as browser:
        for part, pages in reading_order():
            bookmark = None
            for page in pages:
                browser.get(f"{address}/{page}.html")
                WebDriverWait(browser, SECONDS).until(
                    lambda driven: driven.execute_script(READY), f"{page} to be drawn"
                )
                browser.execute_script(UNFOLD)
                title = str(browser.execute_script("return document.querySelector('h1').firstChild.textContent"))
                firsts[page] = first = len(book.pages)
                sheets = printed(browser)
                book.append(sheets, import_outline=False)
                for sheet in book.pages[first:]:
                    lead_inside(book, sheet, sheets, first)
                if part and bookmark is None:
                    bookmark = book.add_outline_item(title=part, page_number=first)
                book.add_outline_item(title=title, page_number=first, parent=bookmark)
                print(f"page {first + 1}: {title}", flush=True)
        lead_across(book, address, firsts)
        for sheet, number in zip(book.pages, page_numbers(browser, len(book.pages)).pages, strict=True):
            sheet.merge_page(number)
    book.add_metadata({"/Title": "Under the Roof"})
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".part")
    book.write(unfinished)
    unfinished.replace(target)
    return len(book.pages)


if __name__ == "__main__":
    sheets = print_book(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{sys.argv[2]}: {sheets} pages")
