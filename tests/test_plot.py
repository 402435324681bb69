import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from xml.etree import ElementTree

import numpy as np
import pytest
from access_curves import access_curve
from comparisons import BANDWIDTHS, INFINITE, NAN, PEAKS, PLACES, Place, comparison, row, sweep
from machines import CALIBRATION, LAPTOP
from matplotlib.backends.backend_agg import FigureCanvasAgg

from accel import plot
from accel.comparison import Comparison
from accel.plot import Chart
from accel.units import format_bytes

MACHINE = LAPTOP.with_calibration(CALIBRATION)


def roofline(points=PLACES, peaks=PEAKS, bandwidths=BANDWIDTHS) -> Chart:
    return plot.roofline(peaks, bandwidths, points, title="Blocking helps", machine="Some CPU", threads=2)


def forms() -> Comparison:
    return comparison(
        row("unfused", 1 << 20, 41e-3), row("in place", 1 << 20, 15e-3, predicted=20e-3), row("blocked", 1 << 20, 8e-3)
    )


CHARTS: dict[str, Callable[[], Chart]] = {
    "roofline": roofline,
    "agreement": lambda: plot.measured_against_predicted(sweep(), title="The model holds"),
    "scaling": lambda: plot.scaling(sweep(), title="Time grows", xlabel="elements", baseline="unfused"),
    "scaling in bytes": lambda: plot.scaling(
        sweep(("copy",)),
        title="Bandwidth falls",
        xlabel="working set (bytes)",
        quantity="bytes_per_second",
        size_unit="bytes",
        caches={"L1": 32 << 10, "L2": 1 << 20},
    ),
    "scaling in N": lambda: plot.scaling(
        sweep(exponents=range(5, 12)), title="N", xlabel="N", size_unit="N", quantity="flops_per_second"
    ),
    "steps": lambda: plot.steps(forms(), title="Three steps"),
    "steps, logarithmic": lambda: plot.steps(comparison(row("loop", 9, 40.0), row("BLAS", 9, 1e-3)), title="Far"),
    "latency": lambda: plot.latency(access_curve(), title="Each level takes longer"),
    "latency of several patterns": lambda: plot.latency(
        access_curve(), access_curve("random", nanoseconds=(1.0, 2.0, 12.0)), title="Waiting costs most"
    ),
    "bandwidth": lambda: plot.bandwidth(MACHINE, title="Each level is slower"),
}


def extents(chart: Chart):
    """Return (text, bounding box) for all text of a chart that is neither empty nor slanted."""
    texts = [*chart.figure.texts, *(t for legend in chart.figure.legends for t in legend.get_texts())]
    for axes in chart.figure.axes:
        texts += [*axes.texts, axes.xaxis.label, axes.yaxis.label, *axes.get_xticklabels(), *axes.get_yticklabels()]
    shown = [text for text in texts if text.get_text().strip()]
    with plot.style():
        renderer = FigureCanvasAgg(chart.figure).get_renderer()
        return [(t.get_text(), t.get_rotation(), t.get_window_extent(renderer)) for t in shown]


@pytest.mark.parametrize("draw", [cache(draw) for draw in CHARTS.values()], ids=CHARTS)
class TestEveryChart:
    def test_is_well_formed_and_the_same_each_time(self, draw):
        ElementTree.fromstring(draw().svg)
        assert draw.__wrapped__() == draw()

    def test_names_the_machine_the_threads_and_its_axes(self, draw):
        texts = " ".join(text for text, _, _ in extents(draw())).replace("\n", " ")
        assert "Some CPU" in texts
        (axes,) = draw().figure.axes
        assert axes.get_xlabel()
        assert axes.get_ylabel() or len(axes.get_yticklabels()) > 1

    def test_keeps_its_text_on_the_canvas(self, draw):
        chart = draw()
        width, height = (72 * side for side in chart.figure.get_size_inches())
        for text, _, box in extents(chart):
            assert box.x0 >= -1, text
            assert box.x1 <= width + 1, text
            assert box.y0 >= -1, text
            assert box.y1 <= height + 1, text

    def test_lets_no_text_cover_another(self, draw):
        level = [(text, box) for text, rotation, box in extents(draw()) if rotation == 0]
        for (one, a), (two, b) in itertools.combinations(level, 2):
            width = min(a.x1, b.x1) - max(a.x0, b.x0)
            height = min(a.y1, b.y1) - max(a.y0, b.y0)
            assert not (width > 1 and height > 2), (one, two)

    def test_is_small_enough_for_thirty_on_a_page(self, draw):
        assert len(draw().svg) < 25_000

    def test_tells_in_words_what_it_shows_and_paints_no_ink(self, draw):
        chart = draw()
        assert len(chart.alt) > 40
        assert not re.search(r"(fill|stroke):\s*(#000|#fff)", chart.svg)


