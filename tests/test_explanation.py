import io
import math
import sys
import traceback
from collections import namedtuple
from dataclasses import replace
from xml.etree import ElementTree

import hypothesis.strategies as st
import numpy as np
import pytest
from explaining import explained, gelu, here, ones
from hypothesis import HealthCheck, Phase, given, settings
from machines import CALIBRATED

import accel
from accel import array_like, explanation
from accel.advice import Advice
from accel.cost import Cost
from accel.explained import ExplainedCall
from accel.explanation import Explanation
from accel.explanation_table import MOST_ROWS
from accel.measurement import Measurement

X = np.random.default_rng(0).random((40, 50), np.float32)


def assert_adds_up(found: Explanation) -> None:
    assert sum((call.cost for call in found.calls), Cost()) == found.cost
    assert math.fsum(call.predicted_seconds for call in found.calls) == pytest.approx(found.predicted_seconds)
    if found.measured_seconds is not None:
        assert math.fsum(call.measured_seconds for call in found.calls) == pytest.approx(found.measured_seconds)


def assert_reads_well(found: Explanation) -> None:
    assert max(map(len, str(found).splitlines())) <= 100
    ElementTree.fromstring(found._repr_html_())
    assert Explanation.from_json(found.to_json()) == found
    assert Explanation.from_dict(found.to_dict()) == found


# ------------------------------------------------------------------------------------------------- what is in the rows


def numpy_calls(found: Explanation) -> list[ExplainedCall]:
    """Return the rows of calls: the time between calls may have a row anywhere among them."""
    return [call for call in found.calls if call.bound_by != "opaque"]


def test_a_row_for_each_call_with_exact_counts():
    found = explained(gelu, X)
    n = X.size
    assert [(call.name, call.cost.flops, call.cost.special) for call in numpy_calls(found)] == [
        ("multiply", n, 0), ("power", 0, n), ("multiply", n, 0), ("add", n, 0), ("multiply", n, 0), ("tanh", 0, n),
        ("add", n, 0), ("multiply", n, 0),
    ]  # fmt: skip
    assert {(call.result_dtype, call.result_shape) for call in numpy_calls(found)} == {("float32", (40, 50))}
    assert found.signature == "gelu(x: float32[40, 50])"
    assert found.peak_temporary_bytes == 3 * X.nbytes
    assert found.peak_temporaries == 3
    assert_adds_up(found)
    assert_reads_well(found)


def test_the_time_between_the_calls_is_a_row_and_called_opaque():
    [last] = [call for call in explained(gelu, X).calls if call.bound_by == "opaque"]
    assert (last.call, last.bound_by, last.cost) == ("opaque, between calls", "opaque", Cost())


def test_a_loop_is_one_row_for_each_call_in_it():
    def halves(x):
        for _ in range(30):
            x = x * 0.5 + 1
        return x

    found = explained(halves, X)
    assert [(call.name, call.count, call.cost.flops) for call in numpy_calls(found)] == [
        ("multiply", 30, 30 * X.size),
        ("add", 30, 30 * X.size),
    ]
    assert "30 × " in str(found)
    assert_adds_up(found)


def test_promotion_shows_in_the_row_and_in_a_note():
    found = explained(lambda x, y: x + y, X, ones(40, 50, dtype=np.float64))
    assert (found.calls[0].result_dtype, found.calls[0].casts) == ("float64", True)
    assert "Converted on the way: add(x, y) computes in float64." in found.notes
    assert "f64[2.0k]" in str(found)


