import doctest
import inspect
from functools import partial

import numpy as np
import pytest
from counting import count
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from layouts import LAYOUTS, floats, lay_out

from accel.cost import Cost
from accel.kernels import KERNELS, arguments, elementwise, gelu, matmul
from accel.kernels.elementwise import add, multiply, triad

DTYPES = st.sampled_from(["float16", "float32", "float64"])
BINARY = [(add, np.add), (multiply, np.multiply)]


@st.composite
def broadcastable(draw):
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=4, min_side=0))
    return [draw(floats(shape, draw(DTYPES), 100)) for shape in shapes.input_shapes]


@pytest.mark.parametrize(("kernel", "ufunc"), BINARY)
@given(operands=broadcastable())
def test_binary_kernels_equal_numpy(kernel, ufunc, operands):
    before = [x.copy() for x in operands]
    got, expected = kernel(*operands), ufunc(*operands)
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == expected.dtype
    out = np.empty(expected.shape, expected.dtype)
    assert kernel(*operands, out=out) is out
    np.testing.assert_array_equal(out, expected)
    for x, y in zip(operands, before, strict=True):
        np.testing.assert_array_equal(x, y)


@given(operands=broadcastable(), scalar=st.one_of(st.integers(-3, 3), st.floats(-3, 3)))
def test_triad_equals_the_formula(operands, scalar):
    a, b = operands
    got = triad(a, b, scalar)
    assert got.dtype == np.result_type(a, b)
    assert got.shape == np.broadcast_shapes(a.shape, b.shape)
    exact = a.astype(np.float64) + scalar * b.astype(np.float64)
    np.testing.assert_allclose(got, exact, rtol=4e-3, atol=0.5 if min(a.itemsize, b.itemsize) == 2 else 1e-3)
    out = np.empty_like(got)
    assert triad(a, b, scalar, out=out) is out
    np.testing.assert_array_equal(out, got)


def test_python_numbers_do_not_promote_float32():
    x = np.ones(3, np.float32)
    assert add(x, 2.5).dtype == multiply(2, x).dtype == triad(x, x, 3.0).dtype == np.float32
    assert add(x, np.float64(2.5)).dtype == np.float64


def test_integers_stay_integers():
    x = np.arange(3)
    np.testing.assert_array_equal(triad(x, x, 2), [0, 3, 6])
    assert triad(x, x, 2).dtype == x.dtype


def overlapping(layout):
    memory = np.arange(1.0, 9.0)
    return {"same": (memory[:6], memory[:6]), "shifted": (memory[:6], memory[2:]), "reversed": (memory, memory[::-1])}[
        layout
    ]


