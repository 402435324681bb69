"""Shapes: arrays that have a shape, a layout and a dtype but no data, for tracing a function without running it."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from accel import elision
from accel.tracing.description import promotable
from accel.tracing.layout import packed_strides
from accel.tracing.memory import address_of
from accel.tracing.names import METHODS, WRITES, function_name
from accel.tracing.operators import BINARY, UNARY, binary_operators, unary_operator
from accel.tracing.recording import ELIDED, LOOKS, Event
from accel.tracing.scope import CONVERSIONS, running
from accel.tracing.shape_recording import (
    Dataless,
    Memory,
    ShapeRecorder,
    active_recorder,
    quiet,
    require_recorder,
)
from accel.tracing.shape_rules import RULES, VIEWS, Made, made_by_creator, made_by_ufunc
from accel.tracing.traced import ArrayRecorder, TracedArray, recording

__all__ = ["ShapeArray", "ShapeRecorder", "array_like", "shape_recording"]


def array_like(shape: int | tuple[int, ...], dtype: Any = "float64", order: str = "C") -> ShapeArray:
    """Return an array without data, to be traced or predicted, or to ask a kernel for its cost.

    Raises ValueError for negative lengths or an unknown order, TypeError for dtypes that are not numbers.

    >>> x = array_like((100_000, 100_000), "float32")
    >>> x.nbytes, x.strides
    (40000000000, (400000, 4))
    """
    lengths = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    lengths = tuple(int(n) for n in lengths)
    dtype = np.dtype(dtype)
    if any(n < 0 for n in lengths):
        raise ValueError(f"array_like(shape): lengths cannot be negative; got {lengths}.")
    if order not in ("C", "F"):
        raise ValueError(f'array_like(order): the order is "C" or "F"; got {order!r}.')
    if dtype.kind not in "biufc":
        raise TypeError(f"array_like(dtype): boolean, integer, floating-point or complex; got {dtype}.")
    axes = range(len(lengths)) if order == "C" else range(len(lengths))[::-1]
    return _made(Made(lengths, dtype, packed_strides(lengths, dtype.itemsize, axes)))


@quiet
def _made(made: Made) -> ShapeArray:
    strides = made.strides
    if strides is None:
        strides = packed_strides(made.shape, made.dtype.itemsize, range(len(made.shape)))
    layout = np.lib.stride_tricks.as_strided(_ORIGINALS["empty"](1, made.dtype), made.shape, strides).view(_Layout)
    memory = Memory(math.prod(made.shape) * made.dtype.itemsize)
    return ShapeArray(layout, memory, layout, made.is_scalar)


class _Layout(np.ndarray):
    """Right in shape, strides and dtype; its elements do not exist, so that not even a debugger may print them."""

    def __repr__(self) -> str:
        return f"<layout {self.shape}>"

    __str__ = __repr__


_ORIGINALS = {"empty": np.empty}


class ShapeArray(Dataless):
    """An array that has everything but its elements; made by `array_like`, computed with inside `trace`.

    It answers to NumPy's operators, ufuncs and to the functions that have a shape rule; what needs values raises.
    """

    __slots__ = ()

    shape = property(lambda self: self._layout.shape, doc="Lengths of the axes.")
    strides = property(lambda self: self._layout.strides, doc="Steps along the axes, in bytes.")
    dtype = property(lambda self: self._layout.dtype, doc="Type of the elements that an array like this would have.")
    size = property(lambda self: self._layout.size, doc="Number of elements.")
    ndim = property(lambda self: self._layout.ndim, doc="Number of axes.")
    itemsize = property(lambda self: self._layout.itemsize, doc="Bytes of one element.")
    nbytes = property(lambda self: self._layout.nbytes, doc="Bytes of all elements.")
    flags = property(lambda self: self._layout.flags, doc="Contiguity, as NumPy describes it.")
    T = property(lambda self: self._part(self._layout.T), doc="The transpose, a view.")
    mT = property(lambda self: self._part(self._layout.mT), doc="The transpose of the last two axes, a view.")  # noqa: N815
    real = property(lambda self: self._part(self._layout.real), doc="The real part, a view.")

    def _view(self, layout: np.ndarray) -> ShapeArray:
        recorder = active_recorder()
        if recorder is not None:
            recorder.views += 1
        return self._part(layout)

    def _part(self, layout: np.ndarray) -> ShapeArray:
        return ShapeArray(layout, self._memory, self._origin)

    def __repr__(self) -> str:
        return f"array_like({self.shape}, {self.dtype.name!r})"

    def __len__(self) -> int:
        return len(self._layout)

    @quiet
    def __getitem__(self, index: Any) -> Any:
        if _is_basic(index):
            part = self._indexed(index)
            return _made(Made((), self.dtype, is_scalar=True)) if part is None else self._view(part)
        layout = np.broadcast_to(np.uint8(0), self.shape)[_indices(index)]
        strides = tuple(step * self.itemsize for step in layout.strides)
        return _record("method", "take", (self, index), {}, Made(layout.shape, self.dtype, strides))

    def _indexed(self, index: Any) -> np.ndarray | None:
        """Return the layout of a part; None where it is a single element (which must not be read)."""
        items = index if isinstance(index, tuple) else (index,)
        part = self._layout[items if Ellipsis in items else (*items, ...)]
        return part if part.ndim or Ellipsis in items else None

    @quiet
    def __setitem__(self, index: Any, value: Any) -> None:
        recorder = require_recorder("assignment")
        if not _is_basic(index):
            updates = np.broadcast_to(np.uint8(0), self.shape)[_indices(index)].size
            recorder.record("method", "put", "", (self, index, value), {}, (self,), __updates__=updates)
            return
        part = self._indexed(index)
        if part is None or _same_window(target := self._part(part), value):
            return
        recorder.views += 1
        is_array = isinstance(value, np.ndarray) or (isinstance(value, ShapeArray) and not value._is_scalar)
        recorder.record("method", "copyto" if is_array else "fill", "", (target, value), {}, (target,))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        return _ufunc(ufunc, "" if method == "__call__" else method, inputs, keywords)

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        return _call("function", function_name(function), arguments, keywords)

    def __pow__(self, other: Any) -> Any:
        ufunc = np.power if isinstance(other, (np.ndarray, ShapeArray)) else _power(self.dtype, other)
        dying, _ = elision.references() or (0, 0)
        if ufunc is not np.power and ufunc is not np.positive and sys.getrefcount(self) == dying and _is_spare(self):
            return _ufunc(ufunc, "", (self,), {"out": (self,)}, elided=True)
        return _ufunc(ufunc, "", (self, other) if ufunc.nin == 2 else (self,), {})

    def __rpow__(self, other: Any) -> Any:
        return _ufunc(np.power, "", (other, self), {})

    def __ipow__(self, other: Any) -> Any:
        ufunc = np.power if isinstance(other, (np.ndarray, ShapeArray)) else _power(self.dtype, other)
        return _ufunc(ufunc, "", (self, other) if ufunc.nin == 2 else (self,), {"out": (self,)})

    def _refuse(self, what: str) -> TypeError:
        return TypeError(
            f"{what} needs the values of an array, and an array_like has only a shape and a dtype. Trace this function "
            "with a real array."
        )

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self._refuse("Conversion to a NumPy array")

    def __bool__(self) -> bool:
        raise self._refuse("bool(), as in `if` and `while`,")

    def __float__(self) -> float:
        raise self._refuse("float()")

    def __int__(self) -> int:
        raise self._refuse("int()")

    def __index__(self) -> int:
        raise self._refuse("Using an element as an index")

    def __complex__(self) -> complex:
        raise self._refuse("complex()")

    def __contains__(self, item: object) -> bool:
        raise self._refuse("`in`")

    __hash__ = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(np.ndarray, name):
            raise self._refuse(f"ndarray.{name}")
        raise AttributeError(f"array_like has no attribute {name!r}")


def _layouts(value: Any) -> Any:
    """Replace arrays without data by their layouts, in tuples and lists too."""
    if isinstance(value, ShapeArray):
        return value._layout
    if type(value) in (tuple, list):
        return type(value)(_layouts(item) for item in value)
    return value


def _first_array(value: Any) -> ShapeArray | None:
    if isinstance(value, ShapeArray):
        return value
    if isinstance(value, (tuple, list)):
        return next((found for item in value if (found := _first_array(item)) is not None), None)
    return None


@quiet
def _ufunc(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any], *, elided: bool = False
) -> Any:
    recorder = require_recorder(ufunc.__name__)
    if method == "at":
        recorder.record("ufunc", ufunc, "at", inputs, keywords, (inputs[0],))
        return None
    layouts = _layouts(tuple(inputs))
    promoted = [promotable(x.dtype.type() if isinstance(x, ShapeArray) else x) for x in inputs]
    made = made_by_ufunc(ufunc, method, layouts, promoted, _layouts_in(keywords))
    out = keywords.get("out")
    given = out if isinstance(out, tuple) else (out,) * len(made)
    results = tuple(_made(m) if o is None else o for m, o in zip(made, given, strict=True))
    arrays = [x for x in inputs if isinstance(x, (ShapeArray, np.ndarray)) and not getattr(x, "_is_scalar", False)]
    if arrays:
        extra = {"out": ELIDED} if elided else {}
        recorder.record("ufunc", ufunc, method or "__call__", inputs, keywords, results, **extra)
    return results[0] if len(results) == 1 else results


def _layouts_in(keywords: dict[str, Any]) -> dict[str, Any]:
    return {name: _layouts(value) for name, value in keywords.items()}


@quiet
def _call(kind: str, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], method: str = "") -> Any:
    """Apply the rule of a function, or say that there is none."""
    layouts, options = _layouts(tuple(arguments)), _layouts_in(keywords)
    if name in LOOKS and hasattr(np, name):
        return getattr(np, name)(*layouts, **options)
    if name in WRITES or (kind == "method" and METHODS.get(name, ("", None))[1] is not None):
        require_recorder(name).record(kind, name, "", arguments, keywords, (arguments[0],))
        return None
    if name in VIEWS:
        return _as_view(VIEWS[name](*layouts, **options), arguments)
    rule = RULES.get(method) or RULES.get(name)
    if rule is None:
        raise TypeError(
            f"{name} cannot be followed from shapes alone: it needs values, or no rule for it is known. Trace this "
            "function with a real array."
        )
    made = rule(*layouts, **options)
    if isinstance(made, np.ndarray):
        return _as_view(made, arguments)
    return _record(kind, name, arguments, keywords, made)


def _as_view(result: Any, arguments: Any) -> Any:
    source = _first_array(arguments)
    if isinstance(result, (tuple, list)):
        return type(result)(_as_view(item, arguments) for item in result)
    return source._view(result) if source is not None else result


def _record(kind: str, name: str, arguments: Any, keywords: dict[str, Any], made: Made) -> Any:
    recorder, out = require_recorder(name), keywords.get("out")
    result = _made(made) if out is None else out
    arrays = [a for a in arguments if isinstance(a, ShapeArray)]
    if not arrays or not all(a._is_scalar for a in arrays):
        recorder.record(kind, name, "", arguments, keywords, (result,))
    return result


_BASIC = (int, np.integer, slice, type(None), type(Ellipsis))


def _is_basic(index: Any) -> bool:
    items = index if isinstance(index, tuple) else (index,)
    return all(isinstance(i, _BASIC) and not isinstance(i, bool) for i in items)


def _indices(index: Any) -> Any:
    if _first_array(index) is not None:
        raise TypeError(
            "Indexing with an array computed from an array_like needs that array's values. Trace this function with a "
            "real array, or pass the index array as a real one."
        )
    return index


def _same_window(target: ShapeArray, value: Any) -> bool:
    return (
        isinstance(value, ShapeArray)
        and value._memory is target._memory
        and address_of(value._layout) == address_of(target._layout)
        and (value.shape, value.strides, value.dtype) == (target.shape, target.strides, target.dtype)
    )


@quiet
@cache
def _power(dtype: np.dtype[Any], exponent: Any) -> np.ufunc:
    """Return the ufunc that NumPy's ** runs for a scalar exponent (square for 2, sqrt for 0.5), by trying it."""
    recorder = ArrayRecorder()
    with recording(recorder), np.errstate(all="ignore"):
        np.ndarray.__pow__(_ORIGINALS["empty"](1, dtype).view(TracedArray), exponent)
    return next(entry.function for entry in recorder.log if isinstance(entry, Event))


