import gc
import multiprocessing
import subprocess
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import CALIBRATION
from threadpoolctl import threadpool_info

import accel
from accel import hardware
from accel.measurement import Measurement, format_seconds, measure_calls, threads

samples = st.lists(st.floats(1e-9, 10), min_size=1, max_size=50)


@given(samples)
def test_statistics_keep_their_order(taken):
    m = Measurement("f", tuple(taken), 1, 1.0)
    first, third = m.quartiles_seconds
    assert m.best_seconds <= first <= m.median_seconds * (1 + 1e-12)
    assert m.median_seconds <= third * (1 + 1e-12)
    assert m.spread_fraction >= 0
    assert m.best_seconds == min(taken)


def test_quartiles_of_known_samples():
    m = Measurement("f", (1.0, 2.0, 3.0, 4.0, 5.0), 1, 1.0)
    assert (m.best_seconds, m.median_seconds, m.quartiles_seconds) == (1.0, 3.0, (2.0, 4.0))
    assert m.interquartile_range_seconds == 2.0
    assert m.spread_fraction == 2.0


@pytest.mark.parametrize(
    ("taken", "steady", "verdict"),
    [
        ((1.0, 1.01, 1.02, 1.03, 1.04), True, "steady"),
        ((1.0, 2.0, 3.0, 4.0, 5.0), False, "noisy"),
        ((1.0, 1.0), False, "too few samples"),
    ],
)
def test_the_verdict_follows_the_samples(taken, steady, verdict):
    m = Measurement("f", taken, 1, 1.0)
    assert m.is_steady is steady
    assert m.verdict.startswith(verdict)


def test_one_function_gives_a_measurement_and_several_give_a_dict():
    x = np.ones(100)
    one = accel.measure(np.add, x, x, seconds=0.02)
    assert isinstance(one, Measurement)
    assert one.name == "add"
    several = accel.measure({"a": np.add, "b": np.multiply}, x, x, seconds=0.02)
    assert list(several) == ["a", "b"]


def test_a_sleep_takes_as_long_as_it_sleeps():
    m = accel.measure(lambda: time.sleep(0.003), seconds=0.03)
    assert 0.003 <= m.best_seconds < 0.03
    assert len(m.samples_seconds) >= 5


def test_short_calls_are_repeated_until_a_sample_is_long_enough():
    m = accel.measure(lambda: None, seconds=0.02)
    assert m.calls_per_sample * m.best_seconds > 2e-4
    assert m.calls_per_sample > 1000


def test_samples_of_compared_functions_alternate():
    order = []
    calls = {name: (lambda name=name: order.append(name)) for name in "ab"}
    measure_calls(calls, seconds=0.001, least=5, repeats={"a": 20, "b": 20})
    assert "".join(order[2:82]) == ("a" * 20 + "b" * 20) * 2


def test_a_sample_of_few_calls_begins_with_one_that_is_not_timed():
    order = []
    calls = {name: (lambda name=name: order.append(name)) for name in "ab"}
    measured = measure_calls(calls, seconds=0.001, least=5, repeats={"a": 1, "b": 1})
    assert order[2:10] == ["a", "a", "b", "b"] * 2
    assert measured["a"].calls_per_sample == 1


def test_garbage_collection_is_off_inside_and_as_it_was_after():
    seen = []
    assert gc.isenabled()
    accel.measure(lambda: seen.append(gc.isenabled()), seconds=0.005)
    assert gc.isenabled()
    assert seen[-1] is False


def test_an_exception_of_the_function_is_the_users_own():
    def broken():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        accel.measure(broken)
    assert gc.isenabled()


@pytest.mark.parametrize("bad", [3, [np.add], None])
def test_something_that_is_no_function_is_refused(bad):
    with pytest.raises(TypeError, match="takes a function"):
        accel.measure(bad)


def test_a_dict_with_something_that_is_no_function_is_refused():
    with pytest.raises(TypeError, match="'b' is int"):
        accel.measure({"a": np.add, "b": 3})


def test_an_empty_dict_is_refused():
    with pytest.raises(ValueError, match="at least one function"):
        accel.measure({})


@pytest.mark.parametrize("options", [{"seconds": 0}, {"seconds": -1}, {"seconds": float("nan")}, {"samples": 0}])
def test_times_that_cannot_be_are_refused(options):
    with pytest.raises(ValueError, match="seconds > 0 and samples >= 1"):
        accel.measure(np.add, 1, 2, **options)


def test_blas_threads_are_limited_inside_and_restored():
    from threadpoolctl import threadpool_info

    def blas_threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = blas_threads()
    with threads(1):
        assert set(blas_threads()) <= {1}
    assert blas_threads() == before


