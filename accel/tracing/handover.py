"""Handover: traced arrays in the place of the caller's for the run, and plain ones again in all that it leaves."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from accel.tracing.recording import Traced, rebuilt

__all__ = ["carry_back", "held_in", "unwrapped"]

ATTRIBUTE_HOPS = 3
"""Objects within objects whose attributes are looked at, as in ``model.layer.cache``."""

Parts = Generator[tuple[Any, int], Any, Any]
"""Gives (part, attributes to follow from it), is sent the part with plain arrays, and returns the whole."""
Known = dict[int, tuple[Any, Any]]
"""What was met before, by id: itself, and what stands for it."""

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


def unwrapped(value: Any) -> Any:
    """Return a value with plain arrays, the caller's own where they are the same; containers are changed in place.

    Reaches into tuples, lists, dicts, deques, their subclasses, dataclasses, the attributes of other objects, and what
    functions close over, however deep the containers are nested: each is a generator that asks for its parts.
    """
    known: Known = {}
    waiting: list[Parts] = []
    answer: Any = None
    request = value, ATTRIBUTE_HOPS
    while True:
        part, hops = request
        if isinstance(part, Traced):
            answer = _plain(part)
        elif isinstance(part, _LEAVES):
            answer = part
        elif id(part) in known:
            answer = known[id(part)][1]
        else:
            known[id(part)] = part, part  # the first keeps the id from being used again
            waiting.append(_parts(part, known, hops))
            answer = None
        while waiting:
            try:
                request = waiting[-1].send(answer)
                break
            except StopIteration as done:
                waiting.pop()
                answer = done.value
        else:
            return answer


def _parts(value: Any, known: Known, hops: int) -> Parts:
    """Ask for the parts of a value, put them in their places, and return the value."""
    if isinstance(value, tuple):
        items = []
        for item in value:
            items.append((yield item, hops))  # noqa: PERF401 - a comprehension cannot yield
        known[id(value)] = value, rebuilt(value, items)
        return known[id(value)][1]
    yield from _items(value, hops)
    yield from _attributes(value, hops)
    return value


def _items(value: Any, hops: int) -> Parts:
    if isinstance(value, dict):
        for key, item in list(dict.items(value)):
            yield from _replace(dict.__setitem__, value, key, item, hops)
    elif isinstance(value, (list, deque)):
        base: Any = list if isinstance(value, list) else deque
        for place, item in enumerate(list(base.__iter__(value))):
            yield from _replace(base.__setitem__, value, place, item, hops)
    elif isinstance(value, types.MethodType):
        yield value.__self__, hops
    elif isinstance(value, types.FunctionType):
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # a variable that has no value yet
                yield from _replace(_set_attribute, cell, "cell_contents", cell.cell_contents, hops)


def _attributes(value: Any, hops: int) -> Parts:
    """Follow the attributes of dataclasses always, of other objects `hops` times: they may lead anywhere."""
    if is_dataclass(value):
        for field in fields(value):
            with suppress(AttributeError):  # a field that was never set
                item = object.__getattribute__(value, field.name)
                yield from _replace(_set_attribute, value, field.name, item, hops)
    elif hops:
        with suppress(AttributeError):  # most built-in types have no attributes of their own
            attributes = object.__getattribute__(value, "__dict__")
            for name, item in list(attributes.items()):
                yield from _replace(dict.__setitem__, attributes, name, item, hops - 1)


def _set_attribute(owner: Any, name: str, value: Any) -> None:
    object.__setattr__(owner, name, value)  # a frozen dataclass has a `__setattr__` that refuses


def _replace(store: Any, owner: Any, key: Any, item: Any, hops: int) -> Parts:
    plain = yield item, hops
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
