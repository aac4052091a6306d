"""GRPO: hand numbers, its gradient, its limits, and what it changes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import BatchBaseline, group_relative
from gradus.objectives.aggregation import SequenceSum
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Unclipped
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.reinforce import reinforce
from gradus.testing.methods import advantages_of, toy_group, train_toy, weights_after
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb, LogProbs


def test_advantages_by_hand():
    # rewards 1 0 0 1: mean 1/2, population deviation 1/2
    assert advantages_of(grpo.credit, toy_group(1, 0, 0, 1)) == [[[1, 1], [-1, -1], [-1, -1], [1, 1]]]
    # one success among four: mean 1/4, deviation sqrt(3)/4; 3/4 / (sqrt(3)/4) = sqrt 3
    assert_close(torch.tensor(group_relative(np.array([1.0, 0, 0, 0]))), torch.tensor([3.0, -1, -1, -1]).double() / np.sqrt(3))


@pytest.mark.parametrize("rewards", [(1, 1, 1), (0.1, 0.1, 0.1), (0,), (5,)])
def test_nothing_to_compare_gives_zero(rewards):
    assert group_relative(np.array(rewards, float)).tolist() == [0.0] * len(rewards)


def test_advantages_do_not_change_with_shift_and_scale():
    rewards = np.array([0.3, 0.9, -1.0, 2.0])
    assert_close(torch.tensor(group_relative(5 + 3 * rewards)), torch.tensor(group_relative(rewards)))


def test_loss_and_gradient_by_hand():
    groups = [toy_group(1, 0, lengths=[1, 2])]
    for g in groups:
        made = [t.but(advantages=np.full(t.actions, a)) for t, a in zip(g.trajectories, [1.0, -1.0], strict=True)]
    reference = {LogProbs(player="reference"): {"g/0": np.log([0.5]), "g/1": np.log([0.5, 0.25])}}
    batch = make_batch([groups[0].but(trajectories=tuple(made))], reference, dtype=torch.float64)
    logprobs = torch.log(torch.tensor([0.5, 0.5, 0.5], dtype=torch.float64)).requires_grad_()
    loss, metrics = evaluate(grpo.objective, {LogProb(): logprobs}, batch)
    # policy: ratio 1, so -A averaged by sequence = (-1 + (1 + 1)/2)/2 = 0. k3 at the last token: d = log(.25/.5), e^d - d - 1 = .5 + log 2 - 1
    k3 = 0.5 + np.log(2) - 1
    assert_close(loss.item(), 0.04 * k3 / 4)
    loss.backward()
    # d loss / d logp = -A/(2 n_i) + 0.04 (1 - e^d)/(2 n_i)
    assert_close(logprobs.grad, torch.tensor([-0.5, 0.25, 0.25 + 0.04 * 0.5 / 4], dtype=torch.float64))
    assert metrics["kl"].mean == pytest.approx(k3 / 3)


def test_without_its_differences_it_is_reinforce():
    plain = grpo.but(
        objective__kl=None, objective__policy__trust=Unclipped(), objective__policy__average=SequenceSum(), credit=BatchBaseline()
    )
    ours, base = weights_after(plain), weights_after(reinforce)
    assert torch.equal(ours["policy.logits"], base["policy.logits"])


def test_it_learns_and_the_reference_stays():
    seen = []
    run = train_toy(grpo, steps=60, prompts=8, group=8, watch=lambda run, metrics, groups: seen.append(metrics["reward"]))
    assert np.mean(seen[-10:]) > np.mean(seen[:5]) + 0.15
    assert run.players["reference"].updates == 0
    assert not torch.equal(run.players["policy"].policy.network.logits, run.players["reference"].policy.network.logits)
