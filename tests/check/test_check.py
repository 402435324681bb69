"""Checkers: good answers pass, usual mistakes fail at the step made for them, and nothing breaks the notebook."""

import math
import multiprocessing
import os
import threading
import time

import numpy as np
import pytest

import accel
from accel import check
from accel.check.kernels import EXERCISES
from accel.check.sandbox import within
from accel.check.speed import judged
from accel.kernels import gelu, matmul
from accel.measurement import Measurement


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(tmp_path))


def good_gelu(x):
    return 0.5 * x * (1.0 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def good_softmax(x):
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def blocked_softmax(x):
    y = np.empty_like(x)
    for start in range(0, len(x), 128):
        y[start : start + 128] = good_softmax(x[start : start + 128])
    return y


def online_softmax(x):
    top = np.full((len(x), 1), -np.inf, x.dtype)
    total = np.zeros((len(x), 1), x.dtype)
    step = 4096
    for start in range(0, x.shape[1], step):
        block = x[:, start : start + step]
        new = np.maximum(top, block.max(axis=1, keepdims=True))
        total = total * np.exp(top - new) + np.exp(block - new).sum(axis=1, keepdims=True)
        top = new
    y = np.empty_like(x)
    for start in range(0, x.shape[1], step):
        y[:, start : start + step] = np.exp(x[:, start : start + step] - top) / total
    return y


def layer_norm(x):
    y = x - x.mean(axis=-1, keepdims=True)
    variance = np.einsum("...i,...i->...", y, y)[..., None] / x.dtype.type(x.shape[-1])
    y /= np.sqrt(variance + x.dtype.type(1e-5))
    return y


def attention(q, k, v):
    out = np.empty_like(q)
    for start in range(0, len(q), 64):
        scores = q[start : start + 64] @ k.T
        scores *= 1 / math.sqrt(q.shape[1])
        out[start : start + 64] = good_softmax(scores) @ v
    return out


def moving_average(x):
    total = np.cumsum(np.concatenate([np.zeros(1), x]), dtype=np.float64)
    return ((total[8:] - total[:-8]) / 8).astype(x.dtype)


def windows_average(x):
    return np.lib.stride_tricks.sliding_window_view(x, 8).mean(axis=-1)


def distances(a, b):
    products = a @ b.T
    products *= -2
    products += np.einsum("ij,ij->i", a, a)[:, None]
    products += np.einsum("ij,ij->i", b, b)
    return products


def timer(function):
    function()
    once = time.perf_counter()
    function()
    once = time.perf_counter() - once
    calls = max(1, int(1e-3 / max(once, 1e-7)))
    samples = []
    for _ in range(60):
        start = time.perf_counter_ns()
        for _ in range(calls):
            function()
        samples.append((time.perf_counter_ns() - start) / calls)
    return min(samples) * 1e-9


GOOD = {
    "vectorized_matmul": lambda a, b: a @ b,
    "gelu": good_gelu,
    "fused_gelu": lambda x: gelu.in_place(x),
    "blocked_gelu": lambda x: gelu.blocked(x),
    "tiled_matmul": lambda a, b: matmul.tiled(a, b, 64),
    "softmax": good_softmax,
    "blocked_softmax": blocked_softmax,
    "online_softmax": online_softmax,
    "layer_norm": layer_norm,
    "attention": attention,
    "row_sums": lambda x: x.sum(axis=1),
    "moving_average": windows_average,
    "distances": distances,
    "roofline": lambda intensity, peak, bandwidth: min(peak, intensity * bandwidth),
    "intensity": lambda n, itemsize: n / (1.5 * itemsize),
    "amdahl": lambda share, factor: 1 / (1 - share + share / factor),
    "tile_size": lambda cache, itemsize: int((cache // (3 * itemsize)) ** 0.5),
    "timer": timer,
}


def not_slow(grade):
    """Whether all but the speed passed: other work on this machine may spoil that."""
    return all(step.passed for step in grade.steps if not step.name.startswith("fast"))


def test_there_is_a_good_answer_for_every_checker():
    assert set(GOOD) == set(check.CHECKERS)
    assert len(check.CHECKERS) >= 12


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_good_answer_is_not_refused(name):
    grade = getattr(check, name)(GOOD[name])
    assert grade.exercise == name
    if name != "timer":
        assert not_slow(grade), grade
    assert grade.figures


@pytest.mark.speed
@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_good_answer_passes(name):
    assert getattr(check, name)(GOOD[name]).passed, name


def changes_its_argument(x):
    x *= 2
    return good_gelu(x / 2)


def element_loop(x):
    y = np.empty_like(x)
    for i in np.ndindex(x.shape):
        y[i] = good_gelu(x[i])
    return y


def rows_in_a_comprehension(a, b):
    return np.array([row @ b for row in a]).reshape(len(a), b.shape[1])


def two_loops_in_tiles_of_rows(a, b):
    return np.concatenate([a[i : i + 16] @ b for i in range(0, len(a), 16)])


def layer_norm_with_the_mean_twice(x):
    y = x - x.mean(axis=-1, keepdims=True)
    y -= y.mean(axis=-1, keepdims=True)
    y /= np.sqrt(np.einsum("...i,...i->...", y, y)[..., None] / x.dtype.type(x.shape[-1]) + x.dtype.type(1e-5))
    return y


BAD = [
    ("gelu", lambda x: None, "right", "returned None"),
    ("gelu", lambda x: x.tolist(), "right", "returned a list"),
    ("gelu", lambda x: x, "right", "should be"),
    ("gelu", lambda x: good_gelu(x).reshape(-1), "right", "shape"),
    ("gelu", changes_its_argument, "right", "changed its argument"),
    ("gelu", lambda x: good_gelu(x) * np.float64(1), "right", "promotes"),
    ("gelu", lambda x: good_gelu(x.astype(np.float64)).astype(x.dtype), "keeps float32", "float64"),
    ("gelu", element_loop, "array code", "loop"),
    ("fused_gelu", good_gelu, "lean in memory", "times the memory"),
    ("blocked_gelu", lambda x: gelu.in_place(x), "in blocks", "100%"),
    ("vectorized_matmul", rows_in_a_comprehension, "array code", "loop"),
    ("tiled_matmul", lambda a, b: a @ b, "tiled", "no tile"),
    ("tiled_matmul", two_loops_in_tiles_of_rows, "tiled", "All three loops"),
    ("softmax", lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True), "right", "overflow"),
    ("softmax", lambda x: good_softmax(x.reshape(-1)).reshape(x.shape), "right", "should be"),
    ("blocked_softmax", good_softmax, "in blocks", "at once"),
    ("online_softmax", good_softmax, "in blocks", "at once"),
    ("layer_norm", lambda x: (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5), "right", "should be"),
    (
        "layer_norm",
        lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + x.dtype.type(1e-5)),
        "lean in memory",
        "times the memory",
    ),
    ("layer_norm", layer_norm_with_the_mean_twice, "few passes", "computed twice"),
    ("attention", lambda q, k, v: good_softmax(q @ k.T / math.sqrt(q.shape[1])) @ v, "lean in memory", "At the peak"),
    ("row_sums", lambda x: x.sum(axis=0), "right", "shape"),
    ("row_sums", lambda x: sum(x[:, j] for j in range(x.shape[1])) + x.dtype.type(0), "right", "returned a float"),
    ("distances", lambda a, b: ((a[:, None] - b) ** 2).sum(-1), "lean in memory", "times the memory"),
    ("roofline", lambda i, p, b: max(p, i * b), "right", "lower one binds"),
    ("intensity", lambda n, s: n / (3 * s), "right", "two FLOPs"),
    ("amdahl", lambda p, s: p * s, "right", "rest takes"),
    ("amdahl", lambda p, s: "3", "right", "is 4.80"),
    ("amdahl", lambda p, s: "much", "right", "a number is wanted"),
    ("tile_size", lambda c, s: math.isqrt(int(c // s)), "right", "works on three"),
]


@pytest.mark.parametrize(("name", "answer", "step", "words"), BAD)
def test_a_usual_mistake_is_found_and_explained(name, answer, step, words):
    with np.errstate(all="ignore"):
        grade = getattr(check, name)(answer)
    assert grade.passed is False
    assert grade.steps[-1].name == step, grade
    assert words in grade.feedback[-1] or words in repr(grade), grade


def first_call_counts(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def mean_of_many(function):
    function()
    start = time.perf_counter()
    for _ in range(20):
        function()
    return (time.perf_counter() - start) / 20


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (first_call_counts, "first call"),
        (mean_of_many, "smallest of many"),
        (lambda function: timer(function) * 1e3, "milliseconds"),
        (lambda function: "soon", "a number"),
        (lambda function: None, "a number"),
    ],
)
def test_a_dishonest_timer_is_found_out(answer, words):
    grade = check.timer(answer)
    assert grade.passed is False
    assert words in " ".join(grade.feedback), grade


def raises(x):
    raise RuntimeError("my mistake")


def exits(x):
    raise SystemExit(3)


def interrupts(x):
    raise KeyboardInterrupt


@pytest.mark.parametrize("answer", [raises, exits, interrupts, lambda: None, lambda x: 1 / 0, np.linalg.inv])
@pytest.mark.parametrize("name", ["gelu", "amdahl", "timer"])
def test_what_a_function_raises_is_part_of_the_grade(name, answer):
    grade = getattr(check, name)(answer)
    assert grade.passed is False
    assert "raised" in grade.feedback[-1], grade


def test_the_grade_names_the_line_of_the_mistake():
    assert "my mistake" in check.gelu(raises).feedback[0]
    assert 'raise RuntimeError("my mistake")' in check.gelu(raises).feedback[0]


def endless(*arguments):
    while True:
        pass


def endless_and_deaf(*arguments):
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        try:
            while True:
                pass
        except BaseException:
            pass


@pytest.mark.parametrize("name", ["gelu", "amdahl", "timer"])
@pytest.mark.parametrize("answer", [endless, endless_and_deaf])
def test_an_endless_loop_is_stopped(name, answer):
    start = time.monotonic()
    grade = getattr(check, name)(answer, time_limit_seconds=0.3)
    assert grade.passed is False
    assert "stopped" in grade.feedback[-1]
    assert time.monotonic() - start < 5


def test_a_function_that_fails_on_large_input_only_is_graded():
    def answer(x):
        if x.size > 10_000:
            raise MemoryError("too large for me")
        return good_gelu(x)

    grade = check.gelu(answer)
    assert grade.passed is False
    assert "too large for me" in grade.feedback[-1]


@pytest.mark.parametrize("wrong", [good_gelu(np.ones(3)), None, 3])
@pytest.mark.parametrize("name", ["gelu", "amdahl", "timer"])
def test_a_result_in_the_place_of_the_function_is_refused(name, wrong):
    with pytest.raises(TypeError, match="Leave the brackets off"):
        getattr(check, name)(wrong)


def run(name, *samples):
    return Measurement(name, tuple(samples), 1, 1.0)


@pytest.mark.parametrize(
    ("yours", "baseline", "passed"),
    [
        ((1.0, 1.1, 1.0, 1.2), (3.0, 3.1, 3.0, 3.3), True),
        ((1.0, 1.1, 1.0, 1.2), (1.5, 1.4, 1.5, 1.6), False),
        ((1.0, 1.0, 3.0, 3.0), (2.1, 2.1, 2.1, 2.1), None),
        ((1.0,), (3.0,), True),
    ],
)
def test_speed_is_judged_by_the_middle_half_of_the_ratios(yours, baseline, passed):
    step = judged(run("yours", *yours), run("baseline", *baseline), 2.0, "the loop")
    assert step.passed is passed
    assert ("too noisy" in step.feedback) == (passed is None)


def test_a_grade_is_inconclusive_only_where_nothing_failed():
    good, bad, unclear = (check.Step(str(outcome), outcome) for outcome in (True, False, None))
    for steps, expected in (((good,), True), ((good, unclear), None), ((unclear, bad), False), ((), True)):
        assert check.Grade("x", "X", steps, "").passed is expected


def test_grades_are_records_and_show_themselves():
    grade = check.amdahl(lambda p, s: p * s)
    assert check.Grade.from_json(grade.to_json()) == grade
    assert "not yet" in repr(grade)
    assert "<table" in grade._repr_html_()
    hostile = check.Grade("x", "<script>", (check.Step("<b>", False, "<img>"),), "")
    assert "<script>" not in hostile._repr_html_()
    assert "<img>" not in hostile._repr_html_()


def test_every_contract_names_its_function():
    for name in check.CHECKERS:
        assert check.contract(name).startswith(f"{name}(") or name == "timer"
    with pytest.raises(KeyError, match="there are amdahl"):
        check.contract("nothing")
    with pytest.raises(AttributeError, match="has no checker"):
        check.nothing  # noqa: B018


def test_progress_counts_attempts_and_remembers_the_first_pass():
    assert accel.progress().attempts == ()
    check.amdahl(lambda p, s: p * s)
    (attempt,) = accel.progress().attempts
    assert (attempt.attempts, attempt.last_outcome, attempt.passed) == (1, False, False)
    passed = check.amdahl(GOOD["amdahl"])
    check.amdahl(lambda p, s: p * s)
    (attempt,) = accel.progress().attempts
    assert (attempt.attempts, attempt.last_outcome, attempt.first_passed_at) == (3, False, passed.graded_at)
    assert "1 of 1" in repr(accel.progress())
    assert accel.progress(reset=True).attempts == ()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"attempts": 3}', b"\xff\xfe"])
def test_a_spoilt_progress_file_is_reported_and_begun_anew(content, tmp_path):
    (tmp_path / "progress.json").write_bytes(content)
    with pytest.warns(UserWarning, match="cannot be read"):
        assert accel.progress().attempts == ()
    with pytest.warns(UserWarning, match="cannot be read"):
        check.amdahl(GOOD["amdahl"])
    assert len(accel.progress().attempts) == 1


def test_progress_that_cannot_be_written_does_not_spoil_the_grade(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("ACCEL_CACHE_DIR", str(blocked))
    with pytest.warns(UserWarning, match="not kept"):
        assert check.amdahl(GOOD["amdahl"]).passed


def test_the_sandbox_has_a_thread_of_its_own_and_hands_over_what_the_job_gives():
    threads = []
    assert within(5, lambda: threads.append(threading.get_ident()) or "result") == "result"
    assert threads[0] != threading.get_ident()
    with pytest.raises(KeyError, match="mine"):
        within(5, lambda: {}["mine"])


def test_a_contract_asks_for_the_speed_that_is_checked():
    for exercise in EXERCISES:
        asked = "" if exercise.speed is None else f"{exercise.speed.least_ratio:g} times as fast as"
        assert asked in check.contract(exercise.name)


@pytest.mark.parametrize("name", ["gelu", "amdahl", "timer"])
@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_time_limit_is_positive(name, limit):
    with pytest.raises(ValueError, match="time_limit_seconds must be positive"):
        getattr(check, name)(GOOD[name], time_limit_seconds=limit)


def on_and_off(seconds, stop):
    """Keep the processor busy for about two milliseconds, then leave it for as long, over and over."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end and not stop.is_set():
        until = time.perf_counter() + 2e-3
        while time.perf_counter() < until:
            pass
        time.sleep(2e-3)


def test_an_honest_timer_is_not_failed_by_other_work_on_the_machine():
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    others = [context.Process(target=on_and_off, args=(30, stop)) for _ in range(os.cpu_count() or 1)]
    for other in others:
        other.start()
    try:
        grade = check.timer(timer)
    finally:
        stop.set()
        for other in others:
            other.join()
    assert grade.passed is not False, grade
