"""Traced arrays: the ndarray subclass whose every operation a recorder sees, and the scope in which it does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from accel import elision
from accel.tracing.memory import address_of
from accel.tracing.names import METHODS, WRITES, function_name
from accel.tracing.operators import BINARY, UNARY, binary_operators, unary_operator
from accel.tracing.recording import Recorder, Traced, forget, unwrap
from accel.tracing.scope import CONVERSIONS, recorder_elsewhere, running, thread

__all__ = ["ArrayRecorder", "TracedArray", "recording"]

_FAST_POWERS = frozenset({np.square, np.sqrt, np.reciprocal})
_ONE_BYTE = bytes(1)
_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})


def _is_basic(index: Any) -> bool:
    """Tell whether indexing gives a view (or one element) and not a copy."""
    if type(index) in _BASIC or isinstance(index, np.integer):
        return True
    return type(index) is tuple and all(type(i) in _BASIC or isinstance(i, np.integer) for i in index)


class TracedArray(Traced):
    """An ndarray that reports the NumPy calls it takes part in while a trace runs, and is an ndarray otherwise."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        recorder = thread.recorder or recorder_elsewhere(*inputs)
        if recorder is None:
            plain = [unwrap(x) for x in inputs]
            return getattr(ufunc, method)(*plain, **{k: unwrap(v) for k, v in keywords.items()})
        if recorder.dying:
            recorder.dying = False
            if ufunc in _FAST_POWERS and "out" not in keywords:
                return recorder.ufunc(ufunc, method, inputs, {**keywords, "out": (self,)}, elided=True)
        return recorder.ufunc(ufunc, method, inputs, keywords)

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        recorder = thread.recorder or recorder_elsewhere(*arguments)
        if recorder is None:
            plain = [unwrap(x) for x in arguments]
            return function(*plain, **{k: unwrap(v) for k, v in keywords.items()})
        name = function_name(function)
        return recorder.call("function", name, function, arguments, keywords, WRITES.get(name))

    def __getitem__(self, index: Any) -> Any:
        recorder = thread.recorder or recorder_elsewhere(self)
        if recorder is None:
            return unwrap(self)[unwrap(index)]
        if _is_basic(index):
            part = np.ndarray.__getitem__(self, index)
            if type(part) is TracedArray:
                recorder.views += 1
            else:
                recorder.items += 1
            return part
        if type(index) in _GATHERING:
            return recorder.gather(self, index)
        return recorder.call("method", "take", np.ndarray.__getitem__, (self, index), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        recorder = thread.recorder or recorder_elsewhere(self)
        if recorder is None:
            unwrap(self)[unwrap(index)] = unwrap(value)
            return
        if not _is_basic(index):
            updates = np.ndarray(self.shape, np.uint8, _ONE_BYTE, strides=(0,) * self.ndim)[unwrap(index)].size
            recorder.call("method", "put", np.ndarray.__setitem__, (self, index, value), {}, 0, int(updates))
            return
        target = np.ndarray.__getitem__(self, index)
        if type(target) is not TracedArray:
            recorder.items += 1
            np.ndarray.__setitem__(unwrap(self), index, unwrap(value))
        elif not _same_window(target, value) or not target.flags.writeable:
            recorder.views += 1
            name = "copyto" if isinstance(value, np.ndarray) else "fill"
            recorder.call("method", name, _assign, (target, value), {}, 0)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        """Let NumPy choose between `power` and its short cuts (`square`, `sqrt`), which reuse a dying operand."""
        recorder = thread.recorder or recorder_elsewhere(self)
        if recorder is not None and type(other) is not TracedArray:
            dying, _ = elision.references() or (0, 0)
            recorder.dying = sys.getrefcount(self) == dying and elision.is_spare(self)
        try:
            return np.ndarray.__pow__(self, other)
        finally:
            if recorder is not None:
                recorder.dying = False

    def resize(self, *shape: Any, **keywords: Any) -> None:
        """As `numpy.ndarray.resize`, for an array with one name and no views, as it demands unless told not to."""
        held = sys.getrefcount(self) > elision.method_references()
        recorder = thread.recorder or recorder_elsewhere(self)
        if recorder is None or held or not elision.is_sole_view(self):
            np.ndarray.resize(self, *shape, **keywords)  # changes nothing, or tells why it cannot
            return

        def resized(*_: Any) -> None:
            other = np.array(unwrap(self), order="K")
            other.resize(*shape, refcheck=False)
            state: Any = (1, other.shape, other.dtype, False, other.tobytes())
            self.__setstate__(state)
            forget(self)
            recorder.see(self, created=True)

        recorder.call("method", "resize", resized, (self, *shape), {}, 0)

    def __repr__(self) -> str:
        return repr(unwrap(self))

    def __str__(self) -> str:
        return str(unwrap(self))

    def __format__(self, specification: str) -> str:
        return format(unwrap(self), specification)

    def __reduce__(self) -> Any:
        return unwrap(self).__reduce__()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()


_GATHERING = frozenset({TracedArray, np.ndarray, list})
_SIMPLE = frozenset({TracedArray, np.ndarray, int, float, complex, bool})
"""Types that an operator may hand to the ufunc at once; any other is left to NumPy's rules for foreign types."""


def _assign(target: np.ndarray, value: Any) -> None:
    target[...] = value


def _same_window(target: np.ndarray, value: Any) -> bool:
    """Whether an assignment is the second half of `x[i:j] += y`, which NumPy skips: same memory, same layout."""
    return (
        isinstance(value, np.ndarray)
        and address_of(value) == address_of(target)
        and (value.shape, value.strides, value.dtype) == (target.shape, target.strides, target.dtype)
    )


def _accepts(other: Any) -> bool:
    return type(other) in _SIMPLE or isinstance(other, np.generic)


def _run(ufunc: np.ufunc, inputs: tuple[Any, ...], out: Any) -> Any:
    recorder = thread.recorder or recorder_elsewhere(*inputs)
    if recorder is None:
        return ufunc(*unwrap(inputs))
    if out is None:
        return recorder.ufunc(ufunc, "__call__", inputs, {})
    return recorder.ufunc(ufunc, "__call__", inputs, {"out": (out,)}, elided=True)


def _method(method: str, name: str, writes: int | None) -> Callable[..., Any]:
    original = getattr(np.ndarray, method)

    def traced(self: Any, *arguments: Any, **keywords: Any) -> Any:
        recorder = thread.recorder or recorder_elsewhere(self)
        if recorder is None:
            return original(unwrap(self), *unwrap(arguments), **unwrap(keywords))
        return recorder.call("method", name, original, (self, *arguments), keywords, writes)

    traced.__name__, traced.__doc__ = method, f"As `numpy.ndarray.{method}`."
    return traced


def _complete() -> None:
    """Give the class its operators and methods: one rule for each kind, over the tables of names."""
    for name in BINARY:
        default = getattr(np.ndarray, f"__{name}__"), getattr(np.ndarray, f"__r{name}__")
        forward, reflected = binary_operators(name, _run, elision.is_spare, _accepts, default)
        setattr(TracedArray, f"__{name}__", forward)
        setattr(TracedArray, f"__r{name}__", reflected)
    for name in UNARY:
        setattr(TracedArray, f"__{name}__", unary_operator(name, _run, elision.is_spare))
    for method, (name, writes) in METHODS.items():
        setattr(TracedArray, method, _method(method, name, writes))


_complete()


class ArrayRecorder(Recorder):
    """A recorder of real arrays."""

    def __init__(self) -> None:
        super().__init__(TracedArray)

    def create(self, name: str, original: Callable[..., Any], arguments: tuple[Any, ...], keywords: Any) -> Any:
        """Run a function that makes arrays and that NumPy lets no subclass see."""
        if name not in CONVERSIONS or not arguments or not isinstance(arguments[0], np.ndarray):
            return self.call("function", name, original, arguments, keywords)
        source = arguments[0]
        if type(source) is np.ndarray:
            self.see(source)
            source = source.view(TracedArray)
        same_dtype = keywords.get("dtype", arguments[1] if len(arguments) > 1 else None) in (None, source.dtype)
        name = "copy" if same_dtype else "astype"
        return self.call("function", name, original, (source, *arguments[1:]), keywords)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Send the calls of traced arrays to `recorder`, and let functions such as `np.empty` make traced arrays."""
    elision.prepare()
    with running(recorder, "recorder"):
        yield
