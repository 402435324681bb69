"""Machines: what of a saved machine the explorer's kernels need, and the rules that a reader's file must meet."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable
from typing import Any

from accel.function_probes import COMPILED_SPECIAL, NARROW_ELEMENTS
from accel.machine import Machine
from accel.pricing import LEARNED_ELEMENTS, NARROW, OF_TRUTHS, OUT_OF_ORDER, PROXIES, SIMILAR_DTYPES, STEP

__all__ = ["compact", "layout", "tables"]

DIGITS = 9
"""Significant digits of what a page holds: far below what any measurement repeats."""
ALWAYS = frozenset({"add", "multiply", "exp", "copy", "add.reduce", "matmul"})
"""What stands in for an operation that was not measured, and what all calls are compared with."""
ALWAYS_RATES = frozenset({"columns", "columns:conflict", "stacked products", COMPILED_SPECIAL})


def tables() -> dict[str, dict[str, Any]]:
    """Return which operations and dtypes are priced as others, and constants, for `page/pricing.js`."""
    constants = {
        "compiled_special": COMPILED_SPECIAL,
        "learned_elements": LEARNED_ELEMENTS,
        "narrow_elements": NARROW_ELEMENTS,
        "out_of_order": sorted(OUT_OF_ORDER),
        "step": STEP,
    }
    return {"proxies": PROXIES, "truths": OF_TRUTHS, "similar": SIMILAR_DTYPES, "constants": constants}


def compact(machine: Machine, descriptions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return what the prices of these descriptions depend on, in the layout of a saved machine."""
    calls = [call for described in descriptions for call in described["calls"]]
    names = {call["n"] for call in calls}
    names |= {PROXIES.get(name, name) for name in names} | ALWAYS
    dtypes = {call["d"] for call in calls} | {"float32", "float64"}
    rated = {call["rate"][0] for call in calls if "rate" in call} | ALWAYS_RATES
    roofs = machine.roofs.to_dict()
    keep = {
        "ceilings": lambda c: c["operation"].split(":")[0] in names and c["dtype"] in dtypes,
        "calls": lambda c: c["name"] in names | rated,
        "rates": lambda r: r["operation"].removesuffix(NARROW) in rated and r["dtype"] in dtypes,
        "overlaps": lambda o: o["operation"] in names,
    }
    whole = {name: roofs[name] for name in ("peaks", "bandwidths", "streams", "matmuls", "allocations")}
    chosen = {name: [each for each in roofs[name] if wanted(each)] for name, wanted in keep.items()}
    chosen["overlaps"] = chosen["overlaps"] or roofs["overlaps"]
    for stream in whole["streams"]:
        del stream["spread_fraction"]
    single = ("taken_at", "interpreted_seconds", "python_call_seconds", "view_seconds")
    calibration = whole | chosen | {name: roofs[name] for name in single}
    usual = _usual_overlap(machine)
    return _rounded(
        {
            "cpu_name": machine.cpu_name,
            "caches": [cache.to_dict() for cache in machine.caches],
            "calibration": calibration | {"usual_overlap": usual},
        }
    )


def _usual_overlap(machine: Machine) -> float:
    """Return the median over all operations: of those that a page leaves out too."""
    import statistics

    return statistics.median(overlap.exponent for overlap in machine.roofs.overlaps)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


def layout(kind: Any = Machine) -> Any:
    """Return the types of a record's fields as plain data, by which a page checks a file.

    ``"str"``, ``"int"``, ``"float"`` and ``"bool"`` are themselves; ``["list", kind]`` and ``["maybe", kind]`` have one
    kind inside; a record is a dict of its fields, where ``["default", kind]`` is one that a file may leave out.

    >>> from accel.machine import Cache
    >>> from accel.whatif.machines import layout
    >>> layout(Cache)["ways"]
    ['maybe', 'int']
    """
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return {field.name: _optional(field, layout(hints[field.name])) for field in dataclasses.fields(kind)}
    origin = typing.get_origin(kind)
    inside = [each for each in typing.get_args(kind) if each not in (type(None), ...)]
    if origin is tuple:
        return ["list", layout(inside[0])]
    if origin in (types.UnionType, typing.Union):
        given = [layout(each) for each in inside]
        return ["maybe" if len(given) < len(typing.get_args(kind)) else "any", *given]
    return kind.__name__


def _optional(field: Any, kind: Any) -> Any:
    return kind if field.default is dataclasses.MISSING else ["default", kind]
