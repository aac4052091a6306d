"""DPO: the loss of a pair by hand, its gradient through sequence sums, pairs given and pairs sampled."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import BatchBaseline
from gradus.objectives.terms import evaluate, separable
from gradus.papers.bases.dpo import dpo
from gradus.papers.bases.reinforce import reinforce
from gradus.rollouts.auto import Auto
from gradus.selection.filters import Everything
from gradus.testing.methods import TOY_PAIRS, check_micro_batches, toy_group, train_toy, weights_after
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb, LogProbs
from gradus.updates.minibatches import minibatches, unit_of

REFERENCE = LogProbs(player="reference")


def pair_batch(*groups, reference):
    credited = [g.but(trajectories=tuple(t.but(advantages=np.ones(t.actions)) for t in g.trajectories)) for g in groups]
    return make_batch(credited, {REFERENCE: reference}, dtype=torch.float64)


def test_loss_and_gradient_by_hand():
    # the better answer has 1 token, the worse one 2; h_w = log(.5/.25) = log 2, h_l = log(.5/.5) + log(.25/.5) = -log 2
    batch = pair_batch(toy_group(1, 0, lengths=[1, 2]), reference={"g/0": np.log([0.25]), "g/1": np.log([0.5, 0.5])})
    logprobs = torch.tensor([0.5, 0.5, 0.25], dtype=torch.float64).log().requires_grad_()
    loss, metrics = evaluate(dpo.objective, {LogProb(): logprobs}, batch)
    margin = 0.1 * 2 * math.log(2)
    assert_close(loss.item(), math.log(1 + math.exp(-margin)))
    assert metrics["margin"].mean == pytest.approx(margin)
    assert metrics["preferred"].mean == 1.0
    loss.backward()
    slope = 0.1 / (1 + math.exp(margin))  # beta sigmoid(-margin), the same for every token of an answer
    assert_close(logprobs.grad, torch.tensor([-slope, slope, slope], dtype=torch.float64))


def test_at_the_reference_the_loss_is_log_2_and_half_of_beta_the_slope():
    batch = pair_batch(toy_group(0, 1, lengths=[2, 3]), reference={"g/0": np.full(2, -1.0), "g/1": np.full(3, -2.0)})
    logprobs = torch.tensor([-1.0, -1, -2, -2, -2], dtype=torch.float64).requires_grad_()
    loss, _ = evaluate(dpo.objective, {LogProb(): logprobs}, batch)
    assert_close(loss.item(), math.log(2))
    loss.backward()
    assert_close(logprobs.grad, torch.tensor([0.05, 0.05, -0.05, -0.05, -0.05], dtype=torch.float64))  # the first is the worse one


def test_the_loss_equals_plain_loops():
    rng = np.random.default_rng(2)
    groups = [toy_group(1, 0, lengths=[2, 4], key="a"), toy_group(0.25, 0.5, lengths=[3, 1], key="b")]
    reference = {t.id: -rng.uniform(0, 2, t.actions) for g in groups for t in g.trajectories}
    logprobs = -torch.from_numpy(rng.uniform(0, 2, 10))
    loss, _ = evaluate(dpo.objective, {LogProb(): logprobs}, pair_batch(*groups, reference=reference))
    left, total = iter(logprobs.tolist()), 0.0
    for g in groups:
        h = [sum(next(left) - r for r in reference[t.id]) for t in g.trajectories]
        better = 0 if g.trajectories[0].value > g.trajectories[1].value else 1
        total += math.log(1 + math.exp(-0.1 * (h[better] - h[1 - better]))) / 2
    assert_close(loss.item(), total)


def test_a_group_that_is_no_pair_is_refused():
    for bad in (toy_group(1, 0, 1), toy_group(1, 1)):
        batch = pair_batch(bad, reference={t.id: np.zeros(2) for t in bad.trajectories})
        with pytest.raises(ValueError, match="--selection BestAndWorst"):
            evaluate(dpo.objective, {LogProb(): torch.zeros(batch.actions, dtype=torch.float64)}, batch)


def test_pairs_are_never_cut():
    assert unit_of(dpo.objective) == "group"
    assert not separable(dpo.objective)
    groups = [toy_group(1, 0, key=k) for k in "abcde"]
    batch = pair_batch(*groups, reference={t.id: np.zeros(2) for g in groups for t in g.trajectories})
    from gradus.types import Key

    for part in minibatches(batch, 3, "group", Key(1)):
        assert part.counts["policy"].trajectories == 2 * part.counts["policy"].groups


def test_sampled_pairs_are_best_and_worst():
    seen = []
    run = train_toy(dpo, watch=lambda run, metrics, groups: seen.append(groups))
    for g in seen[0]:
        trained = [t.value for t in g.trajectories if t.advantages is not None]
        assert sorted(trained) == ([min(g.rewards), max(g.rewards)] if min(g.rewards) < max(g.rewards) else [])
    assert [run.players[n].updates for n in ("policy", "reference")] == [2, 0]


def test_given_pairs_are_learned_without_sampling():
    seen = []
    train_toy(dpo, task=TOY_PAIRS, steps=60, watch=lambda run, metrics, groups: seen.append((metrics, groups)))
    assert all("tokens/rollout" not in m for m, _ in seen)
    assert [t.value for t in seen[0][1][0].trajectories] == [1.0, 0.0]
    assert seen[0][0]["loss/given"] == pytest.approx(math.log(2))
    assert seen[-1][0]["loss/given"] < math.log(2) - 0.2
    assert seen[-1][0]["preferred"] == 1.0


def test_it_learns_from_its_own_pairs():
    seen = []
    train_toy(dpo, steps=60, prompts=8, group=8, watch=lambda run, metrics, groups: seen.append(metrics["reward"]))
    assert np.mean(seen[-10:]) > np.mean(seen[:5]) + 0.15


def test_without_its_differences_it_is_reinforce():
    plain = dpo.but(
        rollout=Auto(), selection=Everything(), credit=BatchBaseline(), objective=reinforce.objective, players__reference=None
    )
    assert torch.equal(weights_after(plain)["policy.logits"], weights_after(reinforce)["policy.logits"])


def test_gradient_does_not_depend_on_the_micro_batch_where_pairs_are_given():
    check_micro_batches(dpo, task=TOY_PAIRS)
