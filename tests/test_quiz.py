"""Quiz: what a question hands to the page, and which are refused. The site's tests drive them in a browser."""

import pytest

from accel import quiz

OPTIONS = {"memory": "Yes: it waits for bytes.", "arithmetic": "No: half of the units idle."}


def test_a_choice_has_feedback_for_every_answer():
    asked = quiz.choice("What binds it?", OPTIONS, right="memory")
    assert asked.data["question"] == "What binds it?"
    assert [(o["text"], o["feedback"], o["right"]) for o in asked.data["options"]] == [
        ("memory", OPTIONS["memory"], True),
        ("arithmetic", OPTIONS["arithmetic"], False),
    ]


@pytest.mark.parametrize(
    ("options", "right"),
    [({}, "a"), ({"a": "x"}, "a"), (OPTIONS, "neither"), (OPTIONS, []), ({"a": " ", "b": "x"}, "a")],
)
def test_a_choice_without_a_right_answer_or_feedback_is_refused(options, right):
    with pytest.raises(ValueError, match=r"choice needs|needs feedback"):
        quiz.choice("?", options, right=right)


def test_a_number_knows_usual_mistakes():
    asked = quiz.number("FLOP per byte?", 1 / 12, unit="FLOP/byte", because="1 / 12.", mistakes={1 / 3: "Elements."})
    assert asked.data["answer"] == 1 / 12
    assert asked.data["mistakes"] == [{"value": 1 / 3, "feedback": "Elements."}]


@pytest.mark.parametrize(
    ("answer", "tolerance"), [(float("nan"), 0.1), (float("inf"), 0.1), (1, -0.1), (1, float("nan"))]
)
def test_a_number_that_nobody_can_give_is_refused(answer, tolerance):
    with pytest.raises(ValueError, match=r"finite|tolerance"):
        quiz.number("?", answer, tolerance=tolerance, because="")


def test_a_guess_is_revealed_later():
    asked = quiz.guess("How many times?", 1, 100, unit="times")
    assert "outcome" not in asked.data
    assert asked.data["start"] == pytest.approx(10)
    asked.reveal(20, predicted=18.5, because="Pages.", too_low="l", too_high="h")
    assert asked.data["outcome"] == {
        "measured": 20.0, "predicted": 18.5, "because": "Pages.", "too_low": "l", "too_high": "h",
    }  # fmt: skip


@pytest.mark.parametrize("ends", [(0, 1), (-1, 1), (2, 1), (1, 1), (1, float("inf"))])
def test_a_guess_needs_two_ends(ends):
    with pytest.raises(ValueError, match=r"guess lies between|finite"):
        quiz.guess("?", *ends)


def test_only_a_guess_with_a_finite_outcome_can_be_revealed():
    with pytest.raises(ValueError, match="only a guess"):
        quiz.choice("?", OPTIONS, right="memory").reveal(1)
    with pytest.raises(ValueError, match="finite"):
        quiz.guess("?", 1, 2).reveal(float("nan"))
    with pytest.raises(ValueError, match="starts between"):
        quiz.guess("?", 1, 2, start=3)


def test_questions_have_names_of_their_own_that_stay():
    first, again, other = (quiz.guess(text, 1, 2).data["id"] for text in ("a", "a", "b"))
    assert first == again != other
