import itertools
import re
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel import figure
from accel.figure import Chart, binary_ticks, blank, level_colors, log_ticks, settle, style
from accel.labels import spread
from accel.svg import inline
from accel.units import DECIMAL, TIME, format_bytes, format_decimal, format_number, unit_for

SVG = "{http://www.w3.org/2000/svg}"
PAGES = ("#FFFFFF", "#121212")


def small(title: str = "A finding", color: str = figure.MEASURED) -> Chart:
    with style():
        drawn, axes = blank()
        axes.plot([1, 2, 3], [1, 4, 9], "o-", color=color)
        axes.set(xlabel="size (elements)", ylabel="time (ms)")
        settle(drawn, title=title, note="a machine · 1 thread")
        return Chart.from_figure(drawn, title=title, alt=f"{title}: it grows.")


def luminance(color: str) -> float:
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def identifiers(svg: str) -> set[str]:
    return set(re.findall(r'\sid="([^"]+)"', svg))


def test_a_chart_is_well_formed_svg_with_a_role_a_title_and_a_description():
    root = ElementTree.fromstring(small().svg)
    assert root.tag == f"{SVG}svg"
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == "A finding: it grows."
    assert root.find(f"{SVG}title").text == "A finding"
    assert {text.text for text in root.iter(f"{SVG}text")} >= {"A finding", "size (elements)", "a machine · 1 thread"}


def test_a_notebook_gets_one_inline_form_and_the_words_as_text():
    chart = small()
    assert chart.svg in chart._repr_html_()
    assert not hasattr(chart, "_repr_png_")
    assert repr(chart) == "Chart(alt='A finding: it grows.')"


def test_ink_follows_the_page_and_nothing_is_painted_black_or_white():
    svg = small().svg
    assert "currentColor" in svg
    assert not re.search(r"(fill|stroke)[:=]\"?\s*(#000|#fff|black|white)", svg, re.IGNORECASE)
    assert figure.MEASURED.lower() in svg


def test_text_stays_text_and_brings_no_style_sheet_metadata_or_link():
    svg = small().svg
    for foreign in ("<style", "<metadata", "xlink", "http://purl", "<!DOCTYPE", "<?xml"):
        assert foreign not in svg
    assert "DejaVu" not in svg
    assert "sans-serif" in svg


def test_the_same_data_gives_the_same_bytes():
    assert small().svg == small().svg
    assert small() == small()


def test_identifiers_of_two_charts_never_meet_and_all_references_resolve():
    one, two = small(), small("Another finding")
    assert identifiers(one.svg)
    assert not identifiers(one.svg) & identifiers(two.svg)
    for chart in (one, two):
        references = set(re.findall(r"(?:href=\"|url\()#([^\")]+)", chart.svg))
        assert references == identifiers(chart.svg)


def test_special_characters_in_title_and_alt_are_escaped():
    root = ElementTree.fromstring(
        inline('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"/>', title='a < b & "c"', alt='x > "y"')
    )
    assert root.find(f"{SVG}title").text == 'a < b & "c"'
    assert root.attrib["aria-label"] == 'x > "y"'


def test_pictures_and_hatches_keep_their_place():
    with style():
        drawn, axes = blank()
        axes.imshow([[0.0, 1.0], [1.0, 0.0]], extent=(0, 1e-3, 0, 1e-3))
        axes.bar([5e-4], [1e-3], hatch="//", facecolor="none", width=3e-4)
        svg = Chart.from_figure(drawn, title="T", alt="A").svg
    (picture,) = ElementTree.fromstring(svg).iter(f"{SVG}image")
    assert picture.attrib["href"].startswith("data:image/png;base64,")
    references = set(re.findall(r"url\(#([^)]+)", svg))
    assert references
    assert references <= identifiers(svg)


def test_drawing_ignores_and_leaves_the_readers_own_settings():
    plain = small().svg
    with mpl.rc_context({"axes.facecolor": "#123456", "font.size": 30, "text.usetex": False}):
        before = dict(mpl.rcParams)
        assert small().svg == plain
        assert dict(mpl.rcParams) == before


