"""What the build does with npm, without it, and where it fails: in a copy of what it reads, with nothing built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

# The environment is the one that the tests run in; what JupyterLab would print stands for it.
OPEN_LAB = """
import sys
from pathlib import Path
import build
build.make_environment = lambda purpose: Path(sys.executable)
build.lab_command = lambda python, environment: [sys.executable, "-c", "print('JupyterLab is open')"]
build.open_lab([])
"""
TAKES = ("package.json", "package-lock.json", ".npmrc", "book/build.py", "accel/browser/streams.wat")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a clone in which nothing has been built."""
    for name in TAKES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def open_lab(clone: Path, path: str) -> list[str]:
    """Do what `make lab` does, with programs from `path` only, and return the lines that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN_LAB],
        cwd=clone / "book",
        env=os.environ | {"PATH": path, "PYTHONPATH": str(clone / "book")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_without_npm_one_line_says_what_is_lost_and_where_npm_is_had(clone: Path) -> None:
    said, opened = open_lab(clone, path=str(clone / "nothing"))
    assert opened == "JupyterLab is open"
    assert said.startswith("npm was not found (it comes with Node.js: apt-get install npm, ")
    assert "nodejs.org" in said
    assert "widgets from a CDN" in said
    assert "plain JavaScript" in said


def test_without_npm_what_is_there_already_is_not_called_lost(clone: Path) -> None:
    (clone / "book" / "_static" / "vendor").mkdir(parents=True)
    said, _ = open_lab(clone, path=str(clone / "nothing"))
    assert "CDN" not in said
    assert "plain JavaScript" in said
    (clone / "accel" / "browser" / "streams.wasm").write_bytes(b"")
    assert open_lab(clone, path=str(clone / "nothing")) == ["JupyterLab is open"]


def test_an_npm_that_fails_does_not_keep_jupyterlab_shut(clone: Path) -> None:
    npm = clone / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text("#!/bin/sh\nexit 1\n")
    npm.chmod(0o755)
    *_, said, opened = open_lab(clone, path=str(npm.parent))
    assert said.startswith("build.py: npm ci failed (exit status 1)")
    assert said.endswith(
        "JupyterLab opens without it: the page that measures its reader's machine will do so in plain JavaScript."
    )
    assert opened == "JupyterLab is open"


@pytest.mark.skipif(not (shutil.which("npm") and shutil.which("node")), reason="no npm on this machine")
def test_with_npm_what_measures_in_a_page_is_assembled(clone: Path) -> None:
    *_, opened = open_lab(clone, path=os.environ["PATH"])
    assert opened == "JupyterLab is open"
    assembled = clone / "accel" / "browser" / "streams.wasm"
    assert assembled.read_bytes().startswith(b"\0asm\1\0\0\0")
    made = assembled.stat().st_mtime_ns
    open_lab(clone, path=os.environ["PATH"])
    assert assembled.stat().st_mtime_ns == made, "what did not change is made once"
