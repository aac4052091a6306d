"""Vision-G1: influence and window by hand, projections against exact gradients, the rounds of a run, and its limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.curricula.rates import SuccessRates
from gradus.objectives.trust import DualClip
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.vision_g1 import InfluenceAndRates, easy_to_hard, rates_of, source_of, vision_g1
from gradus.recipe.core import changes
from gradus.rollouts.demonstrations import solved
from gradus.testing.methods import TOY, check_resumes, toy_group, toy_run, train_toy, weights_after
from gradus.types import Frozen, Key, Problem, Request, UserError
from gradus.types.signals import LogProb
from gradus.updates.forward_backward import evaluated

SMALL = InfluenceAndRates(pool=6, samples=4, every=2, held_out=3, low=0.0, high=1.0)


def test_the_window_goes_from_easy_to_hard():
    assert easy_to_hard([0, 0.125, 0.5, 0.875, 1], 0.1, 0.9) == [3, 2, 1]
    assert easy_to_hard([0.5, 0.7, 0.5], 0.0, 1.0) == [1, 0, 2]  # equal rates keep their order
    assert easy_to_hard([0, 1], 0.1, 0.9) == []


def test_rates_and_sources():
    group = toy_group(1, 0, 1, 0)
    (problem,) = {t.problem.id: t.problem for t in group.trajectories}.values()
    assert rates_of([group], [problem, replace(problem, id="other")]) == [0.5, 0.0]
    assert [source_of(Problem("x", "t", text="", meta=m)) for m in (Frozen(arm="a", category="c"), Frozen(category="c"), Frozen())] == ["a", "c", "t"]


def gradient_of(policy, context):
    parameters = [p for p in policy.network.parameters() if p.requires_grad]
    with torch.enable_grad():
        total = evaluated(policy, [context], (LogProb(),), Key(0))[LogProb()].sum()
    found = torch.autograd.grad(total, parameters, allow_unused=True)
    return torch.cat([g.reshape(-1) for g in found if g is not None]).double().numpy()


def test_projected_products_keep_the_sign_of_the_exact_ones():
    run = toy_run(vision_g1)
    world = run.world(run.recipe, "train")
    contexts = [solved(Request(p), world) for p in TOY.source.draw(range(14), None, Key(0))]
    projected = asyncio.run(world.gradients(contexts, project=1024))
    exact = [gradient_of(run.players["policy"].policy, context) for context in contexts]
    ours, due = projected @ projected.T, np.array(exact) @ np.array(exact).T
    pairs = np.triu_indices(len(contexts), 1)
    large = np.abs(due[pairs]) > 1e-9
    assert large.any()
    assert np.mean(np.sign(ours[pairs][large]) == np.sign(due[pairs][large])) >= 0.9


def test_rounds_of_a_run():
    seen = []
    run = train_toy(vision_g1.but(curriculum=SMALL), steps=4, watch=lambda run, row, groups: seen.append((row, groups)))
    assert ["in_window" in row for row, _ in seen] == [True, False, True, False]
    assert ["sources" in row for row, _ in seen] == [True, False, False, False]  # the influence is computed once
    assert all(t.trained for _, groups in seen for g in groups for t in g.trajectories)
    state = run.memory.states["curriculum"]["state"]
    assert 1 <= len(state["kept"]) <= 6
    assert state["place"] == 2 * run.recipe.setting.prompts  # the second round, of two steps, began with the easiest problem
    assert set(state["order"]) <= set(state["kept"])


def test_problems_outside_the_window_are_not_drawn_unless_all_are():
    none = replace(SMALL, keep=None, low=0.99, high=0.995)
    run = train_toy(vision_g1.but(curriculum=none), steps=1)
    assert run.memory.states["curriculum"]["state"]["order"] == list(range(6))


def test_without_filters_it_is_grpo_over_passes_of_the_pool():
    plain = replace(SMALL, keep=None, samples=0, shuffled=True)
    base = grpo.but(objective__kl=None, players__reference=None, objective__policy__trust=DualClip(0.2, 0.28, 10.0))
    ours, theirs = (
        weights_after(r, steps=3)["policy.logits"] for r in (vision_g1.but(curriculum=plain), base.but(curriculum=SuccessRates(factor=1, pool=6)))
    )
    assert torch.equal(ours, theirs)
    assert not torch.equal(weights_after(vision_g1.but(curriculum=SMALL), steps=3)["policy.logits"], theirs)


def test_a_resumed_run_keeps_its_problems():
    check_resumes(vision_g1.but(curriculum=SMALL), steps=3, after=1)


def test_the_numbers_and_wrong_ones():
    assert (vision_g1.curriculum.samples, vision_g1.curriculum.keep, vision_g1.curriculum.low, vision_g1.curriculum.high) == (8, 0.5, 0.1, 0.9)
    assert {"curriculum", "objective.kl", "objective.policy.trust"} <= set(changes(grpo, vision_g1))
    for wrong in ({"keep": 0.0}, {"samples": -1}, {"every": 0}, {"low": 1.5}):
        with pytest.raises(UserError, match="InfluenceAndRates"):
            InfluenceAndRates(**wrong)
