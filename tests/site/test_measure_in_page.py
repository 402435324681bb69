"""The page that measures its reader's machine: in a worker, from any address, with nothing sent and nothing frozen."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser, find_chromium
from pages import ROOT, read_html
from selenium.webdriver.common.keys import Keys

from accel import browser as browser_module

pytestmark = pytest.mark.browser
PAGE = "book/measure"
KEPT_UNDER = "accel-browser-memory"
SECONDS = 150
SIZES = [2**k for k in range(12, 28)]
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' blob: 'wasm-unsafe-eval'; worker-src blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:"
)
WATCH = """
window.gaps = [];
let last = performance.now();
(function next() {
  const now = performance.now();
  window.gaps.push(now - last);
  last = now;
  requestAnimationFrame(next);
})();
"""


def opened(browser: Browser, address: str, kept: str | None = None) -> None:
    """Open the page as a reader who guessed; with what an earlier visit may have left."""
    browser.open(address)
    browser.script(
        "localStorage.clear(); if (arguments[1] !== null) localStorage.setItem(...arguments)", KEPT_UNDER, kept
    )
    browser.open(address)
    browser.wait(lambda: browser.all(".accel-browser button"), "the button")
    skip = browser.all(".accel-quiz-guess button")[1]
    browser.script("arguments[0].click()", skip)
    browser.wait(lambda: button(browser, "Measure") is not None, "the button to be seen")


def button(browser: Browser, text: str) -> Any:
    """Return the button that is shown and begins with a text, or None."""
    shown = [found for found in browser.all(".accel-browser button") if found.is_displayed()]
    return next((found for found in shown if found.text.startswith(text)), None)


def said(browser: Browser) -> str:
    return str(browser.script("return document.querySelector('.accel-browser-said').textContent"))


def kept(browser: Browser) -> Any:
    return json.loads(browser.script("return localStorage.getItem(arguments[0])", KEPT_UNDER) or "null")


def measure(browser: Browser) -> Any:
    """Press the button, wait, and return what was kept."""
    browser.press(button(browser, "Measure"), Keys.ENTER)
    assert said(browser).startswith("Measuring")
    browser.wait(lambda: not said(browser).startswith(("Measuring", "Paused")), "the end of the measurement", SECONDS)
    assert said(browser) == "Done."
    return kept(browser)


def late_frame(browser: Browser) -> float:
    """Return the time in ms within which 95 % of the frames follow the one before."""
    gaps = sorted(browser.script("return window.gaps"))
    return float(gaps[int(0.95 * len(gaps))])


def share(browser: Browser) -> float:
    return float(browser.script("return document.querySelector('.accel-browser progress').value"))


@pytest.fixture(scope="module")
def address(site_url: str) -> str:
    return f"{site_url}/{PAGE}.html"


def test_it_measures_without_freezing_the_page_or_asking_anyone(address: str, browser: Browser) -> None:
    opened(browser, address)
    asked = len([request for request in browser.requests() if not request.is_local])
    browser.script(WATCH)
    browser.script("return new Promise(done => setTimeout(done, 2000))")
    idle = late_frame(browser)  # other work on this machine makes frames late as well
    browser.script("window.gaps = []")
    result = measure(browser)
    assert len(browser.script("return window.gaps")) > 50
    assert late_frame(browser) < max(100, 3 * idle), "the page could not draw"
    assert max(browser.script("return window.gaps")) < 5000, "a measurement in the page itself would take 7 s"
    later = [request for request in browser.requests() if not request.is_local]
    assert (asked, later) == (0, [])
    rows = result["rows"]
    assert [row["bytes"] for row in rows] == SIZES
    values = [row[name] for row in rows for name in ("nanoseconds", "gigabytes_per_second")]
    assert all(0 < value < 1e5 for value in values)
    assert rows[-1]["nanoseconds"] > 2 * rows[0]["nanoseconds"]
    assert result["sample_ms"] >= 4
    assert 0 < result["resolution_ms"] < result["sample_ms"]
    assert result["method"] == "WebAssembly"


def test_what_was_measured_is_shown_told_and_remembered(address: str, browser: Browser) -> None:
    opened(browser, address)
    rows = measure(browser)["rows"]
    browser.open(address)
    browser.wait(lambda: button(browser, "Measure again"), "the button")
    text = browser.script("return document.querySelector('.accel-browser').textContent").replace("\xa0", " ")
    assert "In your browser an access takes about" in text
    assert "On the book's machine" in text
    assert "Last measured on" in text
    assert "The clock of this page moves in steps of" in text
    cells = browser.script(
        "return [...document.querySelectorAll('.accel-browser tbody tr')]"
        ".map(row => [...row.cells].map(cell => cell.textContent))"
    )
    assert len(cells) == len(rows)
    for (size, waits, reads), row in zip(cells, rows, strict=True):
        assert size.replace("\xa0", " ").endswith((" KB", " MB"))
        assert float(waits) == pytest.approx(row["nanoseconds"], rel=0.01)
        assert float(reads) == pytest.approx(row["gigabytes_per_second"], rel=0.01)
    for figure in browser.all(".accel-browser svg"):
        alt = figure.get_attribute("aria-label").replace("\xa0", " ")
        assert "your browser: 4 KB" in alt
        assert "the book's machine: " in alt
    assert len(browser.all(".accel-browser circle.accel-browser-yours")) == 2 * (len(rows) + 1)  # and one in each key
    browser.press(button(browser, "Forget"), Keys.ENTER)
    assert kept(browser) is None
    assert button(browser, "Forget") is None
    assert browser.script("return document.activeElement.textContent") == "Measure this machine"


def test_it_can_be_cancelled_at_any_moment_and_begun_again(address: str, browser: Browser) -> None:
    opened(browser, address)
    for least in (0, 0.05, 0.2):
        browser.press(button(browser, "Measure"), Keys.SPACE)
        browser.wait(lambda least=least: share(browser) >= least, "progress", SECONDS)
        assert browser.script("return document.activeElement.textContent") == "Cancel"
        browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
        assert said(browser).startswith("Cancelled")
        assert kept(browser) is None
        assert browser.script("return document.activeElement.textContent") == "Measure this machine"
    before = share(browser)
    browser.script("return new Promise(done => setTimeout(done, 300))")
    assert share(browser) == before, "a cancelled worker must be silent"


def test_it_pauses_while_the_tab_is_hidden(address: str, browser: Browser) -> None:
    opened(browser, address)
    browser.press(button(browser, "Measure"), Keys.ENTER)
    browser.wait(lambda: share(browser) > 0.15, "progress", SECONDS)
    browser.driver.minimize_window()
    browser.wait(lambda: browser.script("return document.hidden"), "the tab to be hidden")
    browser.wait(lambda: said(browser).startswith("Paused"), "the pause to be said")
    browser.script("return new Promise(done => setTimeout(done, 500))")  # the sample under way
    before = share(browser)
    browser.script("return new Promise(done => setTimeout(done, 500))")
    assert share(browser) == before
    browser.driver.set_window_rect(0, 0, 1400, 1600)
    browser.wait(lambda: not browser.script("return document.hidden"), "the tab to be seen")
    browser.wait(lambda: share(browser) > before, "it to go on", SECONDS)
    button(browser, "Cancel").click()


GOOD = {
    "taken_at": "2026-01-02T03:04:05Z",
    "method": "WebAssembly",
    "reason": "",
    "resolution_ms": 0.1,
    "sample_ms": 6.4,
    "cross_origin_isolated": False,
    "passes": 9,
    "rows": [
        {"bytes": 4096, "nanoseconds": 1.5, "gigabytes_per_second": 90},
        {"bytes": 1 << 27, "nanoseconds": 150, "gigabytes_per_second": 9},
    ],
}
ROW = GOOD["rows"][0]  # type: ignore[index]
HOSTILE = [
    "{",
    "null",
    "[]",
    '"<img src=x onerror=alert(1)>"',
    json.dumps({"rows": []}),
    json.dumps({"rows": None}),
    json.dumps({**GOOD, "taken_at": "<img src=x onerror=window.hit=1>"}),
    json.dumps({**GOOD, "method": "<b>WebAssembly</b>"}),
    json.dumps({**GOOD, "reason": "x" * 10_000}),
    json.dumps({**GOOD, "passes": "9"}),
    json.dumps({**GOOD, "rows": [ROW] * 2}),
    json.dumps({**GOOD, "rows": [ROW, None]}),
    json.dumps({**GOOD, "rows": [ROW, {**ROW, "bytes": 8192, "nanoseconds": "<svg onload=window.hit=1>"}]}),
    json.dumps({**GOOD, "rows": [ROW, {**ROW, "bytes": 8192, "nanoseconds": -1}]}),
    json.dumps({**GOOD, "rows": [{**ROW, "bytes": 4096 + k} for k in range(1000)]}),
    json.dumps({**GOOD, "__proto__": {"rows": []}, "resolution_ms": None}),
]


def test_it_works_from_a_file_and_its_results_can_be_downloaded(site: Path, browser: Browser, tmp_path: Path) -> None:
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    opened(browser, (site / f"{PAGE}.html").as_uri())
    result = measure(browser)
    browser.press(button(browser, "Download JSON"), Keys.ENTER)
    browser.press(button(browser, "Download CSV"), Keys.ENTER)
    json_file, csv_file = (tmp_path / f"memory-in-browser.{kind}" for kind in ("json", "csv"))
    browser.wait(lambda: json_file.exists() and csv_file.exists(), "the downloads")
    assert json.loads(json_file.read_text()) == result
    head, *lines = csv_file.read_text().splitlines()
    assert head == "working_set_bytes,latency_nanoseconds,read_gigabytes_per_second"
    assert [[float(cell) for cell in line.split(",")] for line in lines] == [
        list(row.values()) for row in result["rows"]
    ]


def alone(folder: Path, policy: str, *, streams: bool = True) -> str:
    """Write a page that holds nothing but the widget, under a Content-Security-Policy, and return its address.

    What runs widgets in the site's pages needs more rights than the widget: so it is not in this page.
    """
    widget = browser_module.memory()
    state = {"worker": widget.worker, "streams": widget.streams if streams else "", "book": widget.book}
    page = folder / "alone.html"
    page.write_text(
        f"""<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">
        <div id="here"></div><script>
        const state = {json.dumps(state).replace("<", chr(92) + "u003c")};
        const code = {json.dumps(widget._esm).replace("<", chr(92) + "u003c")};
        const model = {{get: name => state[name], set: (name, value) => state[name] = value, save_changes() {{}}}};
        import(URL.createObjectURL(new Blob([code], {{type: "text/javascript"}})))
            .then(module => module.default.render({{model, el: document.getElementById("here")}}));
        </script>""",
        encoding="utf-8",
    )
    return page.as_uri()


def opened_alone(browser: Browser, address: str, kept: str | None = None) -> None:
    """Open the widget's own page, with what an earlier visit may have left."""
    browser.open(address)
    browser.script(
        "localStorage.clear(); if (arguments[1] !== null) localStorage.setItem(...arguments)", KEPT_UNDER, kept
    )
    browser.open(address)
    browser.wait(lambda: button(browser, "Measure"), "the button")


