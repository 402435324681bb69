"""Description: what one recorded call did: its operands, the dtype of its loop, its axes and its arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from accel.tracing.counting import Call, Work, count
from accel.tracing.layout import inner_loop
from accel.tracing.names import bound_arguments
from accel.tracing.operations import Scalar
from accel.tracing.recording import Event, Seen

__all__ = ["Description", "arrays_in", "dtype_name", "promotable", "resolved_dtypes"]

_OVERWRITERS = frozenset({"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "fill"})
"""Functions that write to their first argument without reading it."""
_MAKERS = frozenset({"empty", "zeros", "ones", "full"})
"""Functions that look only at the shape of the array they are given, if they are given one."""
_GATHERS = frozenset({"take", "compress", "extract", "take_along_axis"})
"""Functions that read as many elements of their first argument as they return."""
_LAST_AXIS = frozenset({"sort", "argsort", "partition", "argpartition", "diff"})
_OWN_AXIS = frozenset({"reduce", "accumulate", "reduceat"})
_STATISTICS = frozenset({"mean", "var", "std"})
_PRODUCTS = frozenset({"matmul", "dot", "inner", "vdot", "vecdot", "matvec", "vecmat", "tensordot"})


class Description:
    """What an event did, worked out from the shapes and dtypes that it saw."""

    def __init__(self, event: Event) -> None:
        self.event = event
        self.cost = event.keywords.get("__cost__")
        """Declared by a kernel; None for NumPy's own calls."""
        self.ufunc: np.ufunc | None = None
        self.arguments: dict[str, Any] = {}
        if event.kind == "ufunc":
            self._describe_ufunc(event.function, "" if event.method == "__call__" else event.method)
        else:
            self.name = str(event.function)
            self.method = self.name.partition(".")[2] if event.kind != "declared" else ""
            self.arguments = bound_arguments(self.name, event.arguments, event.keywords)
            ufunc = getattr(np, self.name.partition(".")[0], None)
            if isinstance(ufunc, np.ufunc) and event.kind != "declared":
                self.ufunc = ufunc
        self.reads = tuple(self._reads())
        self.axis = self._axis()
        self.scalars = tuple(self._scalars())
        self.masked = isinstance(self.arguments.get("where"), Seen)
        self.loop_dtypes = self._loop_dtypes()
        self.dtype = self.loop_dtypes[0] if self.loop_dtypes else dtype_name(self._common_dtype())

    def _describe_ufunc(self, ufunc: np.ufunc, method: str) -> None:
        self.ufunc = getattr(ufunc, "ufunc", ufunc)  # Numba's `vectorize` puts a class of its own around one
        self.method = method
        self.name = f"{ufunc.__name__}.{method}" if method else ufunc.__name__
        self.arguments = dict(self.event.keywords)
        if method in _OWN_AXIS:
            first = 2 if method == "reduceat" else 1
            named = zip(("axis", "dtype"), self.event.arguments[first:], strict=False)
            self.arguments = {**dict(named), **self.arguments}

    def _reads(self) -> Iterator[Seen]:
        """Give the arrays that are read: all but a destination, which only an in-place call reads too."""
        given = list(self.event.arguments)
        if self.event.kind != "ufunc":
            out = self.arguments.get("out")
            if self.name in _OVERWRITERS or self.name in _MAKERS:
                given = given[1:]
            elif isinstance(out, Seen) and any(a is out for a in given):
                del given[max(i for i, a in enumerate(given) if a is out)]
        yield from arrays_in(given)
        for name, value in self.event.keywords.items():
            if name != "out":
                yield from arrays_in(value)
        if self.event.kind == "ufunc" and "out" in self.arguments and isinstance(self.arguments.get("where"), Seen):
            yield from self.event.results  # elements that the mask leaves out keep their values

    def _axis(self) -> tuple[int, ...] | None:
        if not self.reads or (self.event.kind == "ufunc" and self.method not in _OWN_AXIS):
            return None
        axis = self.arguments.get("axis", self._default_axis())
        rank = len(self.reads[0].shape)
        if axis is None:
            return tuple(range(rank)) if self.method == "reduce" or self.name in _STATISTICS else None
        axes = axis if isinstance(axis, tuple) else (axis,)
        if self.name == "stack":
            rank += 1
        if not all(isinstance(a, (int, np.integer)) for a in axes):
            return None
        return tuple(int(a) % rank if rank else 0 for a in axes)

    def _default_axis(self) -> int | None:
        if self.name in _LAST_AXIS:
            return -1
        return 0 if self.event.kind == "ufunc" or self.name in {"concatenate", "stack"} else None

    def _scalars(self) -> Iterator[Scalar]:
        if self.name == "einsum" and isinstance(self.arguments.get("subscripts"), str):
            yield Scalar(0, self.arguments["subscripts"], "str")
        if self.ufunc is None or self.method in _OWN_AXIS:
            return
        for i, value in enumerate(self.event.arguments[: self.ufunc.nin]):
            if isinstance(value, Scalar):
                yield Scalar(i, value.value, value.dtype)
            elif isinstance(value, (bool, int, float, complex, np.generic)):
                plain = value.item() if isinstance(value, np.generic) else value
                dtype = value.dtype.name if isinstance(value, np.generic) else type(value).__name__
                yield Scalar(i, plain if isinstance(plain, (bool, int, float)) else str(plain), dtype)

    def _loop_dtypes(self) -> tuple[str, ...]:
        if self.ufunc is None:
            return ()
        if self.method in _OWN_AXIS:
            return self._reduction_dtypes()
        if self.event.kind != "ufunc":
            return ()
        inputs = [a for i, a in enumerate(self.event.arguments) if not (self.method == "at" and i == 1)]
        requested = self.arguments.get("signature", self.arguments.get("sig")) or self.arguments.get("dtype")
        promoted = tuple(promotable(a) for a in inputs[: self.ufunc.nin])
        return resolved_dtypes(self.ufunc, promoted, requested, self.arguments.get("casting", "same_kind"))

    def _reduction_dtypes(self) -> tuple[str, ...]:
        """Return the dtype that a reduction computes in: its result's, or its operand's where it is a logical one."""
        if not self.reads or self.ufunc is None:
            return ()
        made = [s.dtype for s in self.event.results] + [d for d in self.event.scalar_results if d is not None]
        chosen = self.reads[0].dtype if self.ufunc.__name__.startswith("logical") or not made else made[0]
        requested = self.arguments.get("dtype")
        return (dtype_name(np.dtype(requested) if requested is not None else chosen),) * 3

    def _common_dtype(self) -> np.dtype[Any]:
        found = [s.dtype for s in (*self.reads, *self.event.results)]
        return max(found, key=lambda d: (d.kind in "c", d.kind in "fc", d.itemsize)) if found else np.dtype(float)

    @property
    def touched(self) -> int | None:
        """Number of elements of the array indexed into that the call touches, where that is not all of it."""
        if self.name in _GATHERS and self.event.results:
            return math.prod(self.event.results[0].shape)
        return self._updates()

    def _updates(self) -> int | None:
        if "__updates__" in self.event.keywords:
            return int(self.event.keywords["__updates__"])
        if self.method == "at":
            indices = list(arrays_in(self.event.arguments[1]))
            return math.prod(np.broadcast_shapes(*(s.shape for s in indices))) if indices else 1
        return None

    def work(self) -> Work | None:
        """Return the arithmetic of the call, or None where no rule counts it."""
        if self.cost is not None:
            return Work()
        loop = np.dtype(self.loop_dtypes[0]) if self.loop_dtypes else self._common_dtype()
        return count(
            Call(
                name=self.name,
                shapes=tuple(s.shape for s in self.reads),
                result_sizes=tuple(math.prod(s.shape) for s in self.event.results)
                + (1,) * len(self.event.scalar_results),
                dtype=f"{loop.kind}{loop.itemsize}",
                arguments={**self.arguments, "updates": self._updates()},
                axis=self.axis,
                ufunc=self.ufunc is not None,
            )
        )

    def loop(self) -> tuple[int, int]:
        """Return the length and the number of the inner loops."""
        reads, results = self.reads, self.event.results
        if reads and self.axis is not None and (self.method == "reduce" or self.name == "mean"):
            shape = reads[0].shape
            return inner_loop(shape, [_steps(reads[0], shape), self._kept_steps(shape)])
        if self.event.kind == "ufunc" and not self.method and self.product() is None:
            shape = results[0].shape if results else ()
            return inner_loop(shape, [_steps(s, shape) for s in (*reads, *results)])
        size = max((math.prod(s.shape) for s in (*reads, *results)), default=0)
        return size, int(size > 0)

    def _kept_steps(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Strides of a reduction's result along the axes of its operand: 0 along those reduced."""
        reduced = self.axis or ()
        strides = self.event.results[0].strides if self.event.results else ()
        if len(strides) == len(shape):
            return tuple(0 if a in reduced else s for a, s in enumerate(strides))
        kept = iter(strides)
        return tuple(0 if a in reduced else next(kept, 0) for a in range(len(shape)))

    def product(self) -> tuple[int, int, int, int] | None:
        """Return (batch, m, k, n) of a matrix product."""
        if self.name not in _PRODUCTS or len(self.reads) < 2:
            return None
        a, b = self.reads[0].shape, self.reads[1].shape
        size = math.prod(self.event.results[0].shape) if self.event.results else 1
        if not a or not b or not size:
            return None
        if self.name == "vdot":
            return 1, 1, math.prod(a), 1
        if self.name == "vecdot":
            return size, 1, a[-1], 1
        if self.name in {"dot", "inner", "tensordot"}:
            k = math.isqrt(math.prod(a) * math.prod(b) // size) if self.name == "tensordot" else a[-1]
            return 1, math.prod(a) // max(k, 1), k, math.prod(b) // max(k, 1)
        m = a[-2] if len(a) > 1 and self.name != "vecmat" else 1
        n = b[-1] if len(b) > 1 and self.name != "matvec" else 1
        return size // (m * n), m, a[-1], n


def arrays_in(value: Any) -> Iterator[Seen]:
    """Give the arrays in an argument, those inside tuples and lists too."""
    if isinstance(value, Seen):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from arrays_in(item)


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return a name that `np.dtype` reads back as a dtype of the same size.

    It is ``"float32"``; with its byte order, as in ``">f4"``, where that is not the machine's; ``"<U8"``, ``"|S3"`` for
    strings; and ``"|V24"``, which says the size alone, for structured and other elements.

    >>> dtype_name(np.dtype("f4")), dtype_name(np.dtype([("a", "f8"), ("b", "i4")]))
    ('float32', '|V12')
    """
    if dtype.kind in "biufcmMO":
        return dtype.name if dtype.isnative else dtype.str
    return dtype.str if dtype.kind in "US" else f"|V{dtype.itemsize}"


def _steps(seen: Seen, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an operand along the axes of the loop: 0 where it is broadcast or has a single element."""
    missing = len(shape) - len(seen.shape)
    own = tuple(0 if n == 1 else s for n, s in zip(seen.shape, seen.strides, strict=True))
    return (0,) * missing + own if missing >= 0 else own[-missing:]


def promotable(value: Any) -> Any:
    """Return what decides the promotion of an input: its dtype, or its Python type where NEP 50 calls that weak."""
    if isinstance(value, Seen):
        return value.dtype
    if isinstance(value, Scalar):
        return np.dtype(value.dtype)
    if type(value) in (int, float, complex):
        return type(value)
    return getattr(value, "dtype", None) or np.asarray(value).dtype


@lru_cache(maxsize=4096)
def resolved_dtypes(ufunc: np.ufunc, inputs: tuple[Any, ...], requested: Any, casting: str) -> tuple[str, ...]:
    """Return the dtypes of the loop that NumPy picks; () where it cannot say."""
    options: dict[str, Any] = {"casting": casting}
    if requested is not None:
        whole = isinstance(requested, tuple) or "->" in str(requested)
        options["signature"] = requested if whole else (None,) * ufunc.nin + (np.dtype(requested),) * ufunc.nout
    try:
        chosen = ufunc.resolve_dtypes((*inputs, *(None,) * ufunc.nout), **options)
    except (TypeError, ValueError):
        return ()
    return tuple(dtype_name(dtype) for dtype in chosen)