@pytest.mark.parametrize(
    ("function", "dtype", "loop"),
    [
        (lambda x: np.add(x, np.float64(1)), np.float32, "f64"),
        (lambda x: np.add(x, 1.0, dtype=np.float64).astype(np.float32), np.float32, "f64"),
        (lambda x: np.multiply(x, x, out=np.empty(x.shape, np.float64)), np.float32, "f32"),
        (lambda x: x.sum(axis=0), np.int32, "i64"),
        (lambda x: x / 2, np.int16, "f64"),
        (lambda x: x + np.complex64(1j), np.float32, "c64"),
        (lambda x: x + np.ones(x.shape, ">f4"), np.float32, "f32"),
    ],
    ids=["scalar", "dtype argument", "out", "sum", "integers", "complex", "byte order"],
)
def test_a_row_says_what_it_computes_in_where_that_differs_from_its_arrays(function, dtype, loop):
    found = explained(function, np.ones((40, 50), dtype))
    table = str(found).splitlines()
    head = next(line for line in table if "call" in line and "result" in line)
    place = head.index("  loop") + 2
    (row,) = (line for line in table if line[place:].startswith(loop + " "))
    assert any(call.casts and call.name in row for call in found.calls)
    assert ">loop</th>" in found._repr_html_()
    assert f">{loop}</td>" in found._repr_html_()
    assert_reads_well(found)


def test_no_column_of_loops_without_a_cast():
    found = explained(gelu, X)
    assert "  loop" not in str(found)
    assert ">loop</th>" not in found._repr_html_()


def test_what_cannot_be_seen_is_opaque_and_its_flops_are_unknown():
    def scalar_loop(x):
        total = 0.0
        for value in x.ravel().tolist() * 20:
            total += value * value
        return total

    found = explained(scalar_loop, X)
    (row,) = found.calls
    assert row.is_opaque
    assert row.call == "opaque code in scalar_loop"
    assert row.measured_seconds == found.measured_seconds
    assert "No NumPy call could be seen." in found.notes
    assert "opaque code" in str(found)
    assert_adds_up(found)


def test_opaque_code_beside_calls_keeps_the_rest_exact():
    def mixed(x):
        total = sum(value * value for value in x.ravel().tolist() * 50)
        return np.add(x, x) * total

    found = explained(mixed, X)
    assert [call.name for call in found.calls if not call.is_opaque] == ["add", "multiply"]
    assert sum(call.is_opaque for call in found.calls) == 1
    assert "?" in str(found)
    assert_adds_up(found)


def test_approximate_counts_and_upper_bounds_are_marked():
    found = explained(lambda x: np.add(np.sort(x), x, where=x > 0.5, out=np.zeros_like(x)), X)
    marks = {call.name: call.counted for call in found.calls}
    assert (marks["sort"], marks["add"]) == ("approximate", "upper bound")
    assert "~" in str(found)
    assert "≤" in str(found)


def test_calls_that_differ_from_run_to_run_are_said_to():
    runs = iter(range(1, 10_000))

    def grows(x):
        for _ in range(next(runs)):
            x = x + 1
        return x

    found = explained(grows, ones(10))
    assert "Its calls differ from run to run: their times are those of one run." in found.notes
    assert_adds_up(found)


def test_shapes_alone_run_and_measure_nothing():
    found = explained(gelu, array_like((1 << 20, 1 << 10), "float32"))
    assert found.measured is None
    assert found.error_fraction is None
    assert found.calls[0].cost.flops == 1 << 30
    assert all(call.measured_seconds is None for call in found.calls)
    assert "not run" in str(found)
    assert_adds_up(found)
    assert_reads_well(found)


def test_for_another_machine_nothing_is_measured():
    found = explained(gelu, X, machine=CALIBRATED)
    assert found.machine == CALIBRATED.cpu_name
    assert found.measured is None
    assert "another machine" in found.notes[-1]


def test_threads_and_keyword_arguments():
    calibrated = here()
    found = explained(np.sum, X, axis=0, threads=4)
    assert found.threads == 4
    assert found.calls[0].result_shape == (50,)
    with pytest.raises(ValueError, match="3 threads"):
        explained(np.sum, X, threads=3, machine=calibrated)


# ----------------------------------------------------------------------------------------------- what comes in and out


