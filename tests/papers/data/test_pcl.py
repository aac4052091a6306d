"""PCL: the choice by hand, the value of a prompt, the target of the value model, no answer for other candidates, its limit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.prompt_returns import PromptReturns
from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.pcl import pcl
from gradus.rewards.verified import Verified
from gradus.testing.methods import advantages_of, check_resumes, steps_of, toy_group, toy_run, train_toy, weights_after
from gradus.training.launch import go
from gradus.types import Key, prompt_context
from gradus.types.batch import make_batch
from gradus.types.contexts import after_prompt
from gradus.types.signals import Value, Values
from gradus.updates.forward_backward import evaluated


def test_of_equally_near_candidates_the_earlier_ones_are_chosen():
    assert pcl.curriculum.choice.pick(np.array([0.25, 0.75, 0.25, 0.0]), 2, Key()).tolist() == [0, 1]


def test_advantages_and_target_by_hand():
    group = toy_group(1, 0, 0, 0)
    assert advantages_of(pcl.credit, group) == [[[0.75] * 2, [-0.25] * 2, [-0.25] * 2, [-0.25] * 2]]
    for credited in PromptReturns().assign([group], {})[0]:
        assert credited.returns.tolist() == [0.25, 0.25]
        assert credited.weights.tolist() == [1.0, 0.0]


def test_the_loss_of_the_value_model_is_a_plain_mean():
    group, other = toy_group(1, 0, key="a"), toy_group(1, lengths=[3], key="b")
    rows = PromptReturns().assign([group, other], {})
    made = [
        g.but(trajectories=tuple(t.but(advantages=c.advantages, returns=c.returns, weights=c.weights) for t, c in zip(g.trajectories, row, strict=True)))
        for g, row in zip((group, other), rows, strict=True)
    ]
    signals = {Values(player="critic"): {t.id: np.zeros(t.actions) for g in made for t in g.trajectories}}
    values = torch.tensor([0.2, 9.0, 0.3, 9.0, 0.6, 9.0, 9.0], dtype=torch.float64, requires_grad=True)
    loss, _ = evaluate(pcl.players["critic"].objective, {Value(): values}, make_batch(made, signals, dtype=torch.float64))
    loss.backward()
    assert loss.item() == pytest.approx((0.3**2 + 0.2**2 + 0.4**2) / 3)  # targets .5, .5 and 1 at the first actions
    assert values.grad.tolist() == pytest.approx([2 * -0.3 / 3, 0, 2 * -0.2 / 3, 0, 2 * -0.4 / 3, 0, 0])


def test_the_value_of_a_prompt_is_that_before_the_first_action():
    found = []

    def watch(run, metrics, groups):
        critic = run.players["critic"].policy
        made = [c for g in groups for t in g.trajectories[:1] for c in t.contexts]
        with torch.no_grad():
            whole = evaluated(critic, made, (Value(),), Key())[Value()]
            alone = evaluated(critic, [after_prompt(prompt_context(c.prefix)) for c in made], (Value(),), Key())[Value()]
        starts = np.cumsum([0, *(c.actions for c in made)])[:-1]
        found.append(torch.equal(whole[starts], alone))

    train_toy(pcl, steps=2, watch=watch)
    assert found == [True, True]


def test_no_answer_is_spent_on_other_candidates():
    seen = []
    run = toy_run(pcl, steps=4, prompts=3, group=4)
    run.on_step = lambda run, metrics, groups: seen.append(sum(len(g.trajectories) for g in groups))
    assert go(run).memory.states["curriculum"]["state"] == {"drawn": 4 * 12, "predicted": {}}
    assert seen == [12] * 4


def test_the_value_model_follows_the_rewards_whatever_their_scale():
    seen = steps_of(pcl.but(reward=5 * Verified(), curriculum__factor=1), steps=60, prompts=6, group=8, learning_rate=0.05)
    rates, rewards = ([metrics[name] for metrics, _ in seen] for name in ("predicted_rate", "reward"))
    assert rates[0] < 1
    assert 1.5 < np.mean(rates[-10:]) < np.mean(rewards[-10:]) + 1  # it began at .5, and the mean reward is above 3


def test_the_policy_makes_one_update_of_a_batch_without_a_clip():
    run = train_toy(pcl, steps=3)
    assert (run.players["policy"].updates, run.players["critic"].updates) == (3, 3)
    assert "kl" not in pcl.objective
    assert "reference" not in pcl.players


def test_with_one_candidate_the_order_is_the_usual_one():
    once, usual = weights_after(pcl.but(curriculum__factor=1), steps=3), weights_after(pcl.but(curriculum=ShuffledEpochs()), steps=3)
    assert once.keys() == usual.keys()
    assert all(torch.equal(once[name], usual[name]) for name in once)
    assert not torch.equal(weights_after(pcl, steps=3)["policy.logits"], once["policy.logits"])


def test_without_its_differences_it_is_grpo():
    plain = pcl.but(
        curriculum=ShuffledEpochs(),
        credit=grpo.credit,
        objective=grpo.objective,
        players__critic=None,
        players__reference=grpo.players["reference"],
    )
    assert torch.equal(weights_after(plain, steps=2)["policy.logits"], weights_after(grpo, steps=2)["policy.logits"])


def test_a_run_resumes():
    check_resumes(pcl, steps=4, after=2)


@pytest.mark.parametrize("micro", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro):
    whole, cut = (weights_after(pcl, steps=2, micro=m) for m in (None, micro))
    for name in whole:
        assert_close(cut[name], whole[name], rtol=0, atol=1e-10)
