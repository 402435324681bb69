"""Cost: what a computation must do, counted and not timed."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar

import numpy as np

from accel.records import Record
from accel.tensors import carrying_tensors, is_tensor, plain

__all__ = ["Cost", "costs"]

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Cost(Record):
    """Counts of the work in a computation. Costs add, and multiply by a whole number of repetitions.

    A fused multiply-add is two FLOPs. Calls of `exp`, `tanh`, `power` and their like are counted apart, as
    `special`, because one of them costs as much as many FLOPs and how many depends on the machine.

    >>> from accel import Cost
    >>> add = Cost(flops=1_000, bytes_read=8_000, bytes_written=4_000, bytes_write_allocate=4_000, calls=1)
    >>> add.bytes_algorithmic, add.bytes_traffic
    (12000, 16000)
    >>> round(add.intensity, 4)
    0.0833
    >>> (add * 3).flops == (add + add + add).flops == 3_000
    True
    """

    flops: int = 0
    """Floating-point (or integer) additions, multiplications, divisions, comparisons, square roots."""
    special: int = 0
    """Elementary-function evaluations: exp, log, tanh, sin, power…"""
    bytes_read: int = 0
    """Bytes of each operand, once for each NumPy call that reads it."""
    bytes_written: int = 0
    """Bytes of each result, once for each NumPy call that writes it."""
    bytes_write_allocate: int = 0
    """Bytes that the hardware fetches only because they are about to be overwritten (none for in-place updates)."""
    calls: int = 0
    """NumPy (or compiled-kernel) calls: each pays the dispatch overhead once."""
    interpreted: int = 0
    """Scalar steps taken by the Python interpreter, such as one `total += a[i, k] * b[k, j]`."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise TypeError(f"Cost.{field.name} is a count, so it must be a whole number; got {value!r}.")
            if value < 0:
                raise ValueError(f"Cost.{field.name} is a count, so it cannot be negative; got {value}.")
            object.__setattr__(self, field.name, operator.index(value))

    @property
    def bytes_algorithmic(self) -> int:
        """Bytes read plus bytes written: each operand once per call."""
        return self.bytes_read + self.bytes_written

    @property
    def bytes_traffic(self) -> int:
        """Algorithmic bytes plus write-allocate: what crosses the memory bus if nothing is cached."""
        return self.bytes_algorithmic + self.bytes_write_allocate

    @property
    def intensity(self) -> float:
        """Arithmetic intensity in FLOP per algorithmic byte; infinite where no byte moves, 0 where nothing happens."""
        if self.bytes_algorithmic:
            return self.flops / self.bytes_algorithmic
        return float("inf") if self.flops else 0.0

    def __add__(self, other: Cost) -> Cost:
        if not isinstance(other, Cost):
            return NotImplemented
        return Cost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __radd__(self, other: object) -> Cost:
        """Let `sum(costs)` start from 0."""
        if type(other) is int and other == 0:
            return self
        return NotImplemented

    def __mul__(self, times: int) -> Cost:
        if isinstance(times, bool) or not hasattr(times, "__index__"):
            return NotImplemented
        return Cost(*(getattr(self, f.name) * operator.index(times) for f in fields(self)))

    __rmul__ = __mul__


class Observer(Protocol):
    """What a trace puts in `observer` to see the calls of opaque kernels: it runs `function` and records `kernel`."""

    def __call__(
        self, kernel: Any, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any: ...


observer: Observer | None = None
"""Set by the running trace."""


_PLAIN = frozenset({np.ndarray, int, float, type(None)})
"""Types of the usual arguments, which are no tensors."""


def costs(cost: Callable[..., Cost], *, opaque: bool = False) -> Callable[[Function], Function]:
    """Make a function a kernel: attach its closed-form cost as `kernel.cost`, and let it and its cost take tensors.

    The cost is called with the kernel's own arguments. It looks only at their shapes and dtypes, so it also takes
    `accel.array_like(…)`. Set `opaque` for a kernel that does its work where a trace cannot look, such as compiled
    code: within `accel.trace` each call of it is then one operation with the declared cost. Without it a trace follows
    the NumPy calls that the kernel makes, and the declared cost is not needed.

    A tensor is any object that carries an ndarray in `.data` (see `accel.tensors`). Where one is among the arguments,
    the kernel works on its array, and the result is a tensor of the same class: ``type(x)(array)``. `out` is returned
    itself, be it a tensor or an array.

    >>> from accel.cost import Cost, costs
    >>> @costs(lambda x: Cost(flops=x.size, bytes_read=x.nbytes, bytes_written=x.nbytes, calls=1))
    ... def double(x):
    ...     return x + x
    >>> import numpy as np
    >>> double.cost(np.ones(10)).flops
    10
    """

    def attach(function: Function) -> Function:
        @functools.wraps(function)
        def kernel(*arguments: Any, **keywords: Any) -> Any:
            # Written out, because it stands before every call: plain arrays pay for a look at their types and no more.
            for argument in arguments:
                if type(argument) not in _PLAIN and is_tensor(argument):
                    return carrying_tensors(kernel, arguments, keywords)
            if keywords:
                for argument in keywords.values():
                    if type(argument) not in _PLAIN and is_tensor(argument):
                        return carrying_tensors(kernel, arguments, keywords)
            watching = observer  # read once: the trace of another thread may end here
            if opaque and watching is not None:
                return watching(kernel, function, arguments, keywords)
            return function(*arguments, **keywords)

        @functools.wraps(cost)
        def cost_of(*arguments: Any, **keywords: Any) -> Cost:
            return cost(*map(plain, arguments), **{name: plain(value) for name, value in keywords.items()})

        kernel.cost = cost_of  # type: ignore[attr-defined]
        return kernel  # type: ignore[return-value]

    return attach
