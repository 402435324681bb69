"""Scope: which recorder a thread's calls go to, and what stands in for NumPy's functions while any trace runs."""

from __future__ import annotations

import functools
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from accel import cost

if TYPE_CHECKING:
    from accel.tracing.recording import Recorder

__all__ = ["CONVERSIONS", "recorder_elsewhere", "running", "sole_recorder", "thread"]

CONVERSIONS = frozenset({"array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray"})
_CREATORS = (*sorted(CONVERSIONS), "empty", "zeros", "ones", "full", "arange", "linspace", "eye", "identity")


class _Thread(threading.local):
    """What the calling thread traces: an overlapping trace in another thread has its own."""

    recorder: Any = None
    """Of real arrays."""
    shapes: Any = None
    """Of arrays without data."""
    innermost: Any = None
    """The one of the two that was entered last: arrays made from nothing are its."""


thread = _Thread()
_lock = threading.Lock()
_running: list[Recorder] = []
_replaced: dict[str, Any] = {}
_observers: list[Any] = []
_thresholds: list[tuple[int, int, int]] = []
_NO_FULL_COLLECTION = 2**31 - 1


def recorder_elsewhere(*values: Any) -> Any:
    """Return the recorder of another thread's trace that knows the memory of one of the arrays, or None.

    A traced function may hand its arrays to threads of its own. Where several traces know the same memory, it is the
    one that began last.
    """
    for recorder in reversed(_running):
        if any(isinstance(value, recorder.array_type) and recorder.knows(value) for value in values):
            return recorder
    return None


def sole_recorder(kind: type[Any]) -> Any:
    """Return the recorder of the only trace of a kind that runs anywhere, or None."""
    found = [recorder for recorder in _running if isinstance(recorder, kind)]
    return found[0] if len(found) == 1 else None


@contextmanager
def running(recorder: Recorder, slot: str) -> Iterator[None]:
    """Send what this thread does to `recorder` while the scope lasts; scopes of other threads may end in any order."""
    previous = getattr(thread, slot), thread.innermost
    setattr(thread, slot, recorder)
    thread.innermost = recorder
    _enter(recorder)
    try:
        yield
    finally:
        _leave(recorder)
        setattr(thread, slot, previous[0])
        thread.innermost = previous[1]


def _enter(recorder: Recorder) -> None:
    """Install the stand-ins with the first trace."""
    with _lock:
        _running.append(recorder)
        if len(_running) > 1:
            return
        _replaced.update({name: getattr(np, name) for name in _CREATORS})
        for name, original in _replaced.items():
            setattr(np, name, _stand_in(name, original))
        _observers.append(cost.observer)
        cost.observer = _observed
        # The log is full of tuples that stay: looking through all of them again and again for cycles would take longer
        # than recording does. Young garbage is collected as before.
        _thresholds.append(gc.get_threshold())
        gc.set_threshold(*_thresholds[0][:2], _NO_FULL_COLLECTION)


def _leave(recorder: Recorder) -> None:
    """Take the stand-ins away with the last trace."""
    with _lock:
        _running.remove(recorder)
        if _running:
            return
        for name, original in _replaced.items():
            setattr(np, name, original)
        _replaced.clear()
        cost.observer = _observers.pop()
        before = _thresholds.pop()
        if gc.get_threshold() == (*before[:2], _NO_FULL_COLLECTION):  # or the traced function has its own ideas
            gc.set_threshold(*before)


def _observed(kernel: Any, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    recorder = thread.innermost or recorder_elsewhere(*arguments, *keywords.values())
    if recorder is None:
        return function(*arguments, **keywords)
    return recorder.declared(kernel, function, arguments, keywords)


class _StandIn:
    """Takes the place of `np.empty`, `np.zeros`, `np.asarray`…, in which NumPy gives other array types no say.

    Code that imported them by name keeps the originals: what it makes is a plain array, seen from its first meeting
    with a traced one. It equals its original, by which compilers such as Numba look up what they implement.
    """

    def __init__(self, name: str, original: Any) -> None:
        # A module imported meanwhile may read the docstring (numpy.ma does) or keep the stand-in: it stays itself.
        functools.update_wrapper(self, original)
        self._name, self._original = name, original

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        recorder = thread.innermost
        if recorder is None or not recorder.hears_creator(sys._getframe(1)):
            return self._original(*arguments, **keywords)
        return recorder.create(self._name, self._original, arguments, keywords)

    def __eq__(self, other: object) -> bool:
        return bool(self._original == (other._original if isinstance(other, _StandIn) else other))

    def __hash__(self) -> int:
        return hash(self._original)

    def __repr__(self) -> str:
        return repr(self._original)

    def __reduce__(self) -> str:
        return self._name


@functools.cache
def _stand_in(name: str, original: Any) -> _StandIn:
    """Return the one stand-in of a function: who keeps a weak reference to it must not lose it with the trace."""
    return _StandIn(name, original)
