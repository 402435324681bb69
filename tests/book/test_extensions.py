"""The Sphinx extensions of the book, and the build script's own promises."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pages import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import freshness
import notebooks


@pytest.mark.parametrize(
    ("address", "slug"),
    [
        ("https://github.com/owner/some.name.git\n", "owner/some.name"),
        ("https://github.com/owner/name/", "owner/name"),
        ("git@github.com:owner/name.git", "owner/name"),
        ("ssh://git@github.com/owner/name", "owner/name"),
        ("https://example.org/owner/name.git", None),
        ("/srv/git/name.git", None),
        ("https://github.com.example.org/owner/name", None),
        ("", None),
    ],
)
def test_only_addresses_on_github_get_buttons(address: str, slug: str | None) -> None:
    assert notebooks.github_slug(address) == slug


def test_continuous_integration_names_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert notebooks.find_slug(tmp_path) is None
    monkeypatch.setenv("GITHUB_REPOSITORY", "owner/name")
    assert notebooks.find_slug(tmp_path) == "owner/name"


def make_book(root: Path) -> None:
    """Lay out the folders that decide whether a page is up to date."""
    for name, text in {
        "accel/plot/bars.py": "width = 1",
        "accel/reference/machine.json": "{}",
        "accel/quiz.js": "",
        "requirements.txt": "numpy==2.4.6",
        "book/_static/site.css": "body {}",
        "book/_ext/freshness.py": "",
        "book/roofline.md": "# Roofline",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("changed", "results", "pages"),
    [
        ("accel/plot/bars.py", True, False),
        ("accel/reference/machine.json", True, False),
        ("accel/quiz.js", True, False),
        ("requirements.txt", True, False),
        ("book/_static/site.css", False, True),
        ("book/_ext/freshness.py", False, True),
        ("book/roofline.md", False, False),
    ],
)
def test_a_change_makes_results_or_pages_out_of_date(changed: str, results: bool, pages: bool, tmp_path: Path) -> None:
    def digests() -> tuple[str, str]:
        return (
            freshness.digest_of(tmp_path, freshness.sources_of_results(tmp_path)),
            freshness.digest_of(tmp_path, freshness.sources_of_pages(tmp_path)),
        )

    make_book(tmp_path)
    before = digests()
    (tmp_path / changed).write_text("something else")
    after = digests()
    assert (before[0] != after[0], before[1] != after[1]) == (results, pages)


def test_a_new_module_makes_results_out_of_date(tmp_path: Path) -> None:
    make_book(tmp_path)
    before = freshness.digest_of(tmp_path, freshness.sources_of_results(tmp_path))
    (tmp_path / "accel" / "empty.py").touch()
    assert freshness.digest_of(tmp_path, freshness.sources_of_results(tmp_path)) != before


def test_the_lock_file_names_no_download_host() -> None:
    lock = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))
    installed = [package for name, package in lock["packages"].items() if name]
    assert installed
    assert all("resolved" not in package and package["integrity"] for package in installed)
