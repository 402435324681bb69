import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from layouts import floats, lay_out

from accel.kernels import access, fallback

SUMS = {
    "sequential": (access.sequential_sum, (), np.s_[:]),
    "strided": (access.strided_sum, (3,), np.s_[::3]),
    "gathered": (access.gathered_sum, ([2, 0, 2],), [2, 0, 2]),
}


@given(st.integers(1, 3000), st.integers(0, 5))
def test_a_cycle_visits_every_place_once_and_returns(length, seed):
    following = access.cycle(length, seed=seed)
    visited, place = [], 0
    for _ in range(length):
        visited.append(place)
        place = int(following[place])
    assert place == 0
    assert sorted(visited) == list(range(length))


def test_all_cycles_of_four_places_turn_up():
    found = {tuple(access.cycle(4, seed=seed).tolist()) for seed in range(200)}
    assert len(found) == 6  # (4 - 1)!


@pytest.mark.parametrize("compiled", [True, False])
@given(
    following=st.lists(st.integers(0, 9), min_size=10, max_size=10), steps=st.integers(1, 30), start=st.integers(0, 9)
)
@settings(deadline=None)
def test_a_chase_follows_its_links(compiled, following, steps, start):
    place = start
    for _ in range(steps):
        place = following[place]
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(fallback, "compiled", lambda _name: None)
        assert access.chase(following, steps, start) == place
        assert access.chase(lay_out(np.array(following, np.int32), "swapped"), steps, start) == place
        assert access.chase(lay_out(np.array(following), "strided"), steps, start) == place


@pytest.mark.parametrize("form", SUMS)
@given(data=st.data(), dtype=st.sampled_from(["float16", "float32", "float64"]))
def test_sums_are_those_of_their_elements(form, data, dtype):
    x = data.draw(floats(st.integers(3, 40), dtype, 8.0))
    before = x.copy()
    function, arguments, chosen = SUMS[form]
    got = function(x, *arguments)
    assert got.dtype == x.dtype.newbyteorder("=")
    expected = x.astype(np.float64)[chosen].sum()
    np.testing.assert_allclose(got, expected, atol={"float16": 0.5, "float32": 1e-4, "float64": 1e-12}[dtype])
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("form", SUMS)
def test_costs_are_what_numpy_is_asked_to_do(form):
    function, arguments, _ = SUMS[form]
    x = np.ones(40, np.float32)
    cost = function.cost(x, *arguments)
    assert cost.flops == {"sequential": 40, "strided": 14, "gathered": 3}[form]
    assert cost.bytes_read >= 4 * cost.flops
    assert function.cost(x.tolist(), *arguments) == function.cost(x.astype(np.float64), *arguments)


def test_nothing_adds_up_to_nothing():
    empty = np.zeros(0, np.float32)
    assert (
        access.sequential_sum(empty)
        == access.strided_sum(empty, 4)
        == access.gathered_sum(empty, np.zeros(0, int))
        == 0
    )
    assert access.strided_sum.cost(empty, 4).flops == 0


def test_nan_and_infinity_go_through():
    x = np.array([np.inf, 1, np.nan], np.float32)
    assert np.isnan(access.sequential_sum(x))
    assert access.gathered_sum(x, [0, 1]) == np.inf


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: access.sequential_sum(np.arange(3)), TypeError, "got int64"),
        (lambda: access.sequential_sum(np.ones(3, complex)), TypeError, "complex128"),
        (lambda: access.sequential_sum(np.ones((2, 2))), ValueError, "must be a vector; got shape .2, 2."),
        (lambda: access.sequential_sum(np.float32(1)), ValueError, "must be a vector"),
        (lambda: access.strided_sum(np.ones(3), 0), ValueError, "step must be at least 1; got 0"),
        (lambda: access.strided_sum(np.ones(3), 1.5), TypeError, "step must be a whole number"),
        (lambda: access.gathered_sum(np.ones(3), [3]), ValueError, "from 0 to below 3; got 3 to 3"),
        (lambda: access.gathered_sum(np.ones(3), [-1]), ValueError, "got -1"),
        (lambda: access.gathered_sum(np.ones(3), [1.0]), TypeError, "order must be integers; got float64"),
        (lambda: access.gathered_sum(np.ones(3), [[1]]), ValueError, "order must be a vector"),
        (lambda: access.cycle(0), ValueError, "length must be at least 1"),
        (lambda: access.chase([1, 0], 0), ValueError, "steps must be at least 1"),
        (lambda: access.chase([1, 2], 1), ValueError, "following must lie from 0 to below 2"),
        (lambda: access.chase([1, 0], 1, start=2), ValueError, "start must lie from 0 to below 2"),
        (lambda: access.chase([0.5], 1), TypeError, "following must be integers"),
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_gather_is_two_calls():
    assert access.gathered_sum.cost(np.ones(40, np.float32), [1, 2]).calls == 2
