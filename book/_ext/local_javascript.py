"""Points formulas and widgets at the JavaScript in `_static/vendor`, which the build installs.

Where it is missing (no npm), Sphinx's and MyST-NB's own settings stay, and pages load from a CDN.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)

NO_SCRIPT = '<noscript><p class="no-script">The sliders on this page need JavaScript; the text does not.</p></noscript>'


def use_local_javascript(app: Sphinx, config: Config) -> None:
    """Set the addresses of MathJax and of the widgets, if the build installed them."""
    if not (Path(app.srcdir) / "book/_static/vendor/.stamp").exists():
        LOGGER.info("no JavaScript in book/_static/vendor: pages will load MathJax and the widgets from a CDN")
        return
    config.mathjax_path = "vendor/mathjax/tex-chtml.js"
    config.nb_ipywidgets_js = {
        "vendor/require.js": {},
        "widgets.js": {},
        # Where html-manager would look for a widget that it does not know: on this site, never on a CDN.
        "vendor/embed-amd.js": {"data-jupyter-widgets-cdn": "../_static/vendor/"},
    }


def announce_scripts(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Tell readers without JavaScript what a page with widgets does not show them."""
    scripts = context.get("script_files", [])
    if any("widget-state" in str(getattr(script, "attributes", {}).get("type")) for script in scripts):
        context["body"] = NO_SCRIPT + context["body"]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx; late, so that the page's scripts are known."""
    app.connect("config-inited", use_local_javascript)
    app.connect("html-page-context", announce_scripts, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
