"""A learned reward: which value is the score, answers without a token, models that read other text."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gradus.papers.bases.grpo import grpo
from gradus.rewards.reward_model import RewardModel
from gradus.rewards.verified import Verified
from gradus.testing.methods import toy_group, toy_run, toy_trajectory, train_toy
from gradus.types import Failed, Frozen, Group, UserError
from gradus.types.players import Copy, Player
from gradus.types.signals import Values

RECIPE = grpo.but(reward=RewardModel("judge"), players__judge=Player(Copy("policy")))


def told(made):
    """Completions as the toy's policy spells the tokens."""
    return made.but(trajectories=tuple(t.but(completion="c" * t.actions) for t in made.trajectories))


def judged(*groups, rows):
    world = toy_run(RECIPE).at(0)[1]
    return asyncio.run(RewardModel("judge").score(groups, {Values(player="judge"): rows}, world))


def test_the_score_is_the_value_before_the_last_action():
    ((first, second),) = judged(told(toy_group(0, 0, lengths=[2, 1])), rows={"g/0": np.array([9.0, 2.5]), "g/1": np.array([-1.0])})
    assert (first.reward, second.reward) == (2.5, -1.0)
    assert dict(first.components) == {"scored": 2.5}


def test_an_answer_without_a_token_has_failed():
    ((found,),) = judged(Group("g", (toy_trajectory([], name="none"),)), rows={"none": np.zeros(0)})
    assert isinstance(found.reward, Failed)


def test_a_judge_that_reads_other_text_is_refused():
    with pytest.raises(UserError, match="tokenizers differ"):
        judged(toy_group(0).but(trajectories=(toy_group(0).trajectories[0].but(completion="zz"),)), rows={"g/0": np.zeros(2)})


def test_a_policy_learns_from_the_scores():
    seen = []
    run = train_toy(RECIPE, steps=40, prompts=8, group=8, watch=lambda run, metrics, groups: seen.append((metrics, groups)))
    values = run.players["judge"].policy.network.values.tolist()
    for t in (t for g in seen[0][1] for t in g.trajectories):
        assert t.value == pytest.approx(values[int(t.contexts[0].sequence[-2])], abs=1e-6)
    assert seen[-1][0]["reward/scored"] > seen[0][0]["reward/scored"] + 0.3
    assert run.players["judge"].updates == 0


def test_it_combines_with_other_rewards():
    both = Verified() + 0.5 * RewardModel("judge")
    assert both.needs == (Values(player="judge"),)
    assert list(both.parts) == ["verified", "scored"]


def test_several_heads_by_hand():
    """Weights .5 and 1 (the default): 0.5 * 2 + 0.25 = 1.25, and every score is a component."""
    part = RewardModel("judge", ("tone", "safe"), Frozen(tone=0.5))
    tone, safe = part.needs
    made = told(toy_group(0, lengths=[2]))
    world = toy_run(RECIPE).at(0)[1]
    ((found,),) = asyncio.run(part.score([made], {tone: {"g/0": np.array([9.0, 2.0])}, safe: {"g/0": np.array([9.0, 0.25])}}, world))
    assert found.reward == 1.25
    assert dict(found.components) == {"scored": 1.25, "tone": 2.0, "safe": 0.25}
    assert RewardModel("judge", weights=Frozen(tone=0.5, safe=1.0)).needs == part.needs  # the heads with a weight
    assert RewardModel("judge").needs == (Values(player="judge"),)


def test_a_chance_is_the_sigmoid():
    part, made = RewardModel("judge", chance=True), told(toy_group(0, lengths=[1]))
    ((found,),) = asyncio.run(part.score([made], {Values(player="judge"): {"g/0": np.array([np.log(3.0)])}}, toy_run(RECIPE).at(0)[1]))
    assert found.reward == pytest.approx(0.75)


def test_a_weight_without_a_head_is_refused():
    with pytest.raises(UserError, match="tine"):
        RewardModel("judge", ("tone",), Frozen(tine=1.0))
