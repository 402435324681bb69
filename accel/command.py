"""Command: what ``accel explain`` is asked to explain, from the words of a shell."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import math
import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from accel.explanation import Explanation
from accel.explanation import explain as explain_function
from accel.machine import Machine
from accel.storage import MachineFileError
from accel.tracing import array_like

__all__ = ["Call", "CommandError", "find_function", "parse_array", "parse_value", "prepared"]

SEED = 0
MOST_RANDOM_INTEGER = 100


class CommandError(ValueError):
    """Raised when the words do not make a call."""


@dataclass(frozen=True)
class Call:
    """A function, its arguments and where it is to run."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    machine: Machine | None
    threads: int

    def explain(self, seconds: float) -> Explanation:
        """Explain the call."""
        return explain_function(
            self.function,
            *self.arguments,
            machine=self.machine,
            threads=self.threads,
            seconds=seconds,
            **self.keywords,
        )


def prepared(
    function: str,
    arrays: Sequence[str],
    values: Sequence[str],
    *,
    threads: int,
    machine_file: Path | None,
    shapes_only: bool,
) -> Call:
    """Return the call that the words name; raise `CommandError` where they name none."""
    shapes = dict(parse_array(text) for text in arrays)
    given = dict(parse_value(text) for text in values)
    if len(shapes) + len(given) < len(arrays) + len(values) or shapes.keys() & given.keys():
        raise CommandError(f"every argument has one value; got {', '.join((*arrays, *values))}")
    machine = _machine(machine_file, threads)
    found = find_function(function)
    _check_names(found, function, [*shapes, *given])
    make = array_like if shapes_only else _random_arrays()
    made = {name: make(shape, dtype) for name, (shape, dtype) in shapes.items()}
    arguments, keywords = _bound(found, made | given)
    return Call(found, arguments, keywords, machine, threads)


def find_function(name: str) -> Callable[..., Any]:
    """Return the function that ``module:function`` or ``path/to/file.py:function`` names.

    Modules are looked for in the current folder as well.

    Examples
    --------
    >>> from accel.command import find_function
    >>> find_function("numpy:linalg.norm").__name__
    'norm'
    """
    place, _, path = name.rpartition(":")
    if not place or not path:
        raise CommandError(f"name a function as module:function or path/to/file.py:function; got {name!r}")
    module = _module_at(Path(place)) if place.endswith(".py") else _module_named(place)
    try:
        found = operator.attrgetter(path)(module)
    except AttributeError as error:
        raise CommandError(f"{place} has no function {path!r}") from error
    if not callable(found):
        raise CommandError(f"{name} is {type(found).__name__}, which is not a function")
    return found


def _module_at(path: Path) -> Any:
    if not path.is_file():
        raise CommandError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent.resolve()))  # as `python file.py` does, for what the file imports beside it
    spec.loader.exec_module(module)
    return module


def _module_named(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise CommandError(f"there is no module {error.name!r} here or installed") from error


def parse_array(text: str) -> tuple[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return name, shape and dtype of an array.

    Examples
    --------
    >>> from accel.command import parse_array
    >>> parse_array("x=2000,500:float32"), parse_array("s=:int64")
    (('x', ((2000, 500), dtype('float32'))), ('s', ((), dtype('int64'))))
    """
    name, equals, described = text.partition("=")
    lengths, colon, kind = described.partition(":")
    try:
        shape = tuple(int(length) for length in lengths.split(",") if length.strip())
        dtype = np.dtype(kind or "float64")
    except (TypeError, ValueError) as error:
        raise CommandError(f"an array is name=shape:dtype, such as x=2000,2000:float32; got {text!r}") from error
    if not name.isidentifier() or not equals or (not colon and not shape) or any(length < 0 for length in shape):
        raise CommandError(f"an array is name=shape:dtype, such as x=2000,2000:float32; got {text!r}")
    if dtype.kind not in "biufc":
        raise CommandError(f"an array of random numbers has a numeric dtype; got {text!r}")
    return name, (shape, dtype)


def parse_value(text: str) -> tuple[str, Any]:
    """Return name and value of an argument written as a Python literal.

    Examples
    --------
    >>> from accel.command import parse_value
    >>> parse_value("axis=(0, 1)"), parse_value("mode='full'")
    (('axis', (0, 1)), ('mode', 'full'))
    """
    name, equals, written = text.partition("=")
    try:
        value = ast.literal_eval(written.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise CommandError(f"an argument is name=literal, such as axis=0 or mode=\"'full'\"; got {text!r}") from error
    if not name.isidentifier() or not equals:
        raise CommandError(f"an argument is name=literal, such as axis=0; got {text!r}")
    return name, value


def _random_arrays() -> Callable[[tuple[int, ...], np.dtype[Any]], np.ndarray]:
    """Return what makes arrays of the same random numbers in every process: fractions below 1, integers below 100."""
    random = np.random.default_rng(SEED)

    def make(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        try:
            if dtype.kind == "b":
                return random.integers(0, 2, shape).astype(dtype)
            if dtype.kind in "iu":
                return random.integers(0, MOST_RANDOM_INTEGER, shape).astype(dtype)
            made = np.empty(shape, dtype)
        except (MemoryError, ValueError) as error:
            size = math.prod(shape) * dtype.itemsize
            raise CommandError(f"an array of {size:,} bytes does not fit; --shapes-only does without it") from error
        for part in (made.real, made.imag) if dtype.kind == "c" else (made,):
            part[...] = random.random(shape, np.float32 if dtype.itemsize <= np.float32().itemsize else np.float64)
        return made

    return make


def _machine(path: Path | None, threads: int) -> Machine | None:
    """Return the machine in a file, if it is one and was calibrated for this many threads; None for this machine."""
    if path is None:
        return None
    try:
        machine = Machine.load(path)
        machine.peak_flops_per_second(threads=threads)
    except (MachineFileError, OSError, ValueError) as error:
        raise CommandError(str(error)) from error
    return machine


def _check_names(function: Callable[..., Any], name: str, given: Sequence[str]) -> None:
    """Say so where the function does not take these arguments, before anything is made or run."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    parameters = signature.parameters.values()
    positional_only = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY and p.name in given]
    try:
        signature.bind(*positional_only, **{key: None for key in given if key not in positional_only})
    except TypeError as error:
        raise CommandError(
            f"{name}{signature} cannot be called with {', '.join(given) or 'nothing'}: {error}"
        ) from None


def _bound(function: Callable[..., Any], given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments by position as far as possible, so that no name is taken for an option of `explain`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return tuple(given.values()), {}
    by_position = []
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            break
        if parameter.name not in given:
            break
        by_position.append(parameter.name)
    return tuple(given[name] for name in by_position), {k: v for k, v in given.items() if k not in by_position}
