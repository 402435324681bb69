"""Tensors: objects that carry an ndarray in `.data`, such as TinyTorch's `Tensor`, in the place of arrays.

Every kernel takes them, because `accel.cost.costs` looks for them: their arrays go in, and the result is put into an
object of the same class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["carrying_tensors", "is_tensor", "plain"]

_NEVER = (np.ndarray, np.generic, int, float, complex, str, bytes, list, tuple, dict, type(None))
"""Arrays, NumPy's scalars (whose `.data` is a memoryview) and what they are made from."""


def is_tensor(x: object) -> bool:
    """Whether `x` is a tensor: its `.data` is an ndarray with all of its values, and NumPy does not know its class.

    Not tensors are arrays and their subclasses; classes with rules of their own for NumPy's functions, such as those of
    pandas and xarray; and objects whose `.data` is a part of them: sparse matrices, or another shape than `x.shape`.

    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> from accel.tensors import is_tensor
    >>> is_tensor(SimpleNamespace(data=np.ones(3))), is_tensor(np.ones(3)), is_tensor(memoryview(b"abc"))
    (True, False, False)
    """
    if isinstance(x, _NEVER):
        return False
    if getattr(type(x), "__array_ufunc__", None) is not None:  # an array of its own kind; array_like refuses `.data`
        return False
    data = getattr(x, "data", None)
    if not isinstance(data, np.ndarray) or hasattr(x, "nnz"):
        return False
    shape = getattr(x, "shape", data.shape)
    return isinstance(shape, tuple | list) and tuple(shape) == data.shape


def plain(x: Any) -> Any:
    """Return the array of a tensor, and anything else as it is."""
    return x.data if is_tensor(x) else x


def carrying_tensors(kernel: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call a kernel with the arrays of the tensors among its arguments; return its result as a tensor.

    The result is ``type(x)(array)``, x being the tensor given; `out`, tensor or array, is returned itself. Tensors of
    several classes give the one that all of them are instances of, and otherwise a TypeError.

    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> class Tensor(SimpleNamespace):
    ...     def __init__(self, data):
    ...         super().__init__(data=data)
    >>> carrying_tensors(np.add, (Tensor(np.ones(2)), 1.0), {})
    Tensor(data=array([2., 2.]))
    """
    out = keywords.get("out")
    inputs = [*arguments, *(value for name, value in keywords.items() if name != "out")]
    kind = _common_class([type(x) for x in inputs if is_tensor(x)])
    result = kernel(*map(plain, arguments), **{name: plain(value) for name, value in keywords.items()})
    if out is not None:
        return out
    return tuple(_as(kind, part) for part in result) if isinstance(result, tuple) else _as(kind, result)


def _common_class(kinds: Sequence[type[Any]]) -> type[Any] | None:
    """Return the class, of those given, that all others derive from; None where only `out` is a tensor."""
    for kind in kinds:
        if all(issubclass(other, kind) for other in kinds):
            return kind
    if not kinds:
        return None
    names = sorted({kind.__name__ for kind in kinds})
    raise TypeError(
        f"tensors must be of one class, or of classes that derive from one of them; got {' and '.join(names)}. "
        f"Convert them, for example {names[0]}(x.data)."
    )


def _as(kind: type[Any] | None, value: Any) -> Any:
    """Put an array, or a NumPy scalar, into an object of the class `kind`."""
    if kind is None or not isinstance(value, np.ndarray | np.generic):
        return value
    try:
        return kind(np.asanyarray(value))
    except Exception as error:
        raise TypeError(
            f"the result cannot be put into a {kind.__name__}, because {kind.__name__}(array) raises "
            f"{type(error).__name__}: {error}. Pass x.data, and make the {kind.__name__} of the array yourself."
        ) from error
