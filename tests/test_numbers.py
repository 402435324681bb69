import base64
import csv
import io
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from access_curves import access_curve
from bs4 import BeautifulSoup
from comparisons import comparison, row
from hypothesis import given
from hypothesis import strategies as st

import accel
from accel import cache, plot
from accel.numbers import BandwidthCurves, Numbers, Roofs
from accel.plot.numbers import comparison_numbers
from accel.records import RecordError
from accel.roofline import Position

HOSTILE = "<img src=x onerror=alert(1)>"
EMBEDDED = re.compile(r'href="data:([a-z/]+);accel=numbers;base64,([^"]+)"')


def sweep():
    return comparison(row("plain", 1_000, 1e-5), row("fused", 1_000, 4e-6))


def roofs(**changes) -> Numbers:
    result = Roofs({"float32 peak": 1e11}, {"L1": 2e11}, (Position("add", 0.1, None, 2e9),))
    return replace(
        Numbers("A", "a machine", 1, "2026-01-02T03:04:05+01:00", (result,), {"roof": ("L1",), "rate": (2e11,)}),
        **changes,
    )


def rows_of(numbers: Numbers) -> list[list[str]]:
    return list(csv.reader(io.StringIO(numbers.to_csv())))


def test_a_comparison_comes_back_as_it_was(tmp_path):
    chart = plot.steps(sweep(), title="Fused is faster")
    numbers = accel.load_numbers(chart.numbers.save(tmp_path / "numbers.json"))
    assert numbers == chart.numbers
    assert numbers.results == (sweep(),)
    assert (numbers.machine, numbers.threads, numbers.taken_at) == (sweep().machine, sweep().threads, sweep().taken_at)


def test_every_chart_carries_what_it_was_drawn_from():
    two_sizes = comparison(row("plain", 1_000, 1e-5), row("plain", 2_000, 2e-5))
    [x] = cache.place({"x": (300, 640)})
    hierarchy = cache.Hierarchy((cache.CacheLevel("L1", 1024, ways=2),))
    charts = [
        plot.steps(sweep(), title="T"),
        plot.scaling(two_sizes, title="T", xlabel="elements", textbook=False),
        plot.measured_against_predicted(two_sizes, title="T"),
        plot.latency(access_curve("random"), title="T"),
        plot.roofline({"p": 1e11}, {"L1": 1e11}, [Position("k", 1.0, 1e9, None)], title="T", machine="m", threads=1),
        plot.miss_map(cache.miss_map(cache.sequential(x), hierarchy, "x"), title="T"),
    ]
    for chart in charts:
        assert Numbers.from_json(chart.numbers.to_json()) == chart.numbers
        assert len(rows_of(chart.numbers)) > 1
    assert charts[1].numbers.results[0].rows[0].textbook_seconds == two_sizes.rows[0].textbook_seconds


def test_machine_curves_and_explanations_come_back():
    machine = accel.this_machine()
    numbers = plot.bandwidth(machine, title="B").numbers
    (curves,) = Numbers.from_json(numbers.to_json()).results
    assert isinstance(curves, BandwidthCurves)
    assert curves.curves == machine.roofs.bandwidths
    explanation = accel.explain(lambda x: np.exp(x) * x + 1, np.ones(10_000, np.float32), seconds=0.05, progress=False)
    for chart in (explanation.plot(), explanation.roofline()):
        assert Numbers.from_json(chart.numbers.to_json()).results == (explanation,)


