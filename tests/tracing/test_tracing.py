"""What a trace records, and that a traced function does what it does untraced."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
import traceback
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from accel.cost import Cost, costs
from accel.records import RecordError
from accel.tracing import trace
from accel.tracing.operations import Operand, Trace


def calls(found):
    """The ops, without the time of a busy machine that no call explains."""
    return [op for op in found.ops if op.kind != "opaque"]


def names(found):
    return [op.name for op in calls(found)]


# ---- what is recorded


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: np.add(x, x), "add"),
        (lambda x: np.add.reduce(x), "add.reduce"),
        (lambda x: np.add.accumulate(x), "add.accumulate"),
        (lambda x: np.add.reduceat(x, [0, 2]), "add.reduceat"),
        (lambda x: np.add.outer(x[0], x[0]), "add.outer"),
        (lambda x: np.add.at(x, 0, 1.0), "add.at"),
        (lambda x: np.sum(x), "add.reduce"),
        (lambda x: x.sum(), "add.reduce"),
        (lambda x: x.max(), "maximum.reduce"),
        (lambda x: np.amin(x), "minimum.reduce"),
        (lambda x: np.cumsum(x), "add.accumulate"),
        (lambda x: x @ x, "matmul"),
        (lambda x: x.dot(x), "dot"),
        (lambda x: np.einsum("ij,jk", x, x), "einsum"),
        (lambda x: x.astype("f4"), "astype"),
        (lambda x: x.copy(), "copy"),
        (lambda x: x.ravel("F"), "copy"),
        (lambda x: x[x > 0], "take"),
        (lambda x: x.take([0]), "take"),
        (lambda x: x.sort(), "sort"),
        (lambda x: np.linalg.inv(x + np.eye(4)), "linalg.inv"),
        (lambda x: np.fft.rfft(x), "fft.rfft"),
        (lambda x: np.nanmean(x), "nanmean"),
        (lambda x: x**2, "square"),
        (lambda x: x**3, "power"),
        (lambda x: np.copyto(x, 1), "copyto"),
        (lambda x: np.empty(3), "empty"),
        (lambda x: np.zeros_like(x), "zeros"),
    ],
)
def test_names(function, expected):
    assert names(trace(function, np.arange(16.0).reshape(4, 4)))[-1] == expected


def test_operands_of_views():
    x = np.zeros((10, 6), dtype=np.float32)
    (op,) = calls(trace(lambda x: x[2:8:2, ::-1] * 2, x))
    (operand,) = op.operands
    assert operand == Operand(
        buffer=0, offset_bytes=2 * 24 + 20, shape=(3, 6), dtype="float32", strides=(48, -4), nbytes=72,
        is_contiguous=False, label="x",
    )  # fmt: skip
    assert operand.size == 18
    assert op.views == 1


def test_views_share_their_buffer():
    found = trace(lambda x: (x.T + x, x.reshape(-1) + 1, x[0].copy(), np.squeeze(x[None]) + x[::-1]), np.ones((4, 4)))
    assert {o.buffer for op in calls(found) for o in op.operands} == {0}


def test_arguments_that_alias_share_their_buffer():
    base = np.ones(10)
    (op,) = calls(trace(lambda a, b: a + b, base[:8], base[2:]))
    assert [o.offset_bytes for o in op.operands] == [0, 16]
    assert len({o.buffer for o in op.operands}) == 1


@pytest.mark.parametrize("pick", [lambda base: tuple(base), lambda base: (base[0], base[1, ::-1])])
def test_arguments_apart_in_one_array_have_their_own_names(pick):
    def function(a, b):
        return a * 2 + b[1:].sum()

    found = calls(trace(function, *pick(np.ones((2, 10)))))
    assert [op.call for op in found[:2]] == ["multiply(a, 2)", "add.reduce(b)"]
    assert found[0].operands[0].buffer == found[1].operands[0].buffer


def test_arguments_that_overlap_have_one_name():
    base = np.ones(10)
    for arrays in ((base[:8], base[2:]), (base[::2], base[1::2]), (base, base)):
        (op,) = calls(trace(lambda a, b: a + b, *arrays))
        assert {operand.label for operand in op.operands} == {"a"}


def test_freed_memory_is_given_out_again():
    found = trace(lambda x: np.exp(np.sin(np.cos(x))), np.ones(1000))
    first, second, third = calls(found)
    assert first.results[0].buffer == third.results[0].buffer != second.results[0].buffer
    assert [op.reused_bytes for op in calls(found)] == [0, 0, 8000]
    assert [op.fresh_bytes for op in calls(found)] == [8000] * 3
    assert found.peak_temporary_bytes == 16_000
    assert found.peak_temporaries == 2


def test_labels():
    found = trace(lambda left, right: np.exp(left + right), np.ones(5), np.ones(5))
    assert [op.call for op in calls(found)] == ["add(left, right)", "exp(temporary 1)"]
    assert calls(found)[1].results[0].label == "result"
    assert found.signature == "function(left: float64[5], right: float64[5])"
    assert [b.label for b in found.buffers.values()] == ["left", "right", "temporary 1", "result"]
    assert [b.created for b in found.buffers.values()] == [False, False, True, True]


def test_arrays_from_outside_have_a_label():
    weights = np.ones(5)
    found = trace(lambda x: x + weights, np.ones(5))
    assert calls(found)[0].call == "add(x, array 1)"


def test_promotion_shows():
    x = np.ones(5, dtype=np.float32)
    (op,) = calls(trace(lambda x: x * np.sqrt(2.0), x))
    assert op.dtype == "float64"
    assert op.loop_dtypes == ("float64",) * 3
    assert op.casts
    assert op.scalars[0].dtype == "float64"
    (op,) = calls(trace(lambda x: x * 2.0, x))
    assert op.dtype == "float32"
    assert not op.casts
    assert op.scalars[0].dtype == "float"


def test_the_dtype_argument_decides():
    (op,) = calls(trace(lambda x: np.add(x, x, dtype="f8"), np.ones(5, "f4")))
    assert op.dtype == "float64"
    assert op.casts
    (op,) = calls(trace(lambda x: x.sum(dtype="f8"), np.ones(5, "f4")))
    assert op.dtype == "float64"


@pytest.mark.parametrize(
    ("function", "axis", "loops"),
    [
        (lambda x: x + x, None, (24, 1)),
        (lambda x: x + x[0], None, (6, 4)),
        (lambda x: x[:, ::2] + 1, None, (12, 1)),
        (lambda x: x[:, :4] + 1, None, (4, 4)),
        (lambda x: x.T + x.T, None, (24, 1)),
        (lambda x: x.sum(), (0, 1), (24, 1)),
        (lambda x: x.sum(axis=1), (1,), (6, 4)),
        (lambda x: x.sum(axis=0), (0,), (6, 4)),
        (lambda x: x.T.sum(axis=0), (0,), (6, 4)),
        (lambda x: x.mean(axis=-1), (1,), (6, 4)),
        (lambda x: np.sort(x), (1,), (24, 1)),
    ],
)
def test_loops(function, axis, loops):
    op = calls(trace(function, np.ones((4, 6))))[-1]
    assert op.axis == axis
    assert (op.inner_length, op.rows) == loops


@pytest.mark.parametrize(
    ("function", "product"),
    [
        (lambda a: a @ a.swapaxes(-1, -2), (3, 4, 5, 4)),
        (lambda a: a @ a[0, 0], (3, 4, 5, 1)),
        (lambda a: a[0].dot(a[0].T), (1, 4, 5, 4)),
        (lambda a: np.tensordot(a[0], a[1], ([0], [0])), (1, 5, 4, 5)),
    ],
)
def test_products(function, product):
    assert calls(trace(function, np.ones((3, 4, 5))))[-1].product == product


def test_augmented_slices_are_one_call():
    """`x[1:] += y` ends with an assignment of the slice to itself, which NumPy skips."""

    def function(x):
        x[1:] += x[:-1]

    found = trace(function, np.ones(10))
    assert names(found) == ["add"]
    assert calls(found)[0].in_place


@pytest.mark.parametrize(
    ("change", "shape", "dtype"),
    [
        (lambda y: setattr(y, "shape", (3, 4)), (3, 4), "float64"),
        (lambda y: setattr(y, "dtype", "i8"), (12,), "int64"),
    ],
    ids=["shape", "dtype"],
)
def test_an_array_whose_description_changes_is_seen_anew(change, shape, dtype):
    def function(x):
        y = x * 2
        np.negative(y)
        change(y)
        return np.negative(y)

    found = trace(function, np.arange(12.0))
    (operand,) = next(op for op in reversed(found.ops) if op.name == "negative").operands
    assert (operand.shape, operand.dtype) == (shape, dtype)
    assert np.array_equal(found.result, function(np.arange(12.0)))


def test_a_resized_array_is_seen_anew():
    def function(x):
        y = x * 2
        np.negative(y)
        y.resize(6)
        return np.negative(y)

    found = trace(function, np.arange(12.0))
    (operand,) = next(op for op in reversed(found.ops) if op.name == "negative").operands
    assert operand.shape == (6,)
    assert np.array_equal(found.result, -2 * np.arange(6.0))


def test_an_array_that_becomes_read_only_cannot_be_written():
    def function(x):
        y = x + 1
        y.flags.writeable = False
        np.add(y, 1)
        y += 1

    with pytest.raises(ValueError, match="read-only"):
        trace(function, np.ones(3))


def test_source_lines():
    (op,) = calls(trace(lambda x: x + 1, np.ones(3)))
    assert op.file == "test_tracing.py"
    assert op.function == "<lambda>"
    assert op.line > 1


def test_results_in_containers():
    found = trace(lambda x: np.linalg.eigh(x), np.eye(3))
    assert names(found) == ["linalg.eigh"]
    assert len(calls(found)[-1].results) == 2
    assert type(found.result).__name__ == "EighResult"


def test_threads_are_recorded():
    def function(x, out):
        with ThreadPoolExecutor(2) as pool:
            for _ in pool.map(
                lambda part: np.multiply(*part[:1], 2, out=part[1]), [(x[:5], out[:5]), (x[5:], out[5:])]
            ):
                pass

    out = np.zeros(10)
    assert names(trace(function, np.ones(10), out)) == ["multiply"] * 2
    assert (out == 2).all()


# ---- loops


def test_loops_are_merged():
    def blocked(x, y):
        scratch = np.empty(10)
        for i in range(0, 1000, 10):
            np.multiply(x[i : i + 10], 2, out=scratch)
            np.add(scratch, 1, out=y[i : i + 10])

    found = trace(blocked, np.ones(1000), np.zeros(1000))
    assert len(calls(found)) == 201
    rows = [row for row in found.rows if row.kind != "opaque"]
    assert [(row.name, row.count) for row in rows] == [("empty", 1), ("multiply", 100), ("add", 100)]
    assert rows[1].cost == calls(found)[1].cost * 100
    assert sum((row.cost for row in found.rows), Cost()) == found.cost == sum((op.cost for op in found.ops), Cost())
    assert sum(row.seconds for row in found.rows) == pytest.approx(sum(op.seconds for op in found.ops))


def test_nested_loops_are_merged():
    def nested(x):
        for _ in range(4):
            x *= 2
            for _ in range(3):
                x += 1

    rows = [row for row in trace(nested, np.ones(8)).rows if row.kind != "opaque"]
    assert [(row.name, row.count) for row in rows] == [("multiply", 4), ("add", 12)]


def test_a_ragged_end_is_a_row_of_its_own():
    def blocked(x):
        for i in range(0, 25, 10):
            x[i : i + 10] *= 2

    rows = [row for row in trace(blocked, np.ones(25)).rows if row.kind != "opaque"]
    assert [row.count for row in rows] == [2, 1]


def test_calls_that_look_alike_are_not_a_loop():
    rows = [row for row in trace(lambda x: x + 1 + 1 + 1, np.ones(5)).rows if row.kind != "opaque"]
    assert [row.count for row in rows] == [1, 1, 1]


# ---- what cannot be seen


def sum_of_elements(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total


def test_a_scalar_loop_is_one_opaque_row():
    found = trace(sum_of_elements, np.ones(200_000))
    (op,) = found.ops
    assert op.name == "opaque"
    assert op.opaque
    assert op.cost == Cost(interpreted=200_000)
    assert 0 < op.seconds < found.seconds
    assert op.function == "sum_of_elements"


def test_scalar_loops_always_have_an_opaque_row():
    def product(a, b):
        c = np.zeros((32, 32))
        for i in range(32):
            for j in range(32):
                for k in range(32):
                    c[i, j] += a[i, k] * b[k, j]
        return c

    for _ in range(10):
        found = trace(product, np.ones((32, 32)), np.ones((32, 32)))
        (opaque,) = [op for op in found.ops if op.kind == "opaque"]
        assert opaque.cost == Cost(interpreted=4 * 32**3)


def test_unseen_time_stands_where_it_passed():
    def function(x):
        y = x + 1
        time.sleep(0.05)
        return y * 2

    found = trace(function, np.ones(100))
    assert [op.name for op in found.ops] == ["add", "opaque", "multiply"]
    assert found.ops[1].seconds == pytest.approx(0.05, rel=0.5)
    assert found.ops[1].index == 1


def test_explained_time_has_no_opaque_row():
    x = np.ones(4_000_000)
    assert "opaque" not in [op.name for op in trace(lambda x: np.exp(np.exp(x)), x).ops]


def test_a_declared_kernel_is_one_call():
    @costs(lambda x, out=None: Cost(flops=7 * x.size, bytes_read=x.nbytes, calls=1), opaque=True)
    def kernel(x, out=None):
        return np.add(np.multiply(x, 2), 1, out=out)

    x, out = np.ones(10), np.zeros(10)
    found = trace(lambda x, out: kernel(kernel(x) + 1, out=out), x, out)
    assert [op.kind for op in calls(found)] == ["declared", "ufunc", "declared"]
    first, _, last = calls(found)
    assert first.name == "test_tracing.kernel"
    assert first.cost == Cost(flops=70, bytes_read=80, calls=1)
    assert not first.opaque
    assert first.fresh_bytes == 80
    assert [r.label for r in last.results] == ["out"]
    assert last.fresh_bytes == 0
    assert found.result is out
    assert (out == kernel(kernel(x) + 1)).all()
    assert trace(kernel, x).cost.flops == 70


def test_a_cost_alone_does_not_hide_the_calls():
    @costs(lambda x: Cost(flops=1))
    def kernel(x):
        return x + x

    assert names(trace(lambda x: kernel(x), np.ones(3))) == ["add"]


def test_numba_kernels_take_part():
    numba = pytest.importorskip("numba")
    compiled = numba.njit(lambda x: (x * 2).sum())

    @costs(lambda x: Cost(flops=2 * x.size), opaque=True)
    def doubled_sum(x):
        return compiled(x)

    x = np.ones(1000)
    compiled(x)
    assert trace(doubled_sum, x).cost.flops == 2000
    assert trace(compiled, x).result == 2000.0


# ---- what the function returns and does


Pair = namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: (x, x.T),
        lambda x: [x + 1, {"a": x.sum(), "b": [x * 2]}],
        lambda x: Pair(x + 1, 3),
        lambda x: x.sum(),
        lambda x: float(x.sum()),
        lambda x: None,
        lambda x: "text",
        lambda x: x.tolist(),
        lambda x: x[::2].T,
    ],
)
def test_results_are_plain_and_equal(function):
    x = np.arange(12.0).reshape(3, 4)
    assert_same(trace(function, x).result, function(x))


def assert_same(traced, untraced):
    assert type(traced) is type(untraced)
    if isinstance(untraced, np.ndarray):
        assert traced.dtype == untraced.dtype
        assert traced.shape == untraced.shape
        if untraced.size:
            moving = [n > 1 for n in untraced.shape]
            assert [s for s, m in zip(traced.strides, moving, strict=True) if m] == [
                s for s, m in zip(untraced.strides, moving, strict=True) if m
            ]
        assert traced.tobytes() == untraced.tobytes()
    elif isinstance(untraced, dict):
        assert traced.keys() == untraced.keys()
        for key in untraced:
            assert_same(traced[key], untraced[key])
    elif isinstance(untraced, (tuple, list)):
        assert len(traced) == len(untraced)
        for a, b in zip(traced, untraced, strict=True):
            assert_same(a, b)
    elif isinstance(untraced, np.generic):
        assert traced.tobytes() == untraced.tobytes()
    else:
        assert traced == untraced


def test_identity_is_kept():
    x, out = np.ones(3), np.zeros(3)
    assert trace(lambda x: x, x).result is x
    assert trace(lambda x, out: np.add(x, 1, out=out), x, out).result is out
    assert trace(lambda x: x.__iadd__(1), x).result is x
    view = np.ones((4, 4))[1:]
    assert trace(lambda x: x, view).result is view


def test_arguments_are_changed_once():
    x = np.zeros(4)

    def function(x):
        x += 1
        x[0] = 7
        x[[1, 2]] = 5
        np.add.at(x, 3, 1)

    assert trace(function, x).result is None
    assert x.tolist() == [7, 5, 5, 2]


def test_recursion():
    def power(x, n):
        return x if n == 1 else power(x, n - 1) * x

    found = trace(power, np.full(3, 2.0), 5)
    assert found.result.tolist() == [32.0] * 3
    assert names(found) == ["multiply"] * 4


def test_keywords_and_other_arguments_pass_through():
    found = trace(lambda x, n, *, y, text: (x + n + y, text), np.ones(3), 2, y=np.ones(3), text="t")
    assert found.result[1] == "t"
    assert found.result[0].tolist() == [4.0] * 3
    assert calls(found)[1].operands[1].label == "y"


def test_no_arrays():
    assert trace(lambda: 3).result == 3
    assert trace(lambda: 3).cost == Cost()
    assert names(trace(lambda: np.zeros(3) + 1)) == ["zeros", "add"]


def test_traces_nest():
    def outer(x):
        inner = trace(lambda y: y * 2, x)
        return inner.result + len(calls(inner))

    found = trace(outer, np.ones(3))
    assert found.result.tolist() == [3.0] * 3
    assert type(found.result) is np.ndarray


def test_arrays_that_escape_are_ordinary_arrays_afterwards():
    kept = []
    trace(lambda x: kept.append(x + 1), np.ones(3))
    assert type(kept[0] + 1) is np.ndarray
    assert type(np.exp(kept[0])) is np.ndarray
    assert type(kept[0].sum(axis=0, keepdims=True)) is np.ndarray
    assert type(np.concatenate(kept)) is np.ndarray
    assert kept[0][0] == 2
    kept[0][1:] = 5
    assert kept[0].tolist() == [2, 5, 5]
    assert repr(kept[0]) == "array([2., 5., 5.])"


def test_modules_imported_within_a_trace_keep_no_traced_arrays(tmp_path, monkeypatch):
    (tmp_path / "imported_within.py").write_text("import numpy as np\nkept = np.zeros(3)\n")
    monkeypatch.syspath_prepend(tmp_path)

    def function(x):
        import imported_within

        return x + imported_within.kept

    assert trace(function, np.ones(3)).result.tolist() == [1.0] * 3
    import imported_within

    assert type(imported_within.kept) is np.ndarray
    code = (
        "import numpy as np, accel.tracing as t; t.trace(lambda x: np.ma.masked, np.ones(3)); "
        "print(type(np.ma.masked.data))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "<class 'numpy.ndarray'>"


def test_numpy_is_as_it_was_afterwards():
    before = {name: getattr(np, name) for name in ("empty", "zeros", "asarray", "array", "arange")}
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: 1 // 0, np.ones(3))
    assert {name: getattr(np, name) for name in before} == before


# ---- bad input


def test_the_own_exception_comes_through():
    class OwnError(Exception):
        pass

    def raises(x):
        raise OwnError("mine")

    with pytest.raises(OwnError, match="mine") as caught:
        trace(lambda x: raises(x + 1), np.ones(3))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "raises"


def test_numpys_exceptions_come_through():
    with pytest.raises(ValueError, match="operands could not be broadcast together with shapes"):
        trace(lambda x: x + x[:2], np.ones(3))
    with pytest.raises(np.linalg.LinAlgError):
        trace(np.linalg.inv, np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.ma.masked_array([1.0, 2.0], [0, 1]), "filled"),
        (np.asmatrix("1 2"), r"np\.asarray\(x\)"),
        (np.array([1, "a"], dtype=object), "object"),
        (np.zeros(3, dtype=[("a", "f8")]), "structured"),
        (np.array(["a"]), "numeric|astype"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "datetime"),
    ],
)
def test_arrays_that_cannot_be_traced(array, words):
    with pytest.raises(TypeError, match=words) as caught:
        trace(lambda x: x, array)
    assert "x" in str(caught.value)


def test_not_callable():
    with pytest.raises(TypeError, match="callable; got int"):
        trace(3, np.ones(3))


def test_generators_are_refused():
    def generate(x):
        yield x + 1

    with pytest.raises(TypeError, match="generator"):
        trace(generate, np.ones(3))


@pytest.mark.parametrize(
    "x",
    [
        np.array(3.0),
        np.zeros((0, 3)),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.array([1 + 2j, np.nan, np.inf]),
        np.array([np.nan, -np.inf, -0.0]),
        np.arange(6, dtype=np.uint8),
        np.array([True, False]),
    ],
    ids=["0-d", "empty", "fortran", "big-endian", "complex", "nan", "uint8", "bool"],
)
def test_unusual_arrays(x):
    def function(x):
        with np.errstate(all="ignore"):
            return (
                x + x,
                x * 2.5,
                np.exp(x),
                x.sum(),
                x.T.copy(),
                np.sqrt(x + x),
                x[..., None] - x[..., None][..., ::-1],
            )

    def function_of_numbers(x):
        return function(x)[:-1] if x.dtype == bool else function(x)

    if x.dtype == bool:
        x = x.astype(np.int8)
    assert_same(trace(function_of_numbers, x).result, function_of_numbers(x))


def test_big_endian_operands_keep_their_name():
    (op,) = calls(trace(lambda x: x + x, np.ones(3, ">f4")))
    assert op.operands[0].dtype == ">f4"
    assert op.dtype == "float32"
    assert op.casts


def test_read_only_arrays_stay_so():
    x = np.ones(3)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        trace(lambda x: x.__iadd__(1), x)
    assert trace(lambda x: x + 1, x).result.tolist() == [2.0] * 3


# ---- the record


def test_saved_and_loaded():
    found = trace(lambda x: (x[1:] * 2.5 + 1j, x.sum()), np.ones((5, 3)))
    data = json.loads(found.to_json())
    assert "result" not in data
    loaded = Trace.from_json(found.to_json())
    assert loaded == found
    assert loaded.rows == found.rows
    with pytest.raises(AttributeError, match="file"):
        _ = loaded.result
    with pytest.raises(RecordError):
        Trace.from_dict({"ops": []})


def test_frozen():
    found = trace(lambda x: x + 1, np.ones(3))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.ops[0].name = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.ops = ()


def test_reference_counts_are_left_alone():
    x = np.ones(1000)
    before = sys.getrefcount(x)
    for _ in range(3):
        found = trace(lambda x: (x + 1, x[1:]), x)
    del found
    assert sys.getrefcount(x) == before


def test_tracing_loads_nothing_heavy():
    code = (
        "import sys, accel.tracing; print([m for m in ('numba', 'matplotlib', 'pandas', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_module_first_imported_inside_the_traced_function_loads_as_usual():
    """NumPy's lazy modules read the docstrings of the functions that tracing stands in for."""
    code = (
        "import numpy as np, sys; from accel.tracing import trace\n"
        "for name in ('ma', 'fft', 'random', 'polynomial'):\n"
        "    assert 'numpy.ma' not in sys.modules or name != 'ma'\n"
        "    trace(lambda x: (x + 1, getattr(np, name)), np.ones(3))\n"
        "assert np.ma.zeros(2).sum() == 0 and type(np.ma.zeros(2).data) is np.ndarray\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_sliding_windows_are_a_view_of_their_array():
    x = np.arange(10.0)
    traced = trace(lambda x: sliding_window_view(x, 3).sum(axis=1), x)
    [total] = [op for op in traced.ops if op.kind != "opaque"]
    assert (total.name, total.views) == ("add.reduce", 1)
    assert traced.buffers[total.operands[0].buffer].label == "x"
    assert total.operands[0].strides == (8, 8)
    assert np.array_equal(traced.result, sliding_window_view(x, 3).sum(axis=1))


def test_windows_that_may_be_written_write_to_their_array():
    x = np.zeros(5)

    def change(x):
        windows = sliding_window_view(x, 2, writeable=True)
        windows[0] += 1.0

    [op] = [op for op in trace(change, x).ops if op.kind != "opaque"]
    assert (op.name, op.results[0].label, x.tolist()) == ("add", "x", [1.0, 1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: (value,), lambda value: {"inner": value}])
def test_results_nested_deeper_than_the_interpreter_recurses(wrap):
    depth = 3 * sys.getrecursionlimit()

    def nest(x):
        value = x + 1
        for _ in range(depth):
            value = wrap(value)
        return value

    inner = trace(nest, np.ones(3)).result
    for _ in range(depth):
        [inner] = inner.values() if isinstance(inner, dict) else inner
    assert type(inner) is np.ndarray
    assert inner.tolist() == [2.0, 2.0, 2.0]


def test_arguments_nested_deeper_than_the_interpreter_recurses():
    kept = []
    deep = kept
    for _ in range(3 * sys.getrecursionlimit()):
        deep = [deep]
    trace(lambda x, _: kept.append(x * 2), np.ones(2), deep)
    assert type(kept[0]) is np.ndarray


@pytest.mark.parametrize("index", [np.array([2, 0]), np.array([True, False, True]), np.array([[1], [2]])])
def test_an_array_as_index_is_recorded_as_any_other(index):
    x = np.arange(3.0)
    traced = trace(lambda x, i: x[i], x, index)
    again = trace(lambda x, i: x.__getitem__((i,)), x, index)
    op, other = (next(op for op in each.ops if op.kind != "opaque") for each in (traced, again))
    assert (op.name, op.kind, op.cost, op.operands[0].nbytes) == (other.name, other.kind, other.cost, x[index].nbytes)
    assert np.array_equal(traced.result, x[index])
