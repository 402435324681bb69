"""Tracing: run a function once and learn every NumPy call it made."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from time import perf_counter_ns as clock
from typing import Any

import numpy as np

from accel.assembly import Assembly
from accel.cost import Cost
from accel.operations import Buffer, Op, Operand, Scalar, Trace
from accel.recording import Recorder, Traced
from accel.traced import TracedArray, recording

__all__ = ["Buffer", "Op", "Operand", "Scalar", "Trace", "trace"]

NUMERIC_KINDS = "biufc"


def trace(fn: Callable[..., Any], *arrays: Any, **keywords: Any) -> Trace:
    """Run `fn(*arrays, **keywords)` once and record every NumPy call in it.

    >>> import accel, numpy as np
    >>> x = np.ones((1000, 8), dtype=np.float32)
    >>> found = accel.trace(lambda x: (x * 2 + x).sum(axis=0), x)
    >>> [(op.name, op.cost.flops) for op in found.ops]
    [('multiply', 8000), ('add', 8000), ('add.reduce', 7992)]
    >>> found.result
    array([3000., 3000., 3000., 3000., 3000., 3000., 3000., 3000.], dtype=float32)
    """
    if not callable(fn):
        raise TypeError(f"trace(fn, *arrays) runs a function, so fn must be callable; got {type(fn).__name__}.")
    names = _parameter_names(fn, len(arrays))
    recorder = Recorder(TracedArray)
    given = tuple(_wrapped(a, name, recorder) for a, name in zip(arrays, names, strict=True))
    options = {k: _wrapped(v, k, recorder) for k, v in keywords.items()}
    with recording(recorder):
        started = clock()
        result = fn(*given, **options)
        ended = clock()
    log_end = len(recorder.log)
    del given, options
    returned = {recorder.see(a).buffer for a in _arrays_in(result)}
    del recorder.log[log_end:]
    assembly = Assembly(recorder, returned)
    trace = Trace(
        function=_name(fn),
        signature=_signature(fn, (*zip(names, arrays, strict=True), *keywords.items())),
        ops=assembly.ops,
        buffers=assembly.buffers,
        cost=sum((op.cost for op in assembly.ops), Cost()),
        peak_temporary_bytes=assembly.peak_bytes,
        peak_temporaries=assembly.peak_arrays,
        seconds=(ended - started) * 1e-9,
    )
    trace.__dict__["_result"] = _unwrapped(result)
    return trace


def _wrapped(value: Any, name: str, recorder: Recorder) -> Any:
    """Turn an array argument into a traced one, tuples of them included; leave everything else alone."""
    if type(value) is tuple:
        return tuple(_wrapped(item, f"{name}[{i}]", recorder) for i, item in enumerate(value))
    if not isinstance(value, np.ndarray):
        return value
    _check(value, name)
    recorder.labels.setdefault(recorder.see(value).buffer, name)
    return value.view(TracedArray)


def _check(array: np.ndarray, name: str) -> None:
    if type(array) is not np.ndarray and not isinstance(array, Traced):
        raise TypeError(
            f"trace() takes plain NumPy arrays; {name} is a {type(array).__module__}.{type(array).__name__}, whose "
            f"operations follow rules of their own. Pass np.asarray({name}) (for a masked array, {name}.filled(0))."
        )
    if array.dtype.kind not in NUMERIC_KINDS:
        kind = "structured" if array.dtype.names else str(array.dtype)
        raise TypeError(
            f"trace() counts arithmetic on numbers, so arrays must be boolean, integer, floating-point or complex; "
            f"{name} has a {kind} dtype. Pass a numeric field or convert it with {name}.astype(float)."
        )


def _arrays_in(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _arrays_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _arrays_in(item)


def _unwrapped(value: Any) -> Any:
    """Give back plain arrays, and the caller's own objects where it returned those."""
    if isinstance(value, Traced):
        base = value.base
        if type(base) is np.ndarray and _same_view(base, value):
            return base
        return value.view(np.ndarray)
    if type(value) is dict:
        return {key: _unwrapped(item) for key, item in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_unwrapped(item) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(_unwrapped(item) for item in value)
    return value


def _same_view(base: np.ndarray, value: np.ndarray) -> bool:
    return (base.shape, base.strides, base.dtype) == (value.shape, value.strides, value.dtype) and (
        base.__array_interface__["data"] == value.__array_interface__["data"]
    )


def _name(fn: Callable[..., Any]) -> str:
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return "function" if name == "<lambda>" else name


def _parameter_names(fn: Callable[..., Any], given: int) -> list[str]:
    """Names for the positional arguments: the function's own where it has a signature."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "argument")
    return [names[i] if i < len(names) else f"{rest}[{i - len(names)}]" for i in range(given)]


def _signature(fn: Callable[..., Any], arguments: tuple[tuple[str, Any], ...]) -> str:
    described = [
        f"{name}: {value.dtype}[{', '.join(map(str, value.shape))}]"
        for name, value in arguments
        if hasattr(value, "shape") and hasattr(value, "dtype")
    ]
    return f"{_name(fn)}({', '.join(described)})"
