"""XRPO: sharpened advantages by hand, the nearest examples, seeded answers under the plain prompt, the budget, its limit."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.xrpo import xrpo
from gradus.recipe.core import changes
from gradus.rollouts.auto import Auto
from gradus.testing.methods import check_resumes, steps_of, toy_run, weights_after
from gradus.training.launch import go


def test_a_run_spends_its_budget_and_seeds():
    seeded = 0
    for metrics, groups in steps_of(xrpo, steps=8, prompts=6, group=8, learning_rate=0.02):
        assert metrics["allotted"] == 8
        assert min(len(g.trajectories) for g in groups) >= 4
        seeded += sum(bool(t.links.get("seeded")) for g in groups for t in g.trajectories)
        for g in groups:
            assert len({bytes(t.contexts[0].prefix) for t in g.trajectories}) == 1
    assert seeded > 0


def test_the_state_of_a_run():
    run = go(toy_run(xrpo, steps=4, prompts=6, group=8))
    state = run.memory.states["rollout.rollout"]["state"]
    assert state["wrong"] == []
    assert state["solved"]


def test_a_run_resumes():
    check_resumes(xrpo, steps=4, after=2)


def test_what_it_changes():
    assert set(changes(grpo, xrpo)) == {"rollout", "credit", "objective.policy.average"}
    assert isinstance(xrpo.rollout.test, Auto)
    assert (xrpo.rollout.first, xrpo.rollout.rule.alpha, xrpo.rollout.rule.block) == (4, 0.05, 4)


def test_without_its_differences_it_is_grpo():
    plain = xrpo.but(rollout__first=None, credit__weight=0.0, objective__policy__average=grpo.objective["policy"].average)
    base = weights_after(grpo, steps=3)["policy.logits"]
    assert torch.equal(weights_after(plain, steps=3)["policy.logits"], base)
    token = weights_after(grpo.but(credit=GroupRelative(), objective__policy__average=TokenMean()), steps=3, group=8)["policy.logits"]
    assert not torch.equal(weights_after(xrpo, steps=3, group=8)["policy.logits"], token)


@pytest.mark.parametrize("micro", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro):
    whole, cut = (weights_after(xrpo, steps=2, group=8, micro=m)["policy.logits"] for m in (None, micro))
    assert_close(cut, whole, rtol=0, atol=1e-10)
