"""A KL penalty in the reward: estimators by hand, and who pays what under which rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gradus.credit.gae import GAE
from gradus.credit.groups import LeaveOneOut
from gradus.credit.kl_penalty import KLPenalty, charged, kl_costs
from gradus.credit.reward_to_go import RewardToGo
from gradus.objectives.kl import kl_estimate
from gradus.papers.rewards.rlvr_cross_domain import BatchRelative
from gradus.testing.methods import advantages_of, toy_group, toy_trajectory
from gradus.types import UserError
from gradus.types.control import EndValues
from gradus.types.signals import LogProbs, Values

REFERENCE = LogProbs(player="reference")


def rows(*pairs):
    """Signals of trajectories g/0, g/1, ...: log-probabilities of the policy and of the reference."""
    ours = {f"g/{i}": np.log(np.array(p)) for i, (p, _) in enumerate(pairs)}
    return {LogProbs(): ours, REFERENCE: {f"g/{i}": np.log(np.array(q)) for i, (_, q) in enumerate(pairs)}}


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_costs_are_those_of_the_loss(estimator):
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(size=(2, 9))
    expected = kl_estimate(torch.from_numpy(ours), torch.from_numpy(theirs), estimator=estimator)
    np.testing.assert_allclose(kl_costs(ours, theirs, estimator=estimator), expected.numpy(), rtol=1e-12)
    with pytest.raises(ValueError, match="k4"):
        kl_costs(ours, theirs, estimator="k4")


def test_a_charge_lies_at_its_action_and_in_the_sum():
    paid = charged(toy_trajectory([2, 3], reward=1.0), np.array([0.5, -0.125]))
    assert paid.contexts[0].rewards == ((0, "kl", -0.5), (1, "kl", 0.125))
    assert paid.value == 0.625
    assert paid.components["verified"] == 1.0


def test_every_token_pays_for_what_comes_after_it():
    # k1 = log 2, 0, log 4; coefficient 1/2: to go of the reward 1 at the end: 1 - .5 log 8, 1 - .5 log 4, 1 - .5 log 4
    signals = rows(([0.5, 0.5, 0.5], [0.25, 0.5, 0.125]))
    found = advantages_of(KLPenalty(RewardToGo(whitened=False), 0.5), toy_group(1.0, lengths=[3]), signals=signals)
    np.testing.assert_allclose(found[0][0], 1 - 0.5 * np.log([8, 4, 4]))


@pytest.mark.parametrize(("estimator", "cost"), [("k1", math.log(2)), ("k2", math.log(2) ** 2 / 2), ("k3", math.log(2) - 0.5)])
def test_a_rule_for_whole_answers_pays_the_sum(estimator, cost):
    # the first answer pays at one of its two tokens, the second nothing; against the other: (1 - c) - 0 and 0 - (1 - c)
    signals = rows(([0.5, 0.5], [0.25, 0.5]), ([0.5, 0.5], [0.5, 0.5]))
    found = advantages_of(KLPenalty(LeaveOneOut(), 0.1, estimator), toy_group(1, 0), signals=signals)
    np.testing.assert_allclose(found[0], [[1 - 0.1 * cost] * 2, [0.1 * cost - 1] * 2])


def test_a_critic_s_rule_pays_action_by_action():
    # k1 = log 2, 0; values 1/2 and 1/4; reward 1 at the end: d_1 = 1 - 1/4, d_0 = -.02 log 2 + 1/4 - 1/2; A_0 = d_0 + .95 d_1
    signals = rows(([0.5, 0.5], [0.25, 0.5])) | {Values(player="critic"): {"g/0": np.array([0.5, 0.25])}}
    rule = KLPenalty(GAE(lam=0.95, whitened=False), 0.02)
    assert set(rule.needs) == {Values(player="critic"), EndValues(player="critic"), LogProbs(), REFERENCE}
    found = advantages_of(rule, toy_group(1.0, lengths=[2]), signals=signals)
    np.testing.assert_allclose(found[0][0], [-0.02 * math.log(2) - 0.25 + 0.95 * 0.75, 0.75], rtol=1e-12)


def test_without_coefficient_it_is_the_rule():
    signals = rows(([0.5, 0.5], [0.25, 0.5]), ([0.1, 0.5], [0.5, 0.5]))
    for rule in (RewardToGo(), LeaveOneOut(), BatchRelative()):
        assert advantages_of(KLPenalty(rule, 0.0), toy_group(1, 0), signals=signals) == advantages_of(rule, toy_group(1, 0))


def test_a_negative_coefficient_is_refused():
    with pytest.raises(UserError, match="coefficient"):
        KLPenalty(coefficient=-0.1)
