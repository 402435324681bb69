"""Buttons that open a chapter elsewhere: right for each page where the repository is known, absent where it is not."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from pages import ROOT, source_of, table_of_contents

NOTEBOOK = """---
jupytext: {text_representation: {extension: .md, format_name: myst}}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
# A page

```{code-cell} ipython3
1 + 1
```
"""
CONFIGURATION = """
title: One page
only_build_toc_files: true
execute: {execute_notebooks: cache}
sphinx:
  local_extensions: {notebooks: book/_ext}
  config: {nb_execution_cache_path: _build/.jupyter_cache}
"""
BUILD = "from jupyter_book.cli.main import main; main()"


def build_a_page(root: Path, slug: str | None) -> BeautifulSoup:
    """Build a book of one page with the book's own extension, and return that page."""
    for name, text in {
        "_config.yml": CONFIGURATION,
        "_toc.yml": "format: jb-book\nroot: book/page\n",
        "book/page.md": NOTEBOOK,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    shutil.copytree(ROOT / "book" / "_ext", root / "book" / "_ext")
    environment = {name: value for name, value in os.environ.items() if name != "GITHUB_REPOSITORY"}
    if slug:
        environment["GITHUB_REPOSITORY"] = slug
    done = subprocess.run(
        [sys.executable, "-c", BUILD, "build", "."],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return BeautifulSoup((root / "_build/html/book/page.html").read_text(encoding="utf-8"), "html.parser")


def addresses(html: BeautifulSoup) -> list[str]:
    return [str(link["href"]) for link in html.select(".article-header-buttons a[href]")]


def test_a_known_repository_gets_buttons_for_its_page(tmp_path: Path) -> None:
    found = addresses(build_a_page(tmp_path, "owner/name"))
    assert "https://mybinder.org/v2/gh/owner/name/main?urlpath=lab/tree/book/page.md" in found
    assert "https://colab.research.google.com/github/owner/name/blob/gh-pages/book/page.ipynb" in found
    assert "https://github.com/owner/name" in found
    assert "page.ipynb" in found
    assert any(address.endswith("_sources/book/page.md") for address in found)
    notebook = (tmp_path / "_build/html/book/page.ipynb").read_text(encoding="utf-8")
    assert '%pip install -q \\"accel[chapters] @ git+https://github.com/owner/name\\"' in notebook


def test_an_unknown_repository_gets_none(tmp_path: Path) -> None:
    found = addresses(build_a_page(tmp_path, None))
    assert "page.ipynb" in found
    assert [address for address in found if address.startswith("http")] == []
    assert "%pip install" not in (tmp_path / "_build/html/book/page.ipynb").read_text(encoding="utf-8")


def test_the_site_names_only_its_own_pages(site: Path) -> None:
    for page in table_of_contents():
        html = BeautifulSoup((site / f"{page}.html").read_text(encoding="utf-8"), "html.parser")
        for address in addresses(html):
            if "mybinder" in address or "colab" in address or address.endswith(".ipynb"):
                assert Path(address.split("?urlpath=")[-1]).stem == Path(page).name
        if "{code-cell}" in source_of(page):
            assert f"{Path(page).name}.ipynb" in addresses(html)


@pytest.mark.skipif(importlib.util.find_spec("repo2docker") is None, reason="jupyter-repo2docker is not installed")
def test_binder_accepts_the_repository() -> None:
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", "."]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "requirements.txt" in done.stdout + done.stderr