def test_numbers_that_json_does_not_know_survive_in_results_and_are_empty_in_the_table():
    odd = comparison(
        replace(row("odd", 5, 1e-5), predicted_seconds=math.nan, textbook_seconds=math.inf), row("b", 5, 1e-5)
    )
    numbers = plot.steps(odd, title="T").numbers
    json.loads(numbers.to_json(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    back = Numbers.from_json(numbers.to_json())
    assert math.isnan(back.results[0].rows[0].predicted_seconds)
    assert back.results[0].rows[0].textbook_seconds == math.inf
    assert back.table["predicted_seconds"][0] is None
    assert rows_of(numbers)[1][rows_of(numbers)[0].index("predicted_seconds")] == ""


@given(st.floats(), st.floats())
def test_every_float_survives(a: float, b: float):
    result = Roofs({"p": a}, {"L1": b}, ())
    (back,) = Numbers.from_json(roofs(results=(result,)).to_json()).results
    assert repr(back) == repr(result)


def test_the_table_holds_the_numbers_of_the_json_with_units_and_origin():
    numbers = plot.steps(sweep(), title="T").numbers
    head, *rows = rows_of(numbers)
    assert head[-3:] == ["machine", "threads", "taken_at"]
    assert {"measured_seconds", "predicted_seconds", "bytes_algorithmic"} <= set(head)
    for line, measured in zip(rows, numbers.results[0].rows, strict=True):
        assert float(line[head.index("measured_seconds")]) == measured.measured_seconds
        assert line[-3:] == [numbers.machine, str(numbers.threads), numbers.taken_at]


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@x", "\tx"])
def test_a_spreadsheet_gets_no_formula(name: str):
    assert rows_of(roofs(table={"name": (name,)}))[1][0] == f"'{name}"


def test_names_of_any_kind_stay_names():
    for name in (HOSTILE, 'a,"b"\nc', "\ud800", "\x00", "NaN"):
        numbers = comparison_numbers(name, comparison(row(name, 5, 1e-5), row("b", 5, 1e-5)))
        assert Numbers.from_json(numbers.to_json()).results[0].rows[0].name == name
        assert len(rows_of(numbers)) == 3


def test_sizes_may_be_numbers_of_numpy():
    numbers = plot.steps(comparison(row("a", np.int64(5), 1e-5), row("b", np.int64(5), 1e-5)), title="T").numbers
    assert Numbers.from_json(numbers.to_json()).results[0].rows[0].size == 5


def test_a_large_map_is_joined_and_keeps_its_total():
    [x] = cache.place({"x": (1024, 1024)})
    misses = cache.miss_map(cache.sequential(x), cache.Hierarchy((cache.CacheLevel("L1", 1024, ways=2),)), "x")
    numbers = plot.miss_map(misses, title="T").numbers
    assert len(numbers.to_json()) < 100_000
    assert numbers.results[0].total == misses.total == sum(numbers.table["misses"])


def test_a_notebook_links_to_both_forms():
    chart = plot.steps(sweep(), title=f'{HOSTILE} & "so"')
    html = BeautifulSoup(chart._repr_html_(), "html.parser")
    links = html.select(".accel-numbers a[download]")
    assert [link.text for link in links] == ["JSON", "CSV"]
    assert all(link["aria-label"].startswith(f"{link.text} ") for link in links)
    (_, data), (_, table) = EMBEDDED.findall(chart._repr_html_())
    assert Numbers.from_json(base64.b64decode(data)) == chart.numbers
    assert base64.b64decode(table).decode() == chart.numbers.to_csv()
    assert html.find("img") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "do not say 'accel numbers'"),
        ('{"format": "accel numbers", "schema": 7}', "schema 7"),
        (roofs().to_json().replace('"Roofs"', '"os.system"'), "kind 'os.system'"),
        (roofs().to_json().replace('"threads":1', '"threads":true'), "'threads' must be int"),
        (roofs().to_json().replace('"roof":["L1"]', '"roof":[{}]'), "column 'roof'"),
        (roofs().to_json().replace('"roof":["L1"]', '"roof":[]'), "equal lengths"),
        (roofs().to_json().replace('"positions"', '"places"'), "positions"),
        (re.sub(r'"results":.*', '"results":[]}', roofs().to_json()), "of one type"),
    ],
)
def test_other_files_are_refused_with_the_reason(tmp_path, text: str, reason: str):
    path = tmp_path / "numbers.json"
    path.write_text(text)
    with pytest.raises(RecordError, match=re.escape(reason)):
        accel.load_numbers(path)


def test_an_unknown_suffix_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\.json or \.csv; got 'a\.txt'"):
        roofs().save(tmp_path / "a.txt")


def test_a_baseline_is_told_by_more_than_its_color():
    assert "<pattern" in plot.steps(sweep(), title="T").svg


def test_lines_give_back_what_they_were_drawn_from(tmp_path):
    drawn = [plot.Line("GELU", ((1.0, 2.0), (10.0, 0.3)), "predicted"), plot.Line("limit", ((1.0, 0.1),), "limit")]
    chart = plot.lines(drawn, title="Faster", xlabel="workers", machine="a machine")
    found = accel.load_numbers(chart.numbers.save(tmp_path / "lines.json"))
    assert list(found.results) == drawn
    assert found.table["time (seconds)"] == (2.0, 0.3, 0.1)
    assert plot.lines(drawn, title="Faster", xlabel="workers").numbers is None
