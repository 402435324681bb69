import math
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel import Cost
from accel.cost import costs

any_cost = st.builds(Cost, *[st.integers(0, 10**12)] * 7)


@given(any_cost, any_cost, any_cost)
def test_costs_add_like_numbers(a, b, c):
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + Cost() == a
    assert sum([a, b, c]) == a + b + c


@given(any_cost, st.integers(0, 50))
def test_multiplying_is_repeated_addition(cost, times):
    assert cost * times == times * cost == sum([cost] * times, Cost())


@given(any_cost)
def test_derived_figures(cost):
    assert cost.bytes_algorithmic == cost.bytes_read + cost.bytes_written
    assert cost.bytes_traffic == cost.bytes_algorithmic + cost.bytes_write_allocate
    if cost.bytes_algorithmic:
        assert cost.intensity == cost.flops / cost.bytes_algorithmic


def test_intensity_without_bytes():
    assert Cost(flops=1).intensity == math.inf
    assert Cost().intensity == 0.0


@pytest.mark.parametrize("bad", [1.5, "3", None, True, 2.0])
def test_a_count_must_be_a_whole_number(bad):
    with pytest.raises(TypeError, match=r"Cost\.flops is a count"):
        Cost(flops=bad)


def test_a_count_cannot_be_negative():
    with pytest.raises(ValueError, match="cannot be negative; got -1"):
        Cost(bytes_read=-1)


def test_numpy_integers_are_counts():
    cost = Cost(flops=np.int64(3))
    assert cost.flops == 3
    assert type(cost.flops) is int


@pytest.mark.parametrize("other", [1, 2.0, "x", None])
def test_adding_something_else_is_a_type_error(other):
    with pytest.raises(TypeError):
        Cost(flops=1) + other


@pytest.mark.parametrize("factor", [0.5, True, "2"])
def test_multiplying_by_something_else_is_a_type_error(factor):
    with pytest.raises(TypeError):
        Cost(flops=1) * factor


def test_a_negative_multiple_is_refused():
    with pytest.raises(ValueError, match="negative"):
        Cost(flops=1) * -1


def test_a_cost_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Cost().flops = 3


def test_every_count_has_a_default_of_zero():
    assert all(getattr(Cost(), field.name) == 0 for field in fields(Cost))


def test_costs_attaches_the_closed_form():
    @costs(lambda x: Cost(flops=x.size))
    def negate(x):
        return -x

    assert negate.cost(np.ones((3, 4))).flops == 12
    assert negate(2) == -2