def test_an_argument_that_is_changed_keeps_its_values():
    x, y = ones(1000), ones(1000)
    seen = []

    def accumulate(x, y):
        seen.append(float(x[0]))
        x *= 2
        x += y
        return x

    found = explained(accumulate, x, y)
    assert (x == 1).all()
    assert set(seen) == {1.0}
    assert len(seen) > 10
    assert "It changes x: each run began from a copy of the first values." in found.notes
    assert_adds_up(found)


def test_changes_that_no_call_shows_are_undone_too():
    x, inner = np.arange(5.0), np.arange(5.0)

    def shuffled(x, pair):
        x[0] = -1.0
        pair[0][1] = 7.0

    found = explained(shuffled, x, (inner,))
    assert x.tolist() == inner.tolist() == [0, 1, 2, 3, 4]
    assert "It changes x and pair[0]" in found.notes[0]


def test_changes_to_what_was_not_given_are_said():
    state = ones(1000)

    def step(x):
        np.add(state, x, out=state)

    assert any("arrays that it was not given" in note for note in explained(step, ones(1000)).notes)


def test_the_exception_of_a_function_comes_out_as_it_is():
    class MineError(Exception):
        pass

    problem = MineError("as it was")
    x = ones(3)

    def fails(x):
        x += 1
        raise problem

    with pytest.raises(MineError) as raised:
        explained(fails, x)
    assert raised.value is problem
    assert traceback.extract_tb(raised.tb)[-1].name == "fails"
    assert raised.value.__cause__ is None
    assert (x == 1).all()


def test_a_function_that_returns_nothing():
    def forgets(x):
        np.add(x, 1)

    found = explained(forgets, X)
    assert found.calls[0].name == "add"
    assert "It returns nothing and changes none of its arguments." in found.notes


def test_a_function_that_needs_no_arrays():
    found = explained(lambda: np.arange(1000.0).sum())
    assert [call.name for call in found.calls][:2] == ["arange", "add.reduce"]
    assert_adds_up(found)
    assert_reads_well(found)


def test_a_function_without_numpy():
    found = explained(lambda: 3)
    assert [call.name for call in found.calls] == ["opaque"]
    assert_reads_well(found)


Pair = namedtuple("Pair", "low high")


@pytest.mark.parametrize("wrap", [lambda a, b: (a, b), lambda a, b: {"a": a, "b": [b]}, Pair, lambda a, b: [a, (b,)]])
def test_results_in_containers(wrap):
    found = explained(lambda x: wrap(x + 1, x * 2), X)
    assert [call.call for call in found.calls[:2]] == ["add(x, 1)", "multiply(x, 2)"]
    assert found.peak_temporaries == 2


def test_a_recursive_function():
    def halve(x):
        return x if x.size < 2 else np.add(halve(x[: x.size // 2]), halve(x[x.size // 2 :]))

    found = explained(halve, ones(64))
    assert sum(call.count for call in found.calls if call.name == "add") == 63
    assert found.cost.flops == 63
    assert_adds_up(found)


def test_endless_recursion_stays_the_error_that_it_is():
    def forever(x):
        return forever(x + 1)

    with pytest.raises(RecursionError):
        explained(forever, ones(3))


@pytest.mark.parametrize("x", [np.array(3.0), np.zeros((0, 4)), np.zeros(0, np.int8)], ids=["0-d", "0 rows", "empty"])
def test_arrays_of_no_dimension_or_no_element(x):
    found = explained(lambda x: (x + x).sum(), x)
    assert found.calls[0].cost.flops == x.size
    assert_adds_up(found)
    assert_reads_well(found)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([1, "a"], object), "x has a object dtype"),
        (np.zeros(3, [("a", "f4"), ("b", "i4")]), "x has a structured dtype"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), r"x is a numpy.ma.*x.filled\(0\)"),
        (np.ones((1, 2)).view(np.matrix), "x is a numpy.matrix"),
    ],
    ids=["object", "structured", "masked", "matrix"],
)
def test_arrays_of_other_kinds_are_refused_before_anything_runs(array, message):
    with pytest.raises(TypeError, match=message):
        explained(lambda x: pytest.fail("it ran"), array)


