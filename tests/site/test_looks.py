"""What pictures of the pages showed to be ugly, and is not any more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chromium import Browser
from pages import pages_with, table_of_contents
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
