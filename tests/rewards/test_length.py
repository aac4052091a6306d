"""The length reward of a group: by hand, at equal lengths, and in what it adds to another reward."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.papers.objectives.kimi_k1_5 import GroupLength
from gradus.rewards.length import CosineLength, group_lengths
from gradus.rewards.verified import Verified
from gradus.types import NOT_APPLICABLE, Failed, UserError
from tests.rewards.judged import score, trajectory


def test_by_hand():
    assert group_lengths([100, 200, 300], [True, True, False]).tolist() == [0.5, 0.0, -0.5]
    assert group_lengths([100, 200, 300], [False, True, True]).tolist() == [0.0, 0.0, -0.5]  # a short wrong answer gains nothing
    assert group_lengths([200, 150], [True, False]).tolist() == [-0.5, 0.0]
    assert group_lengths([7, 7, 7], [True, False, True]).tolist() == [0.0, 0.0, 0.0]
    assert group_lengths([], []).tolist() == []


def test_the_rewards_lie_between_minus_a_half_and_a_half_and_fall_with_the_length():
    draw = np.random.default_rng(0)
    for _ in range(20):
        lengths = np.sort(draw.integers(1, 50, size=6))
        found = group_lengths(lengths, [True] * 6)
        assert (found.max(), found.min()) == (0.5, -0.5)
        assert (np.diff(found) <= 0).all()
        wrong = group_lengths(lengths, [False] * 6)
        assert (wrong <= np.minimum(found, 0)).all()
        assert wrong.max() == 0


def answers():
    return [trajectory(completion=text, tokens=range(length)) for text, length in (("yes", 10), ("yes", 20), ("no", 30), ("no", 10))]


def verifying(problem, completion):
    return {"yes": 1.0, "no": 0.0, "failed": Failed("broken"), "none": NOT_APPLICABLE}[completion]


def test_it_is_added_to_the_reward():
    (row,) = score(GroupLength(weight=2.0), answers(), verify=verifying)
    assert [j.reward for j in row] == [1 + 2 * 0.5, 1.0, 0 - 2 * 0.5, 0.0]
    assert [dict(j.components) for j in row] == [
        {"verified": 1.0, "length": 0.5},
        {"verified": 1.0, "length": 0.0},
        {"verified": 0.0, "length": -0.5},
        {"verified": 0.0, "length": 0.0},
    ]


def test_a_sum_within_it_stays_a_sum():
    (row,) = score(GroupLength(2 * Verified() - 1), answers(), verify=verifying)
    assert [j.reward for j in row] == [1.5, 1.0, -1.5, -1.0]


def test_without_weight_it_is_the_reward():
    plain, priced = (score(r, answers(), verify=verifying)[0] for r in (Verified(), GroupLength(weight=0.0)))
    assert [j.reward for j in plain] == [j.reward for j in priced]


def test_failed_answers_do_not_count_in_the_group():
    found = [*answers()[:2], trajectory(completion="failed", tokens=range(99)), trajectory(completion="none", tokens=range(1))]
    (row,) = score(GroupLength(), found, verify=verifying)
    assert [j.reward for j in row][:2] == [1.5, 0.5]
    assert isinstance(row[2].reward, Failed)
    assert row[3].reward is NOT_APPLICABLE
    assert "length" not in row[2].components


def test_it_begins_after_a_share_of_the_steps():
    for step, added in ((0, 0.0), (3, 0.0), (5, 0.5), (8, 0.5)):  # of 9
        (row,) = score(GroupLength(after=0.5), answers(), verify=verifying, step=step)
        assert row[0].reward == 1 + added
        assert row[0].components["length"] == 0.5


def test_the_weight_is_not_negative():
    with pytest.raises(UserError, match=r"GroupLength.weight is -1"):
        GroupLength(weight=-1.0)


def test_the_cosine_by_hand():
    part = CosineLength(limit=100)
    lengths = np.array([0.0, 50.0, 99.999999])
    assert part.values(lengths, np.array([True] * 3), 100).tolist() == pytest.approx([2.0, 1.5, 1.0])
    assert part.values(lengths, np.array([False] * 3), 100).tolist() == pytest.approx([-10.0, -5.0, 0.0], abs=1e-6)
    assert part.values(np.array([100.0, 130.0]), np.array([True, False]), 100).tolist() == [-10.0, -10.0]
    assert CosineLength(exceeds=None).values(np.array([130.0]), np.array([True]), 100).tolist() == [1.0]
    assert CosineLength(margin=16).values(np.array([83.0, 84.0]), np.array([True] * 2), 100).tolist() == pytest.approx([1.0696, -10], abs=1e-4)


def test_the_cosine_takes_the_limit_of_the_answer():
    (row,) = score(CosineLength(), answers(), verify=verifying, max_tokens=40)
    # right at 10 and 20 of 40: 1 + (1 + cos(pi/4)) / 2 = 1.8536 and 1.5; wrong at 30 and 10: -10 (1 + cos) / 2 = -1.4645 and -8.5355
    assert [j.reward for j in row] == pytest.approx([1.8536, 1.5, -1.4645, -8.5355], abs=1e-4)
    assert [j.components["verified"] for j in row] == [1.0, 1.0, 0.0, 0.0]
    (same,) = score(CosineLength(limit=40), answers(), verify=verifying, max_tokens=999)
    assert [j.reward for j in same] == [j.reward for j in row]
