"""Access patterns: the same additions over memory in order, at equal steps, in random order, and from link to link.

What is computed hardly matters here; the order in which memory is touched decides the time.
"""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accel.cost import Cost, costs
from accel.kernels import fallback
from accel.kernels.arguments import as_floating, positive_integer, sized

__all__ = ["chase", "cycle", "gathered_sum", "sequential_sum", "strided_sum"]

Array = NDArray[Any]


def _vector(x: ArrayLike, name: str = "x") -> Array:
    """Return `x` as a vector of floats."""
    array = as_floating(x, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be a vector; got shape {array.shape}. Pass {name}.reshape(-1).")
    return array


def _places(order: ArrayLike, length: int, name: str) -> Array:
    """Return places in a vector of `length` elements, or say which is none."""
    places = np.asarray(order)
    if places.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers; got {places.dtype}. Pass {name}.astype(np.intp).")
    if places.ndim != 1:
        raise ValueError(f"{name} must be a vector; got shape {places.shape}.")
    if places.size and (places.min() < 0 or places.max() >= length):
        raise ValueError(f"{name} must lie from 0 to below {length}; got {places.min()} to {places.max()}.")
    return places


def _sum_cost(x: Any) -> Cost:
    x = sized(x, _vector)
    return Cost(flops=x.size, bytes_read=x.size * x.dtype.itemsize, bytes_written=x.dtype.itemsize, calls=1)


@costs(_sum_cost)
def sequential_sum(x: ArrayLike) -> Any:
    """Return the sum of a vector, its elements read in order.

    Parameters
    ----------
    x : array_like
        A vector of float16, float32 or float64.

    Raises
    ------
    TypeError, ValueError
        Another dtype; no vector.

    >>> float(sequential_sum(np.ones(1000, np.float32)))
    1000.0
    """
    return np.add.reduce(_vector(x))


def _strided_cost(x: Any, step: SupportsIndex) -> Cost:
    x, stride = sized(x, _vector), positive_integer(step, "step")
    count, item = -(-x.size // stride), x.dtype.itemsize
    return Cost(flops=count, bytes_read=count * item, bytes_written=item, calls=1)


@costs(_strided_cost)
def strided_sum(x: ArrayLike, step: SupportsIndex) -> Any:
    """Return the sum of every `step`-th element. With steps of a line or more, each element costs a line of memory.

    Parameters
    ----------
    x : array_like
        A vector of float16, float32 or float64.
    step : int
        Elements from one that is read to the next, at least 1.

    Raises
    ------
    TypeError, ValueError
        As `sequential_sum`; a step that is not a whole number, or below 1.

    >>> float(strided_sum(np.ones(1000, np.float32), 16))
    63.0
    """
    return np.add.reduce(_vector(x)[:: positive_integer(step, "step")])


def _gathered_cost(x: Any, order: Any) -> Cost:
    x = sized(x, _vector)
    order = np.asarray(order) if not hasattr(order, "dtype") else order
    moved = order.size * x.dtype.itemsize
    take = Cost(
        bytes_read=moved + order.size * order.dtype.itemsize, bytes_written=moved, bytes_write_allocate=moved, calls=1
    )
    return take + Cost(flops=order.size, bytes_read=moved, bytes_written=x.dtype.itemsize, calls=1)


@costs(_gathered_cost)
def gathered_sum(x: ArrayLike, order: ArrayLike) -> Any:
    """Return the sum of the elements at the places in `order`, read in that order.

    NumPy first gathers the elements into a new array, then adds them up: two calls.

    Parameters
    ----------
    x : array_like
        A vector of float16, float32 or float64.
    order : array_like of int
        Places from 0 to below ``len(x)``.

    Raises
    ------
    TypeError, ValueError
        As `sequential_sum`; places that are not integers or lie outside.

    >>> float(gathered_sum(np.arange(10, dtype=np.float32), [9, 0, 9]))
    18.0
    """
    vector = _vector(x)
    return np.add.reduce(np.take(vector, _places(order, vector.size, "order")))


def cycle(length: SupportsIndex, *, seed: int = 0) -> NDArray[np.int64]:
    """Return, for each of `length` places, the place that follows it on one random round through all of them.

    Every round is equally likely, as from Sattolo's algorithm (1986, doi:10.1016/0020-0190(86)90073-6): here a random
    order of all places is closed to a ring, which NumPy does at once. A random permutation would not do: it falls into
    several rounds, and a chase could be caught in a short one.

    Raises
    ------
    TypeError, ValueError
        A length that is not a whole number, or below 1.

    >>> following = cycle(5)
    >>> place, visited = 0, []
    >>> for _ in range(5):
    ...     visited.append(place)
    ...     place = int(following[place])
    >>> place, sorted(visited)
    (0, [0, 1, 2, 3, 4])
    """
    order = np.random.default_rng(seed).permutation(positive_integer(length, "length"))
    following = np.empty(order.size, np.int64)
    following[order] = np.roll(order, -1)
    return following


def _chase_cost(following: Any, steps: SupportsIndex, start: int = 0) -> Cost:  # noqa: ARG001
    return Cost(bytes_read=8 * positive_integer(steps, "steps"), bytes_written=8, calls=1)


@costs(_chase_cost, opaque=True)
def chase(following: ArrayLike, steps: SupportsIndex, start: int = 0) -> int:
    """Follow links: from place `start` to ``following[start]``, and on, `steps` times; return where that leads.

    Each step needs the result of the one before, so nothing can be fetched ahead: the time of a step is the latency of
    the memory that holds the links. Compiled; in plain Python, where Numba is missing, a step takes so long that no
    level of memory shows.

    Parameters
    ----------
    following : array_like of int64
        Places from 0 to below ``len(following)``, such as those of `cycle`.
    steps : int
        At least 1.
    start : int
        The first place.

    Raises
    ------
    TypeError, ValueError
        Links that are not integers, or lead outside; steps below 1; a start outside.

    >>> chase(cycle(1000), steps=1000, start=7)
    7
    """
    array = np.asarray(following)
    links = _places(array, array.size, "following").astype(np.int64, copy=False)
    count = positive_integer(steps, "steps")
    [place] = _places([start], links.size, "start").tolist()
    code = fallback.compiled("access")
    if code is not None:
        return int(code.chase(np.ascontiguousarray(links), place, count))
    for _ in range(count):
        place = int(links[place])
    return place