@pytest.mark.parametrize("layout", ["same", "shifted", "reversed"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("kernel", [add, multiply, lambda a, b, out: triad(a, b, 3.0, out=out)])
def test_out_may_overlap_an_operand(kernel, layout, first):
    x, out = overlapping(layout)
    other = np.full(x.shape, 2.0)
    operands = (x, other) if first else (other, x)
    expected = kernel(*(o.copy() for o in operands), out=np.empty_like(x))
    np.testing.assert_array_equal(kernel(*operands, out=out), expected)


@given(data=st.data())
def test_an_array_that_overlaps_itself_is_told_from_one_that_does_not(data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    strides = [data.draw(st.integers(-24, 24)) for _ in shape]
    memory = np.zeros(1024, np.uint8)
    x = np.ndarray(shape, "u2", memory, offset=512, strides=strides)
    bytes_of_all = [
        512 + sum(i * stride for i, stride in zip(index, strides, strict=True)) + byte
        for index in np.ndindex(shape)
        for byte in range(2)
    ]
    assert arguments.overlaps_itself(x) == (len(set(bytes_of_all)) < len(bytes_of_all))


KERNELS_WITH_OUT = {
    **{kernel.__name__: (kernel, 2) for kernel in (add, multiply, gelu.in_place, gelu.blocked)},
    **{kernel.__name__: (kernel, 2) for kernel in KERNELS if kernel.__module__ == matmul.__name__},
    "triad": (lambda a, b, out: triad(a, b, 3.0, out=out), 2),
    "in_place": (gelu.in_place, 1),
    "blocked": (partial(gelu.blocked, block_size=3), 1),
    "fused": (gelu.fused, 1),
    "exact": (gelu.exact, 1),
    "bias_fused": (lambda x, out: gelu.bias_fused(x, x[0], out=out), 1),
}


@pytest.mark.parametrize("name", KERNELS_WITH_OUT)
@pytest.mark.parametrize(("shape", "strides"), [((4, 4), (8, 8)), ((4, 4), (0, 8)), ((4, 4), (-8, 16))])
def test_out_whose_elements_share_memory_is_refused_by_every_kernel(name, shape, strides):
    kernel, operands = KERNELS_WITH_OUT[name]
    memory = np.arange(64.0)
    out = np.ndarray(shape, float, memory, offset=256, strides=strides)
    before = memory.copy()
    with pytest.raises(ValueError, match="memory of its own; got strides"):
        kernel(*[np.ones(shape)] * operands, out=out)
    with pytest.raises(ValueError, match="memory of its own; got strides"):
        kernel(*[out] * operands, out=out)
    np.testing.assert_array_equal(memory, before)


REAL_DTYPES = [*np.typecodes["AllInteger"], *np.typecodes["Float"], "?"]


@pytest.mark.parametrize("scalar", [2, 2.0])
@pytest.mark.parametrize("first", REAL_DTYPES)
@pytest.mark.parametrize("second", REAL_DTYPES)
def test_triad_takes_every_pair_of_dtypes(first, second, scalar):
    a, b = np.array([1, 0, 1], first), np.array([1, 1, 0], second)
    got = triad(a, b, scalar)
    assert got.dtype == np.result_type(a, b, scalar)
    np.testing.assert_array_equal(got, [3, 2, 1])


OF_ONE_ARRAY = [gelu.unfused, gelu.expression, gelu.in_place, gelu.blocked, gelu.fused, gelu.exact]
AS_LISTS = [
    (elementwise.add, [[1.0, 2.0], [3.0, 4.0]]),
    (elementwise.add, [[1, 2], 3]),
    (elementwise.add, [1, 2.0]),
    (elementwise.multiply, [np.float32(3), [1.0]]),
    (elementwise.triad, [[1.0, 2.0], [3.0, 4.0], 2.0]),
    (elementwise.triad, [1.0, [3.0, 4.0], 2.0]),
    *((kernel, [x]) for kernel in OF_ONE_ARRAY for x in (1.0, [1.0, 2.0])),
    (gelu.bias_fused, [[[1.0, 2.0], [3.0, 4.0]], [0.5, 1.5]]),
    *((kernel, [[[1, 2]], [[3.0], [4.0]]]) for kernel in KERNELS if kernel.__module__ == matmul.__name__),
]


@pytest.mark.parametrize(("kernel", "given"), AS_LISTS)
def test_costs_take_what_their_kernel_takes(kernel, given):
    kernel(*given)
    assert kernel.cost(*given).bytes_written > 0
    arrays = [np.asarray(x) if isinstance(x, list) or kernel in OF_ONE_ARRAY else x for x in given]
    if kernel is elementwise.triad:
        arrays[:2] = map(np.asarray, given[:2])
    assert kernel.cost(*given) == kernel.cost(*arrays)


@pytest.mark.parametrize("kernel", KERNELS)
def test_costs_refuse_lists_that_their_kernel_refuses(kernel):
    required = [p for p in inspect.signature(kernel).parameters.values() if p.default is p.empty]
    given = [["a"], ["b"], 2.0 if required[-1].name == "scalar" else ["c"], ["d"], ["e"]][: len(required)]
    for call in (kernel, kernel.cost):
        with pytest.raises(TypeError, match=r"must hold real numbers|must be float16"):
            call(*given)


@pytest.mark.parametrize(
    ("out", "error", "says"),
    [
        (np.empty(4), ValueError, r"shape of the result, \(3,\); got \(4,\)"),
        (np.empty(3, np.float32), TypeError, "dtype of the result, float64; got float32"),
        (lay_out(np.empty(3), "read-only"), ValueError, "read-only"),
        ([0, 0, 0], TypeError, "must be an array; got list"),
    ],
)
@pytest.mark.parametrize("kernel", [add, multiply, lambda a, b, out: triad(a, b, 3.0, out=out)])
def test_bad_out_is_refused_with_the_fix(kernel, out, error, says):
    with pytest.raises(error, match=says) as caught:
        kernel(np.ones(3), np.ones(3), out=out)
    assert "Pass np.empty((3,), np.float64)." in str(caught.value)


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (np.ones(2, complex), "complex128.*x1.real"),
        (np.array(["a"]), "<U1"),
        (np.array([None]), "object"),
        (np.ma.ones(2), "MaskedArray"),
        (np.zeros(2, "M8[s]"), "datetime64"),
    ],
)
def test_what_is_not_real_is_refused(x, says):
    for kernel in (add, multiply):
        with pytest.raises(TypeError, match=says):
            kernel(x, x)


def test_triad_refuses_a_numpy_scalar_that_would_promote():
    x = np.ones(2, np.float32)
    with pytest.raises(TypeError, match=r"float64.*float\(scalar\)"):
        triad(x, x, np.float64(3))


def test_costs_of_a_million_float32():
    x, y = np.ones(1_000_000, np.float32), np.ones(1_000_000, np.float32)
    once = Cost(flops=1_000_000, bytes_read=8_000_000, bytes_written=4_000_000, bytes_write_allocate=4_000_000, calls=1)
    assert add.cost(x, y) == multiply.cost(x, y, out=x) == once
    assert add.cost(x, x).bytes_read == 4_000_000  # one array, read once
    assert triad.cost(x, y, 3.0) == Cost(
        flops=2_000_000,
        bytes_read=12_000_000,
        bytes_written=8_000_000,
        bytes_write_allocate=4_000_000,
        calls=2,
    )


@given(operands=broadcastable())
def test_costs_equal_what_is_counted(operands):
    a, b = (x.astype(x.dtype.newbyteorder("=")) for x in operands)
    if a.size and b.size and a.ndim and b.ndim:
        assert count(add, a, b) == add.cost(a, b)
        assert count(multiply, a, b) == multiply.cost(a, b)
        assert count(triad, a, b, 2.0) == triad.cost(a, b, 2.0)


def test_costs_need_shapes_only():
    class Shape:
        shape, dtype, size, nbytes, itemsize = (5,), np.dtype("float32"), 5, 20, 4

    for kernel in (elementwise.add, elementwise.multiply):
        assert kernel.cost(Shape(), Shape()) == kernel.cost(np.ones(5, np.float32), np.zeros(5, np.float32))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_hold_the_values_they_are_given(layout):
    values = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(lay_out(values, layout), values)


@pytest.mark.parametrize("module", [arguments, elementwise])
def test_docstring_examples(module):
    assert doctest.testmod(module).failed == 0
