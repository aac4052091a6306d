"""SEED-GRPO: entropies of classes and factors by hand, limits, the loss against plain loops, and the step of a question against its entropy."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.credit.scaled import Scaled
from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.credit.seed_grpo import Certainty, seed_grpo
from gradus.tasks.flow.flow_2d import flow_2d
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.testing.methods import REFERENCE, advantages_of, toy_group, train_toy, weights_after
from gradus.types import UserError
from gradus.types.answers import semantic_entropy
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb

FOUR_TWO_TWO = ["=1"] * 4 + ["=2"] * 2 + ["=3"] * 2


def saying(answers, rewards, lengths=None, key="g"):
    made = toy_group(*rewards, lengths=lengths, key=key)
    return made.but(trajectories=tuple(t.but(completion=a) for t, a in zip(made.trajectories, answers, strict=True)))


@pytest.mark.parametrize(
    ("factor", "due"),
    [
        (Certainty(1.0, entropy="shannon"), 0.5),
        (Certainty(0.5, entropy="shannon"), 0.75),
        (Certainty(1.0), 4 / 9),  # SE / ln 8 = 5 / 9
        (Certainty(0.5), 13 / 18),
        (Certainty(1.0, "exponential", entropy="shannon"), math.exp(-0.5)),
        (Certainty(2.0, "exponential", entropy="shannon"), math.exp(-1)),
        (Certainty(1.0, "focal", entropy="shannon"), 0.25),
        (Certainty(1.0, "focal", power=3.0, entropy="shannon"), 0.125),
        (Certainty(0.0), 1.0),
    ],
)
def test_factors_by_hand(factor, due):
    assert factor.of(FOUR_TWO_TWO) == pytest.approx(due)
    rewards = [1, 1, 1, 1, 0, 0, 0, 0]  # mean .5, deviation .5
    assert advantages_of(Scaled(GroupRelative(), factor), saying(FOUR_TWO_TWO, rewards)) == [
        [pytest.approx([due] * 2)] * 4 + [pytest.approx([-due] * 2)] * 4
    ]


@pytest.mark.parametrize("law", ["linear", "exponential", "focal"])
def test_one_class_is_grpo_and_eight_answers_move_nothing(law):
    rewards = [1, 0, 1, 0, 0, 0, 0, 0]
    rule = Scaled(GroupRelative(), Certainty(1.0, law))
    assert advantages_of(rule, saying(["=1"] * 8, rewards)) == advantages_of(GroupRelative(), toy_group(*rewards))
    (rows,) = advantages_of(rule, saying([f"={i}" for i in range(8)], rewards))
    (plain,) = advantages_of(GroupRelative(), toy_group(*rewards))
    assert_close(np.array(rows), np.array(plain) * (math.exp(-1) if law == "exponential" else 0.0), rtol=0, atol=1e-12)


def test_answers_that_mean_the_same_are_one_class_and_none_is_a_class_by_itself():
    assert Certainty(1.0).of(["1+2=3", "answer: 3.0"]) == 1.0
    assert Certainty(1.0).of(["1+2=", "3+4="]) == pytest.approx(0.0)
    assert Certainty(1.0).of(["=1"]) == 1.0


@given(st.lists(st.sampled_from(["=1", "=2", "=3", "="]), min_size=2, max_size=9), st.floats(0, 1))
def test_factors_lie_between_1_and_1_minus_alpha(answers, alpha):
    for form in ("clusters", "shannon"):
        assert 1 - alpha - 1e-12 <= Certainty(alpha, entropy=form).of(answers) <= 1


def test_the_loss_and_its_gradient_equal_plain_loops():
    answers, rewards, lengths = ["=1", "=1", "=2", "="], [1.0, 1.0, 0.0, 0.0], [1, 2, 3, 1]
    made = saying(answers, rewards, lengths)
    credited = tuple(t.but(advantages=c.advantages) for t, c in zip(made.trajectories, seed_grpo.credit.assign([made], {})[0], strict=True))
    rng = np.random.default_rng(5)
    reference, old = {t.id: rng.normal(size=t.actions) for t in credited}, torch.from_numpy(rng.normal(size=7))
    batch = replace(make_batch([made.but(trajectories=credited)], {REFERENCE: reference}, dtype=torch.float64), old={LogProb(): old})
    logprobs = (old + torch.from_numpy(rng.normal(size=7) * 0.4)).requires_grad_()
    loss, _ = evaluate(seed_grpo.objective, {LogProb(): logprobs}, batch)
    loss.backward()
    entropy = (math.log(2) + math.log(4) + math.log(4)) / 3  # classes of 2, 1 and 1
    factor = 1 - 0.5 * entropy / math.log(4)
    total, slopes, at = 0.0, [], 0
    for i, t in enumerate(credited):
        a = (rewards[i] - 0.5) / 0.5 * factor
        for k in range(lengths[i]):
            ratio, d = math.exp(logprobs[at].item() - old[at].item()), reference[t.id][k] - logprobs[at].item()
            clipped, share = min(max(ratio, 0.8), 1.2), 1 / lengths[i] / 4
            total += share * (-min(ratio * a, clipped * a) + 0.04 * (math.exp(d) - d - 1))
            slopes.append(share * ((-ratio * a if ratio * a <= clipped * a else 0.0) + 0.04 * (1 - math.exp(d))))
            at += 1
    assert_close(loss.item(), total)
    assert_close(logprobs.grad, torch.tensor(slopes, dtype=torch.float64))


def test_the_step_of_a_question_falls_with_its_entropy_and_grpo_s_does_not():
    """Spearman's correlation of the gradient norm of a question with its entropy, over 40 drawn questions of 8 answers, is below -0.2."""
    rng, entropies, norms = np.random.default_rng(0), [], {"ours": [], "plain": []}
    while len(entropies) < 40:
        said = rng.integers(0, rng.integers(2, 9), size=8)
        rewards = (said == 0).astype(float)
        if rewards.std() == 0:
            continue
        made = saying([f"={n}" for n in said], rewards, key=f"q{len(entropies)}")
        entropies.append(semantic_entropy(list(Counter(said.tolist()).values())))
        for name, rule in (("ours", seed_grpo.credit), ("plain", GroupRelative())):
            rows = [t.but(advantages=c.advantages) for t, c in zip(made.trajectories, rule.assign([made], {})[0], strict=True)]
            batch = make_batch([made.but(trajectories=tuple(rows))], dtype=torch.float64)
            logprobs = torch.zeros(16, dtype=torch.float64, requires_grad=True)
            evaluate({"policy": seed_grpo.objective["policy"]}, {LogProb(): logprobs}, batch)[0].backward()
            norms[name].append(float(logprobs.grad.norm()))
    assert spearmanr(entropies, norms["ours"]).statistic < -0.2
    assert max(norms["plain"]) - min(norms["plain"]) < 1e-12  # of every question the same


