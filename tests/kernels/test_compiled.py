"""Machine code on disk: kept where that works, done without where it does not, and removed when it is old."""

import errno
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")

from accel.kernels import compiled

# A compiled function in a module of its own. The program calls it and prints how often it was read from the disk.
MODULE = """
from accel.kernels.compiled import compiled

@compiled
def halve(x):
    return x / 2
"""
PROGRAM = """
import sys, warnings
sys.path.insert(0, {folder!r})
warnings.simplefilter("error")
import numba
before = numba.config.CACHE_DIR
{before}
from halving import halve
assert numba.config.CACHE_DIR == before
assert halve(3.0) == 1.5
print(sum(halve.stats.cache_hits.values()))
"""


def run(folder: Path, before: str = "") -> str:
    """Run the program with `folder` as accel's cache; it must be silent. Return the number of cache hits."""
    (folder.parent / "halving.py").write_text(MODULE)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(folder=str(folder.parent), before=before)],
        env=os.environ | {"ACCEL_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert not list(folder.parent.glob("__pycache__/*.nb*")), "machine code beside the sources"
    return done.stdout.strip()


def code_folder(cache: Path) -> Path:
    """Return the one folder of machine code."""
    (folder,) = (cache / "compiled").iterdir()
    return folder


def test_machine_code_is_kept_between_processes_in_accels_folder(tmp_path):
    cache = tmp_path / "cache"
    assert run(cache) == "0"
    assert run(cache) == "1"
    assert {path.suffix for path in code_folder(cache).rglob("*.nb*")} == {".nbi", ".nbc"}


def test_where_nothing_can_be_written_functions_compile_without_a_word(tmp_path):
    cache = tmp_path / "cache"
    cache.write_text("a file where the folder should be")
    assert run(cache) == "0"
    assert cache.read_text() == "a file where the folder should be"


def test_a_file_system_that_is_read_only_is_noticed(tmp_path, monkeypatch):
    def read_only(**_):
        raise OSError(errno.EROFS, "Read-only file system")

    assert compiled._prepared(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    assert compiled._prepared(tmp_path / "a" / "b") is None


def test_a_write_that_fails_does_not_keep_a_function_from_running(tmp_path):
    """As on a full disk; the folder itself could still be made."""
    full = "import errno, os; from numba.core import caching\ndef full(*_): raise OSError(errno.ENOSPC, 'no space')\n"
    assert run(tmp_path / "cache", full + "caching.IndexDataCacheFile.save = full") == "0"


def test_a_folder_that_went_meanwhile_is_made_again(tmp_path):
    cache = tmp_path / "cache"
    gone = f"import shutil, accel.kernels.compiled\nshutil.rmtree({str(cache)!r})"
    assert run(cache, gone) == "0"
    assert run(cache) == "1"


def test_damaged_files_are_compiled_anew(tmp_path):
    cache = tmp_path / "cache"
    run(cache)
    for kind in (".nbc", ".nbi"):
        (path,) = code_folder(cache).rglob(f"*{kind}")
        path.write_bytes(b"")
        assert run(cache) == "0"


def test_folders_of_other_sources_go_when_unused_for_30_days(tmp_path):
    cache = tmp_path / "cache"
    day = 24 * 3600
    ages = {"0" * 16: 31 * day, "1" * 16: 29 * day, "notes": 99 * day, "2" * 15: 99 * day}
    for name, age in ages.items():
        folder = cache / "compiled" / name
        folder.mkdir(parents=True)
        (folder / "code.nbi").write_bytes(b"")
        os.utime(folder, (time.time() - age,) * 2)
    link, outside = cache / "compiled" / ("3" * 16), tmp_path / "outside"
    outside.mkdir()
    link.symlink_to(outside)
    os.utime(outside, (time.time() - 99 * day,) * 2)
    run(cache)
    left = {path.name for path in (cache / "compiled").iterdir()}
    assert left >= {"1" * 16, "notes", "2" * 15, "3" * 16}
    assert "0" * 16 not in left
    assert outside.exists()
    assert len(left) == 5


def test_a_folder_in_use_is_marked_as_used(tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    os.utime(folder, (0, 0))
    compiled._prepared(folder)
    assert time.time() - folder.stat().st_mtime < 3600


def test_reassociated_sums_and_compiled_ones_agree_and_keep_infinities():
    def total(x):
        s = x[0] * 0
        for i in range(x.size):
            s += x[i]
        return s

    x = np.linspace(0, 1, 1001)
    exact, fast = compiled.compiled(total), compiled.reassociated(total)
    assert exact(x) == pytest.approx(500.5, rel=1e-14)
    assert fast(x) == pytest.approx(500.5, rel=1e-14)
    x[500] = np.inf
    assert exact(x) == fast(x) == np.inf
