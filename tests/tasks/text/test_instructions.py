from __future__ import annotations

import random

import pytest

from gradus.tasks.text.constraints import CONSTRAINTS, TELLING
from gradus.tasks.text.instructions import instructions, met, share, verify
from gradus.tasks.text.texts import LEXICON
from gradus.types import Frozen, Key, Problem, UserError
from tests.tasks.contract import check_contract

BY_HAND = Problem("x", "instructions", meta=Frozen(constraints=(("first", "sun"), ("words", 3), ("no", "e"))))


def test_contract() -> None:
    check_contract(instructions(), draws=60)


def test_constraints_are_judged_one_by_one() -> None:
    assert met(BY_HAND, "=sun or ash") == {"first:sun": True, "words:3": True, "no:e": True}
    assert met(BY_HAND, "=sun tree") == {"first:sun": True, "words:3": False, "no:e": False}
    assert [share(BY_HAND, t) for t in ("=sun or ash", "=sun tree or", "=sun tree", "=", "")] == [1.0, 2 / 3, 1 / 3, 0.0, 0.0]
    assert [verify(BY_HAND, t) for t in ("=sun or ash", "=sun tree or", "=sun tree", "=", "")] == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_where_the_text_stands() -> None:
    assert verify(BY_HAND, "1:sun 2:or 3:ash=sun or ash \n") == 1.0
    assert verify(BY_HAND, "sun or ash") == 1.0  # a text without the sign counts as a whole
    assert verify(BY_HAND, "sun or ash = no") == 0.0
    assert verify(BY_HAND, "y" * 5000 + " sun or ash") == 0.0
    assert verify(BY_HAND, "y" * 5000 + "=sun or ash") == 1.0


def test_random_texts_are_wrong() -> None:
    rng, right = random.Random(0), 0
    for p in instructions().held_out.draw(range(300), None, Key(0)):
        right += sum(verify(p, "=" + " ".join(rng.choices(LEXICON, k=rng.randint(3, 5)))) for _ in range(5))
    assert right <= 3


def test_every_kind_is_asked_for_and_every_problem_names_a_word() -> None:
    seen = set()
    for level in range(1, 9):
        for p in instructions().source.draw(range(150), level, Key(0)):
            kinds = [kind for kind, _ in p.meta["constraints"]]
            assert len(set(kinds)) == len(kinds) == {1: 1, 2: 3, 3: 4, 4: 3, 5: 5, 6: 7, 7: 9, 8: 12}[level]
            assert set(kinds) & set(TELLING)
            assert p.question.count("\n") == (len(kinds) if level >= 4 else 0)
            seen.update(kinds)
    assert seen == set(CONSTRAINTS)


def test_partial_rewards_and_kinds_are_options() -> None:
    task = instructions(3, kinds="first,words,no", partial=True)
    for p in task.source.draw(range(50), None, Key(0)):
        assert {kind for kind, _ in p.meta["constraints"]} <= {"first", "words", "no"}
        assert task.verify(p, p.meta["solution"]) == 1.0
        assert 0 < task.verify(p, p.meta["solution"] + " zebra zebra zebra") < 1
    for kind in TELLING:  # a kind that is alone, and for short texts alone
        assert instructions(6, kinds=kind).source.draw([0], None, Key(0))[0].meta["constraints"][0][0] == kind


def test_kinds_that_ask_for_no_word_are_refused() -> None:
    with pytest.raises(UserError, match="`kinds` is words,no; add at least one kind that names a word or letters of the text: first, last"):
        instructions(kinds="words,no")
    with pytest.raises(UserError, match="unknown kind of instructions"):
        instructions(kinds="frist")
