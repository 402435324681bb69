"""What a page may load and run is what the build put there; everything else is refused by its policy."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Browser, serve
from pages import GENERATED, ROOT, table_of_contents
from selenium.webdriver.common.keys import Keys

PAGES = [*table_of_contents(), *GENERATED]
META = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')
WATCH = """
window.refused = [];
document.addEventListener("securitypolicyviolation",
    event => window.refused.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile}`));
"""
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="without npm the pages load from a CDN")


def policy_of(site: Path, page: str) -> dict[str, list[str]]:
    """Return the sources of each directive."""
    text = (site / f"{page}.html").read_text(encoding="utf-8")
    (policy,) = META.findall(text)
    assert text.index("http-equiv") < min(text.index("<script"), text.index("<link")), "the policy comes first"
    directives = (directive.split() for directive in policy.replace("&#x27;", "'").split(";"))
    return {name: sources for name, *sources in directives}


@pytest.fixture
def watched(browser: Browser) -> Iterator[Browser]:
    """Return the browser, whose pages keep what they refused."""
    added = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    yield browser
    browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a script and a picture from another origin."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "evil.js").write_text("window.hacked = true;")
    shutil.copyfile(ROOT / "book/_static/logo.svg", folder / "evil.svg")
    with serve(folder) as address:
        yield address


@needs_npm
@pytest.mark.parametrize("page", PAGES)
def test_the_policy_names_no_other_host_and_no_way_around(page: str, site: Path) -> None:
    policy = policy_of(site, page)
    assert policy["default-src"] == ["'none'"]
    assert not {"'unsafe-inline'", "'unsafe-eval'", "data:", "*"} & set(policy["script-src"])
    assert not {"object-src", "frame-src"} & set(policy), "default-src rules them out"
    assert policy["base-uri"] == policy["form-action"] == ["'self'"]
    sources = {source for named in policy.values() for source in named if not source.startswith("'sha256-")}
    assert [source for source in sources if "//" in source or "*" in source] == []


@pytest.mark.browser
@needs_npm
@pytest.mark.parametrize("page", PAGES)
def test_nothing_of_the_page_itself_is_refused(page: str, site: Path, site_url: str, watched: Browser) -> None:
    for base in (site_url, site.as_uri()):
        watched.open(f"{base}/{page}.html")
        for slider in watched.all("[role=slider]"):
            watched.press(slider, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
        for control in watched.all(".accel-quiz :is(input[type=radio], button), summary, .theme-switch-button"):
            watched.script("arguments[0].click()", control)
        watched.wait(lambda: watched.script("return document.fonts.status") == "loaded", "the fonts")
        assert watched.script("return window.refused") == []
        assert [error for error in watched.errors() if "Content Security Policy" in error] == []


@pytest.mark.browser
@needs_npm
@pytest.mark.parametrize("from_folder", [False, True])
def test_the_search_finds_under_the_policy(from_folder: bool, site: Path, site_url: str, watched: Browser) -> None:
    base = site.as_uri() if from_folder else site_url
    watched.open(f"{base}/search.html?q=roofline")
    watched.wait(lambda: watched.all("#search-results li"), "results")
    if not from_folder:  # then it reads the pages that it found, and shows a piece of each
        watched.wait(lambda: watched.all("#search-results li .context"), "a piece of a page")
    assert watched.script("return window.refused") == []


@pytest.mark.browser
@needs_npm
@pytest.mark.parametrize("from_folder", [False, True])
def test_what_is_injected_is_refused(
    from_folder: bool, site: Path, site_url: str, watched: Browser, elsewhere: str
) -> None:
    watched.open(f"{site.as_uri() if from_folder else site_url}/{PAGES[0]}.html")
    outcome = watched.driver.execute_async_script(
        """
        const [host, done] = arguments, main = document.querySelector("main");
        const outcome = {};
        const loaded = (name, element, attribute, address) => new Promise(resolve => {
            element.onload = () => resolve(outcome[name] = "loaded");
            element.onerror = () => resolve(outcome[name] = "refused");
            element[attribute] = address;
            main.append(element);
        });
        const inline = document.createElement("script");
        inline.textContent = "window.hacked = true";
        main.append(inline);
        main.insertAdjacentHTML("beforeend", '<img src="data:," onerror="window.hacked = true">');
        // Later, because the browser lets what its driver runs make code from text.
        setTimeout(() => {
            try { new Function("window.hacked = true")(); } catch (error) { outcome.text = error.name; }
        });
        Promise.all([
            loaded("script", document.createElement("script"), "src", host + "/evil.js"),
            loaded("image", new Image(), "src", host + "/evil.svg"),
            fetch(host + "/evil.svg", {mode: "no-cors"}).then(
                () => outcome.fetch = "loaded", () => outcome.fetch = "refused"),
        ]).then(() => setTimeout(() => done({...outcome, hacked: Boolean(window.hacked)}), 300));
        """,
        elsewhere,
    )
    assert outcome == {
        "text": "EvalError", "script": "refused", "image": "refused", "fetch": "refused", "hacked": False,
    }  # fmt: skip
    refused = watched.script("return window.refused.map(line => line.split(' ')[0])")
    assert {"script-src-elem", "script-src-attr", "img-src", "connect-src"} <= set(refused)
