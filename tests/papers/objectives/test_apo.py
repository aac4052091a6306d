"""APO: weights and factors by hand, the loss against a plain loop, the base at the limits, and that both factors act."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.credit.scaled import Scaled
from gradus.objectives.kl import KL
from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.objectives.apo import Divergence, LongerThanRight, apo, divergence_weight
from gradus.recipe.core import changes
from gradus.testing.methods import REFERENCE, advantages_of, check_bound_acts, toy_group, train_toy, weights_after
from gradus.types import UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb

OFF = {"credit__rate": math.inf, "credit__rule__factor__base": 1.0}


def test_weights_by_hand():
    # 1 - exp(-2.71828 (1 - d))
    for difficulty, due in ((0.25, 0.86980), (0.5, 0.74312), (0.75, 0.49317), (0.0, 1.0), (1.0, 1.0)):
        assert divergence_weight(difficulty) == pytest.approx(due, abs=5e-6)
    assert divergence_weight(0.75, rate=math.inf) == 1.0


def test_length_factors_by_hand():
    for length, base, due in ((1001, 1.00001, 1.00995), (10001, 1.00001, 1.09516), (11, 1.01, 1.09471), (1, 1.01, 1.0), (1001, 1.0, 1.0)):
        (found,) = LongerThanRight(base).factors([toy_group(1, 0, lengths=[1, length])], {})
        assert found[1][0] == pytest.approx(due, abs=5e-6)  # 2 - 1.00001^-1000, 2 - 1.00001^-10000, 2 - 1.01^-10 = 2 - .90529


def test_only_long_wrong_answers_get_a_factor():
    # right answers of 2 and 4 tokens: L = 3; wrong ones of 13 (ten too long), 3 and 1 tokens
    group = toy_group(1, 0, 1, 0, 0, lengths=[2, 13, 4, 3, 1])
    (found,) = LongerThanRight(1.01).factors([group], {})
    assert [f.shape for f in found] == [(2,), (13,), (4,), (3,), (1,)]
    assert [float(f[0]) for f in found] == [1.0, pytest.approx(1.09471, abs=5e-6), 1.0, 1.0, 1.0]
    (none,) = LongerThanRight(1.01).factors([toy_group(0, 0, lengths=[1, 50])], {})
    assert [float(f[0]) for f in none] == [1.0, 1.0]


def test_weight_and_advantage_by_hand():
    # one of four right: d = .75, A = 3^.5 and -3^-.5; the wrong answer of 12 tokens is ten too long
    group = toy_group(1, 0, 0, 0, lengths=[2, 12, 2, 1])
    rows = apo.but(credit__rule__factor__base=1.01).credit.assign([group], {})[0]
    k = 1 - math.exp(-math.e / 4)
    assert [float(c.weights[0]) for c in rows] == [pytest.approx(k), 1.0, 1.0, 1.0]
    wrong = -(3**-0.5)
    assert [float(c.advantages[0]) for c in rows] == [pytest.approx(3**0.5 / k), pytest.approx(wrong * (2 - 1.01**-10)), pytest.approx(wrong), pytest.approx(wrong)]
    assert [float(c.weights[0]) for c in apo.credit.assign([toy_group(1, 1, 1)], {})[0]] == [1.0] * 3  # d = 0, A = 0


def test_weights_of_the_rule_within_are_kept():
    from gradus.types.parts import Credited

    class Halves:
        needs = ()

        def assign(self, groups, signals):
            return [[Credited(np.full(t.actions, t.value - 0.5), weights=np.full(t.actions, 0.5)) for t in g.trajectories] for g in groups]

    rows = Divergence(Halves()).assign([toy_group(1, 0)], {})[0]
    assert [float(c.weights[0]) for c in rows] == [pytest.approx(0.5 * 0.74312, abs=5e-6), 0.5]


def test_loss_and_gradient_equal_a_plain_loop():
    """The loop has the formulas of the paper: k on the KL term alone, the factor on the advantage."""
    rewards, lengths = [1.0, 0.0, 0.0, 0.0], [2, 12, 3, 1]
    recipe = apo.but(credit__rule__factor__base=1.01, objective__kl__coefficient=0.3)
    made = toy_group(*rewards, lengths=lengths)
    credited = [t.but(advantages=c.advantages, weights=c.weights) for t, c in zip(made.trajectories, recipe.credit.assign([made], {})[0], strict=True)]
    rng = np.random.default_rng(3)
    reference, old = {t.id: rng.normal(size=t.actions) for t in credited}, torch.from_numpy(rng.normal(size=18))
    batch = replace(make_batch([made.but(trajectories=tuple(credited))], {REFERENCE: reference}, dtype=torch.float64), old={LogProb(): old})
    logprobs = (old + torch.from_numpy(rng.normal(size=18) * 0.4)).requires_grad_()
    loss, metrics = evaluate(recipe.objective, {LogProb(): logprobs}, batch)
    loss.backward()
    advantages = [3**0.5, -(3**-0.5) * (2 - 1.01**-10), -(3**-0.5) * (2 - 1.01**-1), -(3**-0.5)]
    weights = [1 - math.exp(-math.e * 0.25), 1.0, 1.0, 1.0]
    total, slopes, clipped, at = 0.0, [], 0, 0
    for a, k, length, t in zip(advantages, weights, lengths, credited, strict=True):
        for i in range(length):
            ratio, d = math.exp(logprobs[at].item() - old[at].item()), reference[t.id][i] - logprobs[at].item()
            bound, share = min(max(ratio, 0.8), 1.2), 1 / length / 4
            total += share * (-min(ratio * a, bound * a) + 0.3 * k * (math.exp(d) - d - 1))
            slopes.append(share * ((-ratio * a if ratio * a <= bound * a else 0.0) + 0.3 * k * (1 - math.exp(d))))
            clipped += ratio * a > bound * a
            at += 1
    assert clipped
    assert metrics["clip_share"].mean == pytest.approx(clipped / 18)
    assert_close(loss.item(), total)
    assert_close(logprobs.grad, torch.tensor(slopes, dtype=torch.float64))


def test_without_its_factors_it_is_grpo():
    base = grpo.but(objective__kl=KL(0.001), update__count=16)
    ours, plain = (weights_after(r, steps=2)["policy.logits"] for r in (apo.but(**OFF), base))
    assert torch.equal(ours, plain)
    assert not torch.equal(weights_after(apo, steps=2)["policy.logits"], plain)
    rewards = (1, 0, 0, 1)
    assert advantages_of(apo.but(**OFF).credit, toy_group(*rewards)) == advantages_of(GroupRelative(), toy_group(*rewards))


def test_the_published_numbers():
    assert set(changes(grpo, apo)) == {"credit", "objective.kl.coefficient", "update.count"}
    assert apo.credit == Divergence(Scaled(GroupRelative(), LongerThanRight(1.00001)), rate=math.e)
    assert (apo.objective["kl"].coefficient, apo.update.count) == (0.001, 16)


def test_toy_steps_weigh_and_clip():
    seen = []
    train_toy(apo, steps=4, prompts=4, group=8, watch=lambda run, row, groups: seen.extend(groups))
    mixed = [t for g in seen if 0 < g.rewards.mean() < 1 for t in g.trajectories]
    assert mixed
    assert all((t.weights[0] < 1) == t.right for t in mixed)
    check_bound_acts(apo, updates=16)


@pytest.mark.parametrize("part", [lambda: LongerThanRight(0.99), lambda: Divergence(rate=0.0), lambda: Divergence(rate=-1.0)])
def test_what_cannot_be_is_refused(part):
    with pytest.raises(UserError, match=r"LongerThanRight\.base|Divergence\.rate"):
        part()