def test_what_an_earlier_visit_left_is_believed_only_if_it_is_a_result(tmp_path: Path, browser: Browser) -> None:
    address = alone(tmp_path, POLICY)
    opened_alone(browser, address, json.dumps(GOOD))
    assert button(browser, "Measure again")
    for content in HOSTILE:
        opened_alone(browser, address, content)
        assert button(browser, "Measure this machine"), content[:80]
        assert button(browser, "Forget") is None
        assert browser.script("return window.hit === undefined")
    reason = "<img src=x onerror=window.hit=1>"
    opened_alone(browser, address, json.dumps({**GOOD, "method": "JavaScript", "reason": reason}))
    assert reason in browser.script("return document.querySelector('.accel-browser').textContent")
    assert browser.script("return window.hit === undefined && !document.querySelector('.accel-browser img')")


@pytest.mark.parametrize(
    ("policy", "method"), [(POLICY, "WebAssembly"), (POLICY.replace("'wasm-unsafe-eval'", ""), "JavaScript")]
)
def test_it_works_under_a_content_security_policy(policy: str, method: str, tmp_path: Path, browser: Browser) -> None:
    opened_alone(browser, alone(tmp_path, policy))
    result = measure(browser)
    assert result["method"] == method
    text = browser.script("return document.querySelector('.accel-browser').textContent")
    assert ("does not run the WebAssembly part" in text) == (method == "JavaScript")
    assert result["rows"][-1]["nanoseconds"] > 2 * result["rows"][0]["nanoseconds"]


