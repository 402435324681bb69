"""Whatever a function, an array or a machine is called: what accel shows in a page holds it as text."""

from dataclasses import replace

import numpy as np
import pytest
from access_curves import access_curve
from bs4 import BeautifulSoup
from comparisons import comparison, row

import accel
from accel import plot, tables
from accel.check.grades import Grade, Step
from accel.explore import explorer

HOSTILE = "<img src=x onerror=alert(1)></title></svg><script>alert(2)</script>\"' onload=alert(3) x='"


def hostile_comparison():
    rows = row(HOSTILE, 5, 1e-5), replace(row("b", 9, 1e-5), bound_by=HOSTILE), row(HOSTILE, 9, 1e-5)
    return replace(comparison(*rows), machine=HOSTILE)


def explanation():
    def hostile(x):
        return np.exp(x) + x

    hostile.__name__ = hostile.__qualname__ = HOSTILE
    explained = accel.explain(hostile, np.ones(1000, np.float32), seconds=0.02, progress=False)
    return replace(
        explained, machine=HOSTILE, notes=(HOSTILE,), calls=tuple(replace(c, call=HOSTILE) for c in explained.calls)
    )


def grade():
    return Grade(HOSTILE, HOSTILE, (Step(HOSTILE, False, HOSTILE, {HOSTILE: 1.0}),), "2026-01-02T03:04:05+01:00")


def failing_frame() -> str:
    shown = explorer(lambda _: hostile_comparison(), [HOSTILE, "b"], lambda c: plot.steps(c, title=HOSTILE), label=str)
    return shown.children[1].children[0].value


SHOWN = {
    "steps": lambda: plot.steps(hostile_comparison(), title=HOSTILE)._repr_html_(),
    "scaling": lambda: plot.scaling(hostile_comparison(), title=HOSTILE, xlabel=HOSTILE)._repr_html_(),
    "agreement": lambda: plot.measured_against_predicted(hostile_comparison(), title=HOSTILE)._repr_html_(),
    "latency": lambda: plot.latency(replace(access_curve("random"), machine=HOSTILE), title=HOSTILE)._repr_html_(),
    "calls": lambda: explanation().plot()._repr_html_(),
    "explanation": lambda: explanation()._repr_html_(),
    "comparison table": lambda: tables.comparison_table(hostile_comparison(), caption=HOSTILE)._repr_html_(),
    "grade": lambda: grade()._repr_html_(),
    "explorer": failing_frame,
}


@pytest.mark.parametrize("shown", SHOWN)
def test_hostile_names_are_text(shown: str):
    page = BeautifulSoup(SHOWN[shown](), "html.parser")
    assert not page.select("img, script, iframe, object, [onerror], [onload]")
    said = page.get_text() + " ".join(str(e["aria-label"]) for e in page.select("[aria-label]"))
    assert "onerror=alert(1)" in said
