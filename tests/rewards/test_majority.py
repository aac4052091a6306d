"""MajorityReward with the majority: by hand, ties, answers without a vote, and failures."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from gradus.rewards.majority import MajorityReward, agreement
from gradus.types import Failed, Group
from gradus.types.answers import most_common_answer
from tests.rewards.judged import score, trajectory


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


def test_a_failed_answer_has_no_vote_and_the_share_is_noted():
    rows = [trajectory(c) for c in ("=1", "=1", "=2")]
    rows = [t.but(id=str(i), reward=Failed("late") if i == 0 else None) for i, t in enumerate(rows)]
    notes: dict[str, float] = {}
    (row,) = asyncio.run(MajorityReward().score([Group("g", tuple(rows))], {}, SimpleNamespace(note=notes.__setitem__)))
    assert [j.reward for j in row] == [0, 1, 0]
    assert notes == {"majority_share": 1 / 3}


def test_the_right_answer_is_not_read():
    class Locked:
        def __getattribute__(self, name):
            raise AssertionError(f"read {name}")

    rows = [trajectory(c, answer=Locked()) for c in ("=3", "=3", "=5")]
    assert [j.reward for j in score(MajorityReward(), rows)[0]] == [1, 1, 0]
