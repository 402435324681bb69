"""Mends what the theme and MyST-NB write that keeps some readers out, as axe-core found it.

Style and script that go with it stand in `_static/accessible.css` and `_static/accessible.js`.
"""

from __future__ import annotations

import re

from sphinx.application import Sphinx
from written_pages import rewrite, written_pages

MENDS: tuple[tuple[re.Pattern[str], str], ...] = (
    # A name that hides the words on the control: who speaks to the page says what stands there.
    (re.compile(r'<summary aria-label="Toggle hidden content">'), "<summary>"),
    (re.compile(r'(<button class="btn search-button-field[^>]*?) title="Search" aria-label="Search"'), r"\1"),
    # Font Awesome makes each title a text, and the name of the button is none of the three.
    (re.compile(r'(<i class="theme-switch [^>]*?) title="[^"]*"'), r'\1 aria-hidden="true"'),
    # The role of an entry in a list of sources has been given up, and the list has links beside its entries.
    (re.compile(r'(<div class="citation"[^>]*?) role="doc-biblioentry"'), r"\1"),
    (re.compile(r'<div role="list" class="citation-list">'), '<div class="citation-list">'),
    # Logo and search field stand in no landmark.
    (
        re.compile(r'<div id="pst-primary-sidebar" class="bd-sidebar-primary bd-sidebar([^"]*)">'),
        r'<div id="pst-primary-sidebar" class="bd-sidebar-primary bd-sidebar\1" role="complementary" '
        'aria-label="Book">',
    ),
)


def mend(html: str) -> str:
    """Return a page with better markup; one that was mended stays as it is.

    >>> mend('<summary aria-label="Toggle hidden content">Show code</summary>')
    '<summary>Show code</summary>'
    """
    for pattern, replacement in MENDS:
        html = pattern.sub(replacement, html)
    return html


def mend_pages(app: Sphinx, exception: Exception | None) -> None:
    """Mend every page."""
    if exception is None:
        for path, text in written_pages(app):
            rewrite(path, text, mend(text))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_css_file("accessible.css", priority=900)
    app.add_js_file("accessible.js", priority=900, loading_method="defer")
    app.connect("build-finished", mend_pages, priority=700)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
