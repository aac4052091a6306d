"""SFT: worked solutions as trajectories, the likelihood and its gradient by hand, what evaluation sees."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import BatchBaseline
from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.objectives.aggregation import SequenceMean
from gradus.objectives.terms import evaluate
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.bases.sft import sft
from gradus.rollouts.auto import Auto
from gradus.testing.methods import END, TOY, ToySource, toy_run, toy_trajectory, train_toy, weights_after
from gradus.types import Frozen, Group, Key, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb


def expert(tokens, name):
    return toy_trajectory(tokens, name=name, source="expert").but(advantages=np.ones(len(tokens)))


def test_loss_and_gradient_by_hand():
    # -(log 1/2 + log 1/4 + log 1/8)/3 = (1 + 2 + 3) log 2 / 3 over the three tokens of two solutions
    groups = [Group("g", (expert([2], "a"),)), Group("h", (expert([2, 3], "b"),))]
    logprobs = torch.tensor([0.5, 0.25, 0.125], dtype=torch.float64).log().requires_grad_()
    loss, _ = evaluate(sft.objective, {LogProb(): logprobs}, make_batch(groups, dtype=torch.float64))
    assert_close(loss.item(), 2 * np.log(2))
    loss.backward()
    assert_close(logprobs.grad, torch.full((3,), -1 / 3, dtype=torch.float64))


def test_by_solution_every_one_counts_alike():
    groups = [Group("g", (expert([2], "a"),)), Group("h", (expert([2, 3], "b"),))]
    logprobs = torch.tensor([0.5, 0.25, 0.125], dtype=torch.float64).log()
    terms = sft.but(objective__imitation__average=SequenceMean()).objective
    loss, _ = evaluate(terms, {LogProb(): logprobs}, make_batch(groups, dtype=torch.float64))
    assert_close(loss.item(), 0.5 * np.log(2) + 0.25 * (2 + 3) * np.log(2))


def test_one_step_is_the_mean_likelihood_of_the_solutions():
    # a plain gradient step of size 1: weights = start + mean over all solution tokens of (onehot - softmax) in the row of the token before
    after = weights_after(sft, prompts=3, group=1)["policy.logits"]
    policy = toy_run(sft).players["policy"].policy
    start = policy.network.logits.detach()
    expected, rows = start.clone(), []
    for problem in ToySource().draw(range(3), None, Key()):
        tokens = [int(policy.opening(problem.text).tokens[-1]), *policy.told(problem.meta["solution"]).tokens.tolist()]
        assert tokens[-1] == END
        rows += list(pairwise(tokens))
    for before, token in rows:
        expected[before] -= torch.softmax(start[before], -1) / len(rows)
        expected[before, token] += 1 / len(rows)
    assert_close(after, expected, rtol=0, atol=1e-12)


def test_nothing_is_sampled_and_likelihood_rises():
    seen = []
    run = train_toy(sft, steps=40, watch=lambda run, metrics, groups: seen.append((metrics, groups)))
    assert all("tokens/rollout" not in m for m, _ in seen)
    assert all(t.source == "expert" and t.contexts[0].logprobs is None for _, groups in seen for g in groups for t in g.trajectories)
    assert [len(g.trajectories) for g in seen[0][1]] == [1] * 16  # four times four problems
    assert seen[-1][0]["imitation"] < seen[0][0]["imitation"] - 0.5
    assert run.players["policy"].updates == 40


def test_without_its_differences_it_is_reinforce():
    plain = sft.but(curriculum=ShuffledEpochs(), rollout=Auto(), credit=BatchBaseline(), objective=reinforce.objective)
    assert torch.equal(weights_after(plain)["policy.logits"], weights_after(reinforce)["policy.logits"])


def test_a_problem_without_solution_is_named():
    class Bare(ToySource):
        def draw(self, indices, level, key):
            return [replace(p, meta=Frozen()) for p in super().draw(indices, level, key)]

    with pytest.raises(UserError, match=r'problem toy/0 has no "solution"'):
        train_toy(sft, task=replace(TOY, source=Bare()))


def test_a_task_without_solutions_does_not_fit():
    from gradus.recipe.compatibility import check_fit

    with pytest.raises(UserError, match="needs problems with solution"):
        check_fit(sft, replace(TOY, provides=frozenset()))
