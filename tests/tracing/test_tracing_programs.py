"""Random small programs: traced, they return bit for bit what they return untraced."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.tracing import array_like, trace
from accel.tracing.layout import axis_order, inner_loop, packed_strides

UNARY = (np.negative, np.absolute, np.sqrt, np.square, np.tanh, np.sign, np.isnan, np.positive)
BINARY = (np.add, np.subtract, np.multiply, np.maximum, np.divide, np.less, np.arctan2)
OPERATORS = (
    lambda a, b: a + b, lambda a, b: a * b, lambda a, b: b - a, lambda a, b: a > b, lambda a, b: a * 2.5 + b,
    lambda a, b: 3 - a, lambda a, b: (a + b) * (a - b), lambda a, b: a**2 + b, lambda a, b: a // 2,
    lambda a, b: abs(-b),
)  # fmt: skip
REDUCTIONS = (np.sum, np.prod, np.max, np.mean, np.any, np.argmax, np.std, np.cumsum)
VIEWS = (
    lambda a: a.T, lambda a: a[::-1], lambda a: a[..., ::2], lambda a: a.reshape(-1), lambda a: a[1:],
    lambda a: a[None],
    lambda a: a.swapaxes(0, -1), lambda a: a.copy(order="F"), lambda a: a.astype(np.float32),
    lambda a: np.sort(a, axis=0),
)  # fmt: skip
DTYPES = ("float32", "float64", "int32", "uint8", "complex64", ">f8", "float16")


@st.composite
def arrays(draw):
    shape = tuple(draw(st.lists(st.integers(0, 5), min_size=1, max_size=3)))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    values = draw(st.integers(0, 2**32 - 1))
    x = (np.random.default_rng(values).integers(0, 7, shape)).astype(dtype)
    return draw(
        st.sampled_from((np.asarray, np.asfortranarray, lambda a: a[..., ::-1], lambda a: np.repeat(a, 2, 0)[::2]))
    )(x)


step = st.one_of(
    st.tuples(st.just("unary"), st.sampled_from(UNARY)),
    st.tuples(st.just("binary"), st.sampled_from(BINARY)),
    st.tuples(st.just("operator"), st.sampled_from(OPERATORS)),
    st.tuples(st.just("reduce"), st.sampled_from(REDUCTIONS), st.sampled_from((None, 0, -1))),
    st.tuples(st.just("view"), st.sampled_from(VIEWS)),
    st.tuples(st.just("in place"), st.sampled_from((np.add, np.multiply))),
)


def run(program, x):
    """Apply the steps to the last two values; a step that NumPy refuses is part of what has to agree."""
    values = [x]
    with np.errstate(all="ignore"):
        for kind, function, *rest in program:
            a, b = values[-1], values[-2] if len(values) > 1 else values[-1]
            try:
                values.append(apply(kind, function, rest, a, b))
            except (ValueError, TypeError, IndexError, AttributeError, np.exceptions.AxisError) as error:
                values.append(values[-1])
                values.insert(0, (type(error).__name__, str(error)))
    return values


def apply(kind, function, rest, a, b):
    if kind in ("unary", "view"):
        return function(a)
    if kind == "reduce":
        return function(a, axis=rest[0])
    if kind == "in place":
        return function(a, 1, out=a)
    return function(a, b)


def fingerprint(value):
    if isinstance(value, np.ndarray):
        steps = tuple(s for s, n in zip(value.strides, value.shape, strict=True) if n > 1) if value.size else ()
        return type(value), value.dtype.str, value.shape, steps, value.tobytes()
    if isinstance(value, np.generic):
        return type(value), value.tobytes()
    return value


@settings(max_examples=300, deadline=None)
@given(arrays(), st.lists(step, min_size=1, max_size=7))
def test_programs_return_what_they_return_untraced(x, program):
    expected = run(program, x.copy(order="K"))
    found = trace(functools.partial(run, program), x.copy(order="K"))
    assert [fingerprint(v) for v in found.result] == [fingerprint(v) for v in expected]
    assert found.cost.calls == sum(op.kind != "opaque" for op in found.ops)


def follow(program, x):
    """The same without steps that fail, whose messages differ; up to a scalar, whose arithmetic no trace sees."""
    values = [x]
    for kind, function, *rest in program:
        if values[-1].shape == ():
            break
        a, b = values[-1], values[-2] if len(values) > 1 else values[-1]
        values.append(apply(kind, function, rest, a, b))
    return values


@settings(max_examples=300, deadline=None)
@given(arrays(), st.lists(step, min_size=1, max_size=5))
def test_programs_make_the_same_operations_from_shapes(x, program):
    x = np.asarray(x, order="C").astype(x.dtype.newbyteorder("="))
    try:
        with np.errstate(all="ignore"):
            real = trace(functools.partial(follow, program), x)
    except (ValueError, TypeError, IndexError, AttributeError, np.exceptions.AxisError):
        return
    shapes = trace(functools.partial(follow, program), array_like(x.shape, x.dtype))
    assert [plain(op) for op in shapes.ops] == [plain(op) for op in real.ops if op.kind != "opaque"]
    assert shapes.peak_temporary_bytes == real.peak_temporary_bytes


def plain(op):
    return replace(
        op,
        index=0,
        seconds=0.0,
        scalars=tuple(replace(s, value=0) for s in op.scalars),
        operands=tuple(without_idle_strides(o) for o in op.operands),
        results=tuple(without_idle_strides(o) for o in op.results),
    )


def without_idle_strides(operand):
    """Strides along axes of no or one element are never stepped, and NumPy leaves anything in them."""
    idle = 0 in operand.shape
    strides = tuple(0 if n == 1 or idle else s for s, n in zip(operand.strides, operand.shape, strict=True))
    return replace(operand, strides=strides, offset_bytes=0 if idle else operand.offset_bytes)


shapes_of_rank = st.integers(1, 4).flatmap(lambda rank: st.tuples(*[st.integers(1, 4)] * rank))


@settings(max_examples=300, deadline=None)
@given(shapes_of_rank, st.data())
def test_layout_of_results_is_numpys(shape, data):
    """Two operands with permuted and broadcast axes: the axis order gives the strides that NumPy gives the result."""
    operands = []
    for _ in range(2):
        axes = data.draw(st.permutations(range(len(shape))))
        kept = [data.draw(st.booleans()) or n == 1 for n in shape]
        full = np.empty([shape[a] if kept[a] else 1 for a in axes]).transpose(np.argsort(axes))
        operands.append(full)
    result = np.add(*operands)
    steps = [tuple(0 if n == 1 else s for n, s in zip(o.shape, o.strides, strict=True)) for o in operands]
    order = axis_order(result.ndim, steps)
    moving = [n > 1 for n in result.shape]
    packed = packed_strides(result.shape, 8, order)
    assert [s for s, m in zip(packed, moving, strict=True) if m] == [
        s for s, m in zip(result.strides, moving, strict=True) if m
    ]
    length, rows = inner_loop(result.shape, [*steps, packed])
    assert length * rows == result.size
