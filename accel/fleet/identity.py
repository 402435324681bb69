"""Identity: tells whether a function is still the one that earlier results were measured with."""

from __future__ import annotations

import functools
import hashlib
import pickle
import types
from collections.abc import Iterator
from typing import Any

__all__ = ["fingerprint"]

PLAIN = (int, float, complex, str, bytes, bool, type(None))


def fingerprint(*functions: Any) -> str:
    """Return a digest of functions: their code, defaults and closures, and all that of what they use.

    Followed are other functions of the same module and plain constants there. Functions of other modules count by
    name: a new version of a library is not noticed. The code is Python's byte code, which another Python changes.

    >>> from accel.fleet.identity import fingerprint
    >>> fingerprint(lambda n: n + 1) == fingerprint(lambda n: n + 1), fingerprint(lambda n: n + 2) == fingerprint(len)
    (True, False)
    """
    seen: set[int] = set()
    text = "\n".join(part for function in functions for part in _parts(function, seen))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def _parts(value: Any, seen: set[int]) -> Iterator[str]:
    if isinstance(value, PLAIN):
        yield repr(value)
    elif isinstance(value, functools.partial):
        yield "partial"
        for part in (value.func, value.args, value.keywords):
            yield from _parts(part, seen)
    elif isinstance(value, types.FunctionType):
        yield from _function(value, seen)
    elif isinstance(value, types.MethodType):
        yield from _parts(value.__func__, seen)
        yield from _parts(value.__self__, seen)
    elif isinstance(value, tuple | list | set | frozenset | dict):
        yield type(value).__name__
        yield from _items(value, seen)
    else:
        yield _named_or_pickled(value)


def _items(value: Any, seen: set[int]) -> Iterator[str]:
    if isinstance(value, dict):
        for key in sorted(value, key=repr):
            yield repr(key)
            yield from _parts(value[key], seen)
    elif isinstance(value, set | frozenset):  # their order differs from process to process
        yield from sorted("\n".join(_parts(item, seen)) for item in value)
    else:
        for item in value:
            yield from _parts(item, seen)


def _named_or_pickled(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if name is not None:  # a class, a function in C, a module, a ufunc
        return f"{getattr(value, '__module__', '')}.{name}"
    try:
        return hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()
    except Exception:  # whatever an object's own pickling raises: then its type is all there is to go by
        return f"{type(value).__module__}.{type(value).__qualname__}"


def _function(function: types.FunctionType, seen: set[int]) -> Iterator[str]:
    if id(function) in seen:  # it calls itself
        return
    seen.add(id(function))
    yield "function"
    yield from _code(function.__code__, seen)
    for part in (function.__defaults__, function.__kwdefaults__):
        yield from _parts(part, seen)
    for cell in function.__closure__ or ():
        try:
            yield from _parts(cell.cell_contents, seen)
        except ValueError:  # not filled yet
            yield "empty"
    for name in sorted(_names(function.__code__)):
        value = function.__globals__.get(name)
        own = isinstance(value, types.FunctionType) and value.__module__ == function.__module__
        if own or (value is not None and isinstance(value, PLAIN)):
            yield name
            yield from _parts(value, seen)


def _code(code: types.CodeType, seen: set[int]) -> Iterator[str]:
    yield code.co_code.hex()
    yield " ".join((*code.co_names, "|", *code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]))
    for constant in code.co_consts:
        yield from _code(constant, seen) if isinstance(constant, types.CodeType) else _parts(constant, seen)


def _names(code: types.CodeType) -> set[str]:
    nested = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*map(_names, nested))
