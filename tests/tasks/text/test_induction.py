"""The task induction: instructions from labelled texts, their literal reading, and the two roles."""

from __future__ import annotations

import pytest

from gradus.tasks.text.induction import LABELS, induction, rules, verify
from gradus.types import Frozen, Key, Problem, UserError
from tests.tasks.contract import check_contract, check_read_back

SET = Problem("x", "induction", text="", meta=Frozen(questions=(("the bek", "red"), ("bek and", "red"), ("sun over", "blue"), ("the sun", "blue"))))


def test_the_contract() -> None:
    check_contract(induction(), hints=False)
    check_read_back(induction())
    check_contract(induction(role="both"), hints=False)


@pytest.mark.parametrize(
    ("text", "f1"),
    [
        ("bek:red sun:blue", 1.0),
        ("sun:blue bek:red so", 1.0),
        ("bek:red", 0.5),  # the other class has no hit
        ("bek:red sun:red", (2 * 2 / 6 + 0) / 2),
        ("bek:blue sun:red", 0.0),
        ("the:red bek:red sun:blue", (2 * 2 / 5 + 2 * 1 / 3) / 2),  # the first word with a rule decides: "the sun" is read as red
        ("bek red sun blue", 0.0),
        ("", 0.0),
    ],
)
def test_the_verdict_by_hand(text: str, f1: float) -> None:
    assert verify(SET, text) == pytest.approx(f1)


def test_examples_show_every_label_and_questions_are_other_texts_of_the_rule() -> None:
    for level in (2, 5):
        for p in induction().source.draw(range(30), level, Key(0)):
            shown = [part.rpartition(",")[2] for part in p.question.split() if "," in part]
            said = rules(p.answer)
            assert set(shown) == set(said.values()) <= set(LABELS)
            assert level < len(shown) <= 2 * level
            assert len(p.meta["questions"]) == 20
            assert all(said[next(w for w in text.split() if w in said)] == label for text, label in p.meta["questions"])
            assert len(p.answer) < 0.6 * len(p.question)  # an instruction is shorter than its examples


def test_the_roles() -> None:
    both = induction(role="both").source.draw(range(60), 3, Key(1))
    followed = [p for p in both if p.meta["category"] == "follow"]
    assert 15 < len(followed) < 45
    for p in followed:
        instruction, text = p.question.split("\n")
        said = rules(instruction)
        assert p.answer == next(said[w] for w in text.split() if w in said)
        assert "questions" not in p.meta
    assert "questions" in induction().provides
    assert "questions" not in induction(role="follow").provides
    with pytest.raises(UserError, match="`role` is"):
        induction(role="read")  # type: ignore[arg-type]
