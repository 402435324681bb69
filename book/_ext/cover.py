"""The cover of the book, a card for each page, and the line above each title: made from the pages and `_toc.yml`.

```{cover}
What stands on the cover beside the artwork.
```

```{chapter-cards}
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ARTWORK = "book/_static/cover.svg"
UNNUMBERED = ("Your machine", "Back matter")


@dataclass(frozen=True)
class Page:
    """What the card of a page says."""

    name: str
    part: str
    number: int | None
    title: str
    question: str
    objective: str
    minutes: str


def joined(match: re.Match[str] | None) -> str:
    """Return the first group on one line, or nothing where there was no match."""
    return " ".join(match[1].split()) if match else ""


def read_page(root: Path, name: str, part: str, number: int | None) -> Page:
    """Take title, question, objective and time from the source of a page; what it does not say stays empty."""
    source = (root / f"{name}.md").read_text(encoding="utf-8")
    return Page(
        name=name,
        part=part,
        number=number,
        title=joined(re.search(r"^# (.+)$", source, re.M)),
        question=joined(re.search(r"^# .+\n\s*\n\*([^*]+)\*\n", source, re.M)),
        objective=joined(re.search(r"\*\*You will learn\*\* (.+?)\n\s*\n", source, re.S)),
        minutes=joined(re.search(r"\*\*Time:\*\* ([^.,\n]+)", source)),
    )


def pages_of(root: Path) -> Iterator[Page]:
    """Yield the pages that `_toc.yml` lists below the cover, in reading order; chapters are numbered through."""
    contents = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    number = 0
    for part in contents["parts"]:
        for entry in part["chapters"]:
            is_chapter = part["caption"] not in UNNUMBERED
            number += is_chapter
            yield read_page(root, entry["file"], part["caption"], number if is_chapter else None)


def card(page: Page) -> list[str]:
    """Write one card in MyST; all of it leads to the page."""
    small = page.number is None
    lines = [f"::::{{grid-item-card}} {page.title}", f":link: /{page.name}", ":link-type: doc"]
    lines += [":class-card: page-card" + (" page-card-small" if small else ""), ""]
    if page.number is not None:
        lines += [f"[{page.number}]{{.page-card-number}}", ""]
    if page.question:
        lines += [f"[{page.question}]{{.page-card-question}}", ""]
    if page.objective and not small:
        lines += [f"You will learn {page.objective}", ""]
    footer = [":::{card-footer}", page.minutes, ":::"] if page.minutes else []
    return [*lines, *footer, "::::"]


def grid(pages: Sequence[Page]) -> list[str]:
    """Write the cards of one part of the book."""
    columns = "1 1 3 3" if pages[0].number is None else "1 1 2 2"
    return [f":::::{{grid}} {columns}", ":gutter: 3", "", *(line for page in pages for line in card(page)), ":::::", ""]


class ChapterCards(SphinxDirective):
    """A card for each page of the book, part by part."""

    def run(self) -> list[nodes.Node]:
        """Write the cards in MyST and have them parsed."""
        root = Path(self.env.srcdir)
        self.env.note_dependency(str(root / "_toc.yml"))
        parts: dict[str, list[Page]] = {}
        for page in pages_of(root):
            self.env.note_dependency(str(root / f"{page.name}.md"))
            parts.setdefault(page.part, []).append(page)
        lines = [line for name, pages in parts.items() for line in (f"[{name}]{{.cards-caption}}", "", *grid(pages))]
        box = nodes.container(classes=["page-cards"])
        self.state.nested_parse(StringList(lines, source=self.env.docname), self.content_offset, box)
        return [box]


class Cover(SphinxDirective):
    """The artwork, and beside it what the directive holds; its last paragraph is the links to begin with."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Put text and artwork side by side."""
        path = Path(self.env.srcdir) / ARTWORK
        self.env.note_dependency(str(path))
        text = nodes.container(classes=["cover-text"])
        self.state.nested_parse(self.content, self.content_offset, text)
        text.children[-1]["classes"].append("cover-links")
        # Inline, so that its colours follow the page's.
        artwork = nodes.raw("", path.read_text(encoding="utf-8"), format="html")
        return [nodes.container("", text, artwork, classes=["cover"])]


def add_kicker(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Say above the title which chapter this is."""
    page = next((page for page in pages_of(Path(app.srcdir)) if page.name == pagename), None)
    if page is not None and "<h1>" in context.get("body", ""):
        name = page.part if page.number is None else f"Chapter {page.number}"
        context["body"] = context["body"].replace("<h1>", f'<p class="kicker">{name}</p>\n<h1>', 1)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("cover", Cover)
    app.add_directive("chapter-cards", ChapterCards)
    app.connect("html-page-context", add_kicker, priority=700)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
