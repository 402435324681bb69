"""Models: objects with a `forward` or `__call__` and arrays inside, whatever library they come from.

What is here finds the parameters and layers of such an object, runs it, and lets a trace see its parameters. Nothing
goes by the name of a class. Tensors are those of `accel.tensors`.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from accel.tensors import plain

__all__ = ["array_of", "children", "name_of", "named_arrays", "parameters", "recorded_calls", "run", "traceable"]

_NO_MODELS = (str, bytes, int, float, complex, np.generic, np.ufunc, type, ModuleType)
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType)


class Place(NamedTuple):
    """Where an array of a model is kept, so that a trace can put its own in its stead."""

    name: str
    array: np.ndarray
    put: Callable[[Any], None]


def array_of(value: Any) -> np.ndarray | None:
    """Return the array that a value is or, as a tensor, carries; None for all else."""
    array = plain(value)
    return array if isinstance(array, np.ndarray) else None


def name_of(model: Any) -> str:
    """Return the name of a function, or of the class of an object."""
    return getattr(model, "__name__", type(model).__name__)


def _is_layer(value: Any) -> bool:
    """Whether a value is an object that computes: not an array, a tensor, a class or a function."""
    if isinstance(value, _NO_MODELS + _FUNCTIONS) or array_of(value) is not None:
        return False
    return callable(value) or callable(getattr(value, "forward", None))


def run(model: Any, *inputs: Any, **keywords: Any) -> Any:
    """Call a model: itself where it can be called, else its `forward`.

    Raises
    ------
    TypeError
        If it has neither.
    """
    if callable(model):
        return model(*inputs, **keywords)
    forward = getattr(model, "forward", None)
    if not callable(forward):
        raise TypeError(
            f"a model is a function or an object with forward() or __call__(); got {type(model).__name__}, which has "
            "neither."
        )
    return forward(*inputs, **keywords)


def _items(value: Any) -> Iterator[tuple[str, Any, Callable[[Any], None]]]:
    """Yield what a model or container holds: name, value, and how to put another in its place."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key), item, partial(operator.setitem, value, key)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield str(index), item, partial(operator.setitem, value, index)
    else:
        for name, item in list(getattr(value, "__dict__", {}).items()):
            yield name, item, partial(setattr, value, name)


