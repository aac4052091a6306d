"""PipelineRL: the weight against the version that chose a token, in plain loops and through the loop; limits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.objectives.terms import evaluate
from gradus.papers.bases.pipeline_rl import pipeline_rl
from gradus.papers.bases.reinforce import reinforce
from gradus.rollouts.auto import Auto
from gradus.rollouts.in_flight import InFlight
from gradus.testing.methods import (
    advantages_of,
    check_different_update,
    check_learns,
    check_resumes,
    check_same_update,
    toy_batch,
    toy_group,
    train_toy,
)
from gradus.types.signals import LogProb


def test_the_gradient_equals_plain_loops():
    rng = np.random.default_rng(8)
    lengths, given = [2, 4], [0.5, -0.5]
    assert advantages_of(pipeline_rl.credit, toy_group(1, 0, lengths=lengths)) == [[[0.5] * 2, [-0.5] * 4]]
    behaviour = torch.from_numpy(-rng.uniform(0, 3, 6))
    made = replace(toy_batch(toy_group(1, 0, lengths=lengths), advantages=given), behaviour_logprobs=behaviour)
    logprobs = (behaviour + torch.from_numpy(rng.normal(size=6) * 1.5)).requires_grad_()
    loss, metrics = evaluate(pipeline_rl.objective, {LogProb(): logprobs}, made)
    loss.backward()
    rows = zip(logprobs.tolist(), behaviour.tolist(), [0.5] * 2 + [-0.5] * 4, strict=True)
    expected = [-min(math.exp(new - mu), 5.0) * a / 2 for new, mu, a in rows]
    assert_close(logprobs.grad, torch.tensor(expected).double())
    assert metrics["capped_share"].mean == sum(math.exp(n - m) > 5 for n, m in zip(logprobs.tolist(), behaviour.tolist(), strict=True)) / 6


def test_weights_are_one_for_the_present_policy_alone():
    seen = []
    train_toy(pipeline_rl, steps=5, watch=lambda run, metrics, groups: seen.append(metrics))
    ratios = [m["ratio"] for m in seen if "ratio" in m]
    assert len(ratios) >= 3
    assert all(abs(r - 1) < 1e-6 for r in ratios[:1])  # until the first update all is of one version
    assert max(abs(r - 1) for r in ratios[1:]) > 1e-4
    assert max(m["versions"] for m in seen if "versions" in m) > 1


def test_without_its_differences_it_is_reinforce():
    back = pipeline_rl.but(rollout=reinforce.rollout, credit=reinforce.credit, objective=reinforce.objective)
    check_same_update(back, reinforce)
    check_different_update(pipeline_rl, pipeline_rl.but(rollout=Auto()))


def test_in_one_part_it_is_sampling_in_one_go():
    check_same_update(pipeline_rl.but(rollout=InFlight(parts=1)), pipeline_rl.but(rollout=Auto()))


def test_on_its_own_samples_the_weight_is_one():
    fresh = pipeline_rl.but(rollout=Auto(), objective=reinforce.objective)
    assert fresh.credit == GroupRelative(scale="none")
    ours, plain = (train_toy(r, steps=2).players["policy"].policy.network.logits for r in (pipeline_rl.but(rollout=Auto()), fresh))
    assert_close(ours, plain, rtol=0, atol=1e-5)  # behaviour log-probabilities are stored in float32


def test_it_learns():
    check_learns(pipeline_rl.but(rollout__parts=2))


def test_a_run_that_is_taken_up_again_ends_at_the_same_weights():
    assert train_toy(pipeline_rl, steps=2).memory.states["rollout"]["state"]["flights"]
    check_resumes(pipeline_rl, steps=5, after=2)
