"""SEC: the exact numbers of the method, and that its bandit moves within a run."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gradus.credit.groups import group_relative
from gradus.curricula.bandit import Bandit
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.sec import sec
from gradus.recipe.core import changes
from gradus.testing.methods import TOY
from gradus.testing.methods.runs import toy_run
from gradus.training.launch import go


@pytest.mark.parametrize(("rewards", "due"), [([1, 0, 0, 0], 0.8660), ([1, 1, 0, 0], 1.0), ([1, 1, 1, 1], 0.0), ([0, 0, 0, 0], 0.0)])
def test_mean_magnitude_of_a_group(rewards, due):
    # 1 right of 4: p = 1/4, mean |A| = 2 sqrt(p (1 - p)) = 0.8660
    magnitude = np.abs(group_relative(np.array(rewards, float), scale="population")).mean()
    assert magnitude == pytest.approx(due, abs=1e-4)
    assert magnitude == pytest.approx(2 * np.sqrt(np.mean(rewards) * (1 - np.mean(rewards))), abs=1e-6)


def test_it_changes_the_curriculum_alone():
    assert changes(grpo, sec) == {"curriculum": Bandit(0.5, 1.0)}


def test_values_in_a_run_are_those_of_its_advantages():
    seen = {}

    def keep(run, metrics, groups):
        for group in groups:
            arm = group.trajectories[0].problem.meta["arm"]
            seen.setdefault((run.step, arm), []).extend(np.abs(t.advantages).mean() for t in group.trajectories)

    run = toy_run(sec, task=TOY, steps=3, prompts=4)
    run.on_step = keep
    values = go(run).memory.states["curriculum"]["state"]["values"]
    due = dict.fromkeys(values, 0.0)
    for (_, arm), magnitudes in sorted(seen.items()):
        due[arm] = 0.5 * float(np.mean(magnitudes)) + 0.5 * due[arm]
    assert values == pytest.approx(due)
    assert max(values.values()) > 0  # the bandit acts


def test_requests_name_their_arm():
    run = toy_run(sec, task=TOY, steps=1, prompts=4)
    _, world = run.at(0)
    requests = asyncio.run(world.more(6))
    assert {r.problem.meta["arm"] for r in requests} <= {"early", "late"}
