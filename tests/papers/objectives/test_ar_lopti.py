"""AR and Lopti: factors and gradient norms by hand, the masks of both passes, their sum, and that without both it is GRPO."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.api import train
from gradus.credit.groups import GroupRelative
from gradus.credit.probability import ByProbability
from gradus.credit.scaled import Scaled
from gradus.objectives.aggregation import SequenceMean, TokenMean
from gradus.objectives.terms import evaluate
from gradus.objectives.trust import Clip, DualClip
from gradus.papers.bases.grpo import grpo
from gradus.papers.objectives.ar_lopti import UnlikelyFirst, ar_lopti
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.testing.methods import toy_group, train_toy, weights_after
from gradus.types import UserError
from gradus.types.batch import make_batch, only
from gradus.types.signals import LogProb, LogProbs, Want
from gradus.updates.minibatches import Minibatches

SPLIT = ar_lopti.but(update__eta=0.2)
"""The toy policy is rarely as sure as 0.5, so this threshold gives both passes tokens."""


def sampled(probabilities, rewards=(1.0, 0.0), advantages=None):
    """A group of answers whose actions had these probabilities at sampling, one list per answer."""
    group = toy_group(*rewards, lengths=[len(p) for p in probabilities])
    trajectories = []
    for t, p, a in zip(group.trajectories, probabilities, advantages or [[1.0] * len(p) for p in probabilities], strict=True):
        context = replace(t.contexts[0], logprobs=np.log(np.array(p)).astype(np.float32))
        trajectories.append(t.but(contexts=(context,), advantages=np.array(a, float)))
    return group.but(trajectories=tuple(trajectories))


def test_advantages_by_hand():
    group = sampled([[0.7, 0.1], [0.7, 0.1]])
    # rewards 1 and -1 have the sample deviation sqrt 2: advantages +-1/sqrt 2
    credited = ar_lopti.credit.assign([group.but(trajectories=tuple(t.but(reward=r) for t, r in zip(group.trajectories, (1.0, -1.0), strict=True)))], {})[0]
    assert credited[0].advantages * math.sqrt(2) == pytest.approx([0.91, 0.73])
    assert credited[1].advantages * math.sqrt(2) == pytest.approx([-0.91, -0.73])


@pytest.mark.parametrize(("token", "norm"), [(0, 0.3742), (2, 1.1576)])
def test_the_gradient_norm_of_a_token_by_hand(token, norm):
    # |e(a) - q|: (.3, .2, .1) and (.7, .2, .9)
    logits = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64).log().requires_grad_()
    logits.log_softmax(-1)[token].backward()
    assert float(logits.grad.norm()) == pytest.approx(norm, abs=5e-5)
    q = float(logits.detach().exp()[token])
    assert 1 - q <= float(logits.grad.norm()) <= math.sqrt(2) * (1 - q)


def batch_of(group):
    reference = {LogProbs(player="reference"): {t.id: np.linspace(-2, -0.5, t.actions) for t in group.trajectories}}
    return make_batch([group], reference, dtype=torch.float64)


PROBABILITIES = [[0.9, 0.2, 0.6], [0.49, 0.7]]
ADVANTAGES = [[1.0, 0.5, 2.0], [-1.0, -0.3]]


def slopes(batch):
    """Loss and gradient by the log-probabilities, which differ from those at sampling and from those at the start of the update."""
    start = batch.behaviour_logprobs
    leaf = (start + torch.linspace(-0.5, 0.6, 5, dtype=torch.float64)).requires_grad_()
    loss, _ = evaluate(ar_lopti.objective, {LogProb(): leaf}, replace(batch, old={LogProb(): start}))
    loss.backward()
    return loss.detach(), leaf.grad


def test_the_two_passes_share_the_tokens_and_add_up_to_one_pass():
    batch = batch_of(sampled(PROBABILITIES, advantages=ADVANTAGES))
    low = batch.behaviour_logprobs.exp() < 0.5
    assert low.tolist() == [False, True, False, True, False]
    parts = [only(batch, mask) for mask in (low, ~low)]
    assert [p.weight.tolist() for p in parts] == [[0, 1, 0, 1, 0], [1, 0, 1, 0, 1]]
    assert [[t.weights.tolist() for t in p.trajectories] for p in parts] == [[[0, 1, 0], [1, 0]], [[1, 0, 1], [0, 1]]]
    (one, first), (two, second), (whole, both) = (slopes(b) for b in (*parts, batch))
    assert first[~low].tolist() == [0, 0, 0]
    assert second[low].tolist() == [0, 0]
    assert_close(one + two, whole)  # every pass divides by all five tokens
    assert_close(first + second, both)


def test_the_loss_equals_a_plain_loop():
    batch = batch_of(sampled(PROBABILITIES, advantages=ADVANTAGES))
    low = batch.behaviour_logprobs.exp() < 0.5
    loss, _ = slopes(only(batch, low))
    total = 0.0
    new = batch.behaviour_logprobs + torch.linspace(-0.5, 0.6, 5, dtype=torch.float64)
    reference = batch.signals[LogProbs(player="reference")]
    for t in range(5):
        if low[t]:
            ratio, a, d = math.exp(new[t] - batch.behaviour_logprobs[t]), batch.advantages[t].item(), float(reference[t] - new[t])
            clipped = -min(ratio * a, min(max(ratio, 0.8), 1.24) * a)
            total += (min(clipped, -10 * a) if a < 0 else clipped) + 0.001 * (math.exp(d) - d - 1)
    assert loss.item() == pytest.approx(total / 5)


def test_the_second_pass_compares_with_the_policy_before_the_first():
    seen, original = [], Minibatches._move

    def move(self, player, piece, step, key):
        seen.append((player.updates, {LogProb(): piece.old[LogProb()].clone()}, piece.weight.clone(), piece.behaviour_logprobs.clone()))
        return original(self, player, piece, step, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Minibatches, "_move", move)
        train_toy(SPLIT, steps=1, learning_rate=0.1)
    assert [updates for updates, *_ in seen] == [0, 1, 2, 3]  # two passes of two mini-batches
    for _, old, _, behaviour in seen:
        assert_close(old[LogProb()], behaviour)  # sampled by the same weights
    for first, second in zip(seen[:2], seen[2:], strict=True):
        assert torch.equal(first[2] + second[2], torch.ones_like(first[2]))
        assert torch.equal(first[2] > 0, first[3].exp() < 0.2)


def test_the_second_pass_begins_with_other_ratios():
    ratios = []
    train_toy(SPLIT, steps=2, learning_rate=0.1, watch=lambda run, metrics, groups: ratios.append((metrics["low_share"], metrics["clip_share"])))
    assert all(0 < low < 1 for low, _ in ratios)
    assert max(clipped for _, clipped in ratios) > 0


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_with_one_group_of_tokens_there_is_one_pass(eta):
    run = train_toy(ar_lopti.but(update__eta=eta), steps=2)
    assert run.players["policy"].updates == 4
    plain = ar_lopti.but(update=Minibatches(count=2))
    ours, base = (weights_after(r, steps=2)["policy.logits"] for r in (ar_lopti.but(update__eta=eta), plain))
    assert torch.equal(ours, base)


def test_without_its_differences_it_is_grpo():
    plain = ar_lopti.but(
        credit=GroupRelative(),
        objective__policy__trust=Clip(0.2, 0.2),
        objective__policy__average=SequenceMean(),
        objective__kl=grpo.objective["kl"],
        update__eta=0.0,
    )
    ours, base = (weights_after(r, steps=2)["policy.logits"] for r in (plain, grpo.but(update__count=2)))
    assert torch.equal(ours, base)


def test_the_order_of_the_passes_matters():
    ours, other = (weights_after(SPLIT.but(update__reverse=r), steps=1, learning_rate=0.1)["policy.logits"] for r in (False, True))
    assert not torch.equal(ours, other)


@dataclass(frozen=True)
class Norm(Want):
    """|e(a) - q|, the gradient norm of log q_a by the logits."""

    opens = frozenset({"logits"})

    def rows(self, opened, key):
        actions = torch.from_numpy(np.concatenate([c.sequence[c.action_positions] for c in opened.contexts]).astype(np.int64))

        def norm(part, logits):
            q = logits.softmax(-1)
            return (torch.nn.functional.one_hot(actions[part], q.shape[-1]) - q).norm(dim=-1)

        return opened.reduced(norm)


def test_unlikely_tokens_have_a_smaller_share_of_the_gradient():
    seen = []
    small = ar_lopti.but(study=None, setting__prompts=8, setting__group=8, setting__save_every=0, setting__learning_rate=0.0)
    train(small, arithmetic(level=2), steps=1, on_step=lambda run, row, groups: seen.append((run, groups)))
    run, groups = seen[0]
    trajectories = [t for g in groups for t in g.trajectories]
    with torch.no_grad():
        (norms,) = run.players["policy"].policy.evaluate([c for t in trajectories for c in t.contexts], [Norm()]).values()
    plain, scaled = (
        np.concatenate([c.advantages for row in rule.assign(groups, {}) for c in row]) for rule in (GroupRelative("sample"), ar_lopti.credit)
    )
    low = np.concatenate([t.contexts[0].logprobs for t in trajectories]) < math.log(0.25)
    before, after = ((np.abs(a) * norms.numpy())[low].sum() / (np.abs(a) * norms.numpy()).sum() for a in (plain, scaled))
    assert 0 < after < before
    assert after <= 0.95 * before


def test_a_cut_of_the_batch_changes_nothing():
    whole, cut = (weights_after(SPLIT, micro=m, steps=2)["policy.logits"] for m in (None, 1))
    assert_close(cut, whole, rtol=0, atol=1e-10)


def test_the_numbers_of_the_released_script():
    assert ar_lopti.objective["policy"].trust == DualClip(low=0.2, high=0.24, ceiling=10.0)
    assert (ar_lopti.objective["kl"].coefficient, ar_lopti.objective["kl"].estimator) == (0.001, "k3")
    assert ar_lopti.credit == Scaled(GroupRelative("sample"), ByProbability(0.3))
    assert ar_lopti.update == UnlikelyFirst(0.5, Minibatches(count=2), reverse=False)


def test_wrong_numbers_are_refused():
    with pytest.raises(UserError, match="eta"):
        UnlikelyFirst(eta=2.0)
    assert ar_lopti.objective["policy"].average == ar_lopti.objective["kl"].average == TokenMean()
