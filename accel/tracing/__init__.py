"""Tracing: run a function once and learn every NumPy call it made."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from time import perf_counter_ns as clock
from typing import Any

import numpy as np

from accel.records import encodable
from accel.tracing.assembly import Assembly
from accel.tracing.handover import carry_back, held_in, unwrapped
from accel.tracing.operations import Buffer, Op, Operand, Scalar, Trace, total_cost
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
    described = (*zip(names, arrays, strict=True), *((encodable(name), value) for name, value in keywords.items()))
    shapes_only = _uses_shapes(described)
    recorder = ShapeRecorder(ShapeArray) if shapes_only else ArrayRecorder()
    scope = shape_recording(recorder) if isinstance(recorder, ShapeRecorder) else recording(recorder)
    views: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    given = [_wrapped(a, name, recorder, views) for name, a in zip(names, arrays, strict=True)]
    options = {k: _wrapped(v, encodable(k), recorder, views) for k, v in keywords.items()}
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
    held = tuple(held_in(result))
    _refuse_unfinished(fn, result, held)
    code = getattr(inspect.unwrap(fn), "__code__", None)
    unexplained = None if shapes_only else find_unexplained(recorder, started, ended, code)
    returned = {recorder.see(item).buffer for item in held if isinstance(item, (np.ndarray, ShapeArray))}
    del held
    assembly = Assembly(recorder, returned, unexplained)
    found = Trace(
        function=_name(fn),
        signature=_signature(fn, described),
        ops=assembly.ops,
        buffers=assembly.buffers,
        cost=total_cost(assembly.ops),
        peak_temporary_bytes=assembly.peak_bytes,
        peak_temporaries=assembly.peak_arrays,
        seconds=0.0 if shapes_only else (ended - started) * 1e-9,
        shapes_only=shapes_only,
    )
    found.__dict__["_result"] = unwrapped(result)
    return found


def _uses_shapes(arguments: tuple[tuple[str, Any], ...]) -> bool:
    shaped = [name for name, value in arguments if isinstance(value, ShapeArray)]
    real = [name for name, value in arguments if isinstance(value, np.ndarray) and value.dtype.kind in "fc"]
    if shaped and real:
        raise TypeError(
            f"trace() takes either real arrays or shapes, so that it either computes or does not; {shaped[0]} is an "
            f"array_like and {real[0]} a real array. Pass array_like({real[0]}.shape, {real[0]}.dtype) as well."
        )
    return bool(shaped)


def _refuse_unfinished(fn: Callable[..., Any], result: Any, held: Iterable[Any]) -> None:
    """Refuse a result that is, or holds, something that computes when it is asked for its values."""
    unfinished = [item for item in held if isinstance(item, _UNFINISHED) or type(item).__module__ == "itertools"]
    if not unfinished:
        return
    for item in unfinished:
        if isinstance(item, (types.GeneratorType, types.CoroutineType)):
            item.close()
    first, name = unfinished[0], _name(fn)
    kind = _UNFINISHED_NAMES.get(type(first), f"{type(first).__name__} iterator")
    article = "an" if kind[0] in "aeiou" else "a"
    inside = "" if first is result else f"a {type(result).__name__} that holds "
    uses = _FIXES.get(type(first), "list") if first is result else None
    fix = f"such as lambda *a: {uses}({name}(*a))" if uses else "or make a list of it before it is returned"
    raise TypeError(
        f"trace() records what a function does while it runs; {name} returned {inside}{article} {kind}, which has done "
        f"nothing yet. Pass a function that uses it up, {fix}."
    )


_UNFINISHED_NAMES: dict[type[Any], str] = {
    types.GeneratorType: "generator",
    types.CoroutineType: "coroutine",
    types.AsyncGeneratorType: "asynchronous generator",
}
_UNFINISHED: tuple[Any, ...] = (*_UNFINISHED_NAMES, map, zip, filter, enumerate)
_FIXES: dict[type[Any], str] = {types.CoroutineType: "asyncio.run", types.AsyncGeneratorType: ""}
"""What uses up what `list` does not."""


def _wrapped(value: Any, name: str, recorder: Recorder, views: dict[int, tuple[np.ndarray, np.ndarray]]) -> Any:
    """Turn an array argument into a traced one, tuples of them included; leave everything else alone.

    `views` holds the pairs of both by the id of the first: an array that is passed twice is one object to the function.
    """
    if type(value) is tuple:
        return tuple(_wrapped(item, f"{name}[{i}]", recorder, views) for i, item in enumerate(value))
    if isinstance(value, ShapeArray):
        recorder.name(recorder.see(value), name)
        return value
    if not isinstance(value, np.ndarray):
        return value
    _check(value, name)
    if id(value) not in views:
        real = isinstance(recorder, ArrayRecorder)
        views[id(value)] = value, recorder.wrap(value)[0] if real else value.view(TracedArray)
        recorder.name(recorder.see(value), name)
    return views[id(value)][1]


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


def _name(fn: Callable[..., Any]) -> str:
    while isinstance(fn, functools.partial):
        fn = fn.func
    name = getattr(fn, "__name__", None) or type(fn).__name__
    return "function" if name == "<lambda>" else encodable(str(name))


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