def test_a_caller_can_write_the_description():
    assert plot.steps(forms(), title="T", alt="Mine.").alt == "Mine."


def test_the_roofline_tells_roofs_ridges_and_kernels():
    alt = roofline().alt
    assert alt.startswith("Blocking helps.")
    assert "DRAM 14 GB/s with its ridge at 6.86 FLOP/byte" in alt
    assert "add: 0.0833 FLOP/byte, measured 2.2 GFLOP/s, predicted 2.4 GFLOP/s" in alt
    assert "row-dot: 20 FLOP/byte, measured 3.1 GFLOP/s." in alt


def test_the_roofline_names_every_roof_and_kernel():
    texts = {text for text, _, _ in extents(roofline())}
    assert texts >= {"L1 210 GB/s", "DRAM 14 GB/s", "float32 peak 96 GFLOP/s", "add", "triad", "tiled", "row-dot"}


def test_kernels_in_one_place_share_one_text():
    near = [Place("first", 0.125, 2.0e9, None), Place("second", 0.125, 2.1e9, None), Place("third", 0.126, 1.9e9, None)]
    apart = Place("far", 2.0, 2.0e9, None)
    texts = [text for text, _, _ in extents(roofline([*near, apart]))]
    assert "second\nfirst\nthird" in texts, "the highest first"
    assert "far" in texts


def test_names_stay_on_their_roofs_when_a_chart_is_saved_with_more_dots():
    chart = roofline()
    (axes,) = chart.figure.axes
    named = [
        text for text in axes.texts if text.get_text() in ("L1 210 GB/s", "DRAM 14 GB/s", "float32 peak 96 GFLOP/s")
    ]
    assert len(named) == 3
    places = []
    for dots in (72, 200):
        chart.figure.set_dpi(dots)
        inside = axes.transAxes.inverted()
        places.append([inside.transform(text.get_transform().transform(text.get_position())) for text in named])
    assert np.allclose(*places)
    assert np.all((np.array(places) >= 0) & (np.array(places) <= 1.1))


def test_the_roofline_reaches_from_bandwidth_to_peak_exactly():
    (axes,) = roofline().figure.axes
    slants = [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_ydata()[1] == 9.6e10]
    for line, rate in zip(slants, BANDWIDTHS.values(), strict=False):
        assert line.get_xdata()[1] == pytest.approx(9.6e10 / rate)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (Place("copy", 0.0, 1e9, 1e9), "'copy' has an intensity of 0.0 FLOP/byte"),
        (Place("nowhere", INFINITE, 1e9, 1e9), "'nowhere' has an intensity of inf"),
        (Place("unknown", 1.0, None, NAN), "'unknown' has no performance to draw"),
    ],
)
def test_the_roofline_refuses_what_has_no_place(place: Place, message: str):
    with pytest.raises(ValueError, match=message):
        roofline((place,))


def test_the_roofline_refuses_missing_and_impossible_roofs():
    with pytest.raises(ValueError, match="at least one peak"):
        roofline(peaks={})
    with pytest.raises(ValueError, match="'L1' is nan"):
        roofline(bandwidths={"L1": NAN})


def test_the_roofline_can_stand_empty():
    assert "DRAM" in roofline(()).alt


def test_roofs_can_leave_room_so_that_frames_share_their_axes():
    def axes_of(*shown: Place) -> tuple:
        chart = plot.roofline(PEAKS, BANDWIDTHS, shown, title="T", machine="Some CPU", threads=1, room_for=PLACES)
        return chart.figure.axes[0].get_xlim(), chart.figure.axes[0].get_ylim()

    assert axes_of(PLACES[0]) == axes_of(PLACES[1]) == axes_of()


