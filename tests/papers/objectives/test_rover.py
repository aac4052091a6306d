"""ROVER: the theorem on the uniform policy in trees, targets and losses by hand, its limits, and the gradient against slow loops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.terms import PolicyGradient, evaluate
from gradus.objectives.trust import Unclipped
from gradus.papers.bases.grpo import grpo
from gradus.papers.objectives.rover import RandomValuation, rover
from gradus.testing.methods import advantages_of, loss_and_gradient, toy_batch, toy_group, train_toy, weights_after
from gradus.types import UserError
from gradus.types.readers import MeanOverVocabulary
from gradus.types.signals import LogProb

MEAN = MeanOverVocabulary()


def value(leaves, path):
    """The uniform policy's value of the last action of a path in a tree whose leaves have rewards: Q = mean over the actions after it."""
    depth = len(next(iter(leaves)))
    if len(path) == depth:
        return leaves[path]
    actions = sorted({leaf[0] for leaf in leaves})
    return sum(value(leaves, (*path, a)) for a in actions) / len(actions)


def greedy(leaves):
    path = ()
    while path not in leaves:
        path = max(((*path, a) for a in sorted({leaf[0] for leaf in leaves})), key=lambda p: value(leaves, p))
    return path


def test_in_a_tree_the_uniform_policys_values_lead_to_a_right_leaf():
    small = {leaf: float(leaf == ("L", "L")) for leaf in product("LR", repeat=2)}
    assert (value(small, ("L",)), value(small, ("R",)), greedy(small)) == (0.5, 0.0, ("L", "L"))
    draw, solvable = np.random.default_rng(0), 0
    for _ in range(100):
        leaves = {leaf: float(draw.random() < 0.03) for leaf in product(range(3), repeat=4)}
        solvable += any(leaves.values())
        assert leaves[greedy(leaves)] == max(leaves.values())
    assert 50 < solvable < 100


def outputs(log_ratios, means):
    """Rows of the two wants, and those at the start of the update, so that the log-ratios are as given and the means are `means` above 0."""
    old = {LogProb(): torch.full((len(log_ratios),), -0.7, dtype=torch.float64), MEAN: torch.zeros(len(means), dtype=torch.float64)}
    now = {LogProb(): old[LogProb()] + torch.tensor(log_ratios, dtype=torch.float64), MEAN: torch.tensor(means, dtype=torch.float64)}
    return {want: rows.requires_grad_() for want, rows in now.items()}, old


def lossy(term, groups, log_ratios, means, advantages):
    now, old = outputs(log_ratios, means)
    batch = toy_batch(*groups, advantages=advantages)
    batch.old.update(old)
    loss, metrics = evaluate({"it": term}, now, batch)
    loss.backward()
    assert now[MEAN].grad is None  # the target has no gradient
    return loss.item(), now[LogProb()].grad.tolist(), {name: t.mean for name, t in metrics.items()}


def test_a_target_and_its_loss_by_hand():
    # the next state: probabilities .6 and .4 of .5 and .5; mean (log 1.2 + log .8) / 2 = -.02041; target .5 - .02041 = .47959; error .1 - .47959
    mean = (np.log(0.6 / 0.5) + np.log(0.4 / 0.5)) / 2
    loss, slopes, metrics = lossy(RandomValuation(), [toy_group(1, lengths=[2])], [0.1, 0.0], [9.0, mean], [0.5])
    first, last = (0.1 - 0.47959) ** 2, 0.5**2
    assert first == pytest.approx(0.14409, abs=5e-6)
    assert loss == pytest.approx((first + last) / 2, abs=5e-6)
    assert slopes == pytest.approx([0.1 - 0.47959, -0.5], abs=5e-6)  # 2 (q - y) / 2 tokens
    assert metrics["next_value"] == pytest.approx(-mean / 2)


def test_rho_scales_values_but_not_rewards():
    loss, _, _ = lossy(RandomValuation(rho=2.0), [toy_group(1, lengths=[2])], [0.1, 0.3], [0.0, -0.05], [0.5])
    assert loss == pytest.approx(((0.2 - (0.5 - 0.1)) ** 2 + (0.6 - 0.5) ** 2) / 2)