def test_drawing_registers_no_figure_with_pyplot():
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    small()
    assert plt.get_fignums() == before


@pytest.mark.parametrize(
    "color", [figure.MEASURED, figure.PREDICTED, figure.BASELINE, *level_colors(4), *level_colors(2), *level_colors(7)]
)
def test_every_color_stands_out_from_light_and_dark_pages(color: str):
    assert min(contrast(color, page) for page in PAGES) >= 3


def test_memory_levels_run_from_light_to_dark():
    shades = [luminance(color) for color in level_colors(4)]
    assert shades == sorted(shades, reverse=True)
    assert len(set(level_colors(4))) == 4


@pytest.mark.parametrize(("suffix", "start"), [(".svg", b"<svg "), (".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_charts_are_saved(tmp_path, suffix: str, start: bytes):
    path = small().save(tmp_path / f"chart{suffix}")
    assert path.read_bytes().startswith(start)


def test_an_unknown_format_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match=r"\.svg, \.png or \.pdf; got 'chart\.jpeg'"):
        small().save(tmp_path / "chart.jpeg")


def test_a_long_title_is_broken_into_lines_that_fit():
    title = "A finding that takes rather more words than fit on one line of a chart as narrow as a phone"
    drawn = small(title).figure
    lines = next(text.get_text() for text in drawn.texts if text.get_text().startswith("A finding")).split("\n")
    assert len(lines) > 1
    assert " ".join(lines) == title
    assert all(figure.text_width(line, figure.TITLE, bold=True) <= figure.WIDTH for line in lines)


@given(st.floats(1e-12, 1e12), st.floats(4, 1e15))
def test_log_ticks_are_few_round_and_inside(low: float, ratio: float):
    ticks = log_ticks(low, low * ratio)
    assert 1 <= len(ticks) <= 6
    assert ticks == sorted(ticks)
    assert low * 0.998 <= ticks[0] <= ticks[-1] <= low * ratio * 1.002


@given(st.floats(0.001, 1e9), st.floats(4, 1e12))
def test_binary_ticks_are_powers_of_two_inside(low: float, ratio: float):
    ticks = binary_ticks(low, low * ratio)
    assert 1 <= len(ticks) <= 7
    assert all(tick.hex().startswith("0x1.0000000000000p") for tick in ticks)
    assert low * 0.999 <= ticks[0] <= ticks[-1] <= low * ratio * 1.001


@given(st.lists(st.floats(0, 300), max_size=12), st.floats(1, 20))
def test_labels_are_spread_in_order(wanted: list[float], gap: float):
    placed = spread(wanted, gap)
    in_order = sorted(range(len(wanted)), key=lambda i: (wanted[i], placed[i]))
    heights = [placed[i] for i in in_order]
    assert all(b - a >= gap - 1e-6 for a, b in itertools.pairwise(heights))


def test_units():
    assert format_bytes(2**20) == "1 MB"
    assert format_bytes(100) == "100 B"
    assert format_decimal(0.0, "FLOP/s") == "0 FLOP/s"
    assert format_decimal(999.9e6, "B/s") == "1 GB/s"
    assert format_number(999.9) == "1,000"
    assert format_number(0.0009999) == "0.00100"
    assert unit_for([], TIME) == ("s", 1.0)
    assert unit_for([0, 5_000], DECIMAL) == ("k", 1e3)


@pytest.mark.parametrize("odd", ["\x00", "\x08", "\x1b", "\ud800", "\ufffe"])
def test_what_xml_cannot_hold_is_replaced(odd):
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><text>a{odd}b</text></svg>'
    drawn = inline(svg, title=f"T{odd}", alt=f"A{odd}")
    root = ElementTree.fromstring(drawn.encode())
    assert (root.get("aria-label"), "".join(root.itertext())) == ("A\ufffd", "T\ufffda\ufffdb")
