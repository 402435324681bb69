"""Pages load nothing from elsewhere, without an error, and can be read without JavaScript."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from chromium import Browser
from pages import GENERATED, chapters, read_html, table_of_contents, widget_state

pytestmark = pytest.mark.browser


@pytest.mark.skipif(shutil.which("npm") is None, reason="without npm the pages load from a CDN, as the build says")
@pytest.mark.parametrize("page", [*table_of_contents(), *GENERATED])
def test_pages_ask_no_third_party_and_report_no_error(page: str, site_url: str, browser: Browser) -> None:
    browser.open(f"{site_url}/{page}.html")
    browser.script("window.scrollTo(0, document.body.scrollHeight)")
    browser.wait(lambda: browser.script("return document.fonts.status") == "loaded", "the fonts")
    requests = browser.requests()
    assert requests, "the browser's log shows no request at all"
    assert [request.url for request in requests if not request.is_local] == []
    assert [request for request in requests if request.failure] == []
    assert browser.errors() == []


@pytest.mark.parametrize("page", table_of_contents())
def test_formulas_are_typeset(page: str, site: Path, site_url: str, browser: Browser) -> None:
    formulas = read_html(site, page).select(".math")
    browser.open(f"{site_url}/{page}.html")
    browser.wait(lambda: len(browser.all(".math mjx-container")) >= len(formulas), "MathJax")


@pytest.mark.parametrize("page", table_of_contents())
def test_text_is_readable_without_javascript(page: str, site: Path, site_url: str, browser: Browser) -> None:
    browser.driver.get("about:blank")
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.driver.get(f"{site_url}/{page}.html")
        article = browser.all("article.bd-article")[0]
        html, shown = (
            read_html(site, page),
            " ".join(article.text.split()).casefold(),
        )  # the style writes some in capitals
        for paragraph in html.select("article.bd-article > section > p"):
            assert " ".join(paragraph.get_text().split())[:40].casefold() in shown
        if widget_state(html):
            assert "need JavaScript" in article.text
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("page", chapters())
def test_dark_mode_keeps_figures_and_sliders_visible(page: str, site_url: str, browser: Browser) -> None:
    browser.open(f"{site_url}/{page}.html")
    browser.script("document.documentElement.dataset.theme = 'dark'")
    ground = browser.script("return getComputedStyle(document.body).backgroundColor")
    for element in browser.all('svg[role="img"], .widget-label, .widget-readout'):
        assert browser.script("return getComputedStyle(arguments[0]).color", element) != ground
    for output in browser.all(".cell_output .text_html, .widget-subarea"):
        background = browser.script("return getComputedStyle(arguments[0]).backgroundColor", output)
        assert background in {"rgba(0, 0, 0, 0)", ground}