@cache
def _memory_references() -> int:
    array = _made(Made((1,), np.dtype(float)))
    memory = array._memory
    return sys.getrefcount(memory)


def _is_spare(array: ShapeArray, other: Any = None, kinds: str = "biufc") -> bool:
    """Apply the rule of `elision.is_spare` to arrays without data."""
    if (
        array._is_scalar
        or array.nbytes < elision.ELISION_BYTES
        or array.dtype.kind not in kinds
        or array._layout is not array._origin
    ):
        return False
    memory = array._memory
    if sys.getrefcount(memory) != _memory_references():
        return False
    if other is None:
        return True
    if not isinstance(other, (ShapeArray, np.ndarray)):
        return elision.fits_scalar(other, array.dtype)
    return other.shape in ((), array.shape) and np.can_cast(other.dtype, array.dtype, "safe")


def _run(ufunc: np.ufunc, inputs: tuple[Any, ...], out: Any) -> Any:
    return _ufunc(ufunc, "", inputs, {} if out is None else {"out": (out,)}, elided=out is not None)


def _plain_operator(ufunc: np.ufunc, swapped: bool = False, in_place: bool = False) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        inputs = (other, self) if swapped else (self, other)
        return _ufunc(ufunc, "", inputs, {"out": (self,)} if in_place else {})

    return operator


