"""What pictures of the pages showed to be ugly, and is not any more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import Browser
from pages import chapters, pages_with, table_of_contents
from screenshots import resize

pytestmark = pytest.mark.browser


@pytest.fixture
def phone(browser: Browser) -> Iterator[Browser]:
    """Return the browser with a screen as wide as a phone's."""
    resize(browser, 390)
    yield browser
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("page", table_of_contents())
def test_the_names_of_the_pages_before_and_after_are_whole_on_a_phone(page: str, site_url: str, phone: Browser) -> None:
    phone.open(f"{site_url}/{page}.html")
    links = phone.script(
        "return [...document.querySelectorAll('.prev-next-area a')]"
        ".map(link => [link.textContent.trim(), link.scrollWidth, link.clientWidth, link.getBoundingClientRect().left])"
    )
    assert links
    for name, wanted, given, left in links:
        assert wanted <= given + 1, name
        assert left >= 8, name


@pytest.mark.parametrize("page", pages_with("accel.explain("))
def test_columns_of_results_do_not_touch(page: str, site_url: str, browser: Browser) -> None:
    browser.open(f"{site_url}/{page}.html")
    narrowest = browser.script(
        """
        const cells = [...document.querySelectorAll(".accel-table :is(th, td)")].map(getComputedStyle);
        return Math.min(...cells.flatMap((cell) => [cell.paddingLeft, cell.paddingRight]).map(parseFloat));
        """
    )
    assert narrowest >= 3


FAINT = """
const light = (text) => {
  const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = light(getComputedStyle(document.body).backgroundColor);
return [...document.querySelectorAll('.accel-chart svg[role="img"] text')].map((text) => {
  const [low, high] = [light(getComputedStyle(text).fill), ground].sort((a, b) => a - b);
  return [text.textContent, (high + 0.05) / (low + 0.05)];
}).filter(([, contrast]) => contrast < 4.5);
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", chapters())
def test_names_in_charts_stand_out_from_the_page(page: str, theme: str, site_url: str, browser: Browser) -> None:
    browser.open(f"{site_url}/{page}.html")
    browser.script("document.documentElement.dataset.theme = arguments[0]", theme)
    assert browser.all(".accel-chart text")
    assert browser.script(FAINT) == []
