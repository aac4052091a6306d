"""KTO: losses on either side of the drift by hand and their gradient, plain loops, the first step as a policy gradient, its limit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import BatchBaseline
from gradus.objectives.terms import evaluate
from gradus.papers.bases.dpo import dpo
from gradus.papers.bases.kto import kto, prospect_losses
from gradus.papers.bases.reinforce import reinforce
from gradus.rollouts.demonstrations import DemonstratedPairs
from gradus.testing.methods import (
    REFERENCE,
    TOY,
    TOY_PAIRS,
    check_different_update,
    check_learns,
    check_micro_batches,
    check_same_update,
    loss_and_gradient,
    steps_of,
    toy_batch,
    toy_group,
    toy_run,
    train_toy,
    weights_after,
)
from gradus.types import UserError
from gradus.types.signals import LogProb


def with_drift(made, rows):
    """The group with a stream "mismatched" in every trajectory."""
    contexts = [
        replace(t.contexts[0], streams={"mismatched": np.array(r, np.float32)}) for t, r in zip(made.trajectories, rows, strict=True)
    ]
    return made.but(trajectories=tuple(t.but(contexts=(c,)) for t, c in zip(made.trajectories, contexts, strict=True)))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def test_losses_by_hand():
    # beta 1/2, gains 2 and -2: 1 - sigmoid(1) where it is wanted, 1 - sigmoid(-1) where not, the latter three times
    losses = prospect_losses(torch.tensor([2.0, 2.0, -2.0]), torch.tensor([True, False, False]), beta=0.5, weights=(1.0, 3.0))
    assert_close(losses, torch.tensor([sigmoid(-1), 3 * sigmoid(1), 3 * sigmoid(-1)]))


@pytest.mark.parametrize(("rows", "drift"), [([[2, 2], [0, 2]], 3.0), ([[-2, 2], [0, -2]], 0.0)])
def test_loss_and_gradient_by_hand(rows, drift):
    # h of the desirable answer 1 + 1, of the other -1 - 1; the drift is the mean of the sums 4 and 2, or 0 where that of 0 and -2 is below
    made = toy_batch(with_drift(toy_group(1, 0), rows), signals={REFERENCE: {"g/0": np.full(2, -2.0), "g/1": np.full(2, -1.0)}})
    logprobs = torch.tensor([-1.0, -1, -2, -2], dtype=torch.float64, requires_grad=True)
    loss, metrics = evaluate(kto.objective, {LogProb(): logprobs}, made)
    good, bad = sigmoid(0.1 * (2 - drift)), sigmoid(0.1 * (drift + 2))
    assert loss.item() == pytest.approx(((1 - good) + (1 - bad)) / 2)
    assert metrics["drift"].mean == pytest.approx(drift)
    assert (metrics["gain/desirable"].mean, metrics["gain/undesirable"].mean) == (2, -2)
    loss.backward()
    slopes = [-0.1 * good * (1 - good) / 2] * 2 + [0.1 * bad * (1 - bad) / 2] * 2
    assert_close(logprobs.grad, torch.tensor(slopes, dtype=torch.float64))


def test_the_loss_equals_plain_loops():
    rng = np.random.default_rng(9)
    terms = kto.but(objective__sampled__desirable=1.3, objective__sampled__undesirable=0.7, objective__sampled__beta=0.4).objective
    groups = [toy_group(1, 0, 0.6, lengths=[2, 4, 1], key="a"), toy_group(0.25, lengths=[3], key="b")]
    rows = {t.id: rng.normal(size=t.actions).astype(np.float32) for g in groups for t in g.trajectories}
    groups = [with_drift(g, [rows[t.id] for t in g.trajectories]) for g in groups]
    reference = {t.id: -rng.uniform(0, 2, t.actions) for g in groups for t in g.trajectories}
    logprobs = -rng.uniform(0, 2, 10)
    loss, _ = evaluate(terms, {LogProb(): torch.from_numpy(logprobs)}, toy_batch(*groups, signals={REFERENCE: reference}))
    left, total = iter(logprobs.tolist()), 0.0
    drift = max(0.0, sum(float(x) for row in rows.values() for x in row) / 4)
    for g in groups:
        for t in g.trajectories:
            h = sum(next(left) - r for r in reference[t.id])
            total += (1.3 * (1 - sigmoid(0.4 * (h - drift))) if t.value > 0.5 else 0.7 * (1 - sigmoid(0.4 * (drift - h)))) / 4
    assert loss.item() == pytest.approx(total, abs=1e-12)


def test_given_answers_have_the_loss_of_sampled_ones():
    sampled = with_drift(toy_group(1, 0, lengths=[2, 3]), [[2, 2], [0, 1, 1]])
    given = sampled.but(trajectories=tuple(t.but(source="expert") for t in sampled.trajectories))
    reference, rows = {"g/0": [-2.0, -1], "g/1": [-1.0, -3, -1]}, [-1.0, -1, -2, -2, -1]
    ours, theirs = (loss_and_gradient(kto.objective, [g], rows, signals={REFERENCE: reference}) for g in (given, sampled))
    assert ours[:2] == theirs[:2]


def test_the_first_step_is_a_policy_gradient_with_rewards_of_plus_and_minus_one():
    # h = z0 = 0: every answer has slope -+beta / 4, which is REINFORCE without a baseline
    signed = replace(TOY, verify=lambda problem, completion: 1.0 if problem.answer in completion else -1.0)
    start = toy_run(kto).players["policy"].policy.network.logits.detach()
    ours = weights_after(kto.but(objective__sampled__above=0.0), task=signed)["policy.logits"] - start
    theirs = weights_after(reinforce.but(credit=BatchBaseline("none")), task=signed)["policy.logits"] - start
    assert_close(ours, 0.1 / 4 * theirs, rtol=0, atol=1e-12)


def test_all_samples_count_and_the_drift_is_seen():
    seen = steps_of(kto, steps=3)
    assert all(t.advantages is not None for _, groups in seen for g in groups for t in g.trajectories)
    assert seen[0][0]["drift"] == 0
    assert seen[0][0]["loss/sampled"] == pytest.approx(0.5)
    assert seen[0][0]["tokens/score"] > 0


def test_a_step_of_one_problem_has_no_other_prompt():
    # the answers stay under their own prompt, so the drift is the mean of their own h
    seen = []
    train_toy(kto, steps=6, prompts=1, group=8, learning_rate=0.3, watch=lambda run, metrics, groups: seen.append((metrics, groups)))
    for metrics, groups in seen:
        h = [float(t.contexts[0].streams["mismatched"].sum()) for g in groups for t in g.trajectories]
        wanted = np.array([t.value > 0.5 for g in groups for t in g.trajectories])
        kinds = [("desirable", wanted), ("undesirable", ~wanted)]
        mean = sum(metrics[f"gain/{kind}"] * rows.mean() for kind, rows in kinds if rows.any())  # of h as the loss sees it
        assert mean == pytest.approx(np.mean(h), abs=1e-6)
        assert metrics["drift"] == pytest.approx(max(0.0, mean), abs=1e-6)
    assert max(metrics["drift"] for metrics, _ in seen) > 0


def test_both_answers_of_a_given_pair_count():
    seen = steps_of(kto, task=TOY_PAIRS, steps=40)
    assert "tokens/rollout" not in seen[0][0]
    assert seen[0][0]["loss/given"] == pytest.approx(0.5)
    assert seen[-1][0]["gain/desirable"] > 0 > seen[-1][0]["gain/undesirable"]


def test_without_its_differences_it_is_dpo():
    check_same_update(kto.but(rollout=dpo.rollout, selection=dpo.selection, objective=dpo.objective), dpo)
    check_different_update(kto, dpo)


def test_gradient_does_not_depend_on_the_micro_batch_where_pairs_are_given():
    check_micro_batches(kto, task=TOY_PAIRS)


def test_it_learns():
    check_learns(kto)


def test_a_weight_below_zero_is_refused():
    with pytest.raises(UserError, match=r"undesirable is -1"):
        kto.but(objective__sampled__undesirable=-1.0)


def test_a_rollout_that_does_not_read_the_drift_is_named():
    with pytest.raises(UserError, match="set --rollout MismatchedPrompts"):
        train_toy(kto.but(rollout=DemonstratedPairs()), steps=1)