@pytest.mark.parametrize("megabytes", [1, 8])
def test_allocations_are_counted_to_the_byte(megabytes):
    size = megabytes * 2**20
    memory = accel.measure_memory(lambda: np.ones(size, np.uint8))
    assert size <= memory.peak_bytes < size + 4096


def test_memory_already_in_use_does_not_count():
    held = np.ones(2**22)
    memory = accel.measure_memory(lambda x: x.sum(), held)
    assert memory.peak_bytes < 4096


def test_resident_memory_sees_touched_pages():
    # In a process of its own: this one keeps what earlier tests have freed, and pages in use do not show again.
    code = (
        "import accel, numpy as np\n"
        "memory = accel.measure_memory(lambda: np.ones(2**27, np.uint8), method='resident')\n"
        "assert 2**26 < memory.peak_bytes < 2**28, memory\n"
        "assert 'memory-profiler' in memory.method\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_each_method_says_what_it_sees_and_misses():
    for method in ("allocations", "resident"):
        memory = accel.measure_memory(lambda: None, method=method)
        assert memory.sees
        assert memory.misses


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="'allocations' and 'resident'; got 'rss'"):
        accel.measure_memory(len, [], method="rss")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.5, "1.5 s"),
        (0.0123, "12.3 ms"),
        (4.5e-6, "4.5 µs"),
        (3.21e-7, "321 ns"),
        (0.0, "0 s"),
        (0.001, "1 ms"),
        (0.00099999, "1 ms"),
    ],
)
def test_durations_are_written_with_a_fitting_unit(seconds, text):
    assert format_seconds(seconds) == text


METHODS = pytest.mark.parametrize("method", ["allocations", "resident"])


@METHODS
def test_memory_is_measured_in_one_call(method):
    calls = []
    accel.measure_memory(calls.append, 1, method=method)
    assert calls == [1]


@METHODS
@pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt()])
def test_an_exception_while_memory_is_measured_leaves_nothing_behind(method, error):
    def broken():
        raise error

    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with pytest.raises(type(error)):
            accel.measure_memory(broken, method=method)
        deadline = time.monotonic() + 10
        while multiprocessing.active_children() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert multiprocessing.active_children() == []
        assert not tracemalloc.is_tracing()
        assert bystander.poll() is None  # memory-profiler kills every child of a process whose function fails
    finally:
        bystander.communicate(b"\n", timeout=10)


def resident_bytes_of_nothing() -> int:
    return accel.measure_memory(int, method="resident").peak_bytes


def test_a_pool_worker_is_told_why_it_cannot_sample():
    told = pytest.raises(RuntimeError, match="ProcessPoolExecutor, or method='allocations'")
    with multiprocessing.get_context("spawn").Pool(1) as pool, told:
        pool.apply(resident_bytes_of_nothing)


def test_threads_measure_memory_one_after_the_other():
    def hold(size):
        block = np.ones(size, np.uint8)
        time.sleep(0.05)
        return block.size

    sizes = [2**20, 2**22] * 3
    with ThreadPoolExecutor(len(sizes)) as pool:
        peaks = list(pool.map(lambda size: accel.measure_memory(hold, size).peak_bytes, sizes))
    assert all(size <= peak < size + 65_536 for size, peak in zip(sizes, peaks, strict=True))
    assert not tracemalloc.is_tracing()


@METHODS
def test_memory_cannot_be_measured_within_its_measurement(method):
    with pytest.raises(RuntimeError, match="Measure the inner function apart"):
        accel.measure_memory(lambda: accel.measure_memory(int), method=method)
    assert accel.measure_memory(int).peak_bytes >= 0


class SlowAtFirst:
    """A function whose first call takes long, as one that is compiled in it does."""

    def __init__(self):
        self.is_first = True

    def __call__(self, x):
        if self.is_first:
            self.is_first = False
            time.sleep(0.3)
        return x + 1


def test_a_slow_first_call_does_not_make_samples_of_a_single_call():
    x, machine = np.ones(100), hardware.detect().with_calibration(CALIBRATION)
    assert accel.measure(SlowAtFirst(), x, seconds=0.05).calls_per_sample > 5
    assert accel.explain(SlowAtFirst(), x, seconds=0.05, machine=machine).measured.calls_per_sample > 5


def test_a_slow_function_is_not_called_before_each_of_its_samples():
    calls = []

    def slow():
        calls.append(time.sleep(0.06))

    measure_calls({"slow": slow}, seconds=0.0, least=4)
    assert len(calls) == 2 + 4


