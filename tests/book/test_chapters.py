"""What every chapter must have; that it executes without an error is the build's own condition."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pages import chapters, has_slider, read_html, widget_state

FIGURES = 3
WORDS_OF_A_FINDING = 4
STATE_BYTES = 400_000


def figure_texts(site: Path, page: str) -> list[str]:
    """Return the texts that stand for the figures of a page; an empty one where a figure has none."""
    article = read_html(site, page).select_one("article.bd-article")
    assert article is not None
    figures = article.select('.cell_output svg:not([aria-hidden="true"]), .cell_output img')
    return [str(figure.get("aria-label") or figure.get("alt") or "") for figure in figures]


@pytest.mark.parametrize("page", chapters())
def test_chapter_has_figures_that_say_what_they_show(page: str, site: Path) -> None:
    texts = figure_texts(site, page)
    assert len(texts) >= FIGURES
    assert [text for text in texts if len(text.split()) < WORDS_OF_A_FINDING] == []


@pytest.mark.parametrize("page", chapters())
def test_figures_take_the_colours_of_the_page(page: str, site: Path) -> None:
    for figure in read_html(site, page).select('.cell_output svg[role="img"]'):
        assert "currentColor" in str(figure), "text in a fixed colour is lost in light or in dark mode"


@pytest.mark.parametrize("page", chapters())
def test_chapter_has_a_slider(page: str, site: Path) -> None:
    assert has_slider(read_html(site, page))


@pytest.mark.parametrize("page", chapters())
def test_frames_of_a_slider_say_what_they_show(page: str, site: Path) -> None:
    values = [model["state"].get("value") for model in widget_state(read_html(site, page)).values()]
    frames = [value for value in values if isinstance(value, str) and "<svg" in value]
    assert frames
    for frame in frames:
        assert 'role="img"' in frame
        assert "aria-label=" in frame


@pytest.mark.parametrize("page", chapters())
def test_widget_state_stays_small(page: str, site: Path) -> None:
    script = read_html(site, page).find("script", type="application/vnd.jupyter.widget-state+json")
    assert script is not None
    assert len(str(script.string).encode()) < STATE_BYTES


@pytest.mark.parametrize("page", chapters())
def test_executed_notebook_stands_beside_its_page(page: str, site: Path) -> None:
    notebook = json.loads((site / f"{page}.ipynb").read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code" and "%pip" not in "".join(cell["source"])]
    assert code
    assert all(cell["execution_count"] for cell in code)
    assert any(cell["outputs"] for cell in code)
    assert read_html(site, page).find("a", href=f"{Path(page).name}.ipynb") is not None