def test_wrong_calls_say_what_is_right():
    with pytest.raises(TypeError, match=r"got ndarray.*explain\(np.add, x, y\)"):
        explained(np.add(X, X))
    for options in ({"threads": 0}, {"threads": 1.5}, {"threads": True}):
        with pytest.raises(ValueError, match="threads is a whole number"):
            explained(gelu, X, **options)
    for seconds in (0, -1, math.inf, math.nan):
        with pytest.raises(ValueError, match="seconds is a positive time"):
            explained(gelu, X, seconds=seconds)
    with pytest.raises(TypeError, match="generator"):
        explained(lambda x: (value for value in x), X)
    with pytest.raises(ValueError, match="was detected but not measured"):
        explained(gelu, X, machine=replace(here(), calibration=None))


def test_a_bar_where_it_takes_long_and_someone_watches(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(explanation, "PROGRESS_FROM_SECONDS", 0.05)
    explained(np.negative, X, seconds=0.1)
    monkeypatch.setattr(explanation, "_is_watched", lambda: True)
    explained(np.negative, X, seconds=0.1, progress=False)
    explained(np.negative, X, seconds=0.04)
    assert shown.getvalue() == ""
    explained(np.negative, X, seconds=0.1)
    assert "explain negative" in shown.getvalue()


# ---------------------------------------------------------------------------------------------------------- the faces

OPERATIONS = [
    lambda a, b: a + b, lambda a, b: a * 0.123456789, lambda a, b: np.tanh(a), lambda a, b: a - b.mean(),
    lambda a, b: np.maximum(a, b, out=a.copy()), lambda a, b: a.astype(np.float64), lambda a, b: (a > b) * a,
    lambda a, b: a @ np.ones((a.shape[-1], a.shape[-1]), a.dtype), lambda a, b: np.sort(a, axis=-1),
    lambda a, b: a.cumsum(axis=0), lambda a, b: np.concatenate([a, a])[: len(a)], lambda a, b: np.sqrt(abs(a[::-1])),
]  # fmt: skip


@st.composite
def programs(draw):
    steps = draw(st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(1, 12)), min_size=1, max_size=7))

    def a_function_with_a_long_name(first_operand, second_operand):
        value = first_operand
        for step, times in steps:
            for _ in range(times):
                value = step(value, second_operand)
        return value

    return a_function_with_a_long_name


shapes = st.tuples(st.integers(1, 40), st.integers(1, 40))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), shapes, st.sampled_from(["float32", "float64"]))
def test_random_programs_add_up_and_fit(program, shape, dtype):
    found = explained(program, np.ones(shape, dtype), np.ones(shape, dtype), seconds=1e-4)
    assert_adds_up(found)
    assert_reads_well(found)


BASE = explained(gelu, array_like((8, 8), "float32"))
MEASURED = Measurement("f", (1.0,) * 5, 1, 1.2)
seconds = st.floats(1e-9, 2e3)
words = st.text("abcdefghij_.", min_size=1, max_size=40)


@st.composite
def calls(draw):
    count = draw(st.integers(1, 2_000_000))
    flops, special = draw(st.integers(0, 10**15)), draw(st.sampled_from([0, 0, 12, 10**12]))
    return ExplainedCall(
        name="f", call=f"{draw(words)}({draw(words)}, temporary {draw(st.integers(1, 10**5))})", count=count,
        result_dtype=draw(st.sampled_from(["float32", "complex128", "bool", ">f4"])),
        result_shape=draw(st.sampled_from([None, (), (0,), (10**5, 10**4), (123456,)])), loop_dtype="float32",
        casts=False, cost=Cost(flops=flops, special=special, bytes_read=draw(st.integers(0, 10**13))),
        counted=draw(st.sampled_from(["exact", "approximate", "upper bound", "unknown"])),
        level=draw(st.sampled_from(["L1", "DRAM", ""])), predicted_seconds=draw(seconds), predicted_low_seconds=0.0,
        predicted_high_seconds=1.0, pages_seconds=0.0, measured_seconds=draw(seconds), bound_by=draw(words),
    )  # fmt: skip


