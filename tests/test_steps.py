"""How the loops of a call step through its arrays, against what NumPy's own iterator does with them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.steps import buffered_operands
from accel.tracing import trace

ROWS = np.ones((16, 600))
CASES = {
    "whole arrays": (lambda x: x + x, 0),
    "a row on rows": (lambda x: x + x[0], 1),
    "a column on rows": (lambda x: x * x[:, :1], 1),
    "a column times a row": (lambda x: x[:, :1] * x[0], 2),
    "slices of rows": (lambda x: np.sqrt(x[:, 1:]), 1),
    "two slices": (lambda x: x[:, 1:] - x[:, :-1], 2),
    "into slices": (lambda x: np.add(x, 1.0, out=np.ones((16, 601))[:, :600]), 1),
    "two rows": (lambda x: x[:2] + x[0], 1),
    "two rows, two copies": (lambda x: x[:2, :1] * x[0], 0),
    "three rows, two copies": (lambda x: x[:3, :1] * x[0], 2),
    "planes": (lambda x: x.reshape(4, 4, 600) + x[:4].reshape(4, 1, 600), 1),
    "a number": (lambda x: x + 1.0, 0),
    "a product": (lambda x: x @ x.T, 0),
    "a sum": (lambda x: x.sum(axis=1), 0),
}


def called(function, *arrays):
    """Return the last call; time that no call explains may follow it."""
    return [op for op in trace(function, *arrays).ops if not op.opaque][-1]


@pytest.mark.parametrize(("function", "copies"), CASES.values(), ids=CASES)
def test_the_arrays_that_are_copied_into_buffers(function, copies):
    assert buffered_operands(called(function, ROWS)) == copies


@pytest.mark.parametrize(
    ("length", "row", "column_times_row"), [(2730, 1, 2), (2731, 1, 0), (4096, 1, 0), (4097, 0, 0), (9000, 0, 0)]
)
def test_long_rows_are_not_gathered(length, row, column_times_row):
    x = np.ones((16, length))
    assert buffered_operands(called(lambda x: x + x[0], x)) == row
    assert buffered_operands(called(lambda x: x[:, :1] * x[0], x)) == column_times_row


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.3.0", reason="rows are gathered since NumPy 2.3")
@given(st.integers(1, 40), st.integers(1, 9000), st.sampled_from(["whole", "row", "column", "column times row"]))
def test_numpys_own_iterator_runs_over_more_than_a_row_just_where_rows_are_gathered(rows, length, kind):
    x = np.ones((rows, length), np.float32)
    second = {"whole": x, "row": x[0], "column": x[:, :1], "column times row": x[0]}[kind]
    first = x[:, :1] if kind == "column times row" else x
    op = called(np.add, first, second)
    iterator = np.nditer(
        [first, second, None],
        ["external_loop", "buffered", "growinner", "delay_bufalloc"],
        [["readonly"], ["readonly"], ["writeonly", "allocate"]],
    )
    iterator.reset()
    longest = max(result.size for _, _, result in iterator)
    assert (longest > op.inner_length) == (buffered_operands(op) > 0)