def test_a_page_without_its_assembled_part_says_how_to_get_it(tmp_path: Path, browser: Browser) -> None:
    opened_alone(browser, alone(tmp_path, POLICY, streams=False))
    assert "npm (nodejs.org)" in said(browser)
    assert "make lab" in said(browser)
    result = measure(browser)
    assert result["method"] == "JavaScript"
    assert "npm (nodejs.org)" in browser.script("return document.querySelector('.accel-browser').textContent")


def test_a_page_that_may_not_start_a_worker_says_so(tmp_path: Path, browser: Browser) -> None:
    opened_alone(browser, alone(tmp_path, POLICY.replace("worker-src blob:", "worker-src 'none'")))
    browser.press(button(browser, "Measure"), Keys.ENTER)
    browser.wait(lambda: said(browser).startswith("It could not be measured"), "the reason")
    assert button(browser, "Measure this machine")


@pytest.fixture
def small_browser() -> Iterator[Browser]:
    """Return a Chromium whose WebAssembly memories hold 8 MB at most, as on a small phone."""
    found = find_chromium()
    if found is None:
        pytest.skip("no chromium with chromedriver on this machine")
    small = Browser(*found, "--js-flags=--wasm-max-mem-pages=128")
    yield small
    small.close()


def test_with_little_memory_it_measures_less_and_says_so(address: str, small_browser: Browser) -> None:
    opened(small_browser, address)
    rows = measure(small_browser)["rows"]
    assert [row["bytes"] for row in rows] == [size for size in SIZES if size <= 8 << 20]
    text = small_browser.script("return document.querySelector('.accel-browser').textContent").replace("\xa0", " ")
    assert "no more than 8 MB of memory for it in one piece" in text


