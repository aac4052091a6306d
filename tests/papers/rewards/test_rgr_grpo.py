"""RGR-GRPO: rewards and slopes by hand, who is refined and kept, the plain prompt of a refinement, and GRPO without refinements."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import torch

from gradus.objectives.aggregation import Joint, TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.rgr_grpo import MissedCriteria, missed, rgr_grpo
from gradus.recipe.core import changes
from gradus.rewards.checklist import Checklist, weighted_share
from gradus.rewards.judge import ScriptedPoints
from gradus.rollouts.auto import Auto
from gradus.testing.methods import check_micro_batches, loss_and_gradient, scripted_world, toy_group, weights_after
from gradus.testing.methods.tasks import TOY_CHECKLISTS
from gradus.types import Frozen, Key, Request, UserError

REWARD = Checklist(ScriptedPoints())


def test_the_reward():
    assert weighted_share([1, 0, 1], [3, 2, 1]) == pytest.approx(0.6667, abs=1e-4)


@pytest.mark.parametrize(("p", "value", "slope"), [(0.01, 0.0909, 8.264), (0.9, 0.9, 0.1), (0.22, 0.6875, 0.9766)])
def test_the_shaped_term(p, value, slope):
    row = torch.tensor(p).log().item()
    made = toy_group(1, lengths=[1])
    made = made.but(trajectories=tuple(t.but(source="expert") for t in made.trajectories))
    loss, slopes, _ = loss_and_gradient({"expert": rgr_grpo.objective["expert"]}, [made], [row], advantages=[1.0])
    assert loss == pytest.approx(-value, abs=1e-4)
    assert slopes[0] == pytest.approx(-slope * p, rel=1e-3)  # d f / d log p = f'(p) p


def run(say, answers=4, **more):
    """The group of the first problem (its answer is "b"), and the prompts. Criteria: `right` (contains b) and `short` (below 4 letters)."""
    prompts = []

    def speak(ask):
        prompts.append(policy.text(ask.parent.sequence))
        return say(prompts[-1], len(prompts) - 1)

    world, policy = scripted_world(TOY_CHECKLISTS, speak, reward=REWARD)
    (problem,) = TOY_CHECKLISTS.source.draw([0], None, Key(0))
    (group,) = asyncio.run(replace(rgr_grpo.rollout, **more).run([Request(problem, answers)], world))
    return group, prompts, world


def test_a_better_refinement_joins_the_group_under_the_plain_prompt():
    group, prompts, world = run(lambda prompt, n: "b" if "misses" in prompt else "cccccc")
    assert [t.value for t in group.trajectories] == [0.0, 0.0, 0.0, 1.0]
    assert prompts[3] == "a\nEarlier answer: cccccc\nIt misses: right, short\nWrite a better answer."
    refined = group.trajectories[-1]
    assert refined.source == "expert"
    assert world.text(refined.contexts[0].sequence) == "ab"  # the plain prompt, then the answer
    assert refined.contexts[0].logprobs is None
    assert len(group.pool) == 4
    assert world.notes == {"checklist/items": 2, "refined": 1.0, "refined/right": 1.0, "refined/kept": 1.0, "refined/rescued": 1.0}


def test_a_refinement_without_a_gain_is_replaced():
    group, prompts, world = run(lambda prompt, n: "c")
    assert [t.source for t in group.trajectories] == ["policy"] * 4
    assert len({t.id for t in group.trajectories}) == 4
    assert [t.value for t in group.trajectories] == [0.5] * 4
    assert len(prompts) == 5
    assert prompts[3] == "a\nEarlier answer: c\nIt misses: right\nWrite a better answer."
    assert world.notes["refined/kept"] == 0.0


def test_a_group_with_all_criteria_met_asks_for_no_refinement():
    group, prompts, world = run(lambda prompt, n: "b" if n == 1 else "c")
    assert prompts == ["a"] * 4
    assert len(group.trajectories) == 4
    assert world.notes["refined"] == 0.0


def test_of_equal_answers_the_shorter_is_refined():
    group, prompts, _ = run(lambda prompt, n: ["ccccc", "cc", "c", "b", "b"][n])
    assert "Earlier answer: c\n" in prompts[3]
    assert [t.completion for t in group.trajectories] == ["ccccc", "cc", "c", "b"]


def test_faults_and_met_criteria_are_not_missing():
    _, _, world = run(lambda prompt, n: "c")
    t = toy_group(0.5).trajectories[0]
    items = (("fact", 3.0), ("step", 2.0), ("half", 1.0), ("fault", -1.0))
    t = t.but(problem=replace(t.problem, meta=Frozen(checklist=items)), extra=Frozen(grades=(1.0, 0.0, 0.5, 0.0)))
    assert missed(t, world) == ["step", "half"]
    assert missed(t.but(reward=1.0), world) == []


def test_small_groups_and_several_refinements():
    group, prompts, _ = run(lambda prompt, n: "c", answers=1)
    assert (len(group.trajectories), len(prompts)) == (1, 1)
    group, prompts, _ = run(lambda prompt, n: "b" if n == 2 else "ccccc", count=2, keep=2)
    assert [t.source for t in group.trajectories] == ["policy", "policy", "expert", "policy"]
    assert len(prompts) == 5  # two answers, two refinements, and an answer in place of the refinement without a gain
    with pytest.raises(UserError, match="missing"):
        MissedCriteria("{answer}")


def test_without_refinements_it_is_grpo():
    scripted = rgr_grpo.but(reward=REWARD)
    base = grpo.but(reward=REWARD, objective__policy__average=Joint(TokenMean()), objective__kl=None, players__reference=None, update__count=2)
    base = base.but(requires=rgr_grpo.requires)
    one, other, ours = (weights_after(r, steps=3)["policy.logits"] for r in (scripted.but(rollout=Auto()), base, scripted))
    assert torch.equal(one, other)
    assert not torch.equal(ours, other)
    assert {"rollout", "reward", "objective.expert", "objective.kl", "players.judge"} <= set(changes(grpo, rgr_grpo))
    check_micro_batches(scripted)
