"""The sliders work in the built page, with no kernel, by keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import Browser
from pages import chapters, has_slider, read_html
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

pytestmark = pytest.mark.browser
SLIDERS = ".noUi-handle, .jupyter-widgets input[type=range]"


def move_and_see(browser: Browser, slider: WebElement) -> None:
    """Move a slider by keyboard and require that another figure takes the place of the one shown."""
    before = browser.displayed_figures(slider)
    assert len(before) == 1, "an explorer shows one figure at a time"
    at_end = slider.get_attribute("aria-valuenow") == slider.get_attribute("aria-valuemax") is not None
    browser.press(slider, Keys.ARROW_LEFT if at_end else Keys.ARROW_RIGHT)
    browser.wait(lambda: browser.displayed_figures(slider) != before, "another figure")
    assert len(browser.displayed_figures(slider)) == 1


@pytest.mark.parametrize("page", chapters())
def test_every_slider_changes_its_figure_by_keyboard(page: str, site: Path, site_url: str, browser: Browser) -> None:
    if not has_slider(read_html(site, page)):
        pytest.skip(f"{page} has no slider")
    browser.open(f"{site_url}/{page}.html")
    sliders = browser.all(SLIDERS)
    assert sliders
    for slider in sliders:
        move_and_see(browser, slider)


@pytest.mark.parametrize("page", chapters())
def test_every_slider_has_a_name_and_says_its_value(page: str, site_url: str, browser: Browser) -> None:
    browser.open(f"{site_url}/{page}.html")
    for slider in browser.all(".noUi-handle"):
        assert slider.get_attribute("aria-label"), "screen readers would say nothing"
        readout = browser.script("return arguments[0].closest('.widget-slider').innerText", slider)
        assert slider.get_attribute("aria-valuetext") in readout


@pytest.mark.parametrize("page", chapters())
@pytest.mark.parametrize("width", [1400, 390])
def test_nothing_is_wider_than_the_screen(page: str, width: int, site_url: str, browser: Browser) -> None:
    browser.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    try:
        browser.open(f"{site_url}/{page}.html")
        assert browser.script("return document.documentElement.scrollWidth") <= width
        for part in browser.all(".widget-hslider, .widget-hslider > *"):
            box = part.rect
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
        for track in browser.all(".widget-hslider .slider-container"):
            assert track.rect["width"] >= 140, "too short to hit a position with a finger"
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
