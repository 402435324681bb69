"""Structure: what the value of a task looks like without its data, and which tasks are the same work."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel.records import Record
from accel.tracing import array_like
from accel.tracing.shape_recording import Dataless

__all__ = [
    "ArraySpec",
    "Opaque",
    "arrays_in",
    "bytes_of",
    "described",
    "evaluated",
    "filled",
    "in_order",
    "is_known",
    "signature",
]

NUMERIC_KINDS = "biufc"
_KNOWN_MODULES = ("dask.array.", "numpy", "operator", "_operator", "builtins", "functools")


@dataclass(frozen=True)
class ArraySpec(Record):
    """Shape, dtype and strides of an array.

    >>> from accel.fleet.structure import ArraySpec
    >>> ArraySpec((1000, 1000), "float32", (4000, 4)).nbytes, ArraySpec((1000, 1000), "float32", (0, 4)).nbytes
    (4000000, 4000)
    """

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes that a worker holds and sends for it: a broadcast axis (stride 0) counts once, as Dask counts it."""
        size = np.dtype(self.dtype).itemsize
        for length, step in zip(self.shape, self.strides, strict=True):
            size *= 1 if step == 0 and length else length
        return size

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    def without_data(self) -> Any:
        """Return an array of this shape that holds no data, for a trace."""
        array = array_like(self._filled_shape, self.dtype, self._order)
        return array if self._filled_shape == self.shape else np.broadcast_to(array, self.shape)

    def with_ones(self) -> np.ndarray:
        """Return a real array of this shape, full of ones."""
        return np.broadcast_to(np.ones(self._filled_shape, self.dtype, self._order), self.shape)[...]

    @property
    def _filled_shape(self) -> tuple[int, ...]:
        return tuple(1 if step == 0 and n else n for n, step in zip(self.shape, self.strides, strict=True))

    @property
    def _order(self) -> Any:
        steps = [step for step, n in zip(self.strides, self._filled_shape, strict=True) if n > 1]
        return "F" if len(steps) > 1 and steps == sorted(steps) else "C"


class Opaque:
    """Stands for a value of which nothing is known: what is computed from it is not known either."""

    def __repr__(self) -> str:
        return "Opaque()"


@dataclass(frozen=True)
class _Nested:
    """A list, tuple or dict of described values."""

    kind: type
    keys: tuple[Any, ...]
    items: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class _Other:
    """Any other value, kept as it is."""

    value: Any


def described(value: Any) -> Any:
    """Return what a value looks like: arrays become `ArraySpec`, lists and dicts keep their form."""
    if isinstance(value, (np.ndarray, Dataless)) and value.dtype.kind in NUMERIC_KINDS:  # type: ignore[union-attr]
        return ArraySpec(value.shape, _dtype_name(value.dtype), value.strides)  # type: ignore[union-attr]
    if isinstance(value, np.generic) and value.dtype.kind in NUMERIC_KINDS:
        return ArraySpec((), _dtype_name(value.dtype), ())
    if type(value) is dict:
        return _Nested(dict, tuple(value), tuple(map(described, value.values())))
    if type(value) in (list, tuple):
        return _Nested(type(value), (), tuple(map(described, value)))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _Nested(type(value), value._fields, tuple(map(described, value)))
    return _Other(value)


def _dtype_name(dtype: np.dtype[Any]) -> str:
    return dtype.name if dtype.isnative else dtype.str


def filled(form: Any, make: Callable[[ArraySpec], Any]) -> Any:
    """Return a value of this form, with what `make` returns in the places of arrays."""
    if isinstance(form, ArraySpec):
        return make(form)
    if isinstance(form, _Nested):
        items = [filled(item, make) for item in form.items]
        if form.kind is dict:
            return dict(zip(form.keys, items, strict=True))
        return form.kind(*items) if form.keys else form.kind(items)
    return form.value if isinstance(form, _Other) else form


def arrays_in(form: Any) -> Iterator[ArraySpec]:
    """Go over the arrays of a form."""
    if isinstance(form, ArraySpec):
        yield form
    elif isinstance(form, _Nested):
        for item in form.items:
            yield from arrays_in(item)


def bytes_of(form: Any) -> int:
    """Return the bytes of all arrays of a form."""
    return sum(spec.nbytes for spec in arrays_in(form))


def evaluated(node: Any, values: Mapping[Any, Any], parts: Mapping[int, Any]) -> Any:
    """Run a task of a Dask graph; what is known of its parts, by their `id`, stands in for them."""
    from dask._task_spec import Alias, DataNode, Task, TaskRef, _execute_subgraph

    if id(node) in parts:
        return parts[id(node)]
    if isinstance(node, TaskRef):
        return values[node.key]
    if isinstance(node, Alias):
        return values[node.target]
    if isinstance(node, DataNode):
        return evaluated(node.value, values, parts)
    if type(node) in (list, tuple):
        return type(node)(evaluated(item, values, parts) for item in node)
    if not isinstance(node, Task):
        return node
    if node.func is _execute_subgraph:
        tasks, wanted, names, *given = node.args
        known = {name: evaluated(value, values, parts) for name, value in zip(names, given, strict=True)}
        for key in in_order(tasks, wanted, known):
            known[key] = evaluated(tasks[key], known, parts)
        return known[wanted]
    arguments = [evaluated(argument, values, parts) for argument in node.args]
    return node.func(*arguments, **{name: evaluated(value, values, parts) for name, value in node.kwargs.items()})


