"""Fixtures of the tests that read the built site or drive a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import chromium
import pytest
from hypothesis import HealthCheck, settings

# The first example of a test may compile a kernel, and a shared machine may do other work in any of them.
settings.register_profile("accel", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("accel")

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_build" / "html"


@pytest.fixture(scope="session")
def site() -> Path:
    """Return the folder of the built site; build it if it is not there (`make test` always has)."""
    if not (SITE / "book" / "index.html").exists():
        subprocess.run([sys.executable, ROOT / "book" / "build.py", "book"], check=True)
    return SITE


@pytest.fixture(scope="session")
def site_url(site: Path) -> Iterator[str]:
    """Serve the built site on loopback and return its address."""
    with chromium.serve(site) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[chromium.Browser]:
    """Return a headless Chromium; skip without one, or fail if ACCEL_REQUIRE_BROWSER=1 says that one must be there."""
    found = chromium.find_chromium()
    if found is None:
        reason = "no chromium with chromedriver on this machine (Debian, Ubuntu: apt-get install chromium-driver)"
        if os.environ.get("ACCEL_REQUIRE_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    driven = chromium.Browser(*found)
    yield driven
    driven.close()