def _places(value: Any, prefix: str, seen: dict[int, Any]) -> Iterator[Place]:
    """Yield every array in a model, its layers and its containers, each object once."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    for name, item, put in _items(value):
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(item, np.ndarray):
            yield Place(path, item, put)
        elif (array := array_of(item)) is not None:
            if id(item) not in seen:
                seen[id(item)] = item
                yield Place(path, array, partial(setattr, item, "data"))
        elif isinstance(item, (Mapping, list, tuple)) or _is_layer(item):
            yield from _places(item, path, seen)


def named_arrays(model: Any) -> tuple[Place, ...]:
    """Return the places of all arrays that a model keeps, in its attributes, containers and layers, to any depth.

    >>> from accel.models import named_arrays
    >>> class Layer:
    ...     def __init__(self):
    ...         self.weight, self.steps = np.ones((2, 3)), [np.zeros(3)]
    ...     def forward(self, x):
    ...         return x @ self.weight
    >>> [(place.name, place.array.shape) for place in named_arrays(Layer())]
    [('weight', (2, 3)), ('steps.0', (3,))]
    """
    return () if isinstance(model, _NO_MODELS + _FUNCTIONS) else tuple(_places(model, "", {}))


def parameters(model: Any) -> tuple[np.ndarray, ...]:
    """Return the parameters of a model, memory that is shared by two of them once.

    They are what its `parameters()` returns where it has such a method, else every floating-point or complex array that
    it keeps. Call it before a first run: some models keep activations as well.

    Raises
    ------
    TypeError
        If `parameters()` returns something that is neither array nor tensor.
    """
    method = getattr(model, "parameters", None)
    if callable(method):
        listed = method()
        found = list(listed.values() if isinstance(listed, Mapping) else listed)
        arrays = [array_of(value) for value in found]
        for value, array in zip(found, arrays, strict=True):
            if array is None:
                raise TypeError(
                    f"parameters() of {type(model).__name__} gives arrays, or objects with an array in `data`; got "
                    f"{type(value).__name__}."
                )
    else:
        arrays = [place.array for place in named_arrays(model) if place.array.dtype.kind in "fc"]
    unique: dict[tuple[int, int], np.ndarray] = {}
    for array in arrays:
        assert array is not None
        unique.setdefault(np.lib.array_utils.byte_bounds(array), array)
    return tuple(unique.values())


def children(model: Any) -> dict[str, Any]:
    """Return the layers that a model holds directly, by the names of the attributes or containers they are in."""
    found: dict[str, Any] = {}

    def collect(holder: Any, prefix: str) -> None:
        for name, item, _put in _items(holder):
            path = f"{prefix}.{name}" if prefix else name
            if isinstance(item, (Mapping, list, tuple)):
                collect(item, path)
            elif _is_layer(item) and all(item is not other for other in found.values()):
                found[path] = item

    if not isinstance(model, _NO_MODELS + _FUNCTIONS):
        collect(model, "")
    return found


def traceable(
    model: Any, inputs: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Return a function, its positional and its keyword arguments, by which `accel.trace` sees all of a model's run.

    Inputs that are tensors become their arrays, and the arrays that the model keeps become keywords: a trace follows
    only arrays that it was given. The function puts them where they belong, runs the model, and puts its own back.
    """
    places = {place.name: place for place in named_arrays(model) if place.array.dtype.kind in "biufc"}
    values = (*inputs, *keywords.values())

    def forward(*given: Any, **kept: Any) -> Any:
        filled = [_refilled(value, array) for value, array in zip(values, given, strict=True)]
        arguments, named = filled[: len(inputs)], dict(zip(keywords, filled[len(inputs) :], strict=True))
        foreign = {name: array for name, array in kept.items() if array is not places[name].array}
        if not foreign:
            return run(model, *arguments, **named)
        with _in_place(places, foreign):
            return run(model, *arguments, **named)

    forward.__name__ = name_of(model)
    arrays = tuple(value if (array := array_of(value)) is None else array for value in values)
    return forward, arrays, {name: place.array for name, place in places.items()}


def _refilled(value: Any, array: Any) -> Any:
    """Return `array` as the model takes it: in a copy of the tensor that it came from, or as it is."""
    if isinstance(value, np.ndarray) or array_of(value) is None:
        return array
    if array is array_of(value):
        return value
    new = copy.copy(value)
    new.data = array
    return new


@contextmanager
def _in_place(places: Mapping[str, Place], arrays: Mapping[str, Any]) -> Iterator[None]:
    """Keep other arrays in a model for a while. A place that cannot be written, such as one in a tuple, is left."""
    changed = []
    try:
        for name, array in arrays.items():
            with suppress(TypeError, AttributeError):
                places[name].put(array)
                changed.append(places[name])
        yield
    finally:
        for place in changed:
            place.put(place.array)


def recorded_calls(model: Any, *inputs: Any) -> dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """Run a model once and return the arguments of every call of each of its layers.

    For the run, the class of a layer is replaced by a subclass that notes its arguments; a layer whose class cannot be
    replaced has no calls in the result.
    """
    layers = children(model)
    calls: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {name: [] for name in layers}
    originals: list[tuple[Any, type[Any]]] = []
    try:
        for name, layer in layers.items():
            with suppress(TypeError):
                original = type(layer)
                layer.__class__ = _noting(original, calls[name])
                originals.append((layer, original))
        run(model, *inputs)
    finally:
        for layer, original in originals:
            layer.__class__ = original
    return calls


def _noting(original: type[Any], calls: list[Any]) -> type[Any]:
    """Return a subclass that notes the arguments of outermost calls: `__call__` may lead on to `forward`."""
    inside: list[None] = []

    def noted(name: str) -> Callable[..., Any]:
        method = getattr(original, name)

        def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            if not inside:
                calls.append((arguments, keywords))
            inside.append(None)
            try:
                return method(self, *arguments, **keywords)
            finally:
                inside.pop()

        return call

    # Not getattr: every class can be called, by which an object of it is made.
    defined = {name for ancestor in original.__mro__ for name in vars(ancestor)}
    body: dict[str, Any] = {"__module__": original.__module__, "__slots__": ()}
    body |= {name: noted(name) for name in ("__call__", "forward") if name in defined}
    return type(original.__name__, (original,), body)
