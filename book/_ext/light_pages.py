"""Lets the text of a page be read before its scripts have run: all are deferred, and none of them waits for a network.

Sphinx puts scripts into the head, where each one holds up the text below it; html-manager alone is 3.6 MB. Deferred,
they are fetched beside the text and run in the same order after it. Two stay as they are: Sphinx's few settings, which
lines in the page refer to, and those of the search page, whose template expects them at once.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.builders.html._assets import _JavaScript

AT_ONCE = ("documentation_options.js",)
# MathJax takes the settings it finds when it runs, and the widgets' script adds to them.
LAST = ("tex-chtml.js", "tex-mml-chtml.js")
# sphinx-thebe leaves this in every page, though the book does not use it.
THEBE = re.compile(r'\s*<script type="text/x-thebe-config">.*?</script>\s*<script>kernelName = [^<]*</script>', re.S)


def deferred(script: Any) -> Any:
    """Return a script with `defer`, if it is a file that may wait."""
    name = str(getattr(script, "filename", "") or "")
    if not name or name.endswith(AT_ONCE) or "defer" in script.attributes or "async" in script.attributes:
        return script
    return _JavaScript(script.filename, priority=script.priority, defer="defer", **script.attributes)


def lighten(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Defer the scripts of the page that is about to be written."""
    if "body" in context:
        context["body"] = THEBE.sub("", context["body"])
    if pagename == "search":
        return
    scripts = [deferred(script) for script in context.get("script_files", [])]
    scripts.sort(key=lambda script: str(getattr(script, "filename", "") or "").endswith(LAST))
    context["script_files"] = scripts


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx; last, so that all scripts are known."""
    app.connect("html-page-context", lighten, priority=950)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
