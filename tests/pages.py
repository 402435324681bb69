"""The pages of the built site and the chapters of the book, as test parameters need them: known before the build."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parent.parent
# Sphinx writes these itself.
GENERATED = ("search", "genindex")
# Pages that hold a tool instead of figures; each has tests of its own.
TOOLS = ("book/whatif",)
# Parts of the contents that are no chapters.
BESIDE_THE_BODY = ("Your machine", "Back matter")


def table_of_contents() -> list[str]:
    """Return the names of the book's pages, such as `book/roofline`, in reading order."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    entries = list(contents.get("chapters", []))
    for part in contents.get("parts", []):
        entries += part["chapters"]
    return [contents["root"], *(entry["file"] for entry in entries)]


def source_of(page: str) -> str:
    """Return the MyST source of a page."""
    return (ROOT / f"{page}.md").read_text(encoding="utf-8")


def chapters() -> list[str]:
    """Return the pages that execute code and belong to the body of the book: no back matter, no tools."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    body = [part for part in contents["parts"] if part["caption"] not in BESIDE_THE_BODY]
    pages = [entry["file"] for part in body for entry in part["chapters"]]
    return [page for page in pages if page not in TOOLS and "{code-cell}" in source_of(page)]


def pages_with(text: str) -> list[str]:
    """Return the pages in whose code or prose a text stands."""
    return [page for page in table_of_contents() if text in source_of(page)]


def read_html(site: Path, page: str) -> BeautifulSoup:
    """Parse a built page."""
    return BeautifulSoup((site / f"{page}.html").read_text(encoding="utf-8"), "html.parser")


def widget_state(html: BeautifulSoup) -> dict[str, Any]:
    """Return the state of a page's widgets by model id; empty if it has none."""
    script = html.find("script", type="application/vnd.jupyter.widget-state+json")
    return json.loads(str(script.string))["state"] if script else {}


def has_slider(html: BeautifulSoup) -> bool:
    """Return whether a page shows a slider."""
    return any("Slider" in model.get("model_name", "") for model in widget_state(html).values())
