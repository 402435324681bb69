"""Threads: spans cover a range exactly, parts all run, and a failing part is heard of."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.kernels.threads import run_parts, spans, thread_count


@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 64))
def test_spans_cover_the_range_once_and_start_at_multiples(length, parts, multiple):
    found = spans(length, parts, multiple)
    assert len(found) <= parts
    assert [place for start, stop in found for place in range(start, stop)] == list(range(length))
    assert all(start % multiple == 0 and start < stop for start, stop in found)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_part_runs_once(threads):
    seen = []
    run_parts(lambda a, b: seen.append((a, b)), spans(100, 5), threads)
    assert sorted(seen) == spans(100, 5)


def test_parts_run_at_once():
    meeting = threading.Barrier(2, timeout=10)
    run_parts(lambda _: meeting.wait(), [(0,), (1,)], 2)


@pytest.mark.parametrize("failing", [0, 1])
def test_the_exception_of_a_part_is_raised_after_all_have_ended(failing):
    ended = []

    def run(part):
        if part == failing:
            raise KeyError(part)
        ended.append(part)

    with pytest.raises(KeyError):
        run_parts(run, [(0,), (1,)], 2)
    assert ended == [1 - failing]


@pytest.mark.parametrize(("wrong", "error"), [(0, ValueError), (True, TypeError), (1.5, TypeError)])
def test_a_thread_count_is_a_whole_number_from_one(wrong, error):
    with pytest.raises(error, match="threads"):
        thread_count(wrong)
