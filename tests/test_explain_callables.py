"""Whatever can be called is explained: with the rows and the result of the same calls, and nothing else changed."""

from __future__ import annotations

import functools
import operator
import threading

import numpy as np
import pytest
from explaining import explained

import accel

X = np.random.default_rng(0).random((6, 8))
READ_ONLY = X.copy()
READ_ONLY.flags.writeable = False
GLOBAL = np.linspace(0.0, 1.0, 8)


class Layer:
    def __init__(self) -> None:
        self.weights = np.ones(8)

    def forward(self, x):
        return x * self.weights

    def __call__(self, x):
        return x @ self.weights

    @classmethod
    def made(cls, x):
        return x + 2

    @staticmethod
    def plain(x):
        return x - 3


def keyword_only(x, *, by):
    return x * by


def closing_over(array):
    return lambda x: x + array


def seeded(x):
    return x + np.random.default_rng(0).random(x.shape)


def seeded_globally(x):
    np.random.seed(0)  # noqa: NPY002
    return x + np.random.rand(*x.shape)  # noqa: NPY002


def in_a_thread(x):
    found = []
    worker = threading.Thread(target=lambda: found.append(np.add(x, 1)))
    worker.start()
    worker.join()
    return found[0]


def factorial_of(x, n=4):
    return x if n == 0 else np.multiply(x, n) + factorial_of(x, n - 1)


CALLABLES = {
    "lambda": (lambda x: x + 1, "add"),
    "method": (Layer().forward, "multiply"),
    "callable object": (Layer(), "matmul"),
    "class method": (Layer.made, "add"),
    "static method": (Layer.plain, "subtract"),
    "partial": (functools.partial(np.add, X), "add"),
    "partial with a keyword": (functools.partial(keyword_only, by=X), "multiply"),
    "partial of a partial": (functools.partial(functools.partial(np.add, X)), "add"),
    "decorated": (functools.lru_cache(lambda x: x), None),
    "closure": (closing_over(GLOBAL), "add"),
    "global array": (lambda x: x * GLOBAL, "multiply"),
    "ufunc": (np.exp, "exp"),
    "numpy function": (np.sum, "add.reduce"),
    "built-in": (sum, "add"),
    "operator": (operator.neg, "negative"),
    "item getter": (operator.itemgetter(0), None),
    "method caller": (operator.methodcaller("sum"), "add.reduce"),
    "random numbers": (seeded, "add"),
    "global random numbers": (seeded_globally, "add"),
    "thread": (in_a_thread, "add"),
    "recursion": (factorial_of, "multiply"),
    "error state": (lambda x: np.errstate(all="raise")(np.add)(x, 1), "add"),
    "no result": (lambda x: (x + 1, None)[1], "add"),
    "vectorize": (np.vectorize(lambda value: value + 1, otypes=[float]), None),
    "apply along an axis": (lambda x: np.apply_along_axis(np.sum, 0, x), "apply_along_axis"),
}


@pytest.mark.parametrize("name", [name for name in CALLABLES if name != "decorated"])
@pytest.mark.parametrize("x", [X, READ_ONLY, X.T.copy().T, X.astype(">f8")], ids=["C", "read-only", "Fortran", ">f8"])
def test_any_callable(name, x):
    function, expected = CALLABLES[name]
    before = x.copy()
    untraced = function(x)
    found = accel.trace(function, x)
    assert np.array_equal(found.result, untraced) if untraced is not None else found.result is None
    assert np.array_equal(x, before)
    assert expected is None or expected in {op.name for op in found.ops}
    if x is X:
        explanation = explained(function, x)
        assert np.array_equal(x, before)
        assert explanation.function
        assert max(map(len, str(explanation).splitlines())) <= 100


def test_what_python_cannot_call_so_raises_its_own_error():
    with pytest.raises(TypeError, match="unhashable"):
        explained(CALLABLES["decorated"][0], X)
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'by'"):
        explained(keyword_only, X)
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        explained(Layer.plain, X, X)


def test_a_partial_has_the_name_of_its_function():
    assert explained(functools.partial(keyword_only, by=2.0), X).function == "keyword_only"


@pytest.mark.parametrize(
    "arrays", [(X.copy(),) * 2, (lambda base: (base[:4], base[2:]))(X.copy())], ids=["the same", "overlapping"]
)
def test_arguments_that_share_memory(arrays):
    def function(a, b):
        a += 1
        return a * b

    copies = [array.copy() for array in arrays]
    found = explained(function, *arrays)
    assert all(map(np.array_equal, arrays, copies))
    assert [call.name for call in found.calls if call.name != "opaque"] == ["add", "multiply"]
    assert any("changes a" in note for note in found.notes)


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", ">i4", "i8", "f2", ">f4", "f8", "g", "F", "D"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5, 4)])
def test_any_dtype_and_shape(dtype, shape):
    found = explained(
        lambda x: (x * x + x, [x.sum(), {"product": x.reshape(-1) @ x.reshape(-1)}]), np.ones(shape, dtype)
    )
    assert sum(call.name != "opaque" for call in found.calls) >= 3
    assert max(map(len, str(found).splitlines())) <= 100
