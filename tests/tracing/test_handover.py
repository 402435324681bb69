"""What a traced function leaves behind is what it leaves untraced: in results, arguments, attributes and variables."""

from __future__ import annotations

import asyncio
import dataclasses
import types
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import pytest

from accel.tracing import trace
from accel.tracing.recording import Traced


@dataclasses.dataclass
class Pair:
    left: object
    right: object = None


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    value: object


class Labeled(list):
    def __init__(self, label, unit, *items):
        super().__init__(items)
        self.label, self.unit = label, unit


class Point(tuple):
    def __new__(cls, x, y):
        return super().__new__(cls, (x, y))


Named = namedtuple("Named", "a b")

CONTAINERS = {
    "list": lambda y: [y, 1],
    "tuple": lambda y: (y, (y, 2)),
    "dict": lambda y: {"y": y},
    "ordered": lambda y: OrderedDict(a=1, y=y),
    "defaultdict": lambda y: defaultdict(list, y=[y]),
    "counter": lambda y: Counter(y=y),
    "deque": lambda y: deque([y, y], maxlen=2),
    "list subclass": lambda y: Labeled("t", "s", y),
    "tuple subclass": lambda y: Point(y, 1),
    "named tuple": lambda y: Named(y, [y]),
    "dataclass": lambda y: Pair(y, {"y": [y]}),
    "frozen": lambda y: Frozen((y,)),
    "namespace": lambda y: types.SimpleNamespace(y=y),
}


def everything(value, seen=None):
    """All that is reachable from a value."""
    seen = {} if seen is None else seen
    if id(value) in seen or isinstance(value, type):
        return seen.values()
    seen[id(value)] = value
    inner = []
    if isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, (list, tuple, deque)):
        inner = list(value)
    inner += list(getattr(value, "__dict__", {}).values())
    inner += [getattr(value, name) for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)]
    for item in inner:
        everything(item, seen)
    return seen.values()


def plain(value):
    found = [item for item in everything(value) if isinstance(item, np.ndarray)]
    return bool(found) and not any(isinstance(item, Traced) for item in found)


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_results_hold_plain_arrays(make):
    found = trace(lambda x: make(x + 1), np.ones(3))
    assert plain(found.result)
    assert type(found.result) is type(make(np.ones(3)))


@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_what_the_function_puts_into_its_arguments_is_plain(make):
    kept, mapping, holder = [], {}, Pair(None)

    def function(x, kept, mapping, *, holder):
        made = make(x * 2)
        kept.append(made)
        mapping["made"] = made
        holder.left = made
        return kept

    found = trace(function, np.ones(3), kept, mapping, holder=holder)
    assert found.result is kept
    assert plain(kept)
    assert plain(mapping)
    assert plain(holder)


def test_attributes_and_variables_of_the_function_are_plain():
    class Layer:
        def __call__(self, x):
            self.cache = x * 2
            return self.cache

    class Model:
        def __init__(self):
            self.layers = [Layer(), Layer()]

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    model, seen, last = Model(), [], None

    def function(x):
        nonlocal last
        seen.append(x + 1)
        last = x - 1
        return x

    trace(model.forward, np.ones(3))
    trace(function, np.ones(3))
    assert plain([layer.cache for layer in model.layers])
    assert plain(seen)
    assert type(last) is np.ndarray


def test_what_an_error_leaves_is_plain():
    kept = []

    def function(x, kept):
        kept.append(x + 1)
        raise KeyError

    with pytest.raises(KeyError):
        trace(function, np.ones(3), kept)
    assert plain(kept)


def test_results_keep_identity():
    x = np.ones(3)
    found = trace(lambda x, y: (x, x, y is x), x, x)
    assert found.result[0] is x
    assert found.result[1] is x
    assert found.result[2]


# ---- containers on their way into a call


@pytest.mark.parametrize("make", [lambda *a: Labeled("t", "s", *a), Point, Named])
def test_sequences_with_constructors_of_their_own(make):
    found = trace(lambda x: np.concatenate(make(x, x + 1)) * 2, np.ones(3))
    np.testing.assert_array_equal(found.result, [2, 2, 2, 4, 4, 4])


