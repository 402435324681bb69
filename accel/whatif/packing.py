"""Packing: many descriptions of one structure, as the structure once and rows of numbers; `page/packing.js` unpacks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

__all__ = ["pack"]


def pack(values: Sequence[Any]) -> dict[str, Any]:
    """Return the distinct structures of JSON values, and for each value which one it has and its numbers in order.

    >>> from accel.whatif.packing import pack
    >>> pack([{"a": 1, "b": "x"}, {"a": None, "b": "x"}])
    {'structures': [{'a': 0, 'b': 'x'}], 'rows': [[0, 1], [0, None]]}
    """
    structures: dict[str, tuple[int, Any]] = {}
    rows = []
    for value in values:
        numbers: list[float | None] = []
        structure = _emptied(value, numbers)
        index, _ = structures.setdefault(json.dumps(structure), (len(structures), structure))
        rows.append([index, *numbers])
    return {"structures": [structure for _, structure in structures.values()], "rows": rows}


def _emptied(value: Any, numbers: list[float | None]) -> Any:
    """Move the numbers out of a value, and leave a 0 for each."""
    if isinstance(value, dict):
        return {name: _emptied(each, numbers) for name, each in value.items()}
    if isinstance(value, list):
        return [_emptied(each, numbers) for each in value]
    if isinstance(value, str):
        return value
    numbers.append(value)
    return 0