_COMPARISONS: dict[str, np.ufunc] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_OTHERS: dict[str, np.ufunc] = {"matmul": np.matmul, "divmod": np.divmod}


def _method(method: str, name: str) -> Callable[..., Any]:
    def run(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if method == "transpose" and len(arguments) > 1:
            arguments = (arguments,)
        if method == "conj" and self.dtype.kind != "c":
            return self
        if method == "copy":
            keywords = {"order": "C", **keywords}
        if method == "astype" and keywords.get("copy") is False and np.dtype(arguments[0]) == self.dtype:
            return self
        return _call("method", name, (self, *arguments), keywords, method)

    run.__name__, run.__doc__ = method, f"As `numpy.ndarray.{method}`, from the shape alone."
    return run


def _complete() -> None:
    """Give the class its operators and methods from the tables that the traced array uses."""
    for name, ufunc in BINARY.items():
        forward, reflected = binary_operators(name, _run, _is_spare)
        setattr(ShapeArray, f"__{name}__", forward)
        setattr(ShapeArray, f"__r{name}__", reflected)
        setattr(ShapeArray, f"__i{name}__", _plain_operator(ufunc, in_place=True))
    for name in UNARY:
        setattr(ShapeArray, f"__{name}__", unary_operator(name, _run, _is_spare))
    for name, ufunc in _COMPARISONS.items():
        setattr(ShapeArray, f"__{name}__", _plain_operator(ufunc))
    for name, ufunc in _OTHERS.items():
        setattr(ShapeArray, f"__{name}__", _plain_operator(ufunc))
        setattr(ShapeArray, f"__r{name}__", _plain_operator(ufunc, swapped=True))
    for method, (name, writes) in METHODS.items():
        if name in RULES or name in VIEWS or method in RULES or writes is not None:
            setattr(ShapeArray, method, _method(method, name))


_complete()


def _created(name: str, original: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Stand in for a function that makes arrays: it makes them without data, of any size."""
    if name in CONVERSIONS:
        return _converted(name, original, arguments, keywords)
    return _record("function", name, arguments, keywords, made_by_creator(name, original, arguments, keywords))


@quiet
def _converted(name: str, original: Callable[..., Any], arguments: Any, keywords: dict[str, Any]) -> Any:
    source = arguments[0] if arguments else None
    if not isinstance(source, ShapeArray):
        return original(*arguments, **keywords)
    dtype = keywords.get("dtype", arguments[1] if len(arguments) > 1 else None)
    order = {"ascontiguousarray": "C", "asfortranarray": "F"}.get(name, keywords.get("order", "K"))
    right_order = order in "KA" or source.flags[f"{order}_CONTIGUOUS"]
    if dtype in (None, source.dtype):
        if right_order and name != "array":
            return source._view(source._layout)
        return _record("function", "copy", (source,), keywords, RULES["copy"](source._layout, order))
    return _record("function", "astype", (source,), keywords, RULES["copy"](source._layout, order, np.dtype(dtype)))


@contextmanager
def shape_recording(recorder: ShapeRecorder) -> Iterator[None]:
    """Let arrays without data compute, as far as shapes go, and report to `recorder`."""
    elision.prepare()
    recorder.create = _created  # type: ignore[method-assign]
    with running(recorder, "shapes"):
        yield
