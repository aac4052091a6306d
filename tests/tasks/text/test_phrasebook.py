"""Translations by hand, the contract of a task, and rare words that only the dictionary has."""

from __future__ import annotations

import pytest

from gradus.tasks.text.phrasebook import OBJECT, PATTERNS, Book, made, phrasebook
from gradus.tools.dictionary import looked_up
from gradus.types import Frozen, Key, UserError
from tests.tasks.contract import check_contract, check_read_back


def test_the_contract() -> None:
    check_contract(phrasebook(), hints=False)
    check_read_back(phrasebook())


def test_a_translation_by_hand() -> None:
    book = Book(Frozen(dog="wuf", sees="liko", big="gran", cat="mio"), Frozen(), ((), ()))
    assert book.translated(["dog", "sees", "big", "cat"], "nvan") == "wuf gran mioka liko"
    assert book.translated(["big", "dog", "sees", "big", "cat"], "anvan") == "gran wuf gran mioka liko"


def test_rare_words_of_held_out_sentences_never_occur_in_training() -> None:
    task = phrasebook(3)
    told = [{w for p in source.draw(range(300), 3, Key(0)) for w in p.meta["rare"].split()} for source in (task.source, task.held_out)]
    assert all(told)
    assert not told[0] & told[1]
    training = {w for p in task.source.draw(range(300), 3, Key(0)) for w in p.question.split()}
    assert not told[1] & training


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_demonstrations_look_up_the_rare_words_and_translate(level: int) -> None:
    task, book = phrasebook(level, seed=2), made(2)
    entries = task.passages()
    problems = task.source.draw(range(80), level, Key(0))
    assert 0.1 < sum(p.meta["category"] == "frequent" for p in problems) / 80 < 0.45
    for p in problems:
        rare = p.meta["rare"].split()
        assert len(rare) in (0, PATTERNS[level - 1][1])
        *lookups, (_, answer) = p.meta["demonstration"]
        assert [action for _, action in lookups] == [f"lookup: {word}" for word in rare]
        for (_, action), (seen, _) in zip(lookups, p.meta["demonstration"][1:], strict=True):
            (found,) = looked_up(entries, action.removeprefix("lookup: "))
            assert entries[found] == seen
        assert answer == f"answer: {p.answer}"
        assert sorted(p.answer.replace(OBJECT + " ", " ").split()) == sorted(
            (book.meanings[w] + " ").replace(OBJECT + " ", " ").strip() for w in p.question.split()
        )


def test_a_level_out_of_range() -> None:
    with pytest.raises(UserError, match="`level` is 5"):
        phrasebook(5)
