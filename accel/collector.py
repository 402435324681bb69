"""Collector: keeping Python's search for cyclic garbage out of what is measured or made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collection_off"]


@contextmanager
def collection_off() -> Iterator[None]:
    """Keep the collector still inside the block, and leave it afterwards as it was."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
