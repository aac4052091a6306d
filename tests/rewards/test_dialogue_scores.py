"""The scores of a dialogue and the contributions of its utterances by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.rewards.dialogue_scores import DIMENSIONS, ScriptedAttribution, SocialScores, criteria_for, transcript
from gradus.rewards.judge import WrittenPoints
from gradus.tasks.games.negotiation import negotiation
from gradus.testing.methods import TOY, scripted_world, toy_trajectory
from gradus.types import Failed, Frozen, Problem, UserError

CASE = Problem("p", "negotiation", text="", meta=Frozen(limit=14, cost=8, ask=16))
PAIRS = [("lamp, limit 14\n16?", "please why"), ("cost 8; 16?", "please offer 8"), ("13?", "offer 8"), ("11?", "offer 3"), ("no; 11?", "deal")]


def test_the_scripted_attribution_by_hand():
    """please why; please offer 8 (16 -> 13); offer 8 (13 -> 11); offer 3 (refused); deal at 11: gain (14 - 11) / 6 = .5."""
    shown = toy_trajectory([0]).but(problem=CASE, completion=transcript(PAIRS))
    criteria = criteria_for((*DIMENSIONS, "secret"), 5)
    assert [(c.text, c.points) for c in criteria[:2]] == [("goal", 10), ("contribution of utterance 1 to goal", 3)]
    world, _ = scripted_world(TOY, lambda ask: "b")
    world.task = negotiation()
    (points,) = asyncio.run(ScriptedAttribution().points([shown], criteria, world))
    assert points == [5, 0, 2, 1, 0, 3, 4, 3, 3, 1, 0, 1, 10, 3, 0, 0, 0, 0, *[0] * 6]
    with pytest.raises(UserError, match="contributions"):
        SocialScores().check(TOY)
    SocialScores().check(negotiation())


def test_a_judgement_has_the_mean_score_and_the_attributions():
    found = SocialScores().judged(PAIRS[:1], [5, 1, 4, 3, 10, 0])
    assert found.reward == pytest.approx((0.5 + 0.4 + 1.0) / 3)
    assert dict(found.components) == {"goal": 0.5, "relationship": 0.4, "knowledge": 1.0}
    assert found.extra["attributions"] == {"goal": [1], "relationship": [3], "knowledge": [0]}
    assert isinstance(SocialScores().judged([], []).reward, Failed)
    with pytest.raises(UserError, match="dimensions"):
        SocialScores(dimensions=())


def test_a_model_can_be_the_judge():
    """The judge reads the dialogue, and writes a line of points per criterion."""
    world, _ = scripted_world(TOY, lambda ask: "1: 8\n2: 3")
    part = WrittenPoints("policy")
    shown = toy_trajectory([0]).but(problem=replace(CASE, text="lamp"), completion=transcript(PAIRS[:1]))
    (points,) = asyncio.run(part.points([shown], criteria_for(("goal",), 1), world))
    assert SocialScores(part, ("goal",)).judged(PAIRS[:1], points).extra["attributions"] == {"goal": points[1:]}
