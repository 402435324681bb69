"""What a reader has read is remembered in the browser: shown, exported, imported, forgotten; hostile files are not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser
from pages import pages_with, read_html, table_of_contents

pytestmark = pytest.mark.browser
PAGES = table_of_contents()
COVER, FIRST = PAGES[:2]
PLACE = {"section": "exercises", "title": "Exercises", "share": 0.5, "ended": False, "at": "2026-01-01T00:00:00.000Z"}


@pytest.fixture
def forgetful(browser: Browser, site_url: str) -> Iterator[Browser]:
    """Return the browser with nothing remembered."""
    browser.driver.get(f"{site_url}/{COVER}.html")
    browser.script("localStorage.clear()")
    yield browser
    browser.script("localStorage.clear()")


def visit(browser: Browser, address: str, script: str = "") -> None:
    """Open a page, and run a script in it."""
    browser.driver.get(address)
    browser.wait(lambda: browser.all(".reading-said, .reading-panel"), "the reader's progress")
    if script:
        browser.script(script)


def read_to_the_end(browser: Browser, address: str) -> None:
    visit(browser, address, "window.scrollTo(0, document.body.scrollHeight)")
    name = address.rsplit("/", 1)[-1]
    place = "return (JSON.parse(localStorage.getItem('accel-reading:' + arguments[0])) || {}).ended"
    browser.wait(lambda: browser.script(place, name), "the end to be noted")


def texts(browser: Browser, selector: str) -> list[str]:
    return [str(browser.script("return arguments[0].textContent", element)) for element in browser.all(selector)]


def press_button(browser: Browser, text: str) -> None:
    browser.script(
        "[...document.querySelectorAll('.reading-panel button')].find(b => b.textContent === arguments[0]).click()",
        text,
    )


def choose_file(browser: Browser, path: Path) -> str:
    """Import a file and return what the page says of it."""
    browser.script("document.querySelector('.reading-status').textContent = ''")
    browser.all(".reading-panel input[type=file]")[0].send_keys(str(path))
    browser.wait(lambda: texts(browser, ".reading-status") != [""], "a word on the file")
    return texts(browser, ".reading-status")[0]


def exported(entries: dict[str, Any], **changes: Any) -> str:
    whole = {"format": "under-the-roof-reading", "version": 1, "exported": "2026-01-01T00:00:00Z", "entries": entries}
    return json.dumps(whole | changes)


@pytest.mark.parametrize("origin", ["loopback", "file"])
def test_a_page_read_to_its_end_is_marked(origin: str, site: Path, site_url: str, forgetful: Browser) -> None:
    base = site_url if origin == "loopback" else site.as_uri()
    visit(forgetful, f"{base}/{COVER}.html", "localStorage.clear()")
    read_to_the_end(forgetful, f"{base}/{FIRST}.html")
    visit(forgetful, f"{base}/{COVER}.html")
    assert "✓ read" in texts(forgetful, ".bd-sidebar-primary .reading-mark")
    assert "✓ read" in texts(forgetful, ".page-card .reading-mark")
    assert all(text.startswith(f"1 of {len(PAGES)} pages read") for text in texts(forgetful, ".reading-said"))
    forgetful.script("localStorage.clear()")


def test_the_place_last_read_is_offered(site_url: str, forgetful: Browser) -> None:
    visit(forgetful, f"{site_url}/{FIRST}.html", "document.querySelectorAll('section[id]')[3].scrollIntoView()")
    stored = f"return localStorage.getItem('accel-reading:{FIRST.rsplit('/', 1)[-1]}.html')"
    place = json.loads(forgetful.wait(lambda: forgetful.script(stored), "the place to be noted"))
    visit(forgetful, f"{site_url}/{COVER}.html")
    (link,) = forgetful.all(".reading-next a")
    assert link.get_attribute("href").endswith(f"{FIRST}.html#{place['section']}")
    forgetful.driver.get("about:blank")
    visit(forgetful, f"{site_url}/{FIRST}.html")
    (offer,) = forgetful.all(".reading-continue a")
    forgetful.script("window.scrollTo(0, 0); arguments[0].click()", offer)
    forgetful.wait(lambda: forgetful.script("return window.scrollY") > 300, "the place")


def test_answers_are_counted(site_url: str, forgetful: Browser) -> None:
    page = pages_with("quiz.choice(")[0]
    forgetful.open(f"{site_url}/{page}.html")
    forgetful.script("document.querySelector('.accel-quiz input[type=radio]').click()")
    visit(forgetful, f"{site_url}/{COVER}.html")
    assert "1 question answered" in texts(forgetful, ".reading-panel .reading-said")[0]


def test_export_reset_and_import_come_full_circle(site_url: str, forgetful: Browser, tmp_path: Path) -> None:
    visit(forgetful, f"{site_url}/{COVER}.html")
    forgetful.script(
        "localStorage.setItem('accel-reading:roofline.html', arguments[0]); localStorage.setItem('theme', 'light');"
        "const made = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => (blob.text().then(text => window.saved = text), made(blob))",
        json.dumps(PLACE | {"ended": True}),
    )
    press_button(forgetful, "Export to a file")
    saved = forgetful.wait(lambda: forgetful.script("return window.saved"), "the file")
    assert json.loads(saved)["entries"] == {"accel-reading:roofline.html": PLACE | {"ended": True}}
    press_button(forgetful, "Forget everything")
    assert forgetful.script("return Boolean(localStorage.getItem('accel-reading:roofline.html'))"), "not before a yes"
    press_button(forgetful, "Yes, forget it")
    assert not forgetful.script("return localStorage.getItem('accel-reading:roofline.html')")
    assert forgetful.script("return localStorage.getItem('theme')") == "light", "what is not ours stays"
    file = tmp_path / "mine.json"
    file.write_text(saved)
    assert choose_file(forgetful, file) == "Imported 1 entry."
    assert "✓ read" in texts(forgetful, ".reading-mark")


HOSTILE = {
    "no JSON": "<script>window.hacked = 1</script>",
    "another format": json.dumps({"format": "<img src=x onerror='window.hacked = 1'>"}),
    "a list": exported([]),  # type: ignore[arg-type]
    "a foreign key": exported({"theme": "dark"}),
    "markup in the key": exported({"accel-reading:<img src=x onerror='window.hacked=1'>.html": PLACE}),
    "the prototype": '{"format": "under-the-roof-reading", "version": 1, "entries": {"__proto__": {"a": 1}}}',
    "a place of the wrong type": exported({"accel-reading:roofline.html": PLACE | {"section": ["a"]}}),
    "a share beyond the page": exported({"accel-reading:roofline.html": PLACE | {"share": 1e308}}),
    "a field too many": exported({"accel-reading:roofline.html": PLACE | {"html": "<b>"}}),
    "an answer of the wrong type": exported({"accel-quiz:roofline.html:0123456789ab": {"value": {}, "right": True}}),
    "one good, one bad": exported({"accel-reading:roofline.html": PLACE, "accel-reading:x": PLACE}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_changes_nothing(name: str, site_url: str, forgetful: Browser, tmp_path: Path) -> None:
    visit(forgetful, f"{site_url}/{COVER}.html")
    before = forgetful.script("return JSON.stringify({...localStorage})")
    file = tmp_path / "hostile.json"
    file.write_text(HOSTILE[name])
    assert not choose_file(forgetful, file).startswith("Imported")
    assert forgetful.script("return JSON.stringify({...localStorage})") == before
    assert not forgetful.all(".reading-status *")
    assert not forgetful.script("return window.hacked")


def test_markup_in_a_valid_entry_is_shown_as_text(site_url: str, forgetful: Browser, tmp_path: Path) -> None:
    visit(forgetful, f"{site_url}/{COVER}.html")
    title = "<img src=x onerror='window.hacked = 1'>"
    file = tmp_path / "titled.json"
    name = FIRST.rsplit("/", 1)[-1]
    file.write_text(exported({f"accel-reading:{name}.html": PLACE | {"title": title, "section": '"><script>'}}))
    assert choose_file(forgetful, file) == "Imported 1 entry."
    assert title in texts(forgetful, ".reading-next")[0]
    assert not forgetful.all(".reading-panel :is(img, script)")
    assert not forgetful.script("return window.hacked")


def test_a_file_too_large_is_refused(site_url: str, forgetful: Browser, tmp_path: Path) -> None:
    visit(forgetful, f"{site_url}/{COVER}.html")
    file = tmp_path / "large.json"
    file.write_text(" " * 2_000_000)
    assert "larger" in choose_file(forgetful, file)


def test_where_nothing_can_be_kept_the_page_says_so(site_url: str, forgetful: Browser) -> None:
    blocked = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('blocked'); }})"
    driver = forgetful.driver
    script = driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": blocked})["identifier"]
    try:
        driver.get(f"{site_url}/{COVER}.html")
        panel = forgetful.wait(lambda: texts(forgetful, ".reading-panel"), "a word about it")
        assert "keeps nothing" in panel[0]
        assert not forgetful.all(".reading-panel button, .reading-sum")
    finally:
        driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script})
        driver.get(f"{site_url}/{COVER}.html")


def test_nothing_leaves_the_browser(site_url: str, forgetful: Browser) -> None:
    forgetful.open(f"{site_url}/{FIRST}.html")
    forgetful.requests()
    read_to_the_end(forgetful, f"{site_url}/{FIRST}.html")
    sent = [request.url for request in forgetful.requests() if not request.is_local]
    assert sent == []


@pytest.mark.parametrize("page", PAGES)
def test_pages_lead_to_the_one_before_and_after(page: str, site: Path) -> None:
    at = PAGES.index(page)
    html = read_html(site, page)

    def led(selector: str) -> list[str]:
        return [str((site / page).parent.joinpath(str(link["href"])).resolve()) for link in html.select(selector)]

    def path(name: str) -> str:
        return str((site / f"{name}.html").resolve())

    assert led(".prev-next-area a.left-prev") == [path(name) for name in PAGES[max(at - 1, 0) : at]]
    assert led(".prev-next-area a.right-next") == [path(name) for name in PAGES[at + 1 : at + 2]]


@pytest.mark.parametrize("origin", ["loopback", "file"])
@pytest.mark.parametrize(("word", "page"), [("ridge", "book/roofline"), ("cache", "book/tiling")])
def test_search_finds_words_of_chapters(
    word: str, page: str, origin: str, site: Path, site_url: str, browser: Browser
) -> None:
    base = site_url if origin == "loopback" else site.as_uri()
    browser.driver.get(f"{base}/search.html?q={word}")
    # Results come one after the other, each with a piece of its page.
    browser.wait(lambda: browser.all(f'#search-results li a[href*="{page}.html"]'), f"{page} among the results")
