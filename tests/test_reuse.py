"""Reuse distances, against a simulation that follows every byte."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.reuse import NEVER, Piece, ReuseStack, piece_of
from accel.tracing.operations import Operand


def piece(buffer, start, stop):
    return Piece(buffer, start, stop, stop - start)


def byte_by_byte(groups):
    """For each piece: bytes outside its group touched since each of its bytes was, averaged, plus the group's own."""
    last_touch, answers = {}, []
    for time, group in enumerate(groups):
        own = {(p.buffer, b) for p in group for b in range(p.start_bytes, p.stop_bytes)}
        found = []
        for p in group:
            mine = [(p.buffer, b) for b in range(p.start_bytes, p.stop_bytes)]
            if any(b not in last_touch for b in mine):
                found.append(NEVER)
                continue
            since = [sum(1 for o, t in last_touch.items() if o not in own and t > last_touch[b]) for b in mine]
            found.append(sum(since) / len(mine) + sum(q.stop_bytes - q.start_bytes for q in dict.fromkeys(group)))
        answers.append(found)
        last_touch.update(dict.fromkeys(own, time))
    return answers


halves = st.builds(lambda buffer, half: piece(buffer, 8 * half, 8 * half + 8), st.integers(0, 3), st.integers(0, 1))
groups = st.lists(st.lists(halves, min_size=1, max_size=3, unique=True), min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(groups)
def test_distances_are_those_of_a_byte_by_byte_simulation(program):
    stack = ReuseStack()
    assert [stack.touch(group) for group in program] == byte_by_byte(program)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(1, 8)), min_size=1, max_size=10))
def test_ranges_may_overlap_in_any_way(ranges):
    program = [[piece(buffer, start, start + length)] for buffer, start, length in ranges]
    stack = ReuseStack()
    for found, expected in zip([stack.touch(group) for group in program], byte_by_byte(program), strict=True):
        assert found == pytest.approx(expected)


def test_the_same_piece_again_and_again_is_as_far_as_it_is_long():
    stack = ReuseStack()
    assert [stack.touch([piece(0, 0, 64)]) for _ in range(3)] == [[NEVER], [64.0], [64.0]]


def test_beyond_the_limit_nothing_is_remembered():
    stack = ReuseStack(limit_bytes=100)
    stack.touch([piece(0, 0, 10)])
    for buffer in range(1, 30):
        stack.touch([piece(buffer, 0, 20)])
    assert stack.touch([piece(0, 0, 10)]) == [NEVER]


def operand(shape, strides, itemsize_dtype="float32", offset=0):
    size = math.prod(n for n, s in zip(shape, strides, strict=True) if s or not n)
    nbytes = size * {"float32": 4, "float64": 8}[itemsize_dtype]
    return Operand(0, offset, shape, itemsize_dtype, strides, nbytes, False, "x")


@pytest.mark.parametrize(
    ("array", "start", "stop", "footprint"),
    [
        (operand((100,), (4,)), 0, 400, 400),
        (operand((100,), (8,)), 0, 796, 796),
        (operand((100,), (400,)), 0, 39604, 6400),
        (operand((100,), (-4,), offset=396), 0, 400, 400),
        (operand((10, 100), (0, 4)), 0, 400, 400),
        (operand((), ()), 0, 4, 4),
        (operand((0,), (4,)), 0, 0, 0),
    ],
)
def test_pieces_span_what_the_strides_span(array, start, stop, footprint):
    found = piece_of(array)
    assert (found.start_bytes, found.stop_bytes) == (start, stop)
    assert found.footprint_bytes == pytest.approx(footprint, rel=0.01)
