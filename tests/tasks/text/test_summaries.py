"""Summaries: the hidden score, pairs and swapped pairs, the contract."""

from __future__ import annotations

import pytest

from gradus.tasks.text.summaries import score, summaries
from gradus.testing import Effort, check_task
from gradus.types import Key, UserError
from tests.tasks.contract import check_hostile, check_read_back, check_split


def test_contract() -> None:
    task = summaries()
    check_task(task, right=lambda p: (p.meta["solution"], "".join(p.meta["hints"]["solution"])), effort=Effort(problems=60), strict=True)
    check_hostile(task, 2)
    check_split(task)
    check_read_back(task)


@pytest.mark.parametrize(
    ("said", "due"),
    [("fox tea", 1.0), ("tea fox", 1.0), ("fox", 2 / 3), ("fox oar", 0.5), ("fox fox tea", 0.8), ("oar", 0.0), ("", 0.0), ("fox tea oar moss", 2 / 3)],
)
def test_the_hidden_score_by_hand(said: str, due: float) -> None:
    # F1 = 2 hits / (words said + 2 subjects)
    assert score({"fox", "tea"}, said.split()) == pytest.approx(due)


def test_a_subject_is_named_twice_and_every_other_word_once() -> None:
    for p in summaries(level=3).source.draw(range(20), 3, Key(0)):
        words = p.question.removesuffix(" tl;dr").split()
        assert {word for word in words if words.count(word) == 2} == set(p.meta["subjects"])
        assert all(words.count(word) <= 2 for word in words)


def test_the_chosen_summary_has_the_higher_score() -> None:
    task = summaries()
    for p in task.source.draw(range(40), 2, Key(1)):
        assert task.verify(p, p.meta["chosen"]) == 1.0 > task.verify(p, p.meta["rejected"])  # type: ignore[misc, operator]
        assert not p.meta["swapped"]


def test_a_share_of_the_training_pairs_is_swapped_and_no_held_out_pair() -> None:
    task = summaries(swapped=0.3)
    drawn = task.source.draw(range(400), 2, Key(2))
    assert 0.2 < sum(p.meta["swapped"] for p in drawn) / 400 < 0.4
    assert all((p.meta["chosen"] == p.meta["solution"]) != p.meta["swapped"] for p in drawn)
    assert not any(p.meta["swapped"] for p in task.held_out.draw(range(100), 2, Key(2)))
    with pytest.raises(UserError, match=r"`swapped` is 1.5; it is a share"):
        summaries(swapped=1.5)
