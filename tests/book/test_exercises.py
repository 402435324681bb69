"""Questions and exercises of the pages: answers stay out of sight, and every worked solution passes its own checker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pages import pages_with, source_of

CELL = re.compile(r"^```\{code-cell\} ipython3\n(?::tags: \[(.*?)\]\n)?(.*?)^```$", re.MULTILINE | re.DOTALL)
CHECK = re.compile(r"\bcheck\.(?!contract)[a-z_]+\(")
ASKS = re.compile(r"\bquiz\.(?:choice|number|guess)\(")
QUIZZES = pages_with("quiz.")
GUESSES = pages_with("quiz.guess(")
EXERCISES = pages_with("= check.")


def cells(page: str) -> list[tuple[set[str], str]]:
    """Return the tags and the code of each cell of a page."""
    found = CELL.findall(source_of(page))
    return [({tag.strip() for tag in tags.split(",")} if tags else set(), code) for tags, code in found]


@pytest.mark.parametrize("page", QUIZZES)
def test_code_that_holds_an_answer_is_not_shown(page: str) -> None:
    asking = [(tags, code) for tags, code in cells(page) if ASKS.search(code) or ".reveal(" in code]
    telling = [code for tags, code in asking if "remove-input" not in tags]
    assert telling == []


@pytest.mark.parametrize("page", GUESSES)
def test_every_guess_is_revealed_below_it(page: str) -> None:
    asked: list[str] = []
    for tags, code in cells(page):
        revealed = re.findall(r"^(\w+)\.reveal\(", code, re.MULTILINE)
        assert set(revealed) <= set(asked), "revealed before it is asked"
        if revealed:
            assert "after-guess" in tags
        asked = [name for name in asked if name not in revealed]
        asked += re.findall(r"^(\w+) = quiz\.guess\(", code, re.MULTILINE)
    assert asked == [], "asked and never answered"


@pytest.mark.parametrize("page", EXERCISES)
def test_every_checked_exercise_has_a_starter_a_hint_and_a_hidden_solution(page: str) -> None:
    exercises = re.split(r"^```\{exercise-start\}$", source_of(page), flags=re.MULTILINE)[1:]
    checked = [text for text in exercises if CHECK.search(text)]
    assert 2 <= len(checked) <= 4
    for text in checked:
        starter, *solution = [tags for tags, code in CELL.findall(text) if CHECK.search(code)]
        assert "hide" not in starter
        assert solution
        assert all("hide-cell" in tags for tags in solution)
        assert "```{dropdown} Hint" in text.partition("{solution-start}")[0]


def text_of(output: dict[str, Any]) -> str:
    return "".join(output.get("data", {}).get("text/plain", []))


@pytest.mark.parametrize("page", EXERCISES)
def test_solutions_pass(page: str, site: Path) -> None:
    notebook = json.loads((site / f"{page}.ipynb").read_text(encoding="utf-8"))
    hidden = [cell for cell in notebook["cells"] if "hide-cell" in cell["metadata"].get("tags", [])]
    grades = [
        text_of(output)
        for cell in hidden
        if CHECK.search("".join(cell["source"]))
        for output in cell["outputs"]
        if text_of(output)
    ]
    assert grades
    for grade in grades:
        assert re.match(r".*: (passed|inconclusive)$", grade.splitlines()[0]), grade
