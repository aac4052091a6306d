"""FAPO: the detector's reward and the advantages by hand, who is asked, and DAPO's update without a penalty."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.credit.groups import GroupRelative
from gradus.objectives.trust import DualClip
from gradus.papers.bases.dapo import dapo
from gradus.papers.rewards.fapo import Flaws, OfReached, fapo, located
from gradus.recipe.core import changes
from gradus.rewards.combine import Combines
from gradus.rewards.judged import JudgedSteps
from gradus.rewards.scripted_judge import ScriptedJudge
from gradus.rollouts.auto import Auto
from gradus.selection.filters import Everything
from gradus.testing.methods import TOY, advantages_of, check_micro_batches, scripted_world, toy_group, toy_trajectory, weights_after
from gradus.types import NOT_APPLICABLE, Failed, Group, UserError


@pytest.mark.parametrize(
    ("text", "first", "value"),
    [
        (r"\boxed{5}", 3, 0.8), (r"\boxed{-1}", 3, -1.0), (r"\boxed{-1}", -1, 1.0), (r"\boxed{4}", -1, -1.0), ("none", 3, -1.0), ("none", -1, -1.0),
        (r"\boxed{10}", 3, -1.0), (r"\boxed{-2}", -1, -1.0), (r"\boxed{3}", 3, 1.0), (r"\boxed{1} then \boxed{ 3 }", 3, 1.0), (r"\boxed{0}", 9, 0.1),
        (r"\boxed{3} or \boxed{x}", 3, -1.0), (r"\boxed{3", 3, -1.0), (r"boxed{3}", 3, -1.0),
    ],
)  # fmt: skip
def test_the_detectors_reward(text, first, value):
    assert located(text, first, 10) == pytest.approx(value)


def test_only_right_answers_are_sent_on():
    assert [OfReached(JudgedSteps()).sent(v) for v in (0.5, 1.0, 2.0, Failed("x"), NOT_APPLICABLE)] == [False, True, True, False, False]


def judged(reward, say, *completions):
    asked = []
    world, policy = scripted_world(TOY, lambda ask: asked.append(policy.text(ask.parent.sequence)) or say(asked[-1]))
    world.players["detector"] = world.players["policy"]
    rows = tuple(toy_trajectory([2], name=f"t/{i}").but(completion=c) for i, c in enumerate(completions))
    ((*found,),) = asyncio.run(reward.score([Group("g", rows)], {}, world))
    return [j.reward for j in found], asked, world.notes


class _Rule(Combines):
    name, needs = "verified", ()

    async def score(self, groups, signals, world):
        from gradus.types.parts import Judgement

        return [[Judgement(float(t.completion.startswith("right"))) for t in g.trajectories] for g in groups]


def flaw_aware(**more):
    return 2 * _Rule() - 1 + Flaws(OfReached(Flaws().cascade.then, _Rule()), **more)


def test_the_rewards_and_who_is_asked():
    rewards, asked, notes = judged(flaw_aware(), lambda prompt: "1" if "flaw" in prompt else "-1", "right\nclean", "right\nflaw", "wrong\nflaw", "wrong")
    assert rewards == [1.0, 0.0, -1.0, -1.0]
    assert len(asked) == 2  # the right ones alone
    assert "0. right\n1. flaw\n" in asked[1]
    assert notes["flawed"] == 0.5
    assert judged(flaw_aware(penalty=0.4), lambda prompt: "0", "right")[0] == [0.6]
    assert judged(flaw_aware(), lambda prompt: "hm", "right")[0] == [1.0]  # an unreadable text counts as clean


def test_a_failed_detector_is_a_failed_reward():
    class Broken:
        async def decide(self, form, cases, world):
            return [Failed("no reply") for _ in cases]

    ((lost, wrong), *_) = judged(2 * _Rule() - 1 + Flaws(OfReached(JudgedSteps(Broken()), _Rule())), lambda prompt: "", "right", "wrong")
    assert isinstance(lost, Failed)
    assert wrong == -1.0


@pytest.mark.parametrize(
    ("rewards", "advantages"), [([1, 0, -1, -1], [1.508, 0.302, -0.905, -0.905]), ([1, 1, 0, -1], [0.905, 0.905, -0.302, -1.508]), ([1, 0, -1], [1.225, 0, -1.225])]
)
def test_the_sign_of_a_flawed_answer_is_that_of_wrong_minus_clean(rewards, advantages):
    found = advantages_of(GroupRelative(), toy_group(*rewards, lengths=[1] * len(rewards)))[0]
    assert [row[0] for row in found] == pytest.approx(advantages, abs=1e-3)
    assert fapo.credit == GroupRelative()


def scripted(penalty):
    judge = ScriptedJudge(sound=lambda problem, text: [len(text) < 6])
    return fapo.but(reward=dapo.reward + Flaws(OfReached(JudgedSteps(judge, unread=1.0)), penalty))


def test_without_a_penalty_it_is_dapo_without_further_sampling():
    base = dapo.but(rollout=Auto(), selection=Everything(), objective__policy__trust=DualClip(0.2, 0.28, 10.0))
    one, other, flaws = (weights_after(r, steps=3)["policy.logits"] for r in (scripted(0.0), base, scripted(1.0)))
    assert torch.equal(one, other)
    assert not torch.equal(one, flaws)
    assert set(changes(dapo, fapo)) == {"reward.parts.flaws", "rollout", "selection", "objective.policy.trust", "players.detector"}


def test_what_is_refused_and_micro_batches():
    with pytest.raises(UserError, match="penalty"):
        Flaws(penalty=-1)
    check_micro_batches(scripted(1.0))
