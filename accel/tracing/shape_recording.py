"""Shape recording: the log of a trace in which arrays have shapes and no data."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from accel.tracing.memory import address_of
from accel.tracing.operations import Scalar
from accel.tracing.recording import Recorder, Seen
from accel.tracing.scope import sole_recorder, thread

__all__ = ["Dataless", "Memory", "ShapeRecorder", "active_recorder", "quiet", "require_recorder"]


class Memory:
    """Stands for an allocation: arrays that share one alias each other, and its death is the memory's release."""

    __slots__ = ("__weakref__", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


class Dataless:
    """Base of the array type that `accel.tracing.shapes` completes: a layout on memory that does not exist."""

    __slots__ = ("_is_scalar", "_layout", "_memory", "_origin")

    def __init__(self, layout: np.ndarray, memory: Memory, origin: np.ndarray, is_scalar: bool = False) -> None:
        self._layout = layout
        self._memory = memory
        self._origin = origin
        self._is_scalar = is_scalar


Function = TypeVar("Function", bound=Callable[..., Any])


def quiet(function: Function) -> Function:
    """Let a function use NumPy for itself: what it makes meanwhile are real arrays."""

    @functools.wraps(function)
    def run(*arguments: Any, **keywords: Any) -> Any:
        recorder = active_recorder()
        if recorder is None or recorder.is_quiet:
            return function(*arguments, **keywords)
        recorder.is_quiet = True
        try:
            return function(*arguments, **keywords)
        finally:
            recorder.is_quiet = False

    return run  # type: ignore[return-value]


class ShapeRecorder(Recorder):
    """A recorder for arrays without data: there is nothing to run and nothing to time."""

    is_quiet = False
    """Whether NumPy's functions that make arrays are to make real ones, for the tracer's own use."""

    def hears_creator(self, frame: Any) -> bool:
        """As for real arrays, and not while the tracer itself needs some."""
        return not self.is_quiet and super().hears_creator(frame)

    def knows(self, array: Any) -> bool:
        """Tell whether the memory that the array stands for has been seen before."""
        return id(array._memory) in self.owners if isinstance(array, Dataless) else super().knows(array)

    def see(self, array: Any, created: bool = False) -> Seen:
        """Describe an array; a real one (an index, a constant) as itself."""
        if isinstance(array, np.ndarray):
            return super().see(array, created)
        memory, layout = array._memory, array._layout
        death = self.owners.get(id(memory))
        number = death.buffer if death else self.adopt(memory, memory.nbytes, address_of(array._origin), created)
        return Seen(number, address_of(layout), layout.shape, layout.strides, layout.dtype)

    def seen(self, value: Any) -> Any:
        """Replace the arrays in an argument by what is seen of them."""
        if isinstance(value, Dataless):
            return Scalar(0, "unknown", value._layout.dtype.name) if value._is_scalar else self.see(value)
        if type(value) in (tuple, list):
            return tuple(self.seen(item) for item in value)
        return self.see(value) if isinstance(value, np.ndarray) else value

    def record(
        self, kind: str, function: Any, method: str, arguments: Any, keywords: Any, results: Any, **extra: Any
    ) -> None:
        """Append the event of a call that made or wrote `results`."""
        arrays = tuple(self.see(r, True) for r in results if not r._is_scalar)
        scalars = tuple(r.dtype for r in results if r._is_scalar)
        seen = {name: self.seen(value) for name, value in keywords.items()} | extra
        self.finish(kind, function, method, self.seen(tuple(arguments)), seen, arrays, None, scalars, 0, 0, 0)

    def declared(self, kernel: Any, function: Any, arguments: tuple[Any, ...], keywords: Any) -> Any:  # noqa: ARG002
        """Refuse a kernel whose results only a run would show."""
        raise TypeError(
            f"{kernel.__name__} is compiled: its cost is declared but the shape of its result is not, so a trace of "
            f"shapes cannot pass through it. Use {kernel.__name__}.cost(…), or trace with real arrays."
        )


def active_recorder() -> ShapeRecorder | None:
    """Return the recorder of this thread's trace of shapes, or of the only one there is, or None."""
    return thread.shapes or sole_recorder(ShapeRecorder)


def require_recorder(what: str) -> ShapeRecorder:
    """Return the recorder of the running trace; TypeError where there is none."""
    recorder = active_recorder()
    if recorder is None:
        raise TypeError(f"{what} on an array_like means something only inside accel.trace or accel.predict.")
    return recorder
