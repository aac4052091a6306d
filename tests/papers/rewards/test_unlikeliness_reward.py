"""Unlikeliness reward: ranks, rewards and advantages by hand, and GRPO at beta 0."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gradus.credit.groups import GroupRelative
from gradus.objectives.kl import KL
from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.unlikeliness_reward import Unlikely, rank_factors, unlikeliness_reward
from gradus.rewards.verified import Verified
from gradus.selection.filters import Mixed
from gradus.testing.methods import advantages_of, check_micro_batches, toy_group, toy_trajectory, train_toy, weights_after
from gradus.types import Key, UserError


def answers(rewards, means):
    return [toy_trajectory([2, 3], reward=r, name=f"g/{i}", logprobs=[m - 0.5, m + 0.5]) for i, (r, m) in enumerate(zip(rewards, means, strict=True))]


def test_rewards_and_advantages_by_hand() -> None:
    """Ranks 3 0 2 1 of l = -1 -4 -2 -3: factors 1 - 3/16, 1, 1 - 2/16, 1 - 1/16. The sample deviation of 0.8125, 1, 0, 0 is 0.5286, the mean 0.4531."""
    assert rank_factors([-1, -4, -2, -3], 0.25) == [0.8125, 1.0, 0.875, 0.9375]
    paid = Unlikely().paid(answers([1.0, 1.0, 0.0, 0.0], [-1, -4, -2, -3]))
    assert [r for r, _ in paid] == [0.8125, 1.0, 0.0, 0.0]
    assert [c["factor"] for _, c in paid] == [0.8125, 1.0, 0.875, 0.9375]
    found = advantages_of(unlikeliness_reward.credit, toy_group(*(r for r, _ in paid), lengths=[1] * 4))[0]
    assert [a[0] for a in found] == pytest.approx([0.6796, 1.0342, -0.8569, -0.8569], abs=5e-5)


def test_the_mean_over_tokens_decides_not_the_sum() -> None:
    long = toy_trajectory([2] * 6, reward=1.0, name="long", logprobs=[-0.5] * 6)  # sum -3, mean -0.5
    short = toy_trajectory([2], reward=1.0, name="short", logprobs=[-1.0])
    assert [r for r, _ in Unlikely().paid([long, short])] == [0.875, 1.0]


def test_wrong_answers_take_ranks_too_and_ties_are_stable() -> None:
    assert [r for r, _ in Unlikely().paid(answers([0.0, 1.0, 0.0, 1.0], [-4, -3, -2, -1]))] == [0.0, 1 - 0.25 / 4, 0.0, 1 - 0.75 / 4]
    assert rank_factors([-1.0, -1.0], 0.5) == [1.0, 0.75]
    assert rank_factors([], 0.25) == []
    assert rank_factors([-2.0], 0.25) == [1.0]


def test_one_right_answer_has_the_advantages_of_grpo() -> None:
    for rank in range(4):
        reward = 1 - 0.25 * rank / 4
        np.testing.assert_allclose(
            advantages_of(GroupRelative("sample"), toy_group(reward, 0, 0, 0))[0], advantages_of(GroupRelative("sample"), toy_group(1, 0, 0, 0))[0]
        )


def test_a_group_of_right_answers_is_dropped() -> None:
    right, mixed = toy_group(1, 1), toy_group(1, 0, key="m")
    assert unlikeliness_reward.selection.keep([right, mixed], Key()) == ([mixed], [right])


def test_with_beta_0_it_is_grpo() -> None:
    base = grpo.but(credit=GroupRelative("sample"), selection=Mixed(), objective__kl=KL(0.1), update__epochs=2)
    one, other = (weights_after(r, steps=4)["policy.logits"] for r in (unlikeliness_reward.but(reward__beta=0.0), base))
    assert torch.equal(one, other)
    assert not torch.equal(one, weights_after(unlikeliness_reward, steps=4)["policy.logits"])
    check_micro_batches(unlikeliness_reward)


def test_the_second_pass_meets_the_clip() -> None:
    shares = {}
    for epochs in (1, 2):
        seen: list[dict] = []
        made = unlikeliness_reward.but(update__epochs=epochs)
        train_toy(made, learning_rate=0.4, group=16, watch=lambda run, metrics, groups, seen=seen: seen.append(dict(metrics)))
        shares[epochs] = sum(row["clip_share"] for row in seen) / len(seen)
    assert shares[1] == 0.0
    assert 0.0 < shares[2] < 1.0


def test_unlikely_right_arms_gain_where_grpo_lets_them_fall() -> None:
    """A bandit with ten right arms, one likely (0.45) and nine unlikely (0.04 each), and a wrong arm (0.19). Gradients of groups of 16 change the
    probability of arm k by p_k (g_k - sum_j p_j g_j) to the first order, with g the gradient by the logits."""
    p = np.array([0.45, *[0.04] * 9, 0.19])
    right, rng = np.array([1.0] * 10 + [0.0]), np.random.default_rng(0)
    change = {}
    for beta in (0.0, 0.25):
        total = np.zeros(11)
        for drawn in np.random.default_rng(1).choice(11, size=(1500, 16), p=p):
            rewards = right[drawn] * np.array(rank_factors(np.log(p[drawn]) + 1e-9 * rng.normal(size=16), beta))
            if 0 < right[drawn].sum() < 16:
                a = (rewards - rewards.mean()) / rewards.std(ddof=1)
                for arm, advantage in zip(drawn, a, strict=True):
                    total += advantage * (np.eye(11)[arm] - p)
        change[beta] = float((p * (total - p @ total))[1:10].mean())  # the first-order change of the unlikely arms' probabilities
    assert change[0.25] > 0
    assert change[0.0] < 0


def test_the_papers_numbers() -> None:
    assert (unlikeliness_reward.reward, unlikeliness_reward.setting.group, unlikeliness_reward.update.epochs) == (Unlikely(Verified(), 0.25), 32, 2)
    assert unlikeliness_reward.objective["kl"].coefficient == 0.1
    assert math.isclose(rank_factors(list(range(32)), 0.25)[-1], 1 - 0.25 * 31 / 32)
    with pytest.raises(UserError, match=r"Unlikely.beta"):
        Unlikely(beta=2.0)
