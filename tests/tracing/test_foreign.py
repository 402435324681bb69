"""Traces of what NumPy lets others add: compiled ufuncs, elements that are no numbers, containers of other types."""

from __future__ import annotations

import numpy as np
import pytest

from accel.cost import Cost
from accel.prediction import predict
from accel.reuse import piece_of
from accel.tracing import trace

numba = pytest.importorskip("numba")
X = np.arange(6.0)


def calls(found):
    return [op for op in found.ops if op.kind != "opaque"]


# ---- ufuncs that NumPy did not make


@pytest.mark.parametrize("signatures", [[], [["f8(f8,f8)", "f4(f4,f4)"]]], ids=["lazy", "eager"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_vectorized_function_is_a_ufunc(signatures, dtype):
    def combined(x, y):
        return x * 2 + y

    compiled = numba.vectorize(*signatures)(combined) if signatures else numba.vectorize(combined)
    x = X.astype(dtype)
    found = trace(lambda x: compiled(compiled(x, x), x), x)
    np.testing.assert_array_equal(found.result, compiled(compiled(x, x), x))
    first, second = calls(found)
    assert first.name == second.name == "combined"
    assert first.loop_dtypes == (compiled(x, x).dtype.name,) * 3 or not signatures
    assert first.cost == Cost(
        special=6, bytes_read=x.nbytes, bytes_written=first.results[0].nbytes,
        bytes_write_allocate=first.results[0].nbytes, calls=1,
    )  # fmt: skip
    assert predict(lambda x: compiled(x, x), x).seconds > 0


def test_a_vectorized_function_reduces():
    added = numba.vectorize(["f8(f8,f8)"], identity=0)(lambda x, y: x + y)
    assert trace(lambda x: added.reduce(x), X).result == X.sum()


# ---- elements that are no numbers


@pytest.mark.parametrize(
    "dtype",
    ["U8", ">U3", "S5", "V7", [("a", "f8"), ("b", "i4")], [("m", "f4", (2, 3))], "M8[s]", "m8[ms]", object, "?", ">f4",
     np.dtypes.StringDType()],
    ids=str,
)  # fmt: skip
def test_arrays_of_any_dtype_may_be_made_and_copied(dtype):
    dtype = np.dtype(dtype)
    found = trace(lambda x: (np.zeros(6, dtype).copy(), x + 1), X)
    operand = calls(found)[0].results[0]
    assert np.dtype(operand.dtype).itemsize == dtype.itemsize
    assert operand.nbytes == 6 * dtype.itemsize
    assert piece_of(operand).footprint_bytes == operand.nbytes
    assert found.result[0].dtype == dtype
    predicted = predict(lambda x: (np.zeros(6, dtype)[::-1].copy(), x + 1), X)
    assert predicted.seconds > 0


# ---- compilation within a trace


def test_functions_that_compile_on_their_first_call():
    def made(x):
        y = np.zeros(x.shape[0]) + np.eye(3)[0, 0] + np.array([1.0, 2.0])[0] + np.full(3, 2.0)[0]
        for i in numba.prange(x.shape[0]):
            y[i] += x[i] + np.ones(3)[0] + np.asarray(x)[0] + np.arange(4)[1] + np.ascontiguousarray(x)[1]
        return y

    for options in ({}, {"parallel": True}):
        found = trace(numba.njit(**options)(made), X)
        np.testing.assert_array_equal(found.result, made(X))
        assert type(found.result) is np.ndarray
