"""LD-DPO: discounted scores and gradients by hand, DPO as limit, the choice of pairs, and where the samples come from."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.preference import Preference
from gradus.objectives.scores import LengthDiscounted, LogRatio
from gradus.objectives.terms import evaluate
from gradus.papers.bases.dpo import dpo
from gradus.papers.objectives.offline_rl_ld_dpo import offline_rl_ld_dpo
from gradus.rollouts.demonstrations import DemonstratedPairs
from gradus.selection.filters import BestAndWorst
from gradus.testing.methods import toy_group, train_toy, weights_after
from gradus.types import Frozen
from gradus.types.batch import make_batch
from gradus.types.players import Player
from gradus.types.signals import LogProb, LogProbs


def pairs(*lengths, rewards=(1.0, 0.0), reference=0.0):
    """A batch of pairs of a right and a wrong answer with these lengths."""
    groups = []
    for n, pair in enumerate(lengths):
        group = toy_group(*rewards, lengths=list(pair))
        trajectories = tuple(t.but(id=f"{n}/{i}", advantages=np.ones(t.actions)) for i, t in enumerate(group.trajectories))
        groups.append(group.but(key=str(n), trajectories=trajectories))
    rows = {t.id: np.full(t.actions, reference) for g in groups for t in g.trajectories}
    return make_batch(groups, {LogProbs(player="reference"): rows}, dtype=torch.float64)


def test_the_loss_equals_a_plain_loop_and_surplus_tokens_pull_alpha_times():
    batch = pairs((4, 6), reference=-0.5)
    logprobs = torch.linspace(-2, -0.1, 10, dtype=torch.float64).requires_grad_()
    loss, metrics = evaluate(offline_rl_ld_dpo.objective, {LogProb(): logprobs}, batch)
    loss.backward()
    d = (logprobs.detach() + 0.5).tolist()
    h = sum(d[:4]) - sum(d[4:8]) - 0.5 * sum(d[8:])
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-0.1 * h)))
    pull = 0.1 / (1 + math.exp(0.1 * h))
    assert_close(logprobs.grad, torch.tensor([-pull] * 4 + [pull] * 4 + [pull / 2] * 2, dtype=torch.float64))
    assert metrics["margin"].mean == pytest.approx(0.1 * h)


@pytest.mark.parametrize(("lengths", "alpha"), [((5, 5), 0.5), ((4, 6), 1.0)])
def test_equal_lengths_or_alpha_1_is_dpo(lengths, alpha):
    batch, found = pairs(lengths, reference=-0.7), []
    for score in (LengthDiscounted(alpha=alpha), LogRatio()):
        leaf = torch.linspace(-2, -0.1, 10, dtype=torch.float64).requires_grad_()
        loss, _ = evaluate({"sampled": Preference(beta=0.1, score=score)}, {LogProb(): leaf}, batch)
        loss.backward()
        found.append((loss, leaf.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_the_start_model_samples_while_the_policy_learns():
    seen = []
    run = train_toy(offline_rl_ld_dpo, steps=4, learning_rate=0.1, prompts=4, watch=lambda run, metrics, groups: seen.append((metrics, groups)))
    assert run.players["policy"].updates > 0
    start = run.players["reference"].policy.network.logits
    assert not torch.equal(start, run.players["policy"].policy.network.logits)
    for _, groups in seen:
        for t in (t for g in groups for t in g.trajectories):
            assert t.player == "reference"
            context = t.contexts[0]
            before = context.sequence[context.action_positions - 1].astype(int)
            expected = start.log_softmax(-1)[before, context.sequence[context.action_positions].astype(int)]
            assert_close(torch.from_numpy(context.logprobs.astype(np.float64)), expected.detach(), rtol=0, atol=1e-5)
    assert max(metrics["margin"] for metrics, _ in seen if "margin" in metrics) > 0


def test_the_discount_acts():
    ours, base = (weights_after(offline_rl_ld_dpo.but(objective__sampled__score__alpha=a), steps=2)["policy.logits"] for a in (0.5, 1.0))
    assert not torch.equal(ours, base)


def test_without_its_differences_it_is_dpo():
    plain = offline_rl_ld_dpo.but(
        rollout=DemonstratedPairs(),
        selection=BestAndWorst(),
        objective=Frozen(sampled=Preference(beta=0.1), given=Preference(beta=0.1, source="expert")),
        players__policy=Player(),
    )
    ours, base = weights_after(plain, steps=2), weights_after(dpo, steps=2)
    assert torch.equal(ours["policy.logits"], base["policy.logits"])
