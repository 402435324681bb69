"""Makes Sphinx see what it does not watch by itself.

- A change in `accel/`, its widgets' scripts and styles too, or in the pinned versions executes every chapter again: the
  results on the pages come from them.
- A change in `_static/` or `_ext/` writes every page again; the results stay.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

KEY_LENGTH = 16
# Of widgets, script and style travel in the results.
SUFFIXES_OF_RESULTS = frozenset({".py", ".json", ".js", ".css", ".wasm"})


def digest_of(root: Path, paths: Iterable[Path]) -> str:
    """Return a short hash of the names and contents of files."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:KEY_LENGTH]


def sources_of_results(root: Path) -> list[Path]:
    """Return the files that decide what a chapter computes, its own text apart."""
    package = root / "accel"
    decisive = [path for path in package.rglob("*") if path.suffix in SUFFIXES_OF_RESULTS]
    return [*decisive, root / "requirements.txt"]


def sources_of_pages(root: Path) -> list[Path]:
    """Return the files that decide what a page looks like; of the installed JavaScript, its stamp stands for all."""
    static = root / "book/_static"
    files = [path for path in static.rglob("*") if path.is_file() and static / "vendor" not in path.parents]
    return [*files, *static.glob("vendor/.stamp"), *(root / "book/_ext").glob("*.py")]


def watch(app: Sphinx, config: Config) -> None:
    """Put the hashes where Sphinx compares them with those of the last build."""
    root = Path(app.srcdir)
    caches = Path(app.outdir).parent / ".jupyter_cache"
    key = digest_of(root, sources_of_results(root))
    for old in caches.glob("*"):
        if old.name != key:
            shutil.rmtree(old, ignore_errors=True)
    config.nb_execution_cache_path = str(caches / key)
    config.pages_digest = digest_of(root, sources_of_pages(root))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx; early, before MyST-NB reads its settings."""
    app.add_config_value("pages_digest", "", "env", types=(str,))
    app.connect("config-inited", watch, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