@settings(max_examples=150, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.lists(calls(), min_size=1, max_size=MOST_ROWS + 20), words)
def test_whatever_the_figures_the_text_fits_and_units_stay(rows, name):
    measured = replace(MEASURED, samples_seconds=(math.fsum(row.measured_seconds for row in rows),))
    found = replace(
        BASE, calls=tuple(rows), cost=sum((row.cost for row in rows), Cost()), measured=measured,
        signature=f"{name}(x: float32[2000, 2000])" * 4, machine=name * 2,
        predicted_seconds=math.fsum(row.predicted_seconds for row in rows),
    )  # fmt: skip
    assert_reads_well(found)
    table = str(found)
    units = {cell.split()[-1] for cell in column(found, "predicted") + column(found, "measured") if cell != "–"}
    assert len(units) == 1
    assert ("shorter rows" in table) == (len(rows) > MOST_ROWS)


def column(found: Explanation, head: str) -> list[str]:
    """Return a column of the HTML table."""
    table = ElementTree.fromstring(found._repr_html_()).find(".//table")
    heads = [cell.text for cell in table.findall("thead/tr/th")]
    return [list(row)[heads.index(head)].text.replace("\u00a0", " ") for row in table.findall("tbody/tr")]


def test_the_page_is_a_table_with_scoped_heads_and_escaped_names():
    found = replace(explained(gelu, X), signature="<i>&</i>")
    root = ElementTree.fromstring(found._repr_html_())
    assert root.find(".//caption").text == "explain <i>&</i>"
    assert {cell.get("scope") for cell in root.iter("th")} == {"col", "row"}
    assert column(found, "bound by")[-1].startswith("error ")
    assert column(found, "special") == ["–", "2.00k", "–", "–", "–", "2.00k", "–", "–", "–", "4.00k"]


def test_columns_without_anything_are_left_out():
    head = str(explained(np.copy, X)).splitlines()
    assert not any("FLOPs" in line or "special" in line for line in head)


def test_advice_is_printed_with_its_gain():
    advice = Advice("power", "power(temporary 2, 3)", "write t2 * t2 * t2", 2.345, 1e-3, 0, "the same to the last bit")
    found = replace(explained(gelu, X), advice=(advice,))
    assert "try   write t2 * t2 * t2, in power(t2, 3): predicted 2.35x faster (the same to the last bit)" in str(found)
    assert "<li>write t2 * t2 * t2" in found._repr_html_()
    assert_reads_well(found)


def test_the_chart_shows_every_call_measured_and_predicted():
    found = explained(gelu, ones(200, 200))
    chart = found.plot()
    assert "% of the time." in chart.alt
    for call in ("power(x, 3)", "tanh(t", "opaque, between calls"):
        assert call in chart.alt
    ElementTree.fromstring(chart.svg)
    assert found.plot(title="Mine").alt.startswith("Mine.")


def test_the_chart_of_many_calls_sums_up_the_shortest():
    def many(x):
        for step in OPERATIONS * 2:
            x = step(x, x)
        return x

    chart = explained(many, ones(16, 16)).plot()
    assert "shorter ones" in chart.alt
    assert len(chart.figure.axes[0].get_yticklabels()) == 12


def test_the_roofline_holds_calls_with_flops_and_refuses_others():
    found = explained(gelu, ones(200, 200))
    alt = found.roofline().alt
    assert "multiply(0.5, x): 0.125 FLOP/byte, measured" in alt
    assert "tanh" not in alt
    assert "float32 peak 100 GFLOP/s" in alt
    with pytest.raises(ValueError, match="does any FLOPs"):
        explained(np.tanh, X).roofline()


def test_both_charts_of_shapes_alone():
    found = explained(gelu, array_like((2000, 2000), "float32"))
    assert "is predicted to take" in found.plot().alt
    assert "measured" not in found.roofline().alt


def test_the_public_names():
    assert accel.explain is explanation.explain
    assert accel.Explanation is Explanation