@pytest.mark.parametrize("make", [np.asarray, np.array, np.frombuffer])
def test_memory_views(make):
    found = trace(lambda x: make(memoryview(x)) + x, np.ones(3))
    np.testing.assert_array_equal(found.result, [2, 2, 2])


# ---- the description of an array


CHANGES = {
    "flags": lambda x: setattr(x.flags, "writeable", False),
    "setflags": lambda x: x.setflags(write=False),
    "shape": lambda x: setattr(x, "shape", (3, 2)),
    "dtype": lambda x: setattr(x, "dtype", np.int64),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_of_an_arguments_description_reach_the_caller(change):
    def function(x):
        change(x)
        return x

    expected, x = np.arange(6.0), np.arange(6.0)
    function(expected)
    found = trace(function, x)
    assert found.result is x
    assert (x.shape, x.dtype, x.flags.writeable) == (expected.shape, expected.dtype, expected.flags.writeable)
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("shape", [(5,), (2,), (2, 4), (3,)])
def test_resize(shape):
    def function(x):
        y = np.zeros(3)
        y += x
        y.resize(shape)
        return y + 1

    np.testing.assert_array_equal(trace(function, np.ones(3)).result, function(np.ones(3)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.resize(7),
        lambda x: (x + 1)[1:].resize(7),
        lambda x: [y := x + 1, z := y[:2], y.resize(7), z],
    ],
)
def test_resize_refuses_what_others_hold(function):
    x = np.ones(3)
    with pytest.raises(ValueError, match="resize"):
        function(x)
    with pytest.raises(ValueError, match="resize"):
        trace(function, x)


# ---- what passed silently


def test_writing_a_read_only_array_to_itself():
    def function(y):
        y[1:3] = y[1:3]

    y = np.ones(5)
    y.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        trace(function, y)


async def _asynchronous(x):
    yield x + 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: map(np.sin, x),
        lambda x: zip(x, x, strict=True),
        lambda x: filter(None, x),
        lambda x: enumerate(x),
        lambda x: (y for y in x),
        lambda x: __import__("itertools").accumulate(x),
        _asynchronous,
    ],
)
def test_work_that_is_yet_to_come_is_refused(function):
    with pytest.raises(TypeError, match="nothing yet"):
        trace(function, np.ones(3))


async def _later(x):
    return x + 1


@dataclasses.dataclass
class _Holder:
    held: object


@pytest.mark.parametrize(
    "hold",
    [
        lambda item: (1, item),
        lambda item: [[item]],
        lambda item: {"a": item},
        lambda item: {"a": ({"b": item},)},
        lambda item: deque([item]),
        _Holder,
        lambda item: namedtuple("Pair", "a b")(item, 1),
    ],
)
@pytest.mark.parametrize("make", [lambda x: (y for y in x), _later, lambda x: map(np.sin, x)])
def test_work_that_is_yet_to_come_is_refused_inside_a_result_too(make, hold):
    made = []

    def function(x):
        made.append(make(x))
        return hold(made[-1])

    with pytest.raises(TypeError, match=r"that holds a .*nothing yet.*make a list of it before"):
        trace(function, np.ones(3))
    if not isinstance(made[0], map):
        made[0].close()  # closed already, so that nobody is warned of a coroutine that was never awaited


def test_what_is_refused_is_told_how_to_use_it_up():
    with pytest.raises(TypeError, match=r"returned a coroutine.*asyncio\.run\(_later\(\*a\)\)"):
        trace(_later, np.ones(3))
    assert trace(lambda x: asyncio.run(_later(x)), np.ones(3)).result.tolist() == [2, 2, 2]


def test_a_result_that_holds_itself():
    def function(x):
        ring = [x + 1]
        ring.append(ring)
        return {"ring": ring}

    found = trace(function, np.ones(3))
    (array, ring), buffers = found.result["ring"], {b.label for b in found.buffers.values()}
    assert type(array) is np.ndarray
    assert ring is found.result["ring"]
    assert buffers == {"x", "result"}
