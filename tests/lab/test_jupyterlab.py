"""With a kernel, sliders measure afresh, questions answer and widgets work: a real JupyterLab, driven by keyboard."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser
from jupyter_client import BlockingKernelClient
from pages import ROOT, chapters
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from accel.browser import STREAMS

pytestmark = [pytest.mark.browser, pytest.mark.lab]
TOKEN = "only-on-loopback"
CHAPTER_SECONDS = 240


def lab_command() -> list[str]:
    """Return the command that `make lab` runs, for the environment that the tests run in."""
    spec = importlib.util.spec_from_file_location("build", ROOT / "book" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    return build.lab_command(Path(sys.executable), Path(sys.prefix))


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(url: str) -> bool:
    """Return whether a server is there."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def draw_all_cells(settings: Path) -> None:
    """Make JupyterLab draw cells that are scrolled out of sight too, so that the browser finds them."""
    tracker = settings / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    tracker.parent.mkdir(parents=True)
    tracker.write_text(json.dumps({"windowingMode": "none"}))


@pytest.fixture
def lab_url(browser: Browser, tmp_path: Path) -> Iterator[str]:
    """Start JupyterLab on a copy of the chapters (it saves what it opens), with settings of its own."""
    shutil.copytree(ROOT / "book", tmp_path / "book", ignore=shutil.ignore_patterns("vendor"))
    port = free_port()
    options = ["--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1", f"--IdentityProvider.token={TOKEN}"]
    folders = ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")
    environment = os.environ | {name: str(tmp_path / name.lower()) for name in folders}
    draw_all_cells(Path(environment["JUPYTERLAB_SETTINGS_DIR"]))
    with (tmp_path / "lab.log").open("w") as log:
        server = subprocess.Popen(
            [*lab_command(), *options], cwd=tmp_path, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            url = f"http://127.0.0.1:{port}"
            browser.wait(lambda: server.poll() is not None or answers(f"{url}/api/status?token={TOKEN}"), "JupyterLab")
            assert server.poll() is None, (tmp_path / "lab.log").read_text()
            yield url
        finally:
            server.terminate()
            server.wait(timeout=30)


def choose(browser: Browser, menu: str, item: str) -> None:
    """Choose an entry of JupyterLab's menu bar."""

    def labeled(selector: str, text: str) -> bool:
        for element in browser.all(selector):
            if element.text.strip().startswith(text):
                element.click()
                return True
        return False

    browser.wait(lambda: labeled(".lm-MenuBar-item", menu), f"the menu {menu}")
    browser.wait(lambda: labeled(".lm-Menu-item", item), f"the entry {item}")


def caption(browser: Browser) -> str:
    """Return the line below the explorer's figure that says where it was measured."""
    return browser.script(
        """
        const notes = [...document.querySelectorAll(".jp-OutputArea .accel-frame-note")];
        const shown = notes.find(note => note.checkVisibility());
        return shown ? shown.textContent : "";
        """
    )


def run_all(browser: Browser, lab_url: str, page: str) -> None:
    """Open a page as a notebook and run its cells."""
    browser.open(f"{lab_url}/lab/tree/{page}.md?token={TOKEN}&reset")
    browser.wait(lambda: browser.all(".jp-Notebook .jp-CodeCell"), "the page, opened as a notebook", 60)
    # Before there is a kernel, JupyterLab would ask which one to run the cells with, or run none of them.
    browser.wait(lambda: connected(lab_url), "the kernel")
    browser.wait(lambda: browser.all("[data-status=idle]"), "the kernel to be shown as idle")
    browser.wait(lambda: started(browser), "the cells to run")


def connected(lab_url: str) -> bool:
    """Return whether a kernel is there that has told a page of itself."""
    try:
        with urllib.request.urlopen(f"{lab_url}/api/kernels?token={TOKEN}", timeout=5) as response:
            kernels = json.load(response)
    except urllib.error.HTTPError:  # while one is being started
        return False
    return any(kernel["connections"] and kernel["execution_state"] == "idle" for kernel in kernels)


def started(browser: Browser) -> bool:
    """Choose to run all cells, and return whether a cell runs or has run soon after."""
    choose(browser, "Run", "Run All Cells")
    numbered = (
        "return [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].some(p => /[*0-9]/.test(p.textContent))"
    )
    end = time.monotonic() + 5
    while not (runs := browser.script(numbered)) and time.monotonic() < end:
        time.sleep(0.1)
    return runs


@pytest.mark.timeout(400)
def test_a_slider_measures_afresh_in_jupyterlab(lab_url: str, browser: Browser) -> None:
    if not chapters():
        pytest.skip("the book has no chapter with code yet")
    run_all(browser, lab_url, chapters()[0])
    browser.wait(lambda: caption(browser), "the explorer", CHAPTER_SECONDS)
    browser.wait(lambda: browser.all("[data-status=idle]"), "the end of all cells", CHAPTER_SECONDS)
    assert "recorded" in caption(browser)

    handle = browser.driver.find_element(By.CSS_SELECTOR, ".jp-OutputArea .accel-explorer .noUi-handle")
    figure = browser.displayed_figures(handle)
    at_end = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemax")
    browser.press(handle, Keys.ARROW_LEFT if at_end else Keys.ARROW_RIGHT)
    browser.wait(lambda: "measured here" in caption(browser), "a fresh measurement", 60)
    assert browser.displayed_figures(handle) != figure


@pytest.mark.timeout(400)
def test_questions_answer_in_jupyterlab(lab_url: str, browser: Browser) -> None:
    run_all(browser, lab_url, "book/answers")
    browser.wait(lambda: browser.all(".jp-OutputArea .accel-quiz-choice input"), "a question", CHAPTER_SECONDS)
    radio = browser.all(".jp-OutputArea .accel-quiz-choice input")[0]
    browser.press(radio, Keys.SPACE)
    box = radio.find_element(By.XPATH, "./ancestor::div[contains(@class, 'accel-quiz ')]")
    browser.wait(lambda: box.find_element(By.CLASS_NAME, "accel-quiz-said").text, "feedback")

    field = browser.all(".jp-OutputArea .accel-quiz-number input")[0]
    browser.press(field, "1", Keys.ENTER)
    box = field.find_element(By.XPATH, "./ancestor::div[contains(@class, 'accel-quiz ')]")
    browser.wait(lambda: "Not quite" in box.find_element(By.CLASS_NAME, "accel-quiz-said").text, "feedback")
    assert field.get_attribute("value") == "1", "the notebook took the key"


def control(browser: Browser, name: str) -> WebElement:
    """Return the what-if explorer's control that a label is for."""
    return browser.script(
        "return [...document.querySelectorAll('.jp-OutputArea .accel-what-if label')]"
        ".find((label) => label.textContent.startsWith(arguments[0])).control",
        name,
    )


def shown(browser: Browser, selector: str) -> str:
    """Return the text of the first element of an output that a CSS selector names."""
    return str(browser.script("return document.querySelector(arguments[0]).textContent", f".jp-OutputArea {selector}"))


def cells(browser: Browser) -> int:
    """Return how many cells the notebook has: a key that the notebook took for itself may have made or removed one."""
    return len(browser.all(".jp-Notebook .jp-Cell"))


@pytest.mark.timeout(400)
def test_the_what_if_explorer_answers_in_jupyterlab(lab_url: str, browser: Browser) -> None:
    run_all(browser, lab_url, "book/whatif")
    browser.wait(lambda: browser.all(".jp-OutputArea .accel-what-if svg"), "the explorer", CHAPTER_SECONDS)
    browser.wait(lambda: browser.all("[data-status=idle]"), "the end of all cells", CHAPTER_SECONDS)
    before = cells(browser)
    assert shown(browser, ".wi-title").startswith("DRAM × 4: GELU, textbook is ")

    answer, chart = shown(browser, ".wi-detail"), shown(browser, ".accel-what-if svg")
    browser.press(control(browser, "DRAM bandwidth"), *[Keys.ARROW_RIGHT] * 4)
    assert shown(browser, ".wi-title").startswith("DRAM × 8: GELU, textbook is ")
    assert shown(browser, ".wi-detail") != answer
    assert shown(browser, ".accel-what-if svg") != chart

    browser.press(control(browser, "kernel"), "matrix")
    assert "DRAM × 8: matrix product " in shown(browser, ".wi-title")
    browser.press(control(browser, "size"), *[Keys.ARROW_LEFT] * 3)
    # Letters that are commands to a notebook: insert, delete, cut, to Markdown.
    browser.press(control(browser, "peak arithmetic"), Keys.ARROW_RIGHT, *"abddxm")
    assert "peak × " in shown(browser, ".wi-title")
    assert cells(browser) == before, "the notebook took the keys"
    browser.press(control(browser, "kernel"), "a")
    assert "DRAM × 8: add " in shown(browser, ".wi-title").replace("peak × 1.19, ", "")
    assert cells(browser) == before, "the notebook took the keys"


@pytest.mark.timeout(400)
def test_boxes_exercises_and_formulas_are_drawn_in_jupyterlab(lab_url: str, browser: Browser) -> None:
    browser.open(f"{lab_url}/lab/tree/book/roofline.md?token={TOKEN}&reset")
    browser.wait(lambda: len(browser.all(".jp-Notebook .myst-exercise")) >= 3, "the exercises, which come last")
    boxes = browser.script("return [...document.querySelectorAll('.jp-Notebook aside')].map(box => box.textContent)")
    assert boxes[0].startswith("Before you startYou will learn to count")
    assert any(box.startswith("Exercise 1") for box in boxes)
    hints = browser.script(
        "return [...document.querySelectorAll('.jp-Notebook details')]"
        ".filter(hint => hint.textContent.startsWith('Hint')).map(hint => hint.open)"
    )
    assert hints
    assert not any(hints), "a hint is seen by those who ask for it"
    assert browser.all(".jp-Notebook .katex, .jp-Notebook mjx-container")


def measured(runtime: Path) -> list[dict[str, Any]]:
    """Return what the buttons of a running notebook have told its kernel."""
    (connection,) = runtime.glob("kernel-*.json")
    client = BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        said: list[str] = []
        client.execute_interactive(
            "import gc, json\n"
            "_class = browser._widget_class()\n"
            "print(json.dumps([each.measured for each in gc.get_objects() if isinstance(each, _class)]))",
            store_history=False,
            timeout=60,
            output_hook=lambda message: said.append(message["content"].get("text", "")),
        )
        return json.loads("".join(said))
    finally:
        client.stop_channels()


@pytest.mark.timeout(600)
def test_the_memory_of_the_machine_is_measured_in_jupyterlab(lab_url: str, browser: Browser, tmp_path: Path) -> None:
    run_all(browser, lab_url, "book/measure")
    browser.wait(lambda: browser.all(".jp-OutputArea .accel-browser-begin"), "the button", CHAPTER_SECONDS)
    browser.wait(lambda: browser.all("[data-status=idle]"), "the end of all cells", CHAPTER_SECONDS)
    before = cells(browser)
    begin = browser.all(".jp-OutputArea .accel-browser-begin")[0]

    browser.press(begin, Keys.ENTER)
    assert shown(browser, ".accel-browser-said").startswith("Measuring")
    progress = ".jp-OutputArea .accel-browser progress"
    browser.wait(lambda: browser.script(f"return document.querySelector('{progress}').value") > 0.05, "progress")
    assert browser.script("return document.activeElement.textContent") == "Cancel"
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert shown(browser, ".accel-browser-said").startswith("Cancelled")
    assert measured(tmp_path / "jupyter_runtime_dir") == [{}]

    browser.press(begin, Keys.SPACE)
    browser.wait(lambda: not shown(browser, ".accel-browser-said").startswith("Measuring"), "the end", 150)
    assert shown(browser, ".accel-browser-said") == "Done."
    (result,) = measured(tmp_path / "jupyter_runtime_dir")
    assert result
    assert [row["bytes"] for row in result["rows"]] == [2**k for k in range(12, 28)]
    assert result["rows"][-1]["nanoseconds"] > 2 * result["rows"][0]["nanoseconds"]
    assert result["method"] == ("WebAssembly" if STREAMS.exists() else "JavaScript")
    assert cells(browser) == before, "the notebook took the keys"
