import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from access_curves import access_curve
from test_plot import extents

from accel import cache, plot
from accel.plot import Chart


def product_map(n: int = 96, **options) -> cache.MissMap:
    hierarchy = cache.Hierarchy((cache.CacheLevel("L1", 4096, 4),))
    return cache.miss_map(cache.matmul(*cache.square_matrices(n)), hierarchy, "B", **options)


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        ((), "at least one curve"),
        ((access_curve(),) * 2, "each pattern once; got chase, chase"),
        ((access_curve(sizes=(4096,), nanoseconds=(1.0,)),), "two working sets or more; 'chase' has 1"),
        ((access_curve(), replace(access_curve("random"), machine="Other")), "curves of one machine"),
        ((access_curve(nanoseconds=(0.0, 1.0, 2.0)),), "times above zero"),
    ],
)
def test_latencies_that_cannot_be_drawn_are_refused(curves, message):
    with pytest.raises(ValueError, match=message):
        plot.latency(*curves, title="T")


def test_latency_tells_one_time_for_each_level():
    chart = plot.latency(access_curve(), title="T")
    assert "chase: 1.5 ns at 4 KB, 9 ns at 1 MB, 110 ns at 128 MB" in chart.alt
    assert {"L1", "L2", "L3"} <= {text.strip() for text, _, _ in extents(chart)}


def pixels(chart: Chart):
    """Return what the map's image holds: counts, with cells without misses masked."""
    [image] = chart.figure.axes[0].images
    return image.get_array()


def test_a_miss_map_is_well_formed_small_and_says_what_it_shows():
    chart = plot.miss_map(product_map(), title="B misses everywhere")
    ElementTree.fromstring(chart.svg)
    assert len(chart.svg) < 25_000
    assert chart == plot.miss_map(product_map(), title="B misses everywhere")
    assert "misses of B" in chart.alt
    assert not re.search(r"(fill|stroke):\s*(#000|#fff)", chart.svg)
    texts = {text for text, _, _ in extents(chart)}
    assert {"column of B", "row of B"} <= texts
    assert any("A cell is 1 x 16 elements." in text for text in texts)


def test_a_miss_map_shows_every_cell_and_leaves_out_those_without_misses():
    by_element = product_map(8, cell=(1, 1))
    shown = pixels(plot.miss_map(by_element, title="T"))
    assert shown.shape == (8, 8)
    assert shown.filled(0).tolist() == [list(row) for row in by_element.misses]
    assert shown.mask.sum() == sum(row.count(0) for row in by_element.misses) > 0


def test_a_large_miss_map_is_drawn_in_larger_cells_that_add_up():
    large = product_map(300, cell=(1, 1))
    chart = plot.miss_map(large, title="T")
    assert pixels(chart).shape == (150, 150)
    assert pixels(chart).sum() == large.total
    assert "A cell is 2 x 2 elements" in " ".join(text for text, _, _ in extents(chart))


def test_miss_maps_can_share_their_colors():
    low, high = (plot.miss_map(product_map(8, cell=(1, 1)), title="T", most=most) for most in (1, 100))
    assert low.figure.axes[0].images[0].norm.vmax == 1
    assert high.figure.axes[0].images[0].norm.vmax == 100
    with pytest.raises(ValueError, match="at least 1; got 0"):
        plot.miss_map(product_map(8), title="T", most=0)


def test_a_map_without_misses_is_drawn_too():
    none = replace(product_map(8), misses=((0, 0),))
    assert "0 misses of B" in plot.miss_map(none, title="T").alt
