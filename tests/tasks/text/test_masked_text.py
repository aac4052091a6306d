"""The task masked_text: which spans can be hidden, the two roles, and proposed spans."""

from __future__ import annotations

import pytest

from gradus.tasks.text.masked_text import MASK, is_span, masked_text, proposed, said, verify
from gradus.types import Key, UserError
from tests.tasks.contract import check_contract, check_read_back

PASSAGE = "ann has 2 and bob has 3 so both have 5. code 2417. may is after april."


def test_the_contract() -> None:
    check_contract(masked_text(), limit=300, hints=False)
    check_read_back(masked_text())


@pytest.mark.parametrize(
    ("span", "can"),
    [
        ("5", True),
        ("april", True),
        ("code 2417", True),
        ("has 3 so both have 5", True),
        ("has", False),  # twice
        ("2", False),  # a part of 2417
        ("is", False),  # a stop word
        ("5. code", False),  # over the end of a sentence
        ("june", False),
        ("", False),
        ("ann has 2 and bob has 3 so both", False),  # nine words
        ("ann has 2 and bob has 3 so", True),
    ],
)
def test_spans_by_hand(span: str, can: bool) -> None:
    assert is_span(PASSAGE, span) == can


def test_the_answer_is_compared_without_case_and_punctuation() -> None:
    assert [said(text) for text in ("so =April. ", "=a=b", "april", "= Code  2417!")] == ["april", "b", "", "code 2417"]


def test_held_out_problems_are_words_that_follow() -> None:
    task = masked_text(level=3)
    for p in task.held_out.draw(range(40), 3, Key(0)):
        assert p.answer in p.meta["follows"]
        assert p.question.count(MASK) == 1
        assert p.question.removeprefix("fill ").replace(MASK, p.answer) == p.meta["passage"]
        assert verify(p, f"={p.answer}") == 1.0
        assert verify(p, f"={p.meta['random']}") == 0.0


def test_a_proposed_span_gives_a_problem_that_does_not_show_it() -> None:
    for p in masked_text(level=3).source.draw(range(40), 3, Key(0)):
        assert p.question == f"hide {p.meta['passage']}"
        assert verify(p, p.meta["solution"]) == 1.0
        made = proposed(p, p.meta["solution"])
        assert made is not None
        assert made.question == f"fill {p.meta['passage'].replace(p.answer, MASK)}"
        assert p.answer not in made.question.split()
        assert (made.answer, made.meta["category"], verify(made, f"={p.answer}")) == (p.answer, "fill", 1.0)
        assert made.id != p.id
        assert proposed(p, "=nothing") is None
        assert proposed(p, p.answer) is None  # without the mark
        assert proposed(p, "=code") is not None


def test_the_roles() -> None:
    kinds = {p.meta["category"] for p in masked_text(role="both").source.draw(range(40), 2, Key(0))}
    assert kinds == {"hide", "fill"}
    assert {p.meta["category"] for p in masked_text(role="fill").source.draw(range(20), 2, Key(0))} == {"fill"}
    with pytest.raises(UserError, match="`role` is"):
        masked_text(role="read")  # type: ignore[arg-type]
