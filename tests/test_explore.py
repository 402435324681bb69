import json
import threading
from dataclasses import replace

import ipywidgets
import numpy as np
import pytest
from comparisons import comparison, noisy, row

from accel import plot
from accel.comparison import Comparison
from accel.explore import explorer

SIZES = [1_000, 10_000, 100_000]


class Bench:
    """Stands in for a reader's measurement: counts its calls, and does as it is told."""

    def __init__(self) -> None:
        self.measured: list[int] = []
        self.hook = lambda: None

    def run(self, size: int) -> Comparison:
        self.measured.append(size)
        self.hook()
        result = comparison(row("unfused", size, 1e-8 * size), row("blocked", size, 4e-9 * size))
        return replace(result, taken_at=f"2026-01-02T03:04:{len(self.measured):02d}+01:00")


def draw(result: Comparison) -> plot.Chart:
    return plot.steps(result, title=f"Size {result.rows[0].size}")


@pytest.fixture
def bench() -> Bench:
    return Bench()


def living() -> list[ipywidgets.Widget]:
    """Return every widget that was not closed."""
    return list(ipywidgets.widgets.widget._instances.values())


def parts(box):
    slider, stack = box.children
    return slider, stack, [page.value for page in stack.children]


def test_every_option_is_measured_once_and_drawn(bench, capsys):
    slider, stack, pages = parts(explorer(bench.run, SIZES, draw, label=lambda n: f"{n:,}", start=10_000))
    assert bench.measured == SIZES
    assert slider.options == ("1,000", "10,000", "100,000")
    assert (slider.index, stack.selected_index, slider.description) == (1, 1, "size")
    assert slider.continuous_update is False
    for size, page in zip(SIZES, pages, strict=True):
        assert f"<title>Size {size}</title>" in page
        assert "recorded 2026-01-02 03:04+01:00 on Some CPU @ 3.00GHz, calibrated 2026-01-02, 2 threads" in page
    assert capsys.readouterr() == ("", "")


def test_results_at_hand_are_not_measured_again(bench):
    results = [bench.run(size) for size in SIZES]
    _, _, pages = parts(explorer(bench.run, SIZES, draw, initial=results))
    assert bench.measured == SIZES
    assert "Size 100000" in pages[2]


def test_the_browser_alone_switches_frames(bench):
    slider, stack, _ = parts(explorer(bench.run, SIZES, draw))
    links = [w for w in living() if isinstance(w, ipywidgets.widgets.widget_link.Link)]
    assert any(link.source == (slider, "index") and link.target == (stack, "selected_index") for link in links)


def test_moving_the_slider_measures_afresh_and_renews_that_frame_only(bench):
    box = explorer(bench.run, SIZES, draw)
    slider, stack, before = parts(box)
    seen: list[str] = []
    stack.children[2].observe(lambda change: seen.append(change["new"]), "value")
    slider.index = 2
    after = parts(box)[2]
    assert bench.measured == [*SIZES, 100_000]
    assert before[:2] == after[:2]
    assert "measuring…" in seen[0]
    assert "measured here 2026-01-02 03:04+01:00 on Some CPU" in after[2]
    assert "measuring…" not in after[2]


def test_an_error_is_shown_in_its_frame_and_the_next_run_clears_it(bench):
    box = explorer(bench.run, SIZES, draw)
    slider = box.children[0]

    def fail() -> None:
        raise RuntimeError("no <memory> left")

    bench.hook = fail
    slider.index = 1
    page = parts(box)[2][1]
    assert 'role="alert"' in page
    assert "RuntimeError: no &lt;memory&gt; left" in page
    assert "<svg" in page
    assert "recorded" in page
    bench.hook = lambda: None
    slider.index = 0
    slider.index = 1
    assert "RuntimeError" not in parts(box)[2][1]
    assert "measured here" in parts(box)[2][1]


def test_an_interrupt_is_not_swallowed_and_leaves_the_explorer_usable(bench):
    box = explorer(bench.run, SIZES, draw)
    slider = box.children[0]

    def interrupt() -> None:
        raise KeyboardInterrupt

    bench.hook = interrupt
    with pytest.raises(KeyboardInterrupt):
        slider.index = 1
    assert "measuring…" not in parts(box)[2][1]
    bench.hook = lambda: None
    slider.index = 2
    assert "measured here" in parts(box)[2][2]


def test_a_measurement_under_way_is_not_started_twice(bench):
    box = explorer(bench.run, SIZES, draw)
    slider = box.children[0]
    started, release = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        assert release.wait(10)

    bench.hook = wait
    worker = threading.Thread(target=lambda: setattr(slider, "index", 1))
    worker.start()
    assert started.wait(10)
    slider.index = 2
    assert bench.measured == [*SIZES, 10_000]
    release.set()
    worker.join(10)
    assert "measured here" in parts(box)[2][1]
    assert "recorded" in parts(box)[2][2]


def test_noise_is_said_below_the_chart():
    shaky = comparison(noisy(), row("calm", 1024, 1e-3))
    _, _, (page,) = parts(explorer(lambda _: shaky, ["all"], draw))
    assert "noisy run: 1 of 2 measurements are not steady" in page


def test_a_frame_of_the_widget_state_stays_small(bench):
    box = explorer(bench.run, SIZES, draw)
    for page in box.children[1].children:
        assert len(json.dumps(page.get_state()["value"])) < 25_000


def test_bad_arguments_are_refused_and_leave_no_widget(bench):
    before = living()
    with pytest.raises(ValueError, match="at least one option"):
        explorer(bench.run, [], draw)
    with pytest.raises(ValueError, match="a label of its own"):
        explorer(bench.run, SIZES, draw, label=lambda _: "same")
    with pytest.raises(ValueError, match="start must be one of"):
        explorer(bench.run, SIZES, draw, start=7)
    with pytest.raises(ValueError, match="each of the 3 options; got 1"):
        explorer(bench.run, SIZES, draw, initial=[bench.run(1)])
    with pytest.raises(TypeError, match="must return a Comparison for draw"):
        explorer(lambda _: 3, SIZES, draw)
    with pytest.raises(TypeError, match="must return a Chart"):
        explorer(bench.run, SIZES, lambda _: "picture")
    assert living() == before


@pytest.mark.parametrize("given", [np.array(SIZES), (size for size in SIZES), tuple(SIZES), dict.fromkeys(SIZES)])
def test_options_may_come_in_anything_that_gives_them(bench, given):
    slider, _, frames = parts(explorer(bench.run, given, draw, start=SIZES[1]))
    assert slider.index == 1
    assert [f"Size {size}<" in frame for size, frame in zip(SIZES, frames, strict=True)] == [True] * 3
    slider.index = 2
    assert bench.measured == [*SIZES, SIZES[2]]


def test_no_options_of_any_kind_are_refused_before_anything_is_measured(bench):
    for none in (np.array([]), iter(()), {}):
        with pytest.raises(ValueError, match="at least one option"):
            explorer(bench.run, none, draw)
    assert bench.measured == []


def test_without_stack_one_page_is_filled_by_python(bench, monkeypatch):
    monkeypatch.delattr(ipywidgets, "Stack")  # as in ipywidgets 7
    slider, page = explorer(bench.run, SIZES, draw).children
    assert "Size 1000" in page.value
    slider.index = 2
    assert "Size 100000" in page.value
    assert "measured here" in page.value
    slider.index = 0
    assert "Size 1000<" in page.value
