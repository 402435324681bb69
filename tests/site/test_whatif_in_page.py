"""The what-if explorer works in the built page: no kernel, by keyboard, from a link, with a reader's own machine."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser
from machines import DETAILED
from pages import TOOLS, read_html, widget_state
from selenium.webdriver.common.keys import Keys

from accel import storage

pytestmark = pytest.mark.browser
PAGE = TOOLS[0]
BOX = ".accel-what-if"
GZIPPED_BYTES = 60_000


def opened(browser: Browser, address: str) -> None:
    browser.open(address)
    browser.wait(lambda: browser.all(f"{BOX} svg"), "the explorer")


def text(browser: Browser, selector: str) -> str:
    return str(browser.script("return document.querySelector(arguments[0]).textContent", f"{BOX} {selector}"))


def labelled(browser: Browser, name: str) -> Any:
    """Return the control that a label is for."""
    return browser.script(
        "return [...document.querySelectorAll('.accel-what-if label')]"
        ".find((label) => label.textContent.startsWith(arguments[0])).control",
        name,
    )


def moved(browser: Browser, name: str, key: str, times: int = 1) -> None:
    """Press a key on a slider."""
    browser.press(labelled(browser, name), *[key] * times)


@pytest.fixture
def here(site_url: str, browser: Browser) -> Browser:
    opened(browser, f"{site_url}/{PAGE}.html")
    return browser


def test_its_first_state_makes_a_point(here: Browser) -> None:
    assert text(here, ".wi-title").startswith("DRAM × 4: GELU, textbook is ")
    assert "bound by" in text(here, ".wi-detail")
    assert here.errors() == []


@pytest.mark.parametrize("name", ["size", "peak arithmetic", "L1 bandwidth", "L2 bandwidth", "DRAM bandwidth"])
def test_every_slider_is_named_says_its_value_and_moves_by_keyboard(name: str, here: Browser) -> None:
    slider = labelled(here, name)
    assert slider.get_attribute("type") == "range"
    before, answer = slider.get_attribute("aria-valuetext"), text(here, "svg") + text(here, ".wi-detail")
    moved(here, name, Keys.ARROW_LEFT)
    assert slider.get_attribute("aria-valuetext") != before
    assert text(here, "svg") + text(here, ".wi-detail") != answer


def test_the_chart_says_in_words_what_it_shows(here: Browser) -> None:
    label = here.all(f"{BOX} svg[role=img]")[0].get_attribute("aria-label")
    for part in ("Roofline. ", "Roofs: peak", "DRAM", "its ridge at", "FLOP/byte"):
        assert part in label
    assert text(here, ".wi-title") in label


def test_the_answer_is_spoken_when_the_slider_rests(here: Browser) -> None:
    assert here.all(f"{BOX} [aria-live=polite]")
    moved(here, "DRAM bandwidth", Keys.ARROW_RIGHT, 4)
    here.wait(lambda: "DRAM × 8" in text(here, "[aria-live=polite]"), "the spoken answer")


def test_the_machine_as_it_is_is_one_press_away(here: Browser) -> None:
    button = next(each for each in here.all(f"{BOX} button") if each.text == "Machine as it is")
    here.press(button, Keys.ENTER)
    assert "takes" in text(here, ".wi-title")
    assert not button.is_enabled()
    assert "gain" not in text(here, ".wi-kernels thead")


def test_a_kernel_can_be_picked_in_the_table(here: Browser) -> None:
    picked = next(each for each in here.all(f"{BOX} .wi-pick") if each.text == "matrix product")
    here.press(picked, Keys.ENTER)
    assert "matrix product" in text(here, ".wi-title")
    assert here.script("return document.activeElement.textContent") == "matrix product"
    assert labelled(here, "kernel").get_attribute("value") == "matmul"


def test_a_link_restores_what_it_was_copied_from(here: Browser, site_url: str) -> None:
    moved(here, "peak arithmetic", Keys.ARROW_RIGHT, 3)
    moved(here, "size", Keys.ARROW_LEFT, 2)
    here.wait(lambda: "size=22" in here.driver.current_url, "the state in the address")
    address, title, chart = here.driver.current_url, text(here, ".wi-title"), text(here, "svg")
    assert "#what-if?" in address
    opened(here, address)
    assert text(here, ".wi-title") == title
    assert text(here, "svg") == chart


def test_a_link_that_does_not_hold_is_noted_as_text(browser: Browser, site_url: str) -> None:
    opened(browser, f"{site_url}/{PAGE}.html#what-if?machine=<img src=x onerror=document.title=1>&kernel=sum&peak=1e9")
    note = text(browser, ".wi-note")
    assert "“machine”, “peak”" in note
    assert text(browser, ".wi-title").startswith("sum ")
    assert browser.all(f"{BOX} img") == []


def test_a_heading_of_the_page_is_no_state(browser: Browser, site_url: str) -> None:
    opened(browser, f"{site_url}/{PAGE}.html#three-experiments")
    assert text(browser, ".wi-note") == ""


def chosen(browser: Browser, path: Path) -> str:
    """Load a file through the button, and return what the explorer says of it."""
    browser.all(f"{BOX} input[type=file]")[0].send_keys(str(path))
    browser.wait(lambda: text(browser, ".wi-note") not in ("", "reading the file…"), "a word on the file")
    return text(browser, ".wi-note")


def test_a_readers_own_machine_is_loaded(here: Browser, tmp_path: Path) -> None:
    path = storage.save(DETAILED, tmp_path / "mine.json")
    assert path is not None
    assert chosen(here, path) == f"Loaded {DETAILED.cpu_name}. It stays in this page and is sent nowhere."
    assert "your file" in labelled(here, "machine").text
    assert f"{DETAILED.level_bandwidths()['L1'] / 1e9:.0f} GB/s" in text(here, "svg")
    assert here.errors() == []


def test_a_hostile_file_is_refused_and_shown_as_text(here: Browser, tmp_path: Path) -> None:
    path = tmp_path / "evil.json"
    path.write_text('{"format": "<img src=x onerror=document.title=1>", "schema": 6, "sha256": ""}', encoding="utf-8")
    assert "<img src=x" in chosen(here, path)
    assert here.all(f"{BOX} img") == []
    assert text(here, ".wi-title").startswith("DRAM × 4"), "what was shown stays"


def test_a_file_of_50_megabytes_is_refused_unread(here: Browser, tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(50_000_000)
    assert "larger than 2 MB" in chosen(here, path)


def test_a_file_can_be_dropped(here: Browser, tmp_path: Path) -> None:
    path = storage.save(DETAILED, tmp_path / "mine.json")
    assert path is not None
    here.script(
        """
        const data = new DataTransfer();
        data.items.add(new File([arguments[0]], "mine.json", { type: "application/json" }));
        const box = document.querySelector(".accel-what-if");
        box.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
        """,
        path.read_text(encoding="utf-8"),
    )
    here.wait(lambda: text(here, ".wi-note").startswith(f"Loaded {DETAILED.cpu_name}"), "the dropped machine")


def test_a_specification_is_labelled_and_names_its_sources(here: Browser) -> None:
    here.script(
        "const select = arguments[0]; select.value = 'sheet NVIDIA A100, 40 GB';"
        "select.dispatchEvent(new Event('change'))",
        labelled(here, "machine"),
    )
    assert "takes at least" in text(here, ".wi-detail") + text(here, ".wi-title") or "times as" in text(
        here, ".wi-title"
    )
    assert text(here, ".wi-origin").startswith("Spec sheet: a bound only, no call costs")
    assert "whitepaper" in text(here, ".wi-origin")
    assert "at most" in text(here, "svg")


def test_it_works_from_a_file(site: Path, browser: Browser) -> None:
    opened(browser, (site / f"{PAGE}.html").as_uri())
    moved(browser, "DRAM bandwidth", Keys.ARROW_RIGHT, 4)
    assert text(browser, ".wi-title").startswith("DRAM × 8")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_names_on_the_chart_stand_out_from_the_page(theme: str, here: Browser) -> None:
    here.script("document.documentElement.dataset.theme = arguments[0]", theme)
    for selector in ("text.wi-level-1", "text.wi-level-4", "text.wi-name"):
        ratio = here.script(_CONTRAST, here.all(f"{BOX} svg {selector}")[0])
        assert ratio >= 4.5, selector


_CONTRAST = """
const light = (text) => {
  const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = getComputedStyle(document.querySelector(".accel-what-if")).backgroundColor;
const pair = [getComputedStyle(arguments[0]).fill, ground];
const [low, high] = pair.map(light).sort((a, b) => a - b);
return (high + 0.05) / (low + 0.05);
"""


@pytest.mark.parametrize("width", [1400, 390])
def test_it_is_no_wider_than_the_screen(width: int, site_url: str, browser: Browser) -> None:
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        opened(browser, f"{site_url}/{PAGE}.html")
        assert browser.script("return document.documentElement.scrollWidth") <= width
        assert (
            browser.script("return document.querySelector('.accel-what-if svg').getBoundingClientRect().right") <= width
        )
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_page_stays_light(site: Path) -> None:
    states = [model["state"] for model in widget_state(read_html(site, PAGE)).values()]
    own = next(state for state in states if "kernels" in state.get("data", {}))
    assert len(gzip.compress(json.dumps(own).encode())) < GZIPPED_BYTES