def test_with_alpha_0_it_is_grpo():
    ours, base = (weights_after(r, steps=2)["policy.logits"] for r in (seed_grpo.but(credit__factor__alpha=0.0), grpo.but(update__count=8)))
    assert torch.equal(ours, base)
    assert not torch.equal(weights_after(seed_grpo, steps=2)["policy.logits"], base)


def test_toy_steps_scale_and_clip():
    seen = []
    train_toy(seed_grpo, steps=6, prompts=4, group=8, learning_rate=0.3, watch=lambda run, row, groups: seen.append((row, groups)))
    assert np.mean([row["clip_share"] for row, _ in seen]) > 0
    sizes = [np.abs([t.advantages[0] for t in g.trajectories]).max() for _, groups in seen for g in groups if g.rewards.std() > 0]
    plain = [np.abs(g.rewards - g.rewards.mean()).max() / g.rewards.std() for _, groups in seen for g in groups if g.rewards.std() > 0]
    shares = np.array(sizes) / np.array(plain)
    assert shares.min() < 0.95
    assert shares.max() <= 1 + 1e-12


def test_what_cannot_be_scaled_is_refused():
    for wrong in ({"alpha": 1.5}, {"alpha": 1.5, "law": "focal"}, {"alpha": -0.1}, {"power": 0.0}):
        with pytest.raises(UserError, match=r"Certainty\.(alpha|power)"):
            Certainty(**wrong)
    with pytest.raises(UserError, match="Certainty compares texts"):
        Certainty().check_task(flow_2d())
    Certainty().check_task(arithmetic())
