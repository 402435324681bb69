"""Tracing: run a function once and learn every NumPy call it made."""

from __future__ import annotations

import inspect
import types
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from time import perf_counter_ns as clock
from typing import Any

import numpy as np

from accel.cost import Cost
from accel.tracing.assembly import Assembly
from accel.tracing.handover import carry_back, unwrapped
from accel.tracing.operations import Buffer, Op, Operand, Scalar, Trace
from accel.tracing.overhead import find_unexplained, hidden_nanoseconds
from accel.tracing.recording import Recorder, Traced
from accel.tracing.shapes import ShapeArray, ShapeRecorder, array_like, shape_recording
from accel.tracing.traced import ArrayRecorder, TracedArray, recording

__all__ = ["Buffer", "Op", "Operand", "Scalar", "Trace", "array_like", "trace"]

NUMERIC_KINDS = "biufc"


def trace(fn: Callable[..., Any], *arrays: Any, **keywords: Any) -> Trace:
    """Run `fn(*arrays, **keywords)` once and record every NumPy call in it.

    The arrays are handed over as views of a type of their own (an ndarray subclass), through which each ufunc, NumPy
    function, method, operator and indexing reports itself. What the call returns and what it does to its arguments,
    their shape, dtype and write protection included, is what it does untraced. Arguments that are no arrays, and arrays
    inside lists or other objects, are passed on as they are.

    The traced arrays that the function leaves in its result, its arguments, its own attributes and the variables that
    it closes over are plain ones afterwards: in lists, dicts, deques, their subclasses, dataclasses and the attributes
    of other objects, three deep. One that it puts elsewhere (a global variable, a slot) stays a traced
    one, which outside a trace computes as an ndarray does.

    Traces may overlap in several threads and may be nested: each has its own calls. Threads to which the function hands
    its arrays report to its trace.

    Shapes alone are enough: with `accel.array_like(shape, dtype)` in the place of arrays nothing is computed, and the
    operations are those that the same function makes on real arrays.

    What a trace cannot see (compiled code, loops over single elements, NumPy calls on arrays that never met a traced
    one) is not lost: the time that no recorded call explains, where it is over 5 % of the run and 20 µs, is one
    operation named ``"opaque"``. Code that tests ``type(x) is np.ndarray`` takes another branch than usual;
    `isinstance` works. While the trace runs, `np.empty`, `np.zeros`, `np.asarray` and their like make traced arrays.

    Parameters
    ----------
    fn
        The function. It runs once; call it before if it compiles on its first call, or the compilation is traced too.
    *arrays, **keywords
        Its arguments. Arrays must be plain ndarrays, boolean, integer, floating-point or complex, of any shape,
        layout and byte order.

    Raises
    ------
    TypeError
        If `fn` is not callable or returns a generator or coroutine, whose work would come later; if an array is
        of another kind (masked arrays, matrices, object or structured dtypes…); if real arrays and shapes are mixed.
    Exception
        Whatever `fn` raises, untouched.

    Examples
    --------
    >>> import numpy as np
    >>> from accel.tracing import trace
    >>> x = np.ones((1000, 1000), dtype=np.float32)
    >>> found = trace(lambda x: (x * 2 + x).sum(axis=0), x)
    >>> [(op.call, op.cost.flops) for op in found.ops]
    [('multiply(x, 2)', 1000000), ('add(temporary 1, x)', 1000000), ('add.reduce(temporary 1)', 999000)]
    >>> found.result[:3], found.peak_temporary_bytes
    (array([3000., 3000., 3000.], dtype=float32), 4004000)
    """
    if not callable(fn):
        raise TypeError(f"trace(fn, *arrays) runs a function, so fn must be callable; got {type(fn).__name__}.")
    names = parameter_names(fn, len(arrays))
    described = (*zip(names, arrays, strict=True), *keywords.items())
    shapes_only = _uses_shapes(described)
    recorder = ShapeRecorder(ShapeArray) if shapes_only else ArrayRecorder()
    scope = shape_recording(recorder) if isinstance(recorder, ShapeRecorder) else recording(recorder)
    views: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    given = [_wrapped(a, name, recorder, views) for name, a in zip(names, arrays, strict=True)]
    options = {k: _wrapped(v, k, recorder, views) for k, v in keywords.items()}
    hidden_nanoseconds()
    recorder.log.clear()
    try:
        with scope:
            started = clock()
            result = fn(*given, **options)
            ended = clock()
    finally:
        carry_back(views.values())
        unwrapped([fn, arrays, keywords])
    _refuse_unfinished(fn, result)
    unexplained = None if shapes_only else find_unexplained(recorder, started, ended, getattr(fn, "__code__", None))
    returned = {recorder.see(array).buffer for array in _arrays_in(result)}
    assembly = Assembly(recorder, returned, unexplained)
    found = Trace(
        function=_name(fn),
        signature=_signature(fn, described),
        ops=assembly.ops,
        buffers=assembly.buffers,
        cost=_total(assembly.ops),
        peak_temporary_bytes=assembly.peak_bytes,
        peak_temporaries=assembly.peak_arrays,
        seconds=0.0 if shapes_only else (ended - started) * 1e-9,
        shapes_only=shapes_only,
    )
    found.__dict__["_result"] = unwrapped(result)
    return found


