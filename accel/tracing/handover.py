"""Handover: traced arrays in the place of the caller's for the run, and plain ones again in all that it leaves."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from accel.tracing.recording import Traced, rebuilt

__all__ = ["carry_back", "held_in", "unwrapped"]

ATTRIBUTE_HOPS = 3
"""Objects within objects whose attributes are looked at, as in ``model.layer.cache``."""

_LEAVES = (int, float, complex, str, bytes, type(None), np.ndarray, np.generic, type, types.ModuleType)


def held_in(value: Any) -> Iterator[Any]:
    """Give a value and all that it holds: in tuples, lists, deques, dicts and dataclasses; what holds itself, once."""
    waiting, met = [value], {}
    while waiting:
        item = waiting.pop()
        if id(item) in met:
            continue
        met[id(item)] = item  # keeps the id from being used again
        yield item
        if isinstance(item, dict):
            waiting += dict.values(item)
        elif isinstance(item, (tuple, list, deque)):
            waiting += item
        elif is_dataclass(item) and not isinstance(item, type):
            waiting += (getattr(item, field.name, None) for field in fields(item))


def carry_back(pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> None:
    """Give the caller's arrays the dtype, shape and write protection that the function gave their traced views."""
    for own, traced in pairs:
        if own.dtype != traced.dtype:
            setattr(own, "dtype", traced.dtype)  # noqa: B010 - assignment that NumPy allows and its types do not
        if own.shape != traced.shape:
            own.shape = traced.shape
        if own.flags.writeable != traced.flags.writeable:
            own.flags.writeable = traced.flags.writeable


def unwrapped(value: Any, known: dict[int, Any] | None = None, hops: int = ATTRIBUTE_HOPS) -> Any:
    """Return a value with plain arrays, the caller's own where they are the same; containers are changed in place.

    Reaches into tuples, lists, dicts, deques, their subclasses, dataclasses, the attributes of other objects, and what
    functions close over. `known` holds what was met before, by id.
    """
    if isinstance(value, Traced):
        return _plain(value)
    if isinstance(value, _LEAVES):
        return value
    known = {} if known is None else known
    if id(value) in known:
        return known[id(value)][1]
    known[id(value)] = value, value  # the first keeps the id from being used again
    if isinstance(value, tuple):
        known[id(value)] = value, rebuilt(value, [unwrapped(item, known, hops) for item in value])
        return known[id(value)][1]
    _unwrap_items(value, known, hops)
    _unwrap_attributes(value, known, hops)
    return value


def _unwrap_items(value: Any, known: dict[int, Any], hops: int) -> None:
    if isinstance(value, dict):
        for key, item in list(dict.items(value)):
            _replace(dict.__setitem__, value, key, item, known, hops)
    elif isinstance(value, (list, deque)):
        base: Any = list if isinstance(value, list) else deque
        for place, item in enumerate(list(base.__iter__(value))):
            _replace(base.__setitem__, value, place, item, known, hops)
    elif isinstance(value, types.MethodType):
        unwrapped(value.__self__, known, hops)
    elif isinstance(value, types.FunctionType):
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # a variable that has no value yet
                _replace(_set_attribute, cell, "cell_contents", cell.cell_contents, known, hops)


def _unwrap_attributes(value: Any, known: dict[int, Any], hops: int) -> None:
    """Follow the attributes of dataclasses always, of other objects `hops` times: they may lead anywhere."""
    if is_dataclass(value):
        for field in fields(value):
            with suppress(AttributeError):  # a field that was never set
                item = object.__getattribute__(value, field.name)
                _replace(_set_attribute, value, field.name, item, known, hops)
    elif hops:
        with suppress(AttributeError):  # most built-in types have no attributes of their own
            attributes = object.__getattribute__(value, "__dict__")
            for name, item in list(attributes.items()):
                _replace(dict.__setitem__, attributes, name, item, known, hops - 1)


def _set_attribute(owner: Any, name: str, value: Any) -> None:
    object.__setattr__(owner, name, value)  # a frozen dataclass has a `__setattr__` that refuses


def _replace(store: Any, owner: Any, key: Any, item: Any, known: dict[int, Any], hops: int) -> None:
    plain = unwrapped(item, known, hops)
    if plain is not item:
        store(owner, key, plain)


def _plain(array: Traced) -> np.ndarray:
    base = array.base
    if type(base) is np.ndarray and _same_view(base, array):
        return base
    return array.view(np.ndarray)


def _same_view(base: np.ndarray, array: np.ndarray) -> bool:
    return (base.shape, base.strides, base.dtype, base.flags.writeable) == (
        array.shape, array.strides, array.dtype, array.flags.writeable,
    ) and base.__array_interface__["data"] == array.__array_interface__["data"]  # fmt: skip