def test_every_answer_counts_alike_whatever_its_length():
    _, slopes, _ = lossy(rover.objective["policy"], [toy_group(1, 0, lengths=[1, 3])], [0.0] * 4, [0.0] * 4, [0.5, -0.5])
    assert slopes == pytest.approx([-0.5, 1 / 6, 1 / 6, 1 / 6])  # -2 A / tokens / 2 answers


def test_at_the_start_of_an_update_it_is_twice_the_policy_gradient():
    groups, advantages = [toy_group(1, 0, lengths=[2, 1]), toy_group(0, 1, key="h", lengths=[1, 3])], [0.5, -0.5, 0.25, -0.75]
    _, slopes, metrics = lossy(RandomValuation(), groups, [0.0] * 7, [0.0] * 7, advantages)
    plain = PolicyGradient(trust=Unclipped(), average=SequenceMean())
    _, due, _ = loss_and_gradient({"it": plain}, groups, [-0.7] * 7, advantages=advantages)
    assert slopes == pytest.approx([2 * x for x in due])
    assert slopes[:3] == pytest.approx([-2 * 0.5 / 8, -2 * 0.5 / 8, 2 * 0.5 / 4])
    assert metrics["next_value"] == 0


def test_loss_and_gradient_against_a_slow_loop():
    draw = np.random.default_rng(3)
    lengths, advantages = [3, 1, 2], [0.4, -0.9, 0.2]
    ratios, means = draw.normal(size=6).tolist(), draw.normal(size=6).tolist()
    loss, slopes, _ = lossy(RandomValuation(rho=0.7, coefficient=0.5), [toy_group(1, 0, 0, lengths=lengths)], ratios, means, advantages)
    total, due, at = 0.0, [], 0
    for length, advantage in zip(lengths, advantages, strict=True):
        for t in range(length):
            after = 0.7 * means[at + t + 1] if t + 1 < length else 0.0
            error = 0.7 * ratios[at + t] - advantage - after
            total += 0.5 * error**2 / length / 3
            due.append(0.5 * 2 * 0.7 * error / length / 3)
        at += length
    assert loss == pytest.approx(total, abs=1e-12)
    assert slopes == pytest.approx(due, abs=1e-12)


def test_the_advantage_is_the_reward_minus_the_groups_mean():
    assert advantages_of(rover.credit, toy_group(1, 0, 0, 0, lengths=[1] * 4)) == [[[0.75], [-0.25], [-0.25], [-0.25]]]


def test_the_next_state_acts_from_the_second_mini_batch_on():
    once, four = (train_toy(rover.but(update__count=n), steps=3).metrics for n in (1, 4))
    assert all(row["next_value"] == 0 for row in once)
    assert all(row["next_value"] > 0 for row in four)
    assert rover.update.count == 4  # 128 problems in mini-batches of 32


def test_with_one_update_it_trains_to_the_weights_of_a_policy_gradient():
    plain = rover.but(update__count=1, objective__policy=PolicyGradient(trust=Unclipped(), average=SequenceMean(), coefficient=2.0))
    assert_close(*(weights_after(r, steps=3)["policy.logits"] for r in (rover.but(update__count=1), plain)), rtol=0, atol=1e-12)


def test_without_its_differences_it_is_grpo():
    plain = rover.but(credit=GroupRelative(), objective=grpo.objective, players__reference=grpo.players["reference"], update__count=1)
    assert torch.equal(*(weights_after(r, steps=2)["policy.logits"] for r in (plain, grpo)))


@pytest.mark.parametrize("micro", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro):
    whole, cut = (weights_after(rover, micro=m, steps=2)["policy.logits"] for m in (None, micro))
    assert_close(cut, whole, rtol=0, atol=1e-10)


def test_rho_is_above_zero():
    with pytest.raises(UserError, match=r"RandomValuation.rho is 0"):
        RandomValuation(0.0)
