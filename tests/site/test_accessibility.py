"""Every page can be used by everybody: axe-core finds nothing, the keyboard reaches everything, and focus is seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from chromium import Browser
from pages import GENERATED, ROOT, chapters, read_html, table_of_contents, widget_state

AXE = ROOT / "tests" / "site" / "vendor" / "axe.min.js"
PAGES = [*table_of_contents(), *GENERATED]
MOST_STOPS = 1500
RUN_AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(
    result => done(result.violations.flatMap(
        rule => rule.nodes.map(node => `${rule.id}: ${node.target.join(" ")} ${node.failureSummary}`))),
    error => done([String(error)]));
"""
NEXT_FRAME = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
# A part is reached if it can be seen; of a group of radio buttons the Tab key reaches one.
REACHABLE = """
const parts = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
return parts.filter(part => part.checkVisibility({visibilityProperty: true}) && part.tabIndex >= 0 && !part.disabled
    && part.getBoundingClientRect().width > 1 && part.type !== "radio" && !part.closest("[inert]"));
"""
FOCUS = """
const part = document.activeElement;
if (!part || part === document.body || part === document.documentElement) { return null; }
const style = getComputedStyle(part), box = part.getBoundingClientRect();
const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
const placed = box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight;
return [part, outlined && placed, part.outerHTML.slice(0, 200)];
"""
MOVING = """
return [...document.querySelectorAll("*")].filter(part => {
    const style = getComputedStyle(part);
    return style.animationName !== "none" || style.scrollBehavior === "smooth"
        || (style.transitionProperty !== "none" && parseFloat(style.transitionDuration) > 0);
}).map(part => part.outerHTML.slice(0, 120));
"""


@contextmanager
def screen(browser: Browser, width: int) -> Iterator[None]:
    """Give the page a screen of this width."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        yield
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@contextmanager
def reduced_motion(browser: Browser) -> Iterator[None]:
    """Ask pages to move nothing."""
    wish = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wish})
    try:
        yield
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.fixture(scope="module")
def axe() -> str:
    """Return axe-core, which the build installs with npm."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: the build takes it from npm, which is missing")
    return AXE.read_text(encoding="utf-8")


@pytest.mark.browser
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_no_violation(page: str, width: int, axe: str, site_url: str, browser: Browser) -> None:
    # With motion, the colors would be on their way from one theme to the other.
    with screen(browser, width), reduced_motion(browser):
        browser.open(f"{site_url}/{page}.html")
        browser.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
        browser.driver.execute_async_script(NEXT_FRAME)
        for theme in ("light", "dark"):
            browser.script("document.documentElement.dataset.theme = arguments[0]", theme)
            assert browser.driver.execute_async_script(RUN_AXE) == [], theme


@pytest.mark.browser
def test_axe_would_find_a_violation(axe: str, site_url: str, browser: Browser) -> None:
    browser.open(f"{site_url}/{PAGES[0]}.html")
    browser.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
    browser.script("document.querySelector('main').append(Object.assign(new Image(), {src: '../_static/logo.svg'}))")
    assert any("image-alt" in found for found in browser.driver.execute_async_script(RUN_AXE))


@pytest.mark.browser
@pytest.mark.parametrize("page", PAGES)
def test_tab_reaches_everything_and_focus_is_seen(page: str, site_url: str, browser: Browser) -> None:
    browser.open(f"{site_url}/{page}.html")
    browser.script("document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
    reached: list[Any] = []
    for _ in range(MOST_STOPS):
        for kind in ("keyDown", "keyUp"):
            key = {"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
            browser.driver.execute_cdp_cmd("Input.dispatchKeyEvent", key)
        stop = browser.script(FOCUS)
        if stop is None or (reached and stop[0] == reached[0]):
            break
        assert not reached or stop[0] != reached[-1], f"the Tab key does not leave {stop[2]}"
        # The link that skips to the text slides into view.
        browser.wait(lambda: browser.script(FOCUS)[1], f"a focus that is seen on {stop[2]}", seconds=3)
        reached.append(stop[0])
    else:
        pytest.fail(f"after {MOST_STOPS} stops the Tab key is still under way: a trap?")
    known = set(reached)
    missed = [part for part in browser.script(REACHABLE) if part not in known]
    assert browser.script("return arguments[0].map(part => part.outerHTML.slice(0, 160))", missed) == []


@pytest.mark.parametrize("page", table_of_contents())
def test_figures_say_what_they_show(page: str, site: Path) -> None:
    html = read_html(site, page)
    frames = [model["state"].get("value") for model in widget_state(html).values()]
    documents = [html, *(BeautifulSoup(frame, "html.parser") for frame in frames if isinstance(frame, str))]
    for figure in (figure for document in documents for figure in document.select(".accel-chart svg")):
        said, title = str(figure["aria-label"]), figure.title.text
        assert said.startswith(title)
        assert len(said) > len(title) + 10, "the title alone is no description"
        assert any(character.isdigit() for character in said.removeprefix(title)), "a description compares or counts"


@pytest.mark.browser
@pytest.mark.parametrize("page", chapters())
def test_sliders_have_names_and_say_values(page: str, site_url: str, browser: Browser) -> None:
    browser.open(f"{site_url}/{page}.html")
    for slider in browser.all("[role=slider], input[type=range]"):
        assert slider.accessible_name
        assert slider.get_attribute("aria-valuetext")


@pytest.mark.browser
@pytest.mark.parametrize("page", [PAGES[0], *chapters()[:1], "search"])
def test_nothing_moves_for_those_who_asked_for_that(page: str, site_url: str, browser: Browser) -> None:
    with reduced_motion(browser):
        browser.open(f"{site_url}/{page}.html")
        assert browser.script(MOVING) == []
