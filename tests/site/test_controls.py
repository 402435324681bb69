"""No control is dead: opened as a file, with no server, kernel or network, each one changes what the page shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chromium import Browser
from pages import GENERATED, table_of_contents

pytestmark = pytest.mark.browser
PAGES = table_of_contents()

# Operates one control after the other and returns the names of those after which the page looked as before. What a page
# shows is its markup, where its focus is, and what its fields hold.
OPERATE = r"""
const done = arguments[arguments.length - 1];
const controls = "button, summary, input, select, textarea, [role=slider], [role=button]";
const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let printed = 0, choosing = 0;
window.print = () => (printed += 1);
document.addEventListener("click", (event) => {
  if (event.target.matches("input[type=file]")) { choosing += 1; event.preventDefault(); }
}, true);
document.addEventListener("submit", (event) => event.preventDefault());
const filled = [...document.querySelectorAll("input, select, textarea")];
// That a slider or a list stands elsewhere is no effect of it; that a field holds what was typed is.
const moved = "input[type=range], select";
const fields = () => filled.map((field) => [field.matches(moved) ? "" : field.value, field.checked]);
const focused = () => [...document.querySelectorAll(controls)].indexOf(document.activeElement);
const shown = () => document.documentElement.outerHTML + JSON.stringify([fields(), printed, choosing, focused()]);
function named(control) {
  const said = control.getAttribute("aria-label") || control.title || control.textContent || control.placeholder;
  return `${control.tagName.toLowerCase()} ${(said || "").trim().replace(/\s+/g, " ").slice(0, 60)}`;
}
function operate(control) {
  if (control.matches("[role=slider]")) {
    const end = control.getAttribute("aria-valuenow") === control.getAttribute("aria-valuemax");
    control.focus();
    const key = end ? "ArrowLeft" : "ArrowRight";
    control.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  } else if (control.matches("input[type=range]")) {
    control.value = Number(control.value) === Number(control.max) ? control.min : control.max;
    control.dispatchEvent(new Event("input", { bubbles: true }));
    control.dispatchEvent(new Event("change", { bubbles: true }));
  } else if (control.matches("input[type=text], input[type=search], input[type=number], textarea")) {
    control.focus();
    control.value = "1";
    control.dispatchEvent(new Event("input", { bubbles: true }));
  } else if (control.matches("select")) {
    control.selectedIndex = (control.selectedIndex + 1) % control.options.length;
    control.dispatchEvent(new Event("change", { bubbles: true }));
  } else {
    control.click();
  }
}
(async () => {
  const dead = [], tried = [];
  const home = location.href.replace(/#.*$/, "");
  for (const control of [...document.querySelectorAll(controls)]) {
    const usable = control.isConnected && control.checkVisibility({ visibilityProperty: true }) && !control.disabled;
    if (!usable || control.matches(".btn-fullscreen-button") || control.checked) continue;
    control.focus(); // so that what moves the focus on has done something
    const before = shown();
    tried.push(named(control));
    operate(control);
    for (let wait = 0; wait < 20 && shown() === before; wait += 1) await later(50);
    if (shown() === before) dead.push(named(control));
    document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close());
    if (location.href.replace(/#.*$/, "") !== home) { dead.push(`${named(control)} left the page`); break; }
  }
  done({ dead, tried });
})();
"""


def operated(browser: Browser) -> dict[str, Any]:
    """Operate every control of the page that is open."""
    browser.driver.set_script_timeout(120)
    return dict(browser.driver.execute_async_script(OPERATE))


def offline(browser: Browser, yes: bool) -> None:
    """Cut the browser from every network, the loopback too, or connect it again."""
    conditions = {"offline": yes, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.driver.execute_cdp_cmd("Network.enable", {})
    browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", conditions)


def resize(browser: Browser, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


@pytest.mark.parametrize("page", [*PAGES, *GENERATED])
def test_every_control_of_a_page_opened_as_a_file_works(page: str, site: Path, browser: Browser) -> None:
    address = (site / f"{page}.html").as_uri()
    browser.open(address)
    browser.script("localStorage.clear()")
    browser.open(address)
    found = operated(browser)
    assert len(found["tried"]) >= 3, "search, side bar and colors are on every page"
    assert found["dead"] == []


@pytest.mark.parametrize("page", PAGES[:2])
def test_every_control_works_on_a_phone_that_lost_its_network(page: str, site_url: str, browser: Browser) -> None:
    resize(browser, 390)
    try:
        browser.open(f"{site_url}/{page}.html")
        browser.script("localStorage.clear()")
        browser.open(f"{site_url}/{page}.html")
        offline(browser, True)
        assert operated(browser)["dead"] == []
    finally:
        offline(browser, False)
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_full_screen_is_entered_and_left(site: Path, browser: Browser) -> None:
    browser.open((site / f"{PAGES[1]}.html").as_uri())
    (button,) = browser.all(".btn-fullscreen-button")
    button.click()
    browser.wait(lambda: browser.script("return document.fullscreenElement !== null"), "the full screen")
    browser.script("return document.exitFullscreen()")


def test_a_dead_control_is_seen(tmp_path: Path, browser: Browser) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<button>dead</button><button onclick=\"this.textContent = 'changed'\">alive</button>"
        "<input type=range max=100 aria-label=level><details><summary>more</summary>text</details>"
    )
    browser.driver.get(page.as_uri())
    assert operated(browser) == {
        "dead": ["button dead", "input level"],
        "tried": ["button dead", "button alive", "input level", "summary more"],
    }
