"""Moves the numbers behind each figure from the page into files beside it.

In a notebook the links below a chart hold the numbers themselves (`accel.numbers`), because a notebook is one file. In
the site they would be most of a page's weight: here they become `numbers/PAGE-3.json` and `numbers/PAGE-3.csv`, and the
links, those in the frames of sliders too, lead there. That works from a folder as over a network, with no script.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path

from sphinx.application import Sphinx
from written_pages import rewrite, written_pages

FOLDER = "numbers"
SUFFIXES = {"application/json": ".json", "text/csv": ".csv"}
# As accel.numbers writes it, wherever it stands: in an attribute, or in one within the JSON of a widget.
EMBEDDED = re.compile(r"data:(application/json|text/csv);accel=numbers;base64,([A-Za-z0-9+/]+=*)")


class Files:
    """The numbers of one page. Equal ones are one file; JSON and CSV of a figure, side by side, share a name."""

    def __init__(self, page: Path) -> None:
        self._page = page
        self._names: dict[str, str] = {}
        self._latest = ""

    def clear(self) -> None:
        """Remove the files of the page's last version."""
        name = re.compile(rf"{re.escape(self._page.stem)}-\d+\.(json|csv)")
        for path in (self._page.parent / FOLDER).glob("*"):
            if name.fullmatch(path.name):
                path.unlink()

    def put(self, match: re.Match[str]) -> str:
        """Write one document and return its address, as seen from the page."""
        kind, data = match.groups()
        if kind == "application/json":
            self._latest = self._names.setdefault(data, f"{self._page.stem}-{len(self._names) + 1}")
        address = f"{FOLDER}/{self._latest}{SUFFIXES[kind]}"
        target = self._page.parent / address
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(base64.b64decode(data))
        return address


def move_numbers(app: Sphinx, exception: Exception | None) -> None:
    """Move the numbers out of every page that still holds some."""
    if exception is not None:
        return
    for path, text in written_pages(app):
        if EMBEDDED.search(text):
            files = Files(path)
            files.clear()
            rewrite(path, text, EMBEDDED.sub(files.put, text))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", move_numbers, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
