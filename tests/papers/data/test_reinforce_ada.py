"""Reinforce-Ada: the balanced few, the baseline of the pool, who is sampled further, its limit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative, against_pool
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Clip
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.data.reinforce_ada import reinforce_ada
from gradus.rollouts.auto import Auto
from gradus.selection.filters import Balanced, Everything
from gradus.testing.methods import steps_of, toy_batch, toy_group, train_toy, weights_after
from gradus.types import Frozen, Key
from gradus.types.signals import LogProb


def pooled(*rewards):
    group = toy_group(*rewards)
    return group.but(pool=tuple(float(r) for r in rewards))


def test_the_example_by_hand():
    # 3 right of 16: the baseline is 3/16 = .1875
    group = pooled(*[0] * 5, 1, *[0] * 4, 1, 1, *[0] * 4)
    (kept,), dropped = Balanced(4).keep([group], Key())
    assert [t.id for t in kept.trajectories] == ["g/0", "g/1", "g/5", "g/10"]
    assert not dropped
    assert against_pool(kept).tolist() == [-0.1875, -0.1875, 0.8125, 0.8125]


def test_the_loss_is_that_of_a_plain_loop():
    group = toy_group(1, 0, lengths=[1, 3])
    batch = toy_batch(group, advantages=[0.75, -0.25])
    old = torch.tensor([-1.0, -0.5, -0.2, -2.0], dtype=torch.float64)
    rows = (old + torch.tensor([0.5, -0.5, 0.1, 0.4], dtype=torch.float64)).requires_grad_()
    terms = Frozen(policy=reinforce_ada.objective["policy"])
    loss, metrics = evaluate(terms, {LogProb(): rows}, replace(batch, old={LogProb(): old}))
    loss.backward()
    total, slopes = 0.0, []
    for delta, a in zip([0.5, -0.5, 0.1, 0.4], [0.75, -0.25, -0.25, -0.25], strict=True):
        ratio = math.exp(delta)
        held = (ratio > 1.28 and a > 0) or (ratio < 0.8 and a < 0)
        total -= min(max(ratio, 0.8), 1.28) * a if held else ratio * a
        slopes.append(0.0 if held else -ratio * a / 4)
    assert loss.item() == pytest.approx(total / 4)
    assert rows.grad.tolist() == pytest.approx(slopes)
    assert metrics["clip_share"].mean == 2 / 4


def test_the_bonus_is_a_ten_thousandth_of_the_entropy():
    plain = reinforce_ada.but(objective__entropy=None)
    ours, without = weights_after(reinforce_ada, steps=1), weights_after(plain, steps=1)
    assert reinforce_ada.objective["entropy"].coefficient == 0.0001
    assert not torch.equal(ours["policy.logits"], without["policy.logits"])


def test_samples_stop_at_the_signal_and_never_exceed_the_rounds():
    few = reinforce_ada.but(rollout__first=4, rollout__rule__count=4)
    seen = steps_of(few, steps=3, prompts=6)
    sizes = [len(g.trajectories) for _, groups in seen for g in groups]
    assert set(sizes) <= {4, 8, 12, 16}
    assert len(set(sizes)) > 1
    for metrics, groups in seen:
        assert metrics["allotted"] == pytest.approx(np.mean([len(g.trajectories) for g in groups]))
        for g in groups:
            before = [t.right for t in g.trajectories[:-4]]
            assert sum(before) < 2 or len(before) - sum(before) < 2  # it was open before its last round
            trained = [t for t in g.trajectories if t.advantages is not None]
            assert len(trained) == 4
            rarer = min(sum(t.right for t in g.trajectories), sum(not t.right for t in g.trajectories))
            assert min(sum(t.right for t in trained), sum(not t.right for t in trained)) == min(2, rarer)
            assert all(t.advantages[0] == pytest.approx(t.value - g.rewards.mean()) for t in trained)


def test_the_clip_acts_after_the_first_update():
    seen = []
    run = train_toy(reinforce_ada, steps=4, learning_rate=0.3, watch=lambda run, metrics, groups: seen.append(metrics["clip_share"]))
    assert run.players["policy"].updates == 16
    assert np.mean(seen) > 0


def test_without_its_differences_it_is_reinforce():
    plain = reinforce_ada.but(
        rollout=Auto(),
        selection=Everything(),
        credit=reinforce.credit,
        objective=reinforce.objective,
        update=reinforce.update,
    )
    ours, base = weights_after(plain, steps=2), weights_after(reinforce, steps=2)
    assert torch.equal(ours["policy.logits"], base["policy.logits"])
    assert not torch.equal(weights_after(reinforce_ada, steps=2)["policy.logits"], base["policy.logits"])


def test_one_round_of_few_answers_is_a_plain_group():
    once = weights_after(reinforce_ada.but(rollout__rounds=1, rollout__first=4), steps=3)
    group = reinforce_ada.but(rollout=Auto(), selection=Everything(), credit=GroupRelative(scale="none"))
    assert torch.equal(once["policy.logits"], weights_after(group, steps=3)["policy.logits"])


def test_more_problems_have_a_gradient_than_with_groups_of_four():
    def share(recipe):
        return np.mean([metrics["informative"] for metrics, _ in steps_of(recipe, steps=6, prompts=8, learning_rate=0.0)])

    plain = reinforce_ada.but(rollout=Auto(), selection=Everything())
    assert share(reinforce_ada) > share(plain) + 0.1


def test_the_numbers_of_the_paper():
    rollout = reinforce_ada.rollout
    assert (rollout.first, rollout.rounds, rollout.rule.count) == (8, 4, 8)
    assert (rollout.rule.right, rollout.rule.wrong, reinforce_ada.selection.count) == (2, 2, 4)
    assert reinforce_ada.objective["policy"].trust == Clip(0.2, 0.28)
    assert reinforce_ada.objective["policy"].average == TokenMean()
    assert reinforce_ada.update.count == 4


@pytest.mark.parametrize("micro", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro):
    whole, cut = (weights_after(reinforce_ada, steps=2, micro=m)["policy.logits"] for m in (None, micro))
    assert_close(cut, whole, rtol=0, atol=1e-10)