def _total(ops: tuple[Op, ...]) -> Cost:
    """Sum the costs field by field: a long trace would make hundreds of thousands of sums that nobody sees."""
    return Cost(**{field.name: sum(getattr(op.cost, field.name) for op in ops) for field in fields(Cost)})


def _uses_shapes(arguments: tuple[tuple[str, Any], ...]) -> bool:
    shaped = [name for name, value in arguments if isinstance(value, ShapeArray)]
    real = [name for name, value in arguments if isinstance(value, np.ndarray) and value.dtype.kind in "fc"]
    if shaped and real:
        raise TypeError(
            f"trace() takes either real arrays or shapes, so that it either computes or does not; {shaped[0]} is an "
            f"array_like and {real[0]} a real array. Pass array_like({real[0]}.shape, {real[0]}.dtype) as well."
        )
    return bool(shaped)


def _refuse_unfinished(fn: Callable[..., Any], result: Any) -> None:
    if not isinstance(result, _UNFINISHED) and type(result).__module__ != "itertools":
        return
    kind = _UNFINISHED_NAMES.get(type(result), f"{type(result).__name__} iterator")
    if isinstance(result, (types.GeneratorType, types.CoroutineType)):
        result.close()
    raise TypeError(
        f"trace() records what a function does while it runs; {_name(fn)} returned a {kind}, which has done "
        f"nothing yet. Pass a function that uses it up, such as lambda *a: list({_name(fn)}(*a))."
    )


_UNFINISHED_NAMES: dict[type[Any], str] = {
    types.GeneratorType: "generator",
    types.CoroutineType: "coroutine",
    types.AsyncGeneratorType: "asynchronous generator",
}
_UNFINISHED: tuple[Any, ...] = (*_UNFINISHED_NAMES, map, zip, filter, enumerate)


def _wrapped(value: Any, name: str, recorder: Recorder, views: dict[int, tuple[np.ndarray, np.ndarray]]) -> Any:
    """Turn an array argument into a traced one, tuples of them included; leave everything else alone.

    `views` holds the pairs of both by the id of the first: an array that is passed twice is one object to the function.
    """
    if type(value) is tuple:
        return tuple(_wrapped(item, f"{name}[{i}]", recorder, views) for i, item in enumerate(value))
    if isinstance(value, ShapeArray):
        recorder.labels.setdefault(recorder.see(value).buffer, name)
        return value
    if not isinstance(value, np.ndarray):
        return value
    _check(value, name)
    recorder.labels.setdefault(recorder.see(value).buffer, name)
    return views.setdefault(id(value), (value, value.view(TracedArray)))[1]


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


def _arrays_in(value: Any) -> Iterator[Any]:
    if isinstance(value, (np.ndarray, ShapeArray)):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _arrays_in(item)
    elif isinstance(value, (tuple, list, deque)):
        for item in value:
            yield from _arrays_in(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _arrays_in(getattr(value, field.name, None))


def _name(fn: Callable[..., Any]) -> str:
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return "function" if name == "<lambda>" else name


def parameter_names(fn: Callable[..., Any], given: int) -> list[str]:
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
