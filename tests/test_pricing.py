"""What single calls cost, on a machine whose costs are known."""

from dataclasses import replace

import numpy as np
import pytest
from machines import DETAILED

import accel
from accel.cost import Cost, costs
from accel.machine import CallCost, Ceiling, Overlap, Rate
from accel.pricing import PriceList
from accel.rates import rate_name, row_length, units
from accel.steps import accesses

CALL = 5e-7
NUMBER, SCALAR, BROADCAST, CAST = 4e-7, 2e-7, 8e-7, 3e-7


def rate(name, *each, call=2e-6, dtype="float32"):
    return Rate(name, dtype, call, (2**14, 2**20, 2**27)[: len(each)], each)


MACHINE = DETAILED.with_calibration(
    replace(
        DETAILED.calibration,
        calls=(
            CallCost("multiply", "plain", CALL),
            CallCost("multiply", "number", CALL + NUMBER),
            CallCost("multiply", "scalar", CALL + SCALAR),
            CallCost("multiply", "broadcast", CALL + BROADCAST),
            CallCost("multiply", "cast", CALL + CAST),
            CallCost("add.reduce", "method", 1.3e-6),
            CallCost("matmul", "ufunc", 1.2e-6),
        ),
        rates=(
            rate("sort", 2e-10, 4e-10, 8e-10),
            rate("take", 5e-10, 1e-9, 1e-8, call=2.5e-7),
            rate("take:mask", 3e-9, 3e-9, 3e-9),
            rate("dot", 1e-10, 1e-10),
            rate("add.accumulate", 3e-11, 4e-11),
            rate("matvec", 8e-11, 8e-11),
            rate("vecmat", 9e-11, 9e-11),
            rate("columns", 1e-9, 2e-9, 1e-8),
            rate("columns:conflict", 4e-9, 4e-9, 4e-9),
            rate("stacked products", 2e-7, 2e-7),
            rate("einsum:rows", 1e-10, 1e-10),
            rate("einsum:axpy", 3e-10, 3e-10),
            rate("var", 2e-9, 2e-9),
        ),
    )
)


def array(*shape, dtype="float32"):
    return accel.array_like(shape, dtype)


def traced(function, *arrays):
    """Return the one call of a function."""
    [op] = (op for op in accel.trace(function, *arrays).ops if op.kind != "opaque")
    return op


def only(function, *arrays):
    """Return the one call of a function, and its price with every operand touched a moment ago."""
    op = traced(function, *arrays)
    return op, PriceList(MACHINE, 1).price(op, [1000.0] * len((*op.operands, *op.results)))


@pytest.mark.parametrize(
    ("function", "arrays", "extra"),
    [
        (lambda x, y: x * y, (array(16), array(16)), 0.0),
        (lambda x: x * 2.0, (array(16),), NUMBER),
        (lambda x: x * np.float32(2), (array(16),), SCALAR),
        (lambda x, y: x * y, (array(4, 4), array(4)), BROADCAST),
        (lambda x, y: x * y, (array(16), array(16, dtype="float64")), CAST),
        (lambda x: x * np.float64(2), (array(16),), SCALAR + CAST),
    ],
)
def test_a_call_is_dearer_by_what_its_operands_ask_for(function, arrays, extra):
    _, price = only(function, *arrays)
    assert price.overhead_seconds == pytest.approx(CALL + extra)


def test_a_reduction_is_called_as_it_was_measured():
    _, price = only(lambda x: x.max(axis=0), array(4, 4))
    assert price.overhead_seconds == pytest.approx(1.3e-6)


def test_what_is_no_plain_pass_has_a_rate_of_its_own():
    op, price = only(np.sort, np.ones(1024, np.float32))
    assert price.seconds == pytest.approx(2e-6 + op.cost.flops * 2e-10)
    assert price.bound_by == "sort"


def test_a_rate_is_read_at_the_reuse_distance():
    op = traced(lambda x, i: x[i], np.ones(1000, np.float32), np.arange(1000))
    prices = PriceList(MACHINE, 1)
    near, far = (prices.price(op, [distance] * 3).arithmetic_seconds for distance in (2**14, 2**27))
    assert near == pytest.approx(1000 * 5e-10)
    assert far == pytest.approx(1000 * 1e-8)


def test_a_streaming_function_waits_for_memory_as_a_ufunc_does():
    op = traced(np.cumsum, np.ones(1000, np.float32))
    price = PriceList(MACHINE, 1).price(op, [2.0**27] * 2)
    assert price.arithmetic_seconds == pytest.approx(1000 * 3e-11)
    assert price.memory_seconds > 2 * price.arithmetic_seconds
    assert price.seconds == pytest.approx(price.overhead_seconds + price.memory_seconds + price.pages_seconds)


x, matrix, mask = np.ones(512, np.float32), np.ones((64, 8), np.float32), np.ones(512, bool)


