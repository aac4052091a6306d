"""GRPO-lambda: the price by hand, the choice of groups, the order of right and wrong answers, and GRPO at the limit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.thinking.grpo_lambda_length import PricedIfMostlyRight, efficient, grpo_lambda_length, prices
from gradus.recipe.core import changes
from gradus.testing.methods import check_micro_batches, toy_group, weights_after
from gradus.types import NOT_APPLICABLE, Failed, UserError
from tests.rewards.judged import score, trajectory


def test_the_price_by_hand() -> None:
    # lengths 100 200 300: mean 200, deviation 81.65; sigmoid(-1.2247) = 0.2271, 0.5, 0.7729
    found = prices(np.array([100.0, 200.0, 300.0]), np.array([True] * 3))
    assert (1 - 0.2 * found).tolist() == pytest.approx([0.9546, 0.9, 0.8454], abs=1e-4)
    assert prices(np.array([7.0, 7.0]), np.array([True, True])).tolist() == [0.5, 0.5]  # equal lengths
    # the mean and the deviation are those of the right answers alone
    assert prices(np.array([100.0, 9000.0, 300.0]), np.array([True, False, True])).tolist() == pytest.approx([0.26894, 0, 0.73106], abs=1e-5)
    assert prices(np.array([1.0]), np.array([False])).tolist() == [0.0]


def test_only_the_groups_with_the_most_right_answers_have_a_price() -> None:
    assert efficient([1, 0.8, 0.5, 0.2, 0], [1] * 5, 0.2).tolist() == [True, False, False, False, False]
    assert efficient([0, 0, 0, 0, 0], [1] * 5, 1.0).tolist() == [False] * 5  # a group without a right answer never
    assert efficient([1, 0, 0.5, 0.2, 0], [1] * 5, 1.0).tolist() == [True, False, True, True, False]
    assert efficient([1, 1, 0, 0, 0], [9, 3, 1, 1, 1], 0.2).tolist() == [False, True, False, False, False]  # of equal groups the shorter
    assert efficient([1, 1, 1, 1], [1] * 4, 0.2).tolist() == [False] * 4  # fewer than five questions
    assert efficient([], [], 0.5).tolist() == []


def verifying(problem, completion):
    return {"yes": 1.0, "no": 0.0, "failed": Failed("broken"), "none": NOT_APPLICABLE}[completion]


def answers(*pairs):
    return [trajectory(completion=text, tokens=range(length)) for text, length in pairs]


def test_the_two_modes_in_one_batch() -> None:
    right = answers(("yes", 100), ("yes", 200), ("yes", 300))
    half = answers(("yes", 5), ("yes", 90), ("no", 1))
    first, second = score(PricedIfMostlyRight(share=0.5), right, half, verify=verifying)
    assert [j.reward for j in first] == pytest.approx([0.9546, 0.9, 0.8454], abs=1e-4)
    assert [j.reward for j in second] == [1.0, 1.0, 0.0]
    assert [j.components["efficient"] for j in (first[0], second[0])] == [1.0, 0.0]
    assert first[0].components["verified"] == 1.0
    (same,) = score(PricedIfMostlyRight(share=0.5), right, verify=verifying)  # one group: floor(0.5) = 0
    assert [j.reward for j in same] == [1.0, 1.0, 1.0]


def test_a_wrong_answer_never_gets_more_than_a_right_one() -> None:
    row = answers(("yes", 10_000), ("yes", 10), ("no", 1), ("failed", 3), ("none", 3))
    (found,) = score(PricedIfMostlyRight(share=1.0, alpha=1.0), row, verify=verifying)
    assert found[0].reward > found[2].reward == 0.0
    assert isinstance(found[3].reward, Failed)
    assert found[4].reward is NOT_APPLICABLE


def test_an_all_right_group_has_a_gradient_through_its_lengths() -> None:
    group = toy_group(1, 1, 1, lengths=[1, 2, 3])
    ((values, _),) = PricedIfMostlyRight(share=1.0).rule([group])
    assert len(set(values.tolist())) == 3
    ((plain, _),) = PricedIfMostlyRight(share=0.0).rule([group])
    assert plain.tolist() == [1, 1, 1]


def test_without_a_share_it_is_grpo() -> None:
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (grpo_lambda_length.but(reward__share=0.0), grpo))
    assert torch.equal(one, other)
    assert not torch.equal(weights_after(grpo_lambda_length.but(reward__share=1.0), steps=3)["policy.logits"], other)
    assert set(changes(grpo, grpo_lambda_length)) == {"reward"}
    check_micro_batches(grpo_lambda_length)


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(UserError, match=r"PricedIfMostlyRight\.share"):
        PricedIfMostlyRight(share=1.5)
    for alpha in (-1.0, 1.5):
        with pytest.raises(UserError, match="alpha"):
            PricedIfMostlyRight(alpha=alpha)
