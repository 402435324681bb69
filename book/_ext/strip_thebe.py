"""Removes sphinx-thebe from every page.

Jupyter Book always loads it. It names a CDN on each page and declares the same constant twice, which is an error in
the console; the book does not use it.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def is_thebe(asset: Any) -> bool:
    """Return whether a script or style sheet of a page belongs to Thebe."""
    name = str(getattr(asset, "filename", "") or "")
    body = str(getattr(asset, "attributes", {}).get("body") or "")
    return "thebe" in name or "THEBE_JS_URL" in body


def strip_thebe(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Drop Thebe's assets from the page that is about to be written."""
    for kind in ("script_files", "css_files"):
        context[kind] = [asset for asset in context.get(kind, []) if not is_thebe(asset)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx; late, so that Thebe has added its assets."""
    app.connect("html-page-context", strip_thebe, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