@pytest.mark.parametrize("leaves_first", ["first", "second"])
def test_limits_that_overlap_in_two_threads_leave_none_behind(leaves_first):
    def in_force():
        return [library["num_threads"] for library in threadpool_info()]

    before, entered, seen = in_force(), {name: Event() for name in ("first", "second")}, {}
    leave = {name: Event() for name in entered}

    def limited(name, count):
        with threads(count):
            entered[name].set()
            assert leave[name].wait(10)

    with ThreadPoolExecutor(2) as pool:
        held = {"first": pool.submit(limited, "first", 1)}
        assert entered["first"].wait(10)
        held["second"] = pool.submit(limited, "second", 2)
        assert entered["second"].wait(10)
        seen["both"] = in_force()
        stays = {"first": "second", "second": "first"}[leaves_first]
        leave[leaves_first].set()
        held[leaves_first].result()
        seen["one"] = in_force()
        leave[stays].set()
        held[stays].result()
    assert set(seen["both"]) == {2}
    assert set(seen["one"]) == {1 if stays == "first" else 2}
    assert in_force() == before


@pytest.mark.parametrize("count", [0, -1])
def test_thread_counts_that_cannot_be_are_refused(count):
    with pytest.raises(ValueError, match=f"at least 1; got {count}"):
        accel.measure(np.add, 1, 2, thread_count=count)
    with pytest.raises(ValueError, match=f"at least 1; got {count}"), threads(count):
        pass


@pytest.mark.parametrize("count", [1.0, "2", True])
def test_thread_counts_that_are_no_whole_numbers_are_refused(count):
    with pytest.raises(TypeError, match="must be a whole number"):
        accel.measure(np.add, 1, 2, thread_count=count)


def test_a_best_of_no_time_at_all_is_not_steady():
    instant = Measurement("instant", (0.0,) * 9, 1, 1.0)
    assert not instant.is_steady
    assert "noisy" in repr(instant)


def compiled_now():
    """Return a function that Numba compiles at its first call."""
    import numba

    return numba.njit(lambda x: x * 2 + 1)


def test_what_is_compiled_in_the_first_call_is_told_apart():
    pytest.importorskip("numba")
    function = compiled_now()
    before = time.perf_counter()
    both = accel.measure({"compiled": function, "plain": lambda x: x * 2 + 1}, 3.0, seconds=0.02)
    assert 0 < both["compiled"].compile_seconds < time.perf_counter() - before
    assert max(both["compiled"].samples_seconds) < both["compiled"].compile_seconds
    assert both["plain"].compile_seconds == 0.0
    assert ", compiled before in " in repr(both["compiled"])
    assert "compiled" not in repr(both["plain"])
    assert accel.measure(function, 3.0, seconds=0.02).compile_seconds == 0.0


def test_what_is_compiled_is_seen_where_the_repeats_are_known():
    pytest.importorskip("numba")
    function = compiled_now()
    taken = measure_calls({"f": lambda: function(3.0)}, seconds=0.01, repeats={"f": 1})
    assert taken["f"].compile_seconds > 0
    assert taken["f"].joined(taken["f"]).compile_seconds == 2 * taken["f"].compile_seconds


def test_a_kernel_that_imports_the_compiler_itself_is_seen():
    pytest.importorskip("numba")
    program = (
        "import sys, accel\n"
        "def first(cache=[]):\n"
        "    if not cache:\n"
        "        assert 'numba' not in sys.modules\n"
        "        from accel.kernels.compiled import inlined\n"
        "        cache.append(inlined(lambda x: x + 1))\n"
        "    return cache[0](1)\n"
        "print(accel.measure(first, seconds=0.01).compile_seconds > 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", done.stderr


def test_measuring_does_not_import_the_compiler():
    program = (
        "import sys, accel; m = accel.measure(abs, 1, seconds=0.01); print(m.compile_seconds, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0.0 False"


def test_a_measurement_saved_before_compile_times_were_kept_can_be_read():
    m = Measurement("f", (1.0, 2.0), 1, 1.0)
    saved = m.to_dict()
    assert saved.pop("compile_seconds") == 0.0
    assert Measurement.from_dict(saved) == m
    assert Measurement.from_dict(m.to_dict() | {"compile_seconds": 1.5}).compile_seconds == 1.5


def test_explain_says_what_was_compiled_and_does_not_count_it():
    pytest.importorskip("numba")
    function = compiled_now()
    x = np.ones(1000)
    first, second = (accel.explain(lambda x: function(float(x[0])) + x, x, seconds=0.05) for _ in range(2))
    notes = [note for note in first.notes if note.startswith("Numba compiled for ")]
    assert len(notes) == 1
    assert first.measured_seconds < 0.01
    assert not [note for note in second.notes if "compiled" in note]