@pytest.mark.parametrize(
    ("function", "arrays", "name", "work"),
    [
        (lambda x, m: x[m], (x, mask), "take:mask", 512),
        (lambda x, i: x[i], (x, np.arange(100)), "take", 100),
        (lambda a, i: a[i], (matrix, np.arange(10)), "take:rows", 80),
        (np.dot, (x, x), "dot", 512),
        (lambda a, v: a @ v, (matrix, x[:8]), "matvec", 512),
        (lambda a, v: v @ a, (matrix, x[:64]), "vecmat", 512),
        (lambda a, v: a.T @ v, (matrix, x[:64]), "vecmat", 512),
        (lambda a: a @ a.T, (matrix,), "", 64 * 8 * 64),
        (lambda a, b: np.einsum("ij,ij->i", a, b), (matrix, matrix.copy()), "einsum:rows", 1024),
        (lambda a, b: np.einsum("ij,jk->ik", a, b), (matrix, matrix.T.copy()), "einsum:axpy", 65536),
        (lambda a: np.einsum("ij->j", a), (matrix,), "einsum:sum", 504),
        (lambda a: np.stack([a, a], axis=-1), (x,), "stack:last", 1024),
        (lambda a: np.stack([a, a]), (x,), "concatenate", 1024),
        (np.cumsum, (x,), "add.accumulate", 512),
    ],
)
def test_functions_are_told_apart_by_how_they_are_called(function, arrays, name, work):
    op = traced(function, *arrays)
    assert rate_name(op) == name
    assert units(op, name) == work


def test_every_row_of_a_broadcast_costs_a_start():
    _, one = only(lambda x, y: x / y, array(1, 256), array(1, 1))
    op, many = only(lambda x, y: x / y, array(50, 256), array(50, 1))
    assert op.rows == 50
    elements = 49 * 256 * next(c for c in MACHINE.roofs.ceilings if c.operation == "divide").element_seconds
    assert many.arithmetic_seconds - one.arithmetic_seconds == pytest.approx(elements + 50 * 5e-9)


def test_a_stack_of_small_products_starts_each_of_them():
    _, price = only(np.matmul, array(100, 4, 4), array(100, 4, 4))
    assert price.overhead_seconds == pytest.approx(1.2e-6)
    assert price.arithmetic_seconds == pytest.approx(100 * 2e-7)


def test_fortran_order_has_no_gaps():
    x = np.asfortranarray(np.ones((100, 50), np.float32))
    op, price = only(lambda x: x * 2.0, x)
    assert not any(access.has_gaps for access in accesses(op))
    assert price.arithmetic_seconds == only(lambda x: x * 2.0, x.T)[1].arithmetic_seconds


@pytest.mark.parametrize(
    ("function", "steps"),
    [
        (lambda x: x[::2] * 2, (8, 4)),
        (lambda x: x[::-1] * 2, (4, 4)),
        (lambda x: x * 2, (4, 4)),
    ],
)
def test_gaps_are_those_of_the_innermost_loop(function, steps):
    op = traced(function, np.ones(100, np.float32))
    assert tuple(abs(access.step_bytes) for access in accesses(op)) == steps


@pytest.mark.parametrize(("side", "each"), [(100, 1e-9), (1024, 4e-9)])
def test_going_down_columns_costs_a_line_each(side, each):
    x = np.ones((side, side), np.float32)
    op = traced(lambda x: x + x.T, x)
    assert [access.is_by_column for access in accesses(op)] == [False, True, False]
    prices = PriceList(MACHINE, 1)
    assert prices.price(op, [1000.0] * 3).arithmetic_seconds == pytest.approx(x.size * each, rel=0.1)


def test_one_element_of_a_row_is_no_column_access():
    op = traced(lambda x: x[:, 3] + 1, np.ones((100, 64), np.float32))
    assert not any(access.is_by_column for access in accesses(op))


def test_overlap_is_that_of_the_nearest_working_set():
    machine = MACHINE.with_calibration(
        replace(MACHINE.calibration, overlaps=(Overlap("exp", 8.0, 2**18), Overlap("exp", 0.7, 2**26)))
    )
    op = traced(np.exp, np.ones(1000, np.float32))
    near, far = (PriceList(machine, 1).price(op, [distance] * 2) for distance in (2.0**17, 2.0**27))
    assert (near.overlap_exponent, far.overlap_exponent) == (8.0, 0.7)
    assert far.seconds > far.overhead_seconds + far.arithmetic_seconds + far.memory_seconds


def test_truth_values_are_combined_as_logic():
    machine = MACHINE.with_calibration(
        replace(
            MACHINE.calibration,
            ceilings=(*MACHINE.calibration.ceilings, Ceiling("logical_and", "bool", CALL, 1e-11)),
        )
    )
    op = traced(lambda a, b: a & b, np.ones(10_000, bool), np.ones(10_000, bool))
    assert PriceList(machine, 1).price(op, [100.0] * 3).arithmetic_seconds == pytest.approx(1e-7)


def with_roofs(**changes):
    """Return a price list of the machine with more that was measured."""
    roofs = MACHINE.calibration
    more = {name: getattr(roofs, name) + tuple(added) for name, added in changes.items()}
    return PriceList(MACHINE.with_calibration(replace(roofs, **more)), 1)


def work_of(prices, op, distance=1000.0):
    return prices.price(op, [distance] * len((*op.operands, *op.results))).arithmetic_seconds


