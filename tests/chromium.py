"""A headless Chromium that reports what a page requests and complains of, and a server for the built site."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Pages that were left would be kept, and go on working.
    "--disable-features=BackForwardCache",
    "--no-first-run",
    "--hide-scrollbars",
    "--window-size=1400,1600",
)
WIDGET_VIEW = 'script[type="application/vnd.jupyter.widget-view+json"]'


def find_chromium() -> tuple[str, str] | None:
    """Return the paths of a Chromium and of its driver, or None if either is missing."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


@dataclass(frozen=True)
class Request:
    """One request of a page, and why it failed if it did."""

    url: str
    failure: str | None

    @property
    def is_local(self) -> bool:
        """Whether it stayed on this machine."""
        return self.url.startswith(("http://127.0.0.1:", "data:", "blob:", "chrome:", "about:"))


class Browser:
    """A Chromium driven by selenium."""

    def __init__(self, chromium: str, chromedriver: str, *flags: str) -> None:
        self.profile = tempfile.mkdtemp(prefix="accel-chromium-")
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in (*FLAGS, *flags, f"--user-data-dir={self.profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(chromedriver), options=options)

    def close(self) -> None:
        """End the browser and remove its profile."""
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)

    def open(self, url: str) -> None:
        """Load a page with empty logs, and wait until its widgets, if any, are drawn."""
        self.driver.get("about:blank")
        for kind in ("performance", "browser"):
            self.driver.get_log(kind)
        self.driver.get(url)
        self.wait(lambda: self.script("return document.readyState") == "complete", "the page to load")
        views = len(self.all(WIDGET_VIEW))
        self.wait(lambda: len(self.all(".jupyter-widgets-view > *, .widget-subarea > *")) >= views, "the widgets")

    def script(self, code: str, *arguments: Any) -> Any:
        """Run JavaScript in the page and return its result."""
        return self.driver.execute_script(code, *arguments)

    def all(self, selector: str) -> list[WebElement]:
        """Return the elements that a CSS selector names."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def wait(self, condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
        """Wait until `condition()` is true and return its value; fail naming `what` otherwise."""
        return WebDriverWait(self.driver, seconds, poll_frequency=0.1).until(
            lambda _: condition(), f"waited {seconds:g} s in vain for {what} on {self.driver.current_url}"
        )

    def press(self, element: WebElement, *keys: str) -> None:
        """Focus an element, as the Tab key would, and press keys."""
        self.script("arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", element)
        element.send_keys(*keys)

    def requests(self) -> list[Request]:
        """Return what was requested since the page was opened."""
        urls: dict[str, str] = {}
        failures: dict[str, str] = {}
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            parameters = message["params"]
            if message["method"] == "Network.requestWillBeSent":
                urls[parameters["requestId"]] = parameters["request"]["url"]
            elif message["method"] == "Network.loadingFailed" and parameters["errorText"] != "net::ERR_ABORTED":
                # (aborted by the page itself, which was left or found that it needs no such font after all)
                failures[parameters["requestId"]] = parameters["errorText"]
            elif message["method"] == "Network.responseReceived" and parameters["response"]["status"] >= 400:
                failures[parameters["requestId"]] = str(parameters["response"]["status"])
        return [Request(url, failures.get(key)) for key, url in urls.items()]

    def errors(self) -> list[str]:
        """Return the console's errors since the page was opened."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def displayed_figures(self, slider: WebElement) -> list[str]:
        """Return the figures shown in the output of the cell that `slider` stands in."""
        return self.script(
            """
            const output = arguments[0].closest(".cell_output, .jp-OutputArea-output, .jp-Cell-outputArea");
            return [...output.querySelectorAll('svg[role="img"], img, canvas')]
                .filter(figure => figure.checkVisibility() && figure.getBoundingClientRect().height > 10)
                .map(figure => figure.outerHTML);
            """,
            slider,
        )


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line on the terminal for each."""

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback, at a free port, and give its address."""
    handler = functools.partial(QuietHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
