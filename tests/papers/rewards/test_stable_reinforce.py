"""StableReinforce: the clipped log-ratio, the filter of outliers and the reward by hand, plain loops beside the parts, and its limit."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gradus.objectives.ratios import TokenRatio
from gradus.papers.bases.reinforce_plus_plus import reinforce_plus_plus
from gradus.papers.rewards.stable_reinforce import PreClipped, VerdictReward, WithinSigma, stable_reinforce, within
from gradus.rewards.verified import Verified
from gradus.testing.methods import advantages_of, check_different_update, check_micro_batches, check_same_update, toy_batch, toy_group
from gradus.types import NOT_APPLICABLE, Failed, UserError
from gradus.types.parts import Judgement


@pytest.mark.parametrize(("distance", "ratio", "slope"), [(10.0, 1000.0, 0.0), (0.1, math.exp(0.1), 1.0), (-10.0, 1e-3, 0.0), (-1.0, math.exp(-1.0), 1.0)])
def test_the_log_ratio_is_clipped_before_the_exponential(distance, ratio, slope):
    batch = toy_batch(toy_group(1, lengths=[1]))
    logprobs = torch.tensor([distance - 12], dtype=torch.float64, requires_grad=True)
    found = PreClipped().log_ratio(logprobs, torch.tensor([-12.0], dtype=torch.float64), batch)
    found.sum().backward()
    assert found.exp().item() == pytest.approx(ratio)
    assert logprobs.grad.item() == slope


def test_a_far_token_of_a_bad_answer_has_a_finite_loss_and_no_gradient():
    """Log-ratio 800, A = -1: the loss is 1,000 in place of e^800, which is not finite."""
    batch, trust = toy_batch(toy_group(0, lengths=[1])), stable_reinforce.objective["policy"].trust
    for ratio, loss, slope in ((PreClipped(), 1000.0, 0.0), (TokenRatio(), math.inf, math.inf)):
        logprobs = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        found, _ = trust.losses(ratio.log_ratio(logprobs, torch.full((1,), -800.0, dtype=torch.float64), batch), -torch.ones(1, dtype=torch.float64), batch)
        found.sum().backward()
        assert (found.item(), logprobs.grad.item()) == (pytest.approx(loss), slope)


def test_outliers_by_hand():
    """Eleven rewards 0 and one 1: A = sqrt(11) = 3.317, dropped. Nine zeros: A = 3.0, kept in spite of rounding."""
    rule = WithinSigma(stable_reinforce.credit.rule.rule)
    twelve, ten = (advantages_of(rule, toy_group(1, *[0] * n, lengths=[1] * (n + 1)))[0] for n in (11, 9))
    assert twelve[0] == [0]
    assert twelve[1] == pytest.approx([-1 / math.sqrt(11)])  # the others keep theirs: no second normalisation
    assert ten[0] == pytest.approx([3.0])
    plain = advantages_of(WithinSigma(rule.rule, 1000.0), toy_group(1, *[0] * 11, lengths=[1] * 12))[0]
    assert plain[0] == pytest.approx([math.sqrt(11)])
    assert within(np.array([-3.1, 3.0 + 5e-7, 3.1, -3.0]), 3.0).tolist() == [0.0, 3.0 + 5e-7, 0.0, -3.0]


def test_the_filter_beside_a_plain_loop():
    given = [toy_group(1, 0, 0, 0, lengths=[1, 2, 1, 1]), toy_group(0, 0, 0.5, 9, lengths=[1, 1, 2, 1], key="h")]
    plain, kept = (advantages_of(rule, *given) for rule in (stable_reinforce.credit.rule.rule, WithinSigma(stable_reinforce.credit.rule.rule, 2.0)))
    expected = [[[a if abs(a) <= 2.0 else 0.0 for a in row] for row in group] for group in plain]
    assert expected != plain
    assert kept == expected


def test_equal_rewards_and_a_single_answer_teach_nothing():
    rule = WithinSigma(stable_reinforce.credit.rule.rule)
    assert advantages_of(rule, toy_group(1, 1, lengths=[1, 1])) == [[[0], [0]]]
    assert advantages_of(rule, toy_group(1, lengths=[1])) == [[[0]]]


@pytest.mark.parametrize(
    ("result", "consistency", "form", "reward"),
    [(1.0, 1.0, 1.0, 2.0), (0.0, 1.0, 1.0, 0.5), (1.0, 0.0, 1.0, 1.0), (1.0, NOT_APPLICABLE, 1.0, 1.5), (1.0, Failed("x"), 0.0, 1.0), (0.0, 0.0, 0.0, 0.0)],
)
def test_the_reward_by_hand(result, consistency, form, reward):
    found = VerdictReward()._judged(*map(Judgement, (result, consistency, form)))
    assert found.reward == reward
    assert found.components["verified"] == result


def test_a_failed_verdict_stays_a_failure():
    broken = Judgement(Failed("broken"))
    assert VerdictReward()._judged(broken, Judgement(1.0), Judgement(1.0)) is broken
    assert VerdictReward()._judged(Judgement(1.0), Judgement(1.0), broken) is broken


def test_the_limit_is_reinforce_plus_plus():
    base = reinforce_plus_plus.but(credit__coefficient=0.001, update__count=2)
    check_same_update(stable_reinforce.but(reward=Verified(), credit__limit=1e6), base)
    check_different_update(stable_reinforce, base)


def test_micro_batches_change_nothing():
    check_micro_batches(stable_reinforce)


def test_bounds_on_the_wrong_side_of_one_are_refused():
    with pytest.raises(UserError, match="least"):
        PreClipped(least=1.5)
    with pytest.raises(UserError, match="limit"):
        WithinSigma(limit=0.0)
