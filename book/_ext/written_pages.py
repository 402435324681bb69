"""The pages that a build wrote, for extensions that finish them. Pages written earlier are among them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx


def written_pages(app: Sphinx) -> Iterator[tuple[Path, str]]:
    """Give the path and the text of every page in the output folder; none for a builder that writes no HTML."""
    if app.builder.format != "html":
        return
    for path in sorted(Path(app.outdir).rglob("*.html")):
        if "_static" not in path.relative_to(app.outdir).parts:
            yield path, path.read_text(encoding="utf-8")


def rewrite(path: Path, before: str, after: str) -> None:
    """Write a page that changed."""
    if after != before:
        path.write_text(after, encoding="utf-8")
