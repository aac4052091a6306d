"""MoDoMoDo: the mixture that trials choose, frequencies of the data sets, refusals, and GRPO with a uniform bandit as the limit."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gradus.curricula.bandit import Bandit
from gradus.curricula.mixture import ByMixture
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.modomodo import modomodo
from gradus.recipe.core import changes
from gradus.testing.methods import ToySource, check_resumes, toy_task, train_toy, weights_after
from gradus.types import Frozen


class Armed(ToySource):
    """Three data sets."""

    arms = ("a", "b", "c")

    def draw_arm(self, arm, indices, level, key):
        drawn = self.draw([self.arms.index(arm) + 3 * i for i in indices], level, key)
        return [replace(p, meta=Frozen(arm=arm)) for p in drawn]


def armed():
    return replace(toy_task(grpo), source=Armed())


def test_data_sets_occur_as_often_as_the_mixture_says():
    seen = []
    rule = ByMixture(weights=(5, 3, 2))
    train_toy(modomodo.but(curriculum=rule), task=armed(), steps=20, prompts=100, group=2, watch=lambda run, row, groups: seen.extend((g, row) for g in groups))
    found = [g.trajectories[0].problem.meta["arm"] for g, _ in seen]
    assert len(found) == 2000
    assert [found.count(a) / 2000 for a in "abc"] == pytest.approx([0.5, 0.3, 0.2], abs=0.03)
    assert [seen[0][1][f"arm/{a}"] for a in "abc"] == pytest.approx([0.5, 0.3, 0.2])


def test_without_weights_it_is_grpo_with_a_bandit_that_never_learns():
    task = armed()
    ours, plain = (
        weights_after(r, steps=3, task=task)["policy.logits"] for r in (modomodo, grpo.but(curriculum=Bandit(alpha=0.0)))
    )
    assert torch.equal(ours, plain)
    other = weights_after(modomodo.but(curriculum=ByMixture(weights=(1, 0, 0))), steps=3, task=task)["policy.logits"]
    assert not torch.equal(other, plain)
    assert changes(grpo, modomodo).keys() == {"curriculum"}


def test_a_resumed_run_goes_on():
    check_resumes(modomodo, task=armed(), steps=3, after=1)
