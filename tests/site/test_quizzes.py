"""Questions and guesses work in the built page: no kernel, no network, by keyboard, and the answer is remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chromium import Browser
from pages import pages_with, read_html, widget_state
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.browser
PAGES = pages_with("quiz.")
GUESSING = pages_with("quiz.guess(")


def questions(site: Path, page: str, kind: str) -> list[dict[str, Any]]:
    """Return what the page asks, from its widget state."""
    states = [model["state"] for model in widget_state(read_html(site, page)).values()]
    return [state["data"] for state in states if state.get("data", {}).get("kind") == kind]


def opened(browser: Browser, address: str) -> None:
    """Open a page as if for the first time, and wait for its questions."""
    browser.open(address)
    browser.script("localStorage.clear()")
    browser.open(address)
    browser.wait(lambda: browser.all(".accel-quiz"), "questions")


def said(browser: Browser, box: Any) -> str:
    return str(browser.script("return arguments[0].querySelector('.accel-quiz-said').innerText", box))


def boxes(browser: Browser, kind: str) -> dict[str, Any]:
    """Return the boxes of one kind of question by what they ask."""
    found = browser.all(f".accel-quiz-{kind}")
    return {str(browser.script("return arguments[0].querySelector('legend').textContent", box)): box for box in found}


@pytest.mark.parametrize("page", PAGES)
def test_every_option_of_every_choice_has_its_feedback(page: str, site: Path, site_url: str, browser: Browser) -> None:
    asked = questions(site, page, "choice")
    opened(browser, f"{site_url}/{page}.html")
    found = boxes(browser, "choice")
    for question in asked:
        box = found[question["question"]]
        radios = box.find_elements("css selector", "input[type=radio]")
        for radio, option in zip(radios, question["options"], strict=True):
            browser.script("arguments[0].click()", radio)
            text = said(browser, box)
            assert text.startswith("Right." if option["right"] else "Not quite.")
            assert " ".join(option["feedback"].split()) in " ".join(text.split())


@pytest.mark.parametrize("page", PAGES)
def test_numbers_are_judged_within_their_tolerance(page: str, site: Path, site_url: str, browser: Browser) -> None:
    asked = questions(site, page, "number")
    opened(browser, f"{site_url}/{page}.html")
    found = boxes(browser, "number")
    for question in asked:
        box = found[question["question"]]
        field = box.find_element("css selector", "input")
        trials = [
            (str(question["answer"]), "Right."),
            (str(question["answer"] * (1 + 3 * question["tolerance"]) + 1), "Not quite."),
            ("much", "That is not a number."),
            *((str(known["value"]), "Not quite.") for known in question["mistakes"]),
        ]
        for text, verdict in trials:
            field.clear()
            browser.press(field, text, Keys.ENTER)
            assert said(browser, box).startswith(verdict), (question["question"], text)


@pytest.mark.parametrize("page", GUESSING)
def test_a_guess_comes_before_its_answer(page: str, site: Path, site_url: str, browser: Browser) -> None:
    opened(browser, f"{site_url}/{page}.html")
    hidden = browser.all(".cell.tag_after-guess[hidden]")
    assert hidden, "something waits for the guess"
    found = boxes(browser, "guess")
    for question in questions(site, page, "guess"):
        assert "outcome" in question, "a guess without an answer"
        box = found[question["question"]]
        assert said(browser, box) == ""
        slider = box.find_element("css selector", "input[type=range]")
        before = slider.get_attribute("aria-valuetext")
        browser.press(slider, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        assert slider.get_attribute("aria-valuetext") != before
        browser.script("arguments[0].click()", box.find_element("css selector", "button"))
        text = said(browser, box)
        assert "You guessed" in text
        assert "Measured" in text
    assert not browser.all(".cell.tag_after-guess[hidden]")


@pytest.mark.parametrize("page", GUESSING[:1])
def test_a_guess_is_remembered_and_may_be_skipped(page: str, site_url: str, browser: Browser) -> None:
    opened(browser, f"{site_url}/{page}.html")
    box = browser.all(".accel-quiz-guess")[0]
    browser.script("arguments[0].click()", box.find_elements("css selector", "button")[1])
    assert "You guessed" not in said(browser, box)
    browser.open(f"{site_url}/{page}.html")
    browser.wait(lambda: browser.all(".accel-quiz-guess"), "questions")
    assert "Measured" in said(browser, browser.all(".accel-quiz-guess")[0])
    assert not browser.all(".cell.tag_after-guess[hidden]")


@pytest.mark.parametrize("page", PAGES)
def test_questions_have_names_for_screen_readers(page: str, site_url: str, browser: Browser) -> None:
    opened(browser, f"{site_url}/{page}.html")
    unnamed = browser.script(
        "return [...document.querySelectorAll('.accel-quiz input:not([type=radio])')]"
        ".filter(field => !field.getAttribute('aria-label')).length"
    )
    assert unnamed == 0
    assert browser.script("return document.querySelectorAll('.accel-quiz fieldset > legend').length") == len(
        browser.all(".accel-quiz")
    )