@pytest.mark.parametrize("rows", [(), (row("add", 8, 1e-6),)], ids=["none", "one"])
def test_too_few_rows_are_refused(rows):
    few = comparison(*rows)
    with pytest.raises(ValueError, match=f"two rows or more .*; got {len(rows)}"):
        plot.measured_against_predicted(few, title="T")
    with pytest.raises(ValueError, match=f"two sizes or more; got {len(rows)} row"):
        plot.scaling(few, title="T", xlabel="elements")


def test_steps_take_one_row_but_not_none():
    assert "add: measured 1 µs" in plot.steps(comparison(row("add", 8, 1e-6)), title="T").alt
    with pytest.raises(ValueError, match="between 1 and all rows"):
        plot.steps(comparison(), title="T")


def test_a_quantity_without_flops_is_refused_by_name():
    copies = comparison(*(row("copy", size, 1e-6, flops_each=0) for size in (8, 16)))
    with pytest.raises(ValueError, match="positive count of FLOPs; 'copy' at size 8"):
        plot.scaling(copies, title="T", xlabel="elements", quantity="flops_per_second")
    plot.scaling(copies, title="T", xlabel="elements", quantity="bytes_per_second")


@pytest.mark.parametrize("option", [{"quantity": "joules"}, {"size_unit": "rows"}])
def test_unknown_options_are_refused(option):
    with pytest.raises(ValueError, match=next(iter(option.values()))):
        plot.scaling(sweep(), title="T", xlabel="elements", **option)


def test_values_that_are_not_finite_are_left_out():
    rows = (row("add", 8, 1e-6), row("add", 16, 2e-6, predicted=NAN, textbook_seconds=INFINITE), row("add", 32, 4e-6))
    mixed = comparison(*rows)
    for chart in (
        plot.scaling(mixed, title="T", xlabel="elements"),
        plot.measured_against_predicted(mixed, title="T"),
        plot.steps(mixed, title="T"),
    ):
        assert "nan" not in chart.svg + chart.alt
        assert "inf" not in chart.alt


DRAWINGS = {
    "steps": plot.steps,
    "measured_against_predicted": plot.measured_against_predicted,
    "scaling": partial(plot.scaling, xlabel="elements"),
    "scaling, rates": partial(plot.scaling, xlabel="elements", quantity="flops_per_second"),
}


@pytest.mark.parametrize("draw", DRAWINGS)
@pytest.mark.parametrize("seconds", [0.0, 5e-324, 1e-300, 1e300, INFINITE, NAN])
def test_measured_times_that_cannot_be_are_refused(draw, seconds):
    rows = (row("add", 8, 1e-6), row("add", 16, seconds, predicted=1e-6, textbook_seconds=1e-6))
    with pytest.raises(ValueError, match="'add' at size 16 was measured at"):
        DRAWINGS[draw](comparison(*rows), title="T")


@pytest.mark.parametrize("draw", DRAWINGS)
@pytest.mark.parametrize("seconds", [0.0, 5e-324, 1e300, -1.0])
def test_predicted_times_that_cannot_be_are_left_out(draw, seconds):
    rows = [row("add", size, size * 1e-7) for size in (8, 16)]
    odd = row("add", 32, 4e-6, predicted=seconds, textbook_seconds=seconds)
    assert DRAWINGS[draw](comparison(*rows, odd), title="T").svg


def test_sizes_without_a_place_on_a_logarithmic_axis_are_refused():
    with pytest.raises(ValueError, match="'add' has size 0"):
        plot.scaling(comparison(row("add", 0, 1e-6), row("add", 8, 1e-6)), title="T", xlabel="elements")


@pytest.mark.filterwarnings("ignore:Glyph")  # what has no glyph is drawn as a box
@pytest.mark.parametrize("draw", DRAWINGS)
@pytest.mark.parametrize("odd", ["\x00", "\x1b[31m", "\x7f", "\ufffe", "<&>", "$x$"])
def test_any_name_and_title_makes_a_page(draw, odd):
    name = f"add{odd}"
    rows = [row(f"{name}{i}", size, size * 1e-7) for size in (8, 16) for i in (1, 2)]
    chart = DRAWINGS[draw](comparison(*rows), title=f"Title{odd}")
    root = ElementTree.fromstring(chart.svg)
    assert root.get("aria-label") == chart.alt
    assert "add" in "".join(root.itertext()) + chart.alt
    chart.svg.encode()