def test_controls_have_names_and_show_where_the_focus_is(address: str, browser: Browser) -> None:
    opened(browser, address, json.dumps(GOOD))
    assert browser.all(".accel-browser progress[aria-label]")
    assert browser.all(".accel-browser [role=status]")
    assert browser.all(".accel-browser table caption")
    assert len(browser.all(".accel-browser thead th[scope=col]")) == 3
    for control in browser.all(".accel-browser button, .accel-browser summary"):
        if control.is_displayed():
            browser.press(control, Keys.SHIFT)  # as by keyboard
            assert browser.script("return getComputedStyle(arguments[0]).outlineStyle", control) == "solid"
            assert control.text
            assert control.rect["height"] >= 30


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_and_can_be_read_in_both_themes(width: int, theme: str, address: str, browser: Browser) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        opened(browser, address, json.dumps(GOOD))
        browser.script("document.documentElement.dataset.theme = arguments[0]", theme)
        assert browser.script("return document.documentElement.scrollWidth") <= width
        ground = browser.script("return getComputedStyle(document.body).backgroundColor")
        for figure in browser.all(".accel-browser svg"):
            assert figure.rect["width"] >= 300
            assert browser.script("return getComputedStyle(arguments[0]).color", figure) != ground
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


LEVELS = """
const done = arguments[arguments.length - 1];
const code = [arguments[0], "\\nexport { tellLevels, nanoseconds };"];
const address = URL.createObjectURL(new Blob(code, {type: "text/javascript"}));
import(address).then(({ tellLevels, nanoseconds }) => done(tellLevels(arguments[1], nanoseconds)));
"""


@pytest.mark.parametrize(
    ("nanoseconds", "told"),
    [
        (
            [1.4] * 4 + [4.1] * 5 + [15] * 4 + [40, 95, 110],
            "about 1.40 ns up to 32 KB, 4.10 ns up to 1 MB, 15.0 ns up to 16 MB, and 110 ns from 64 MB on",
        ),
        ([1.4, 2.3, 1.35, 1.4] + [4.1] * 12, "about 1.35 ns up to 32 KB, and 4.10 ns from 64 KB on"),
        ([2.0] * 16, "about 2.00 ns up to 128 MB"),
    ],
)
def test_steps_of_a_curve_are_found(nanoseconds: list[float], told: str, tmp_path: Path, browser: Browser) -> None:
    browser.open(alone(tmp_path, POLICY))
    code = (ROOT / "accel" / "browser" / "report.js").read_text(encoding="utf-8")
    curve = [list(pair) for pair in zip(SIZES, nanoseconds, strict=True)]
    assert browser.driver.execute_async_script(LEVELS, code, curve).replace("\xa0", " ") == told


def test_the_page_carries_what_it_needs_and_no_more(site: Path) -> None:
    text = (site / f"{PAGE}.html").read_text(encoding="utf-8")
    script = read_html(site, PAGE).find("script", type="application/vnd.jupyter.widget-state+json")
    assert script is not None
    assert len(str(script.string)) < 100_000
    states = [model["state"] for model in json.loads(str(script.string))["state"].values()]
    (state,) = [found for found in states if "streams" in found]
    assert base64.b64decode(state["streams"]).startswith(b"\0asm")
    assert "noscript" in text


@pytest.mark.speed
def test_the_browser_sees_the_memory_that_compiled_code_sees(address: str, browser: Browser) -> None:
    from accel import access, this_machine
    from accel.kernels.compiled import streams
    from accel.measurement import measure_calls
    from accel.probes import aligned

    opened(browser, address)
    mine = {row["bytes"]: row for row in measure(browser)["rows"]}
    waits = access.latency(SIZES, machine=this_machine(), seconds=0.1)
    native = dict(zip(SIZES, waits.seconds_per_access, strict=True))
    for size in (4096, 16384, 1 << 27):
        assert 1 / 3 < mine[size]["nanoseconds"] / (native[size] * 1e9) < 3
    arena = aligned((1 << 18) // 4)
    for size in (16384, 1 << 18):
        part = arena[: size // 4]
        repeats = (1 << 22) // size
        took = measure_calls({size: lambda part=part, repeats=repeats: streams.load(part, part, repeats)}, seconds=0.3)
        rate = size * repeats / took[size].best_seconds / 1e9
        assert 0.2 < mine[size]["gigabytes_per_second"] / rate < 1.2
