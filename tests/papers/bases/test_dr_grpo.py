"""Dr. GRPO: no deviation, no length; by hand, by plain loops, and that its parts back in place are GRPO."""

from __future__ import annotations

import numpy as np
import torch
from torch.testing import assert_close

from gradus.objectives.terms import evaluate
from gradus.papers.bases.dr_grpo import dr_grpo
from gradus.papers.bases.grpo import grpo
from gradus.testing.methods import (
    advantages_of,
    check_bound_acts,
    check_different_update,
    check_learns,
    check_same_update,
    toy_batch,
    toy_group,
)
from gradus.types.signals import LogProb


def test_advantages_are_centred_alone():
    # mean 1/4; GRPO would divide by sqrt(3)/4
    assert advantages_of(dr_grpo.credit, toy_group(1, 0, 0, 0)) == [[[0.75, 0.75]] + [[-0.25, -0.25]] * 3]
    assert advantages_of(dr_grpo.credit, toy_group(1, 1), toy_group(3)) == [[[0, 0], [0, 0]], [[0, 0]]]


def test_loss_and_gradient_by_hand():
    # A = 1/2 with 1 token and -1/2 with 3, ratio 1: (-1/2 + 3/2) / (2 answers * 3000); every token's gradient is -A / 6000
    logprobs = torch.full((4,), -1.0, dtype=torch.float64, requires_grad=True)
    loss, _ = evaluate(dr_grpo.objective, {LogProb(): logprobs}, toy_batch(toy_group(1, 0, lengths=[1, 3]), advantages=[0.5, -0.5]))
    assert_close(loss.item(), 1 / 6000)
    loss.backward()
    assert_close(logprobs.grad, torch.tensor([-0.5, 0.5, 0.5, 0.5]).double() / 6000)


def test_the_step_equals_plain_loops():
    rng = np.random.default_rng(3)
    groups = [toy_group(*rng.integers(0, 3, 3).astype(float), lengths=[1, 4, 2], key=k) for k in "ab"]
    given = [a for row in advantages_of(dr_grpo.credit, *groups) for one in row for a in one[:1]]
    ratios = torch.from_numpy(rng.normal(size=14) * 0.3)
    losses, _ = dr_grpo.objective["policy"].trust.losses(ratios, (made := toy_batch(*groups, advantages=given)).advantages, made)
    ours = (dr_grpo.objective["policy"].average.coefficients(made, "policy") * losses).sum()
    left, total = iter(ratios.tolist()), 0.0
    for g in groups:
        mean = sum(t.value for t in g.trajectories) / 3
        for t in g.trajectories:
            for _ in range(t.actions):
                r, a = np.exp(next(left)), t.value - mean
                total -= min(r * a, min(max(r, 0.8), 1.2) * a) / 3000 / 6
    assert_close(ours.item(), total)


def test_without_its_differences_it_is_grpo():
    back = dr_grpo.but(
        credit=grpo.credit,
        objective__policy__average=grpo.objective["policy"].average,
        objective__kl=grpo.objective["kl"],
        players__reference=grpo.players["reference"],
        update__count=1,
    )
    check_same_update(back, grpo)
    check_different_update(dr_grpo, grpo)
    check_different_update(dr_grpo, dr_grpo.but(update__count=1))


def test_eight_updates_of_a_batch_and_the_clip_acts():
    check_bound_acts(dr_grpo, updates=8)


def test_it_learns():
    check_learns(dr_grpo)