def in_order(tasks: Mapping[Any, Any], wanted: Any, known: Iterable[Any]) -> list[Any]:
    """Return the keys of the fused tasks that the wanted one needs, dependencies first."""
    order: dict[Any, None] = {}
    given = set(known)
    pending = [wanted]
    while pending:
        key = pending[-1]
        missing = [name for name in sorted(tasks[key].dependencies, key=str) if name not in order and name not in given]
        if missing and key not in order:
            pending += missing
            continue
        order.setdefault(pending.pop())
    return list(order)


def signature(node: Any, forms: Mapping[Any, Any]) -> tuple[Any, ...]:
    """Return what decides the work of a task: functions, constants, and the forms of what it is given.

    Keys, floats, seeds and where a slice begins are left out: they change values and not the work. Equal arrays in two
    places are told from two arrays.
    """
    return _Signer(forms).sign(node, {})


class _Signer:
    def __init__(self, forms: Mapping[Any, Any]) -> None:
        self._forms = forms
        self._ordinals: dict[Any, int] = {}

    def sign(self, node: Any, inner: Mapping[Any, Any]) -> Any:
        from dask._task_spec import Alias, DataNode, Task, TaskRef, _execute_subgraph

        if isinstance(node, (TaskRef, Alias)):
            key = node.key if isinstance(node, TaskRef) else node.target
            if key in inner:
                return inner[key]
            return "input", self._ordinals.setdefault(key, len(self._ordinals)), self._forms[key]
        if isinstance(node, DataNode):
            return self._constant(node.value, inner)
        if not isinstance(node, Task):
            return self._constant(node, inner)
        if node.func is _execute_subgraph:
            tasks, wanted, names, *given = node.args
            signed = {name: self.sign(value, inner) for name, value in zip(names, given, strict=True)}
            return self._sign_fused(tasks, wanted, signed)
        named = tuple((name, self.sign(value, inner)) for name, value in sorted(node.kwargs.items()))
        return _function(node.func), tuple(self.sign(value, inner) for value in node.args), named

    def _sign_fused(self, tasks: Mapping[Any, Any], wanted: Any, signed: dict[Any, Any]) -> Any:
        """Sign fused tasks in the order in which they are needed; a part used twice is named by its number."""
        order: list[Any] = []
        for key in in_order(tasks, wanted, signed):
            order.append(self.sign(tasks[key], signed))
            signed[key] = ("step", len(order))
        return "fused", tuple(order)

    def _constant(self, value: Any, inner: Mapping[Any, Any]) -> Any:
        if isinstance(value, (str, int, bool, type(None), np.dtype, type(Ellipsis))):
            return type(value).__name__, value
        if isinstance(value, slice):
            whole = all(isinstance(end, int) and end >= 0 for end in (value.start, value.stop))
            length = value.stop - value.start if whole else (value.start, value.stop)
            return "slice", length, value.step
        if isinstance(value, np.ndarray) and value.dtype.kind in NUMERIC_KINDS:
            return "array", described(value)
        if isinstance(value, (list, tuple)):
            return type(value).__name__, tuple(self.sign(item, inner) for item in value)
        if isinstance(value, Mapping):
            return "dict", tuple((str(name), self.sign(item, inner)) for name, item in value.items())
        return _function(value) if callable(value) else type(value).__name__


def _function(function: Any) -> Any:
    """Identify a function; of a `partial`, or of Dask's composed functions, what they are made of."""
    if isinstance(function, functools.partial):
        return "partial", _function(function.func), repr(function.args), repr(sorted(function.keywords.items()))
    parts = getattr(function, "funcs", None)  # of toolz.Compose
    if parts is not None:
        return "compose", _function(function.first), tuple(map(_function, parts))
    return getattr(function, "__module__", ""), getattr(function, "__qualname__", repr(function)), id(function)


def is_known(node: Any) -> bool:
    """Whether all functions of a task are Dask's or NumPy's own, and what they are given is plain: it may be run."""
    from dask._task_spec import DataNode, GraphNode, NestedContainer, Task, TaskRef

    if isinstance(node, DataNode):
        return is_known(node.value)
    if isinstance(node, Task):
        own = isinstance(node, NestedContainer) or is_known(node.func)
        return own and all(map(is_known, (*node.args, *node.kwargs.values())))
    if isinstance(node, (list, tuple)):
        return all(map(is_known, node))
    if isinstance(node, Mapping):
        return all(map(is_known, node.values()))
    if isinstance(node, (TaskRef, GraphNode, str, int, float, complex, bool, slice, type(None), type(Ellipsis))):
        return True
    if isinstance(node, (np.ndarray, np.generic, np.dtype, np.random.SeedSequence, np.random.BitGenerator)):
        return True
    inner = getattr(node, "func", None) or getattr(node, "first", None)  # of a partial, of a composed function
    module = f"{getattr(inner or node, '__module__', '')}."
    return callable(node) and (module.startswith(_KNOWN_MODULES) or module == "dask._task_spec.")
