"""The file of a sweep, and what tells that a function changed; without any cluster."""

import functools
import subprocess
import sys

import numpy as np
import pytest

from accel.fleet import Point, SweepFileError, fingerprint
from accel.fleet.ledger import Ledger
from accel.measurement import Measurement

MEASURED = Measurement("point", (2e-6, 3e-6), 10, 0.5)
FUNCTIONS = {"add": "1", "sqrt": "2"}
FACTOR = 3


def point(name, size):
    return Point(name, size, "w", "10.0.0.1", 1, MEASURED)


def ledger(path, functions=FUNCTIONS, threads=1, seconds=0.2):
    return Ledger(path, functions, threads=threads, seconds=seconds)


@pytest.fixture
def path(tmp_path):
    """Return a file with two points."""
    first = ledger(tmp_path / "sweep.jsonl")
    first.add(point("add", 10))
    first.add(point("sqrt", 20))
    return first.path


def test_points_are_there_again(path):
    assert ledger(path).points == {("add", 10): point("add", 10), ("sqrt", 20): point("sqrt", 20)}


def test_a_last_line_that_was_cut_short_is_dropped_and_the_next_point_is_whole(path):
    path.write_bytes(path.read_bytes()[:-30])
    again = ledger(path)
    assert list(again.points) == [("add", 10)]
    again.add(point("sqrt", 40))
    assert list(ledger(path).points) == [("add", 10), ("sqrt", 40)]


def test_every_cut_keeps_the_whole_lines_before_it(path):
    content = path.read_bytes()
    for end in range(content.index(b"\n") + 1, len(content) + 1):
        path.write_bytes(content[:end])
        assert len(ledger(path).points) == content[:end].count(b"\n") - 1


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'"size":10', b'"size":11', "line 2 .* digest"),
        (b'{"sha256":', b"{", "line 2 .* damaged"),
        (b"accel sweep", b"accel sleep", "holds 'accel sleep'"),
        (b'{"format"', b"format", "not a sweep"),
    ],
)
def test_other_damage_is_refused(path, old, new, reason):
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(SweepFileError, match=reason):
        ledger(path)


def test_a_file_of_something_else_is_refused_and_stays(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("remember the milk")
    with pytest.raises(SweepFileError, match="not a sweep"):
        ledger(path)
    assert path.read_text() == "remember the milk"


def test_a_changed_function_is_refused(path):
    with pytest.raises(SweepFileError, match="'sqrt' changed since"):
        ledger(path, {"add": "1", "sqrt": "3"})


def test_further_functions_are_added_and_fewer_keep_the_others(path):
    ledger(path, {"exp": "5"}).add(point("exp", 1))
    assert len(ledger(path, FUNCTIONS | {"exp": "5"}).points) == 3
    with pytest.raises(SweepFileError, match="'exp' changed"):
        ledger(path, {"exp": "6"})


@pytest.mark.parametrize("changed", [{"threads": 2}, {"seconds": 1.0}])
def test_other_ways_to_measure_are_refused(path, changed):
    with pytest.raises(SweepFileError, match=f"{next(iter(changed))}="):
        ledger(path, **changed)


def test_without_a_path_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger(None).add(point("add", 1))
    assert not list(tmp_path.iterdir())


# --------------------------------------------------------------------------------------------------------- fingerprints


def helper(x):
    return x + 1


def test_the_same_code_is_the_same_function():
    first, second = ((lambda n: [np.ones(n)]) for _ in range(2))
    assert fingerprint(first, np.sqrt) == fingerprint(second, np.sqrt)


def made(value=1, closed=0):
    return lambda n, extra=value: n + extra + closed


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (lambda n: n + 1, lambda n: n + 2),
        (lambda n: np.sqrt(n), lambda n: np.exp(n)),
        (made(1), made(2)),
        (made(1, 0), made(1, 9)),
        (np.sqrt, np.exp),
        (functools.partial(made, 1), functools.partial(made, 2)),
        (lambda n: [m - 1 for m in range(n)], lambda n: [m + 1 for m in range(n)]),
    ],
)
def test_changed_code_defaults_and_closures_are_noticed(then, now):
    assert fingerprint(then) != fingerprint(now)


def test_what_a_function_uses_of_its_own_module_counts(monkeypatch):
    def uses(x):
        return helper(x) * FACTOR

    then = fingerprint(uses)
    monkeypatch.setitem(globals(), "FACTOR", 4)
    other_factor = fingerprint(uses)
    monkeypatch.setitem(globals(), "helper", lambda x: x - 1)
    assert len({then, other_factor, fingerprint(uses)}) == 3


def test_a_function_that_calls_itself_has_a_fingerprint():
    def countdown(n):
        return n and countdown(n - 1)

    assert fingerprint(countdown) == fingerprint(countdown)


def test_another_process_finds_the_same():
    code = (
        "from accel.fleet import fingerprint\n"
        "def f(n, s=frozenset(['a', 'b', 'c'])):\n return n in {'x', 'y', 'z'}\n"
        "print(fingerprint(f))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout
