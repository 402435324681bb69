"""Peers: the libraries that kernels are compared with, where they are installed."""

from __future__ import annotations

import functools
import importlib
import re
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def names() -> list[str]:
    """Return the peers' names, as `requirements.txt` lists them."""
    return re.findall(r"^(\w+)==", REQUIREMENTS.read_text(encoding="utf-8"), flags=re.MULTILINE)


@functools.cache
def peer(name: str) -> ModuleType | None:
    """Return a peer's module, or None where it cannot be imported."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError):  # OSError: a library of its own is missing
        return None


def limit_threads(count: int) -> None:
    """Set the number of threads in every peer that a family has imported."""
    for name in names():
        module = sys.modules.get(name)
        if module is not None:
            module.set_num_threads(count)


def versions() -> dict[str, str]:
    """Return each peer's version, or "left out: not installed"."""
    return {name: metadata.version(name) if peer(name) else "left out: not installed" for name in names()}
