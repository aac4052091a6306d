"""MajorityReward with the majority: by hand, ties, answers without a vote, failures, and the metrics of a watching reward."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from gradus.rewards.majority import MajorityReward, agreement
from gradus.rewards.verified import Verified
from gradus.types import Failed, Group, UserError
from gradus.types.answers import most_common_answer
from tests.rewards.judged import score, task, trajectory, waiting


def test_by_hand():
    assert agreement(["=A", "=A", "=A", "=B", "=B", "=C", "=D", "=E"]) == [1, 1, 1, 0, 0, 0, 0, 0]
    assert agreement(["=3", "=3", "=5", "=3", "="]) == [1, 1, 0, 1, 0]
    assert agreement(["=2", "=4", "=4", "=2"]) == [1, 0, 0, 1]  # a tie: the answer that occurs first
    assert agreement(["=", "", "=9"]) == [0, 0, 1]  # two without an answer do not outvote one answer
    assert agreement(["=", ""]) == [0, 0]
    assert agreement(["=0.5", "1/2", "=7"]) == [1, 1, 0]  # equal numbers are one answer
    assert agreement([]) == []
    assert most_common_answer(["=", ""]) is None
    assert agreement(["=", "", "=9"], missing=True) == [1, 1, 0]
    assert agreement(["=9", "=9", "="], missing=True) == [1, 1, 0]


def test_a_tie_has_the_same_winner_on_every_run():
    texts = [f"={i % 5}" for i in range(20)]
    assert all(agreement(texts) == agreement(texts) for _ in range(5))
    assert agreement(texts)[:5] == [1, 0, 0, 0, 0]


def watched(*completions, watch=None, answer="F", rewards=()):
    rows = [trajectory(c, answer=answer) for c in completions]
    rows = [t.but(id=str(i), reward=rewards[i] if rewards else None) for i, t in enumerate(rows)]
    notes: list[tuple[str, float]] = []
    of = task(verify=lambda p, c: float(c.removeprefix("=") == p.answer))
    world = SimpleNamespace(note=lambda *pair: notes.append(pair), task=of, waiting=waiting, call=str, fact=lambda call: None)
    (row,) = asyncio.run(MajorityReward(watch).score([Group("g", tuple(rows))], {}, world))
    return [j.reward for j in row], dict(notes)


def test_wrong_labels_still_give_mostly_right_rewards():
    texts = [f"={letter}" for letter in "AAABBCDE"]
    assert watched(*texts, watch=Verified()) == (
        [1, 1, 1, 0, 0, 0, 0, 0],
        {"majority_share": 3 / 8, "label_accuracy": 0.0, "reward_accuracy": 5 / 8},
    )
    assert watched(*texts, watch=Verified(), answer="A")[1] == {"majority_share": 3 / 8, "label_accuracy": 1.0, "reward_accuracy": 1.0}
    assert watched(*texts, watch=Verified(), answer="C")[1]["reward_accuracy"] == 4 / 8
    assert watched(*texts)[1] == {"majority_share": 3 / 8}


def test_a_failed_answer_has_no_vote():
    found, notes = watched("=1", "=1", "=2", watch=Verified(), answer="2", rewards=(Failed("late"), None, None))
    assert found == [0, 1, 0]
    assert notes == {"majority_share": 1 / 3, "label_accuracy": 0.0, "reward_accuracy": 0.0}  # of the two with a verdict


def test_the_right_answer_is_not_read():
    class Locked:
        def __getattribute__(self, name):
            raise AssertionError(f"read {name}")

    rows = [trajectory(c, answer=Locked()) for c in ("=3", "=3", "=5")]
    assert [j.reward for j in score(MajorityReward(), rows)[0]] == [1, 1, 0]


def test_a_watch_must_fit_the_task():
    MajorityReward().check(task())
    with pytest.raises(UserError, match="nothing judges its answers"):
        MajorityReward(Verified()).check(task())
