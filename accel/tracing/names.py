"""Names: what each NumPy function and method is called in a trace, and which of its arguments it overwrites."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import numpy as np

__all__ = ["METHODS", "WRITES", "bound_arguments", "function_name"]

_SAME_AS = {
    "sum": "add.reduce",
    "prod": "multiply.reduce",
    "max": "maximum.reduce",
    "amax": "maximum.reduce",
    "min": "minimum.reduce",
    "amin": "minimum.reduce",
    "any": "logical_or.reduce",
    "all": "logical_and.reduce",
    "cumsum": "add.accumulate",
    "cumprod": "multiply.accumulate",
    "conj": "conjugate",
    "ravel": "copy",
    "reshape": "copy",
    "flatten": "copy",
    "ascontiguousarray": "copy",
    "asfortranarray": "copy",
    "around": "round",
    "zeros_like": "zeros",
    "ones_like": "ones",
    "full_like": "full",
    "empty_like": "empty",
    "concat": "concatenate",
    "astype": "astype",
}
"""Functions that do what another does, and so share its name: a reduction is named after its ufunc."""

WRITES = {
    "copyto": 0,
    "put": 0,
    "place": 0,
    "putmask": 0,
    "fill_diagonal": 0,
    "put_along_axis": 0,
}
"""Functions that return nothing and overwrite the argument at this position."""

_METHOD_NAMES = """sum prod max min any all cumsum cumprod mean var std argmax argmin argsort argpartition searchsorted
nonzero take repeat choose compress clip round conj conjugate diagonal astype copy flatten ravel reshape trace dot
byteswap transpose swapaxes squeeze""".split()  # noqa: SIM905

METHODS: dict[str, tuple[str, int | None]] = {
    **{name: (_SAME_AS.get(name, name), None) for name in _METHOD_NAMES},
    **{name: (name, 0) for name in ("sort", "partition", "fill", "put")},
}
"""Array method -> (its name in a trace, position of the argument it overwrites)."""

_functions: dict[str, Any] = {}


@cache
def function_name(function: Any) -> str:
    """Return the name of a NumPy function in a trace, such as ``"add.reduce"`` for `np.sum`.

    >>> function_name(np.linalg.solve), function_name(np.sum)
    ('linalg.solve', 'add.reduce')
    """
    module = getattr(function, "__module__", "") or ""
    plain = getattr(function, "__name__", str(function))
    for package in ("numpy.linalg", "numpy.fft"):
        if module.startswith(package):
            plain = f"{package[6:]}.{plain}"
    name = _SAME_AS.get(plain, plain)
    _functions[name] = function
    return name


@cache
def _parameters(name: str) -> tuple[str, ...]:
    """Names of the parameters of a function, in order; () where NumPy does not say."""
    function = _functions.get(name)
    if function is None:
        opposite = {new: old for old, new in _SAME_AS.items() if hasattr(np, old)}
        preferred = {"add.reduce": "sum", "maximum.reduce": "max", "minimum.reduce": "min", "conjugate": "conjugate"}
        function = getattr(np, preferred.get(name, opposite.get(name, name)), None)
    try:
        return tuple(inspect.signature(function).parameters) if function is not None else ()
    except (TypeError, ValueError):
        return ()


def bound_arguments(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    """Give the positional arguments of a call their names.

    >>> bound_arguments("add.reduce", ("array", 0), {"keepdims": True})
    {'a': 'array', 'axis': 0, 'keepdims': True}
    """
    if name == "einsum":
        return {"subscripts": arguments[0] if arguments else None, **keywords}
    return {**dict(zip(_parameters(name), arguments, strict=False)), **keywords}
