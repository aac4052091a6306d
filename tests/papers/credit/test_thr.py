"""THR: against autograd's gradients of an output head, by hand for two tokens, its weights, and that p = 0 without a mask is GRPO."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.credit.thr import HiddenReward, hidden_rewards, thr, weights_of
from gradus.testing.methods import advantages_of, toy_group, train_toy, weights_after
from gradus.types import Group, UserError
from gradus.types.batch import make_batch
from gradus.types.readers import HeadGradient
from gradus.types.signals import LogProb, LogProbs

SIGNAL = thr.credit.factor.needs[0]


def head_rows(logits, said, hidden, top=64):
    """The rows of HeadGradient for these logits [N, V], sampled tokens [N] and inputs of the head [N, d]."""
    entries = HeadGradient(top).of(torch.from_numpy(logits), torch.from_numpy(said)).numpy()
    return np.concatenate([entries, hidden], 1)


def by_autograd(head, hidden, said, right):
    """THR as the summed inner products of the gradients of log pi by the head, pair by pair."""
    slopes = []
    for h, y in zip(hidden, said, strict=True):
        leaf = torch.from_numpy(head).requires_grad_()
        (torch.from_numpy(h) @ leaf.T).log_softmax(-1)[y].backward()
        slopes.append(leaf.grad.numpy())
    return [
        (1 if right[k] else -1) * sum(float((slopes[m] * slopes[k]).sum()) for m in range(len(said)) if right[m] and m != k)
        for k in range(len(said))
    ]


def test_it_is_the_inner_product_of_the_head_s_gradients():
    rng = np.random.default_rng(0)
    head, hidden = rng.normal(size=(7, 4)), rng.normal(size=(9, 4))
    said, right = rng.integers(7, size=9), np.array([True, True, False, False, True, False, True, False, False])
    rows = head_rows(hidden @ head.T, said, hidden)
    n = int(rows[0, 0])
    found = hidden_rewards(rows[:, 1 : 1 + n], rows[:, 1 + n : 1 + 2 * n], rows[:, 1 + 2 * n :], right)
    assert n == 7
    assert found == pytest.approx(by_autograd(head, hidden, said, right), abs=1e-9)


def test_two_tokens_by_hand():
    # uniform, h = 1, one right token 0: g = (.5, -.5); the wrong tokens 1 and 0 have (-.5, .5) and (.5, -.5), and s = -1
    rows = head_rows(np.zeros((3, 2)), np.array([0, 1, 0]), np.ones((3, 1)))
    found = hidden_rewards(rows[:, 1:3], rows[:, 3:5], rows[:, 5:], np.array([True, False, False]))
    assert found.tolist() == [0.0, 0.5, -0.5]


def test_weights_by_hand():
    rewards = np.array([2.0, -1.0, 0.0, -3.0])
    assert weights_of(rewards, p=0.1, masked=0.0).tolist() == pytest.approx([1.1, 0.9, 1.0, 0.9])
    assert weights_of(rewards, p=-0.1, masked=0.0).tolist() == pytest.approx([0.9, 1.1, 1.0, 1.1])
    assert weights_of(rewards, p=0.1, masked=0.5).tolist() == pytest.approx([1.1, 0, 0, 0.9])  # the median of 0 1 2 3 is 1.5
    assert weights_of(rewards, p=0.0, masked=0.0).tolist() == [1.0] * 4
    assert weights_of(np.zeros(0), p=0.1, masked=0.5).tolist() == []


def test_advantages_of_a_group():
    made = toy_group(1, 0, 0, lengths=[1, 1, 1])
    rows = dict(zip(["g/0", "g/1", "g/2"], head_rows(np.zeros((3, 2)), np.array([0, 1, 0]), np.ones((3, 1)))[:, None], strict=True))
    plain = [a[0] for a in advantages_of(GroupRelative(), made)[0]]
    (found,) = advantages_of(thr.but(credit__factor__masked=0.0).credit, made, signals={SIGNAL: rows})
    assert found == [[plain[0]], [1.1 * plain[1]], [0.9 * plain[2]]]
    (none,) = advantages_of(thr.credit, toy_group(0, 0.5, 0.2, lengths=[1, 1, 1]), signals={SIGNAL: rows})
    assert none == advantages_of(GroupRelative(), toy_group(0, 0.5, 0.2, lengths=[1, 1, 1]))[0]  # no right answer


def test_without_p_and_mask_it_is_grpo():
    plain = thr.but(credit__factor__p=0.0, credit__factor__masked=0.0)
    ours, base = (weights_after(r, steps=3)["policy.logits"] for r in (plain, grpo))
    assert torch.equal(ours, base)
    for other in (thr, thr.but(credit__factor__masked=0.0)):
        assert not torch.equal(weights_after(other, steps=3)["policy.logits"], base)


def test_the_loss_and_its_gradient_equal_plain_loops():
    rng = np.random.default_rng(3)
    head, lengths, rewards = rng.normal(size=(5, 3)), [2, 3, 1], [1.0, 0.0, 0.0]
    hidden, said = rng.normal(size=(6, 3)), rng.integers(5, size=6)
    made = toy_group(*rewards, lengths=lengths)
    rows = dict(zip([t.id for t in made.trajectories], np.split(head_rows(hidden @ head.T, said, hidden), [2, 5]), strict=True))
    credited = [t.but(advantages=c.advantages) for t, c in zip(made.trajectories, thr.credit.assign([made], {SIGNAL: rows})[0], strict=True)]
    reference = {t.id: rng.normal(size=t.actions) for t in credited}
    batch = make_batch([Group("g", tuple(credited))], {LogProbs(player="reference"): reference}, dtype=torch.float64)
    old = torch.from_numpy(rng.normal(size=6))
    batch = replace(batch, old={LogProb(): old})
    logprobs = (old + torch.from_numpy(rng.normal(size=6) * 0.4)).requires_grad_()
    loss, _ = evaluate(thr.objective, {LogProb(): logprobs}, batch)
    loss.backward()
    hand = by_autograd(head, hidden, said, np.repeat([True, False, False], lengths))
    tau, flat = np.median(np.abs(hand)), np.concatenate([reference[t.id] for t in credited])
    owner = np.repeat([0, 1, 2], lengths)

    def slow(values):
        total = 0.0
        for k, value in enumerate(values):
            base = (rewards[owner[k]] - 1 / 3) / math.sqrt(2 / 9)
            a = base * (1 + 0.1 * math.copysign(1, hand[k])) if abs(hand[k]) > tau else 0.0
            ratio, d = math.exp(value - old[k].item()), flat[k] - value
            total += (-min(ratio * a, min(max(ratio, 0.8), 1.2) * a) + 0.04 * (math.exp(d) - d - 1)) / lengths[owner[k]] / 3
        return total

    values = logprobs.tolist()
    assert_close(loss.item(), slow(values))
    for i in range(6):
        up, down = ([v + h * (j == i) for j, v in enumerate(values)] for h in (1e-6, -1e-6))
        assert logprobs.grad[i].item() == pytest.approx((slow(up) - slow(down)) / 2e-6, abs=1e-6)


def test_toy_steps_mask_half_of_a_group_with_a_right_answer():
    seen = []
    train_toy(thr, steps=3, prompts=4, group=8, watch=lambda run, metrics, groups: seen.extend(groups))
    mixed = [g for g in seen if any(t.right for t in g.trajectories) and not all(t.right for t in g.trajectories)]
    assert mixed
    for group in mixed:
        rows = np.concatenate([t.advantages for t in group.trajectories])
        assert 0.4 < (rows == 0).mean() < 1
        assert len({round(abs(a), 9) for a in rows.tolist()}) > 2


def test_wrong_numbers_are_refused():
    with pytest.raises(UserError, match=r"HiddenReward.p is 2"):
        HiddenReward(p=2.0)
    with pytest.raises(UserError, match="masked"):
        HiddenReward(masked=1.0)
