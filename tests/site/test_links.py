"""Every link of the built site leads somewhere: files exist, and so do the anchors in them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup
from pages import GENERATED, table_of_contents

BASE = "http://site/"


@cache
def parse(path: Path) -> BeautifulSoup:
    """Parse a page once."""
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return the ids and names that a link can point at."""
    return frozenset(str(element[name]) for name in ("id", "name") for element in parse(path).select(f"[{name}]"))


def links(path: Path) -> list[str]:
    """Return what a page links to or loads."""
    attributes = {"a": "href", "link": "href", "script": "src", "img": "src", "source": "src"}
    return [
        str(element[attribute])
        for name, attribute in attributes.items()
        for element in parse(path).select(f"{name}[{attribute}]")
    ]


def fault_of(link: str, page: str, site: Path) -> str | None:
    """Return what is wrong with a link, or None."""
    target = urlsplit(urljoin(BASE + page, link))
    if target.scheme in {"mailto", "data", "javascript"}:
        return None
    if target.netloc != "site":
        return None if target.scheme in {"http", "https"} and "." in target.netloc else f"{link}: no such host"
    path = site / unquote(target.path.lstrip("/"))
    if not path.is_file():
        return f"{link}: no such file"
    if target.fragment and path.suffix == ".html" and unquote(target.fragment) not in anchors(path):
        return f"{link}: no such anchor"
    return None


@pytest.mark.parametrize("page", [*table_of_contents(), *GENERATED])
def test_every_internal_link_resolves(page: str, site: Path) -> None:
    name = f"{page}.html"
    found = links(site / name)
    assert found
    assert [fault for link in found if (fault := fault_of(link, name, site))] == []


def test_a_broken_link_is_seen(site: Path) -> None:
    page = f"{table_of_contents()[0]}.html"
    assert fault_of("missing.html", page, site) == "missing.html: no such file"
    assert fault_of("#missing", page, site) == "#missing: no such anchor"
    assert fault_of("#main-content", page, site) is None