def test_a_rate_rises_between_two_points_where_a_plain_pass_does():
    """The plain pass of this machine takes 1.1, 1.5 and 6.1 units a byte at 16 KB, 1 MB and 128 MB."""
    curve = Rate("linalg.norm", "float32", 1e-6, (2**20, 2**27), (1e-10, 6e-10))
    prices, op = with_roofs(rates=[curve]), traced(np.linalg.norm, np.ones(1000, np.float32))
    halfway = 2.0**20 * 2**3.5
    plain = 1.5 + (6.1 - 1.5) / 2
    assert work_of(prices, op, halfway) == pytest.approx(1000 * (1e-10 + (plain - 1.5) / (6.1 - 1.5) * 5e-10))
    streams = tuple(
        replace(stream, working_set_bytes=(2**20, 2**26, 2**27), seconds_per_byte=(1e-11, 1.1e-11, 6e-11))
        for stream in MACHINE.calibration.streams
    )
    late = PriceList(MACHINE.with_calibration(replace(MACHINE.calibration, rates=(curve,), streams=streams)), 1)
    assert work_of(late, op, 2.0**25) < 1000 * 1.2e-10 < 1000 * 5.9e-10 < work_of(late, op, 2.0**27)


def test_short_rows_pay_for_their_start():
    narrow = Rate("matvec:narrow", "float32", 1e-6, (2**14, 2**20), (9e-11, 9e-11))
    prices = with_roofs(rates=[narrow])
    for columns in (8, 16, 4096):
        op = traced(lambda a, v: a @ v, np.ones((64, columns), np.float32), np.ones(columns, np.float32))
        assert work_of(prices, op) == pytest.approx(64 * columns * (8e-11 + 1e-11 * 48 / columns))


@pytest.mark.parametrize(
    ("function", "shapes", "name", "length"),
    [
        (lambda a, v: a @ v, ((64, 8), (8,)), "matvec", 8),
        (lambda a, v: v @ a, ((64, 8), (64,)), "vecmat", 8),
        (lambda a, v: a.T @ v, ((64, 8), (64,)), "vecmat", 8),
        (lambda a: a.argmax(axis=1), ((64, 8),), "argmax", 8),
        (lambda a: a.argmax(), ((64, 8),), "argmax", 0),
        (lambda a, b: np.einsum("ij,ij->i", a, b), ((64, 8), (64, 8)), "einsum:rows", 8),
        (np.sort, ((64, 8),), "sort", 0),
    ],
)
def test_the_length_of_a_row(function, shapes, name, length):
    op = traced(function, *(np.ones(shape, np.float32) for shape in shapes))
    assert (rate_name(op), row_length(op, name)) == (name, length)


def test_branches_are_learned_in_short_arrays_only():
    prices = with_roofs(
        ceilings=[Ceiling("cbrt", "float32", 5e-7, 4e-9), Ceiling("cbrt:long", "float32", 5e-7, 9e-9)],
    )
    for n, each in ((1000, 4e-9), (100_000, 9e-9)):
        op = traced(np.cbrt, array(n))
        assert work_of(prices, op) == pytest.approx(n * each)


def test_a_copy_backwards_has_a_loop_of_its_own():
    prices = with_roofs(ceilings=[Ceiling("copy:reversed", "float32", 3e-7, 2e-10)])
    copied = traced(lambda x: x[::-1].copy(), np.ones(1000, np.float32))
    added = traced(lambda x: x[::-1] + x, np.ones(1000, np.float32))
    assert work_of(prices, copied) == pytest.approx(1000 * 2e-10)
    assert work_of(prices, added) == pytest.approx(1000 * 6e-10)


def test_a_compiled_kernel_pays_for_its_exponentials():
    @costs(lambda x: Cost(flops=x.size, special=x.size, bytes_read=x.nbytes, calls=1), opaque=True)
    def kernel(x):
        return x

    op = traced(kernel, np.ones(100_000, np.float32))
    flops = 100_000 / MACHINE.peak_flops_per_second("float32", 1)
    assert work_of(PriceList(MACHINE, 1), op) == pytest.approx(flops + 100_000 * 6e-10)
    measured = with_roofs(rates=[Rate("compiled special", "float32", 1e-7, (2**13,), (4e-10,))])
    assert work_of(measured, op) == pytest.approx(flops + 100_000 * 4e-10)


def test_buffered_operands_are_paid_for_by_the_element():
    ceilings = [Ceiling("add", "float32", 5e-7, 1e-10), Ceiling("add:buffered", "float32", 7e-7, 2.5e-10)]
    x, row = np.ones((16, 512), np.float32), np.ones(512, np.float32)
    plain, buffered = with_roofs(ceilings=ceilings[:1]), with_roofs(ceilings=ceilings)
    for function, copies in ((np.add, 1), (lambda x, row: x[:, :1] * row, 2), (lambda x, row: x + x, 0)):
        op = traced(function, x, row)
        assert work_of(buffered, op) - work_of(plain, op) == pytest.approx(copies * 16 * 512 * 1.5e-10)
