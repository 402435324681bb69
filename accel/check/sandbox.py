"""Sandbox: running a reader's function so that neither an exception nor an endless loop breaks the notebook."""

from __future__ import annotations

import ctypes
import threading
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["ReaderError", "TimeUp", "call_reader", "within"]

Result = TypeVar("Result")

GRACE_SECONDS = 2.0
"""How long a function that catches everything is asked to stop before it is left alone."""


class ReaderError(Exception):
    """The reader's function raised something; it is the cause."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(describe(raised))


class TimeUp(BaseException):
    """Raised inside a function that runs for too long. No Exception, so that ``except Exception`` lets it through."""


def describe(raised: BaseException) -> str:
    """Say what was raised and in which line of the reader's code.

    >>> describe(ValueError("no"))
    'ValueError: no'
    """
    frames = [frame for frame in traceback.extract_tb(raised.__traceback__) if not _is_ours(frame.filename)]
    text = "".join(traceback.format_exception_only(raised)).strip().splitlines()[-1]
    if not frames:
        return text
    where = frames[-1]
    for frame in frames:  # the last line of the reader's own file, not of a library that it calls
        if frame.filename == frames[0].filename:
            where = frame
    return f"{text} (line {where.lineno}: {where.line})" if where.line else f"{text} (line {where.lineno})"


def _is_ours(filename: str) -> bool:
    return filename.startswith(__file__.rpartition("check")[0])


def call_reader(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Call the reader's function; whatever it raises comes as `ReaderError`, save `TimeUp`."""
    try:
        return function(*arguments, **keywords)
    except TimeUp:
        raise
    except BaseException as error:
        raise ReaderError(error) from error


def within(seconds: float, job: Callable[[], Result]) -> Result:
    """Return ``job()``, run in a thread of its own; raise `TimeUp` in it, and here, when it takes longer.

    What the job raises is raised here. Compiled code cannot be interrupted: a call that never returns to Python is left
    running in its thread, which ends with the process.
    """
    outcome: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(job())
        except BaseException as error:
            raised.append(error)

    worker = threading.Thread(target=run, name="accel.check", daemon=True)
    worker.start()
    try:
        worker.join(seconds)
    except BaseException:  # the reader interrupted the notebook
        _stop(worker)
        raise
    if worker.is_alive():
        _stop(worker)
        raise TimeUp
    if raised:
        raise raised[0]
    return outcome[0]


def _stop(worker: threading.Thread) -> None:
    """Raise `TimeUp` in a thread, again and again while it catches it, for as long as grace lasts."""
    waited = 0.0
    while worker.is_alive() and waited < GRACE_SECONDS:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident or 0), ctypes.py_object(TimeUp))
        worker.join(0.1)
        waited += 0.1
