"""Writes each chapter's executed notebook beside its page, and links to it: download, Binder, Colab.

Binder and Colab need the repository's address. Continuous integration knows it (`GITHUB_REPOSITORY`), or git does
(`origin`); where neither names a GitHub repository, those buttons are left out and the build log says so.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import nbformat
from jupyter_cache import get_cache
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)

BRANCH = "main"
# The workflow publishes the site, with its notebooks, to this branch; Colab opens notebooks from branches only.
SITE_BRANCH = "gh-pages"


def github_slug(address: str) -> str | None:
    """Return `owner/name` from the address of a GitHub repository, or None if it is not one.

    >>> github_slug("git@github.com:owner/name.git")
    'owner/name'
    """
    match = re.fullmatch(r"(?:https://|ssh://git@|git@)github\.com[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?", address.strip())
    return match[1] if match else None


def find_slug(root: Path) -> str | None:
    """Return the `owner/name` of the repository, from the environment or from git, or None where neither knows."""
    if slug := os.environ.get("GITHUB_REPOSITORY"):
        return slug
    git = ["git", "-C", str(root), "remote", "get-url", "origin"]
    try:
        answer = subprocess.run(git, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return github_slug(answer.stdout) if answer.returncode == 0 else None


def set_repository(app: Sphinx, config: Config) -> None:
    """Give the theme the repository's address, or take away the buttons that would need it."""
    config.repository_slug = find_slug(Path(app.srcdir)) or ""
    options = config.html_theme_options
    for key in ("repository_url", "repository_branch", "launch_buttons"):
        options.pop(key, None)
    known = bool(config.repository_slug)
    options.update(use_repository_button=known, use_issues_button=known)
    if known:
        options.update(repository_url=f"https://github.com/{config.repository_slug}", repository_branch=BRANCH)
    else:
        LOGGER.info("the repository's address on GitHub is not known: pages get no Binder, Colab or source buttons")


def install_cell(slug: str) -> nbformat.NotebookNode:
    """Return the cell that installs accel on Colab, which has nothing but the notebook."""
    source = (
        "# Only Colab needs this: it opens the notebook without the repository.\n"
        f'%pip install -q "accel[chapters] @ git+https://github.com/{slug}"'
    )
    return nbformat.v4.new_code_cell(source, id="install-accel")


def read_executed(app: Sphinx, pagename: str) -> nbformat.NotebookNode | None:
    """Return the notebook of a page with its outputs, or None for pages that are not notebooks."""
    written = Path(app.outdir).parent / "jupyter_execute" / f"{pagename}.ipynb"
    if not written.exists():
        return None
    # MyST-NB writes it without outputs when they came from the cache; so they are taken from there.
    cache = get_cache(app.config.nb_execution_cache_path)
    _, notebook = cache.merge_match_into_notebook(nbformat.read(written, as_version=4))
    return notebook


def write_notebook(app: Sphinx, pagename: str) -> bool:
    """Write the executed notebook beside its page; return False for pages that are not notebooks."""
    notebook = read_executed(app, pagename)
    if notebook is None:
        return False
    if app.config.repository_slug:
        notebook.cells.insert(0, install_cell(app.config.repository_slug))
    target = Path(app.outdir) / f"{pagename}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)
    return True


def link(text: str, url: str, icon: str, tooltip: str) -> dict[str, str]:
    """Return a button of the theme's header that opens a page."""
    return {"type": "link", "text": text, "url": url, "icon": icon, "tooltip": tooltip}


def launch_group(slug: str, pagename: str) -> dict[str, Any]:
    """Return the menu that runs a chapter elsewhere."""
    binder = f"https://mybinder.org/v2/gh/{slug}/{BRANCH}?urlpath=lab/tree/{pagename}.md"
    colab = f"https://colab.research.google.com/github/{slug}/blob/{SITE_BRANCH}/{pagename}.ipynb"
    buttons = [
        link("Binder", binder, "_static/images/logo_binder.svg", "Run this chapter on Binder"),
        link("Colab", colab, "_static/images/logo_colab.png", "Run this chapter on Colab"),
    ]
    return {
        "type": "group",
        "tooltip": "Run this chapter",
        "icon": "fas fa-rocket",
        "buttons": buttons,
        "label": "launch-buttons",
    }


def add_buttons(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Write the page's notebook and add the buttons that lead to it."""
    if doctree is None or not write_notebook(app, pagename):
        return
    groups = context["header_buttons"]
    here = link(".ipynb", f"{Path(pagename).name}.ipynb", "fas fa-code", "Download the executed notebook")
    for group in groups:
        if group.get("label") == "download-buttons":
            group["buttons"].insert(0, here)
    if slug := app.config.repository_slug:
        groups.insert(0, launch_group(slug, pagename))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx; after the theme has made its header buttons (501)."""
    app.add_config_value("repository_slug", "", "html", types=(str,))
    app.connect("config-inited", set_repository)
    app.connect("html-page-context", add_buttons, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