def test_measured_against_predicted_states_the_errors():
    chart = plot.measured_against_predicted(
        comparison(row("a", 1, 1.0, predicted=1.1), row("b", 1, 2.0, predicted=2.2), row("c", 1, 1.0, predicted=2.0)),
        title="T",
    )
    assert "Median error 10%; 2 of 3 predictions within 20 %" in chart.alt


def test_steps_state_speed_ups_over_the_base():
    assert "5.1× faster than unfused" in plot.steps(forms(), title="T").alt
    assert "1.9× faster than in place" in plot.steps(forms(), title="T", base="in place").alt
    assert "5.1× slower than blocked" in plot.steps(forms(), title="T", base="blocked").alt
    with pytest.raises(KeyError, match="nothing"):
        plot.steps(forms(), title="T", base="nothing")


def test_steps_grow_without_moving_the_axes():
    charts = [plot.steps(forms(), title="T", shown=count) for count in (1, 2, 3)]
    frames = [chart.figure.axes[0] for chart in charts]
    assert len({axes.get_position().bounds for axes in frames}) == 1
    assert len({axes.get_xlim() for axes in frames}) == 1
    assert [len(axes.patches) for axes in frames] == [1, 2, 3]
    assert "blocked" not in charts[1].svg
    with pytest.raises(ValueError, match="got 4 of 3"):
        plot.steps(forms(), title="T", shown=4)


def test_bars_of_rows_with_one_name_are_told_apart_by_size():
    chart = plot.steps(comparison(row("add", 1000, 1e-6), row("add", 2000, 2e-6)), title="T")
    assert {"add, 1,000", "add, 2,000"} <= {text for text, _, _ in extents(chart)}


def test_bandwidth_needs_a_calibration_with_those_threads():
    with pytest.raises(ValueError, match="not calibrated"):
        plot.bandwidth(LAPTOP, title="T")
    with pytest.raises(ValueError, match=r"with 3 thread\(s\); there are curves for \[1, 4\]"):
        plot.bandwidth(MACHINE, title="T", threads=3)


def test_bandwidth_draws_every_curve_and_cache():
    texts = {text.strip() for text, _, _ in extents(plot.bandwidth(MACHINE, title="T"))}
    assert texts >= {"load, 1 thread", "copy, 4 threads", "L1", "L2", "L3"}
    assert "copy, 4 threads" not in plot.bandwidth(MACHINE, title="T", threads=1).svg


def test_sizes_in_bytes_are_written_in_powers_of_two():
    ticks = [label.get_text() for label in CHARTS["scaling in bytes"]().figure.axes[0].get_xticklabels()]
    assert all(re.fullmatch(r"\d+ [KMG]B", tick) for tick in ticks)


def test_noise_shows_as_a_bar_over_the_quartiles():
    chart = plot.scaling(sweep(("add",)), title="T", xlabel="elements")
    segments = chart.figure.axes[0].collections[0].get_segments()
    first = sweep(("add",)).rows[0]
    assert tuple(segments[0][:, 1]) == pytest.approx(first.measured.quartiles_seconds)


def test_a_saved_comparison_draws_the_same_chart():
    again = type(sweep()).from_json(sweep().to_json())
    draw = {"title": "T", "xlabel": "elements"}
    assert plot.scaling(again, **draw) == plot.scaling(sweep(), **draw)
    assert plot.scaling(replace(again, threads=7), **draw) != plot.scaling(sweep(), **draw)


def test_the_textbook_roofline_can_be_left_out():
    far = sweep(("add",))
    far = replace(far, rows=tuple(replace(row, textbook_seconds=row.measured_seconds / 1000) for row in far.rows))
    whole, near = (plot.scaling(far, title="T", xlabel="elements", textbook=shown) for shown in (True, False))
    assert "textbook" in whole.svg
    assert "textbook" not in near.svg
    assert near.figure.axes[0].get_ylim()[0] > 100 * whole.figure.axes[0].get_ylim()[0]


def test_an_axis_in_bytes_has_powers_of_two():
    line = plot.Line("a grid", ((4, 47e6), (16, 19e6), (64, 12e6)), "predicted")
    (axes,) = plot.lines([line], title="Less moves", xlabel="workers", y_text=format_bytes).figure.axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["16 MB", "32 MB"]
