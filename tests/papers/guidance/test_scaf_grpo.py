"""Scaf-GRPO: which level is chosen, what is replaced, under which prompt it is scored, and when nothing is hinted."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.terms import evaluate
from gradus.papers.bases.grpo import grpo
from gradus.papers.guidance.scaf_grpo import Scaffold, scaf_grpo
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.tasks.puzzles.countdown import countdown
from gradus.testing.methods import advantages_of, check_bound_acts, readable, scripted_world, toy_run, train_toy, weights_after
from gradus.types import Failed, Group, Key, Request, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb
from gradus.updates.minibatches import Minibatches

TASK = countdown()
(PROBLEM,) = TASK.source.draw([0], 2, Key(0))


def level_of(ask):
    return ask.request.tags[-1] if "hint" in ask.request.tags else 0


def rolled(right, *, progress=0.5, count=8, rollout=scaf_grpo.rollout, problem=PROBLEM, verify=TASK.verify):
    """A group in which the levels in `right` are answered right; level 0 has no hint."""
    asked = []

    def speak(ask):
        asked.append(level_of(ask))
        return problem.meta["solution"] if level_of(ask) in right else "no"

    world, _ = scripted_world(replace(TASK, verify=verify), speak, reward=Verified())
    world.progress = progress
    (group,) = asyncio.run(rollout.run([Request(problem, count=count)], world))
    return group, asked, world


def test_the_smallest_sufficient_level_is_chosen():
    group, asked, world = rolled({5, 6, 11})
    assert group.rewards.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
    assert group.trajectories[0].id == f"3/{PROBLEM.id}/hint/5/0"
    assert dict(group.trajectories[0].links) == {"hint": 5, "hint_kind": "planning"}
    assert asked == [0] * 8 + list(range(1, 13))
    assert group.pool == (0.0,) * 12 + (1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    assert world.notes == {"hints/knowledge": 0.0, "hints/planning": 1.0, "hints/solution": 0.0}
    # one success among 8: mean 1/8, population deviation sqrt(7)/8: 7/8 / (sqrt(7)/8) = sqrt 7, and -1/sqrt 7
    first = [row[0] for row in advantages_of(scaf_grpo.credit, group)[0]]
    assert first == pytest.approx([2.6458] + [-0.3780] * 7, abs=5e-5)


def test_the_replacing_answer_stands_under_the_hinted_prompt():
    group, _, _ = rolled({12})
    prompts = [readable(t.contexts[0].prefix) for t in group.trajectories]
    assert prompts[0] == f"<u>{PROBLEM.question}\nhint: {PROBLEM.meta['solution']}|<a>"
    assert set(prompts[1:]) == {f"<u>{PROBLEM.question}|<a>"}


def test_nothing_is_hinted_where_there_is_a_right_answer():
    group, asked, world = rolled({0, 5})
    assert asked == [0] * 8
    assert group.rewards.tolist() == [1.0] * 8
    assert world.notes == {}


@pytest.mark.parametrize(("progress", "levels"), [(0.0, 0), (0.149, 0), (0.15, 12), (1.0, 12)])
def test_nothing_is_hinted_in_the_first_share_of_training(progress, levels):
    _, asked, _ = rolled({5}, progress=progress)
    assert len(asked) == 8 + levels


def test_where_no_level_helps_the_group_stays():
    group, _, world = rolled(set())
    assert [t.id for t in group.trajectories] == [f"3/{PROBLEM.id}/{i}" for i in range(8)]
    assert group.rewards.tolist() == [0.0] * 8
    assert len(group.pool) == 20
    assert sum(world.notes.values()) == 0.0
    assert all(a == 0 for row in advantages_of(scaf_grpo.credit, group)[0] for a in row)


def test_answers_without_a_reward_are_neither_right_nor_replaced():
    calls = iter([Failed("x"), 0.0, 0.0, *[Failed("y")] * 3, *[1.0] * 9])
    group, _, _ = rolled({5}, count=3, verify=lambda problem, completion: next(calls))
    assert [t.reward for t in group.trajectories] == [Failed("x"), 1.0, 0.0]
    assert group.trajectories[1].links["hint"] == 4
    broken, asked, _ = rolled({5}, count=2, verify=lambda problem, completion: Failed("x"))
    assert asked == [0, 0]  # nothing could be judged, so nothing is known to be hard
    assert [t.failed for t in broken.trajectories] == ["x", "x"]


def test_a_hard_problem_without_hints_is_named():
    bare = replace(PROBLEM, meta={k: v for k, v in PROBLEM.meta.items() if k != "hints"})
    with pytest.raises(UserError, match=f"problem {bare.id} has no hints"):
        rolled(set(), problem=bare)


EAGER = scaf_grpo.but(rollout=Scaffold(exempt=0.0))


def steps_of(recipe, **options):
    seen = []
    run = train_toy(recipe, watch=lambda run, metrics, groups: seen.append((metrics, groups)), **options)
    return run, seen


def hints_in(groups):
    return [t for g in groups for t in g.trajectories if "hint" in t.links]


def test_the_exemption_is_a_share_of_all_steps():
    _, seen = steps_of(scaf_grpo.but(rollout=Scaffold(exempt=0.5)), steps=4, group=2, prompts=8)
    assert [bool(hints_in(groups)) for _, groups in seen] == [False, False, True, True]
    assert ["hints/planning" in metrics for metrics, _ in seen] == [False, False, True, True]


def test_the_ratio_of_the_replacing_answer_is_one_under_its_own_prompt():
    _, seen = steps_of(EAGER.but(update__count=1), steps=1, group=2, prompts=8)
    found = hints_in(seen[0][1])
    world = toy_run(EAGER).at(0)[1]
    rows = asyncio.run(world.score([t.contexts[0] for t in found], LogProb()))
    plain = [replace(t.contexts[0], parent=(world.prompt(Request(t.problem)), 1)) for t in found]
    others = asyncio.run(world.score(plain, LogProb()))
    for t, mine in zip(found, rows, strict=True):
        np.testing.assert_allclose(np.exp(mine - t.contexts[0].logprobs), 1.0, atol=1e-6)
    assert any(abs(mine[0] - other[0]) > 0.01 for mine, other in zip(rows, others, strict=True))
    assert seen[0][0]["ratio"] == 1.0


def test_the_gradient_by_hand():
    group, _, _ = rolled({5}, count=2)
    credited = [t.but(advantages=c.advantages) for t, c in zip(group.trajectories, scaf_grpo.credit.assign([group], {})[0], strict=True)]
    made = make_batch([Group("g", tuple(credited))], dtype=torch.float64)
    logprobs = torch.zeros(made.actions, dtype=torch.float64, requires_grad=True)
    loss, _ = evaluate(scaf_grpo.objective, {LogProb(): logprobs}, made)
    loss.backward()
    lengths = [t.actions for t in credited]  # rewards 1 and 0: A = 1 and -1; -A / (2 n)
    assert_close(
        logprobs.grad, torch.tensor([-1 / (2 * lengths[0])] * lengths[0] + [1 / (2 * lengths[1])] * lengths[1], dtype=torch.float64)
    )


def test_without_hints_it_is_grpo():
    base = grpo.but(objective__kl=None, players__reference=None, update__count=4)
    exempt = scaf_grpo.but(rollout__exempt=1.0)
    ours, theirs, hinted = (weights_after(r, steps=2, group=2, prompts=8)["policy.logits"] for r in (exempt, base, EAGER))
    assert torch.equal(ours, theirs)
    assert not torch.equal(hinted, theirs)


@pytest.mark.parametrize("micro", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro):
    recipe = EAGER.but(update=Minibatches(epochs=2))
    whole, cut = (weights_after(recipe, micro=m, steps=2, group=2)["policy.logits"] for m in (None, micro))
    assert_close(cut, whole, rtol=0, atol=1e-10)


def test_four_updates_of_a_batch_and_the_clip_acts():
    check_bound_acts(EAGER, updates=4)


def test_evaluation_sees_no_hint():
    assert scaf_grpo.rollout.test == Auto()


@pytest.mark.parametrize("fields", [{"exempt": -0.1}, {"exempt": 1.5}, {"form": "hint"}])
def test_fields_that_make_no_sense(fields):
    with pytest.raises(UserError, match=r"Scaffold\.(exempt|form) is"):
        Scaffold(**fields)
