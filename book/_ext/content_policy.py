"""Gives every page a Content-Security-Policy: what it may load and run is what this build put there.

Scripts come from the site's own files; of those that stand in a page, only the ones with a hash in its policy run, so
that HTML which slipped into a page could run nothing. Why the policy is no stricter:

- `style-src 'unsafe-inline'`: MathJax and the widgets write style elements, charts and tables have style attributes.
- `blob:` for scripts and workers: anywidget imports a widget's module, which lies in the page's widget state, from a
  blob; the page that measures the reader's machine makes its worker from one.
- `'wasm-unsafe-eval'`: that worker compiles WebAssembly. JavaScript from text stays forbidden.
- `'unsafe-hashes'`: the theme's buttons have `onclick` attributes; only those with a hash run.
- Without npm a build falls back to a CDN: then the hosts that the page's own script elements name are allowed, too.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from sphinx.application import Sphinx
from written_pages import rewrite, written_pages

META = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>\n?')
SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script>", re.DOTALL | re.IGNORECASE)
SOURCE = re.compile(r'\bsrc="([^"]*)"')
TYPE = re.compile(r'\btype="([^"]*)"')
HANDLER = re.compile(r'\son[a-z]+="([^"]*)"')
EXECUTED = {"", "text/javascript", "application/javascript", "module"}
"""Types of script elements that a browser runs; the others hold data."""


def source_hash(code: str) -> str:
    """Return the expression that allows one inline script.

    >>> source_hash("alert(1)")
    "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"
    """
    # A browser hashes what it parsed, in which every line ends with \n.
    digest = hashlib.sha256(code.replace("\r\n", "\n").replace("\r", "\n").encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def inline_hashes(page: str) -> tuple[list[str], list[str]]:
    """Return the expressions for the scripts in a page, and for the handlers in its attributes."""
    scripts = [
        code
        for attributes, code in SCRIPT.findall(page)
        if not SOURCE.search(attributes) and (TYPE.findall(attributes) or [""])[0].lower() in EXECUTED
    ]
    handlers = [html.unescape(code) for code in HANDLER.findall(SCRIPT.sub("", page))]
    return [*dict.fromkeys(map(source_hash, scripts))], [*dict.fromkeys(map(source_hash, handlers))]


def script_hosts(page: str) -> list[str]:
    """Return the other hosts that the script elements of a page load from: none where npm was at hand."""
    sources = [urlsplit(source) for attributes, _ in SCRIPT.findall(page) for source in SOURCE.findall(attributes)]
    return sorted({f"{source.scheme}://{source.netloc}" for source in sources if source.netloc})


def policy_for(page: str, site_handlers: Sequence[str] = ()) -> str:
    """Return the policy of a page; `site_handlers` are the expressions for handlers that stand on other pages."""
    scripts, own_handlers = inline_hashes(page)
    handlers = [*dict.fromkeys([*own_handlers, *site_handlers])]
    hosts = script_hosts(page)
    hashes = [*scripts, *(["'unsafe-hashes'", *handlers] if handlers else [])]
    directives = {
        "default-src": ["'none'"],
        "script-src": ["'self'", "blob:", "'wasm-unsafe-eval'", *hosts, *hashes],
        "worker-src": ["'self'", "blob:"],
        "style-src": ["'self'", "'unsafe-inline'", *hosts],
        "font-src": ["'self'", "data:", *hosts],
        "img-src": ["'self'", "data:", "blob:"],
        "connect-src": ["'self'", "blob:", "data:", *hosts],
        "manifest-src": ["'self'"],
        "base-uri": ["'self'"],
        "form-action": ["'self'"],
    }
    return "; ".join(f"{name} {' '.join(values)}" for name, values in directives.items())


def with_policy(page: str, site_handlers: Sequence[str] = ()) -> str:
    """Return a page with its policy, before anything that it rules."""
    page = META.sub("", page)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy_for(page, site_handlers))}">\n'
    return re.sub(r"<head>\s*", lambda match: match[0] + meta, page, count=1)


def add_policies(app: Sphinx, exception: Exception | None) -> None:
    """Write the policy into every page; last, when nothing changes their scripts any more.

    Each page allows the handlers of all: the search page reads the others for what it shows of them.
    """
    if exception is None:
        pages = list(written_pages(app))
        handlers = [handler for _, text in pages for handler in inline_hashes(text)[1]]
        for path, text in pages:
            rewrite(path, text, with_policy(text, handlers))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", add_policies, priority=950)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
