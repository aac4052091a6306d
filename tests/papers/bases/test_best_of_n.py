"""Best of n: what is imitated, that its gradient is a policy gradient of the winners, and that it learns."""

from __future__ import annotations

import numpy as np
import torch
from torch.testing import assert_close

from gradus.credit.groups import BatchBaseline, Constant
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.terms import evaluate
from gradus.papers.bases.best_of_n import best_of_n
from gradus.papers.bases.reinforce import reinforce
from gradus.search.best_of import BestOf
from gradus.selection.filters import Best, Everything
from gradus.testing.methods import toy_group, train_toy, weights_after
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb


def test_loss_and_gradient_by_hand():
    kept, _ = best_of_n.selection.keep([toy_group(0, 1, 0, lengths=[3, 2, 1], key="a"), toy_group(0, 0, lengths=[2, 1], key="b")], None)
    assert [[t.id for t in g.trajectories] for g in kept] == [["a/1"], ["b/0"]]  # of equals the earlier one
    credited = [g.but(trajectories=tuple(t.but(advantages=np.ones(t.actions)) for t in g.trajectories)) for g in kept]
    logprobs = torch.tensor([0.5, 0.5, 0.25, 0.125], dtype=torch.float64).log().requires_grad_()
    loss, _ = evaluate(best_of_n.objective, {LogProb(): logprobs}, make_batch(credited, dtype=torch.float64))
    assert_close(loss.item(), (1 + 1 + 2 + 3) * np.log(2) / 4)
    loss.backward()
    assert_close(logprobs.grad, torch.full((4,), -0.25, dtype=torch.float64))


def test_imitation_is_the_policy_gradient_of_the_winners_with_advantage_one():
    other = reinforce.but(selection=Best(1), credit=Constant(), objective__policy__average=TokenMean())
    ours, theirs = weights_after(best_of_n), weights_after(other)
    assert_close(ours["policy.logits"], theirs["policy.logits"], rtol=0, atol=1e-14)


def test_only_the_best_is_trained_on():
    seen = []
    train_toy(best_of_n, watch=lambda run, metrics, groups: seen.append(groups))
    for g in (g for groups in seen for g in groups):
        trained = [t for t in g.trajectories if t.advantages is not None]
        assert [t.value for t in trained] == [max(t.value for t in g.trajectories)]


def test_without_its_differences_it_is_reinforce():
    plain = best_of_n.but(selection=Everything(), credit=BatchBaseline(), objective=reinforce.objective)
    assert torch.equal(weights_after(plain)["policy.logits"], weights_after(reinforce)["policy.logits"])


def test_it_learns():
    seen = []
    train_toy(best_of_n, steps=60, prompts=8, group=8, watch=lambda run, metrics, groups: seen.append(metrics["reward"]))
    assert np.mean(seen[-10:]) > np.mean(seen[:10]) + 0.08


def test_the_search_goes_with_the_recipe():
    assert best_of_n.but(search=BestOf(4)).search.count == 4
    assert best_of_n.search is None
