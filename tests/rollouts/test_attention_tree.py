"""Trees by attention: the matrix of steps, the influence, branch points, the choice of answers, and the paths."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.papers.bases.grpo import grpo
from gradus.rewards.verified import Verified
from gradus.rollouts.attention_tree import (
    AttentionTree,
    Influence,
    beginnings,
    branch_steps,
    expanded,
    later_attention,
    step_matrix,
    step_mean,
)
from gradus.rollouts.auto import Auto
from gradus.tasks.flow.flow_2d import flow_2d
from gradus.testing.methods import TOY, toy_run, toy_trajectory
from gradus.types import Frozen, Key, Request, UserError
from gradus.types.spans import Separated


def test_the_matrix_of_steps_is_a_mean_over_both():
    weights = torch.arange(16.0).reshape(1, 4, 4)
    found = step_matrix(weights, torch.tensor([0, 0, 1, 1]))
    assert_close(found, torch.tensor([[[2.5, 4.5], [10.5, 12.5]]]))  # (0 + 1 + 4 + 5) / 4, ...
    assert_close(step_matrix(weights, torch.tensor([0, 1, 2, 3])), weights)


def test_the_influence_by_hand():
    matrix = torch.zeros(2, 6, 6)
    matrix[0, 4, 0], matrix[0, 5, 0] = 0.2, 0.3
    assert later_attention(matrix, delta=4)[0].item() == pytest.approx(0.5)
    matrix[0, 3, 0] = matrix[0, 1, 0] = 9.0  # mass on a step closer than D
    assert later_attention(matrix, delta=4)[0].item() == pytest.approx(0.5)
    matrix[1, 5, 0] = 0.6  # another head has more
    assert later_attention(matrix, delta=4)[0].item() == pytest.approx(0.6)
    assert later_attention(matrix, delta=5)[0].item() == pytest.approx(0.6)


def test_prompt_and_first_step_have_no_influence():
    context = replace(toy_trajectory([1, 2, 3, 4]).contexts[0], streams=Frozen(span=np.array([0, 1, 1, 2])))
    weights = torch.zeros(1, 5, 5)
    weights[0, 4] = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.0])
    # steps: prompt, 0, 1 1, 2; the last step gives .1 to the prompt, .2 to the first step, (.3 + .4) / 2 to the second
    assert_close(Influence(delta=1).of(weights, context), torch.tensor([0.0, 0.35, 0.35, 0.0]))


def test_branch_steps_by_hand():
    starts = np.array([0, 4, 8, 12, 16, 20])
    scores = np.array([0.0, 0.5, 0.4, 0.1, 0.6])
    # the quantile .5 is .4: steps 1, 2, 4; the gap is from the end of the chosen step to the start of the next one
    assert branch_steps(scores, starts, quantile=0.5, gap=0, count=2) == [1, 2]
    assert branch_steps(scores, starts, quantile=0.5, gap=4, count=2) == [1, 4]
    assert branch_steps(scores, starts, quantile=0.5, gap=8, count=2) == [1, 2]  # step 2 alone is far enough; step 1 fills up
    assert branch_steps(scores, starts, quantile=0.99, gap=0, count=2) == [1, 4]
    assert branch_steps(np.array([0.0, 0.0, 0.0, 0.2]), np.arange(5), quantile=0.2, gap=0, count=1) == [3]  # the least positive one
    assert branch_steps(np.zeros(1), np.arange(2), quantile=0.8, gap=0, count=2) == []
    assert branch_steps(np.zeros(2), np.arange(3), quantile=0.8, gap=9, count=2) == [1]


def test_each_step_counts_once_in_the_mean_of_an_answer():
    spans = np.array([0, 0, 0, 1, 2, 2])
    assert beginnings(spans).tolist() == [0, 3, 4]
    assert step_mean(np.array([6.0, 6.0, 6.0, 3.0, 0.0, 0.0]), spans) == 3.0  # the mean over tokens is 3.5
    assert step_mean(np.zeros(0), np.zeros(0, int)) == 0.0


def test_how_many_answers_branch():
    assert [len(expanded([i < k for i in range(6)], True, Key(1))) for k in range(7)] == [6, 6, 5, 4, 4, 3, 3]
    assert expanded([True] * 6, False, Key(1)) == []
    for seed in range(10):
        chosen = expanded([True, False, False, False, False, True], True, Key(seed))
        assert {0, 5} <= set(chosen)
        assert len(set(chosen)) == len(chosen) == 5
        assert {1, 2} <= set(expanded([True, False, False, True, True, True], True, Key(seed)))


def grown(part, *, steps=1, count=6):
    run = toy_run(grpo.but(rollout=part, reward=Verified()))
    world = run.at(0)[1]
    requests = [Request(p, count=count) for p in TOY.source.draw([0, 1, 2], None, Key())]
    state = part.start()
    for _ in range(steps):
        groups, state = asyncio.run(part.run(requests, world, state))
    return groups, world, state


def test_paths_share_the_tokens_before_their_branch_point():
    groups, world, _ = grown(AttentionTree(Separated("[a-h]"), gap=0, reads=Influence(delta=1)))
    made = 0
    for g in groups:
        roots = {t.links["origin"]: t for t in g.trajectories if "shared" not in t.links}
        assert len(roots) == 6
        for t in (t for t in g.trajectories if "shared" in t.links):
            made += 1
            (path,), (context,) = t.contexts, roots[t.links["origin"]].contexts
            shared = t.links["shared"]
            assert 0 < shared < context.actions
            said, own = (c.sequence[c.action_positions] for c in (path, context))
            assert said[:shared].tolist() == own[:shared].tolist()
            assert path.logprobs[:shared].tolist() == context.logprobs[:shared].tolist()
            assert len(path.logprobs) == path.actions <= 6
            assert t.completion == world.text(said)
            assert t.value == float(t.problem.answer in t.completion)
    assert made > 4
    assert 0 <= world.notes["contrast"] <= 1
    assert len({t.id for g in groups for t in g.trajectories}) == sum(len(g.trajectories) for g in groups)


def test_random_steps_and_no_branches():
    groups, _, _ = grown(AttentionTree(Separated("[a-h]"), gap=0, at="random"))
    assert any("shared" in t.links for g in groups for t in g.trajectories)
    groups, world, _ = grown(AttentionTree(Separated("[a-h]"), branches=0))
    assert {len(g.trajectories) for g in groups} == {6}
    assert world.notes["branched"] == 0.0


def test_a_problem_without_a_wrong_answer_branches_only_above_the_running_mean():
    part = AttentionTree(Separated("[a-h]"), gap=0, reads=Influence(delta=1))
    run = toy_run(grpo.but(rollout=part))
    task = replace(TOY, verify=lambda problem, completion: 1.0)
    run = toy_run(grpo.but(rollout=part), task=task)
    requests = [Request(TOY.source.draw([0], None, Key())[0], count=6)]
    (low,), state = asyncio.run(part.run(requests, run.at(0)[1], {"total": 0.0, "count": 9.0}))
    assert state["count"] == 10.0
    assert state["total"] > 0
    assert len(low.trajectories) > 6  # the mean so far is 0
    (high,), _ = asyncio.run(part.run(requests, run.at(0)[1], {"total": 90.0, "count": 9.0}))
    assert len(high.trajectories) == 6


def test_refusals():
    with pytest.raises(UserError, match="writes no text"):
        AttentionTree().check_task(flow_2d())
    with pytest.raises(UserError, match='"attention" or "random"'):
        AttentionTree(at="entropy")
    assert AttentionTree().test == Auto()
