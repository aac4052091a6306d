"""Sotopia-RL: spread, scale and attribution by hand, the rows, who learns in which stage, and the limit GRPO."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

import gradus
from gradus.objectives.labelled_scores import LabelledScores
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.papers.rewards.sotopia_rl import (
    DIMENSIONS,
    JUDGE,
    LABEL,
    POLICY,
    ScriptedAttribution,
    SocialScores,
    Utterances,
    criteria_for,
    history,
    scaled,
    sotopia_rl,
    spread_score,
    transcript,
)
from gradus.rewards.judge import WrittenPoints
from gradus.rewards.reward_model import RewardModel
from gradus.schedules.constant import ConstantSchedule
from gradus.tasks.games.negotiation import negotiation
from gradus.testing.methods import TOY, advantages_of, check_same_update, scripted_world, toy_group, toy_trajectory
from gradus.types import Failed, Frozen, Group, Problem, UserError
from gradus.types.batch import make_batch
from gradus.types.moments import Steps
from gradus.types.signals import Value

STAGES = sotopia_rl.schedule.stages
CASE = Problem("p", "negotiation", text="", meta=Frozen(limit=14, cost=8, ask=16))
PAIRS = [("lamp, limit 14\n16?", "please why"), ("cost 8; 16?", "please offer 8"), ("13?", "offer 8"), ("11?", "offer 3"), ("no; 11?", "deal")]


def test_the_spread_of_a_score_by_hand():
    """G = 8 and attributions 3, 0, 1."""
    assert spread_score(8, (3, 0, 1)) == pytest.approx([8, 0, 2.6667], abs=1e-4)
    assert spread_score(8, (3, 0, 1), "normalised") == [6, 0, 2]
    assert spread_score(8, (3, 0, 1), "equal") == [8, 8, 8]
    assert spread_score(8, (0, 0), "normalised") == [0, 0]
    assert spread_score(8, (3, 3)) == [8, 8]  # need not add up to G


def test_the_scale_by_hand():
    assert scaled([2, 6, 10]).tolist() == [0, 0.5, 1]
    assert scaled([4, 4]).tolist() == [0, 0]
    assert scaled([]).tolist() == []


def episode(scores, attributions, said=("a", "b", "c"), name="x"):
    pairs = [[f"seen {i}", text] for i, text in enumerate(said)]
    names = DIMENSIONS[: len(scores)]
    extra = Frozen(dialogue=pairs, scores=dict(zip(names, scores, strict=True)), attributions=dict(zip(names, attributions, strict=True)))
    return toy_trajectory([0], name=name).but(extra=extra)


def rows(*episodes, **options):
    return Utterances(**options).rows([Group(f"g{i}", (t,)) for i, t in enumerate(episodes)])


def test_the_reward_of_an_utterance_is_the_mean_of_the_scaled_dimensions():
    """Goal 8, 0, 2.6667 -> 1, 0, 1/3. Relationship 9 (1, 2, 3)/3 = 3, 6, 9 -> 0, .5, 1. Knowledge 6 (3, 3, 0)/3 = 6, 6, 0 -> 1, 1, 0."""
    found = rows(episode((8, 9, 6), ((3, 0, 1), (1, 2, 3), (3, 3, 0))))
    assert [row["rewards"][0] for row in found] == pytest.approx([2 / 3, 0.5, 4 / 9])
    assert [row["answers"] for row in found] == [["a"], ["b"], ["c"]]
    (first, *_) = rows(episode((8, 9, 6), ((3, 0, 1), (1, 2, 3), (3, 3, 0))), weights=Frozen(goal=2.0, relationship=2.0, knowledge=0.0))
    assert first["rewards"] == pytest.approx([0.5])


def test_dimension_values_of_one_utterance_by_hand():
    """Values 1, .5 and 0 with equal weights: R = .5. The scale is that of the whole data set, two episodes here."""
    whole = ((3,), (3,), (3,))
    found = rows(episode((10, 5, 0), whole, ("a",)), episode((0, 0, 10), whole, ("b",), "y"), episode((0, 10, 0), whole, ("c",), "z"))
    assert found[0]["rewards"] == pytest.approx([0.5])


def test_equal_texts_in_different_histories_keep_their_own_targets():
    found = rows(episode((10,), ((0, 3),), ("offer 5", "offer 5")))
    assert [row["rewards"] for row in found] == [[0.0], [1.0]]
    assert found[0]["prompt"] == [{"role": "user", "content": "seen 0"}]
    assert found[1]["prompt"] == [*found[0]["prompt"], {"role": "assistant", "content": "offer 5"}, {"role": "user", "content": "seen 1"}]
    assert history([["x", "a"]], 0) == [{"role": "user", "content": "x"}]


def test_failed_and_auxiliary_episodes_make_no_row():
    whole = episode((8,), ((3, 0, 1),))
    assert rows(whole.but(reward=Failed("broken"))) == []
    assert Utterances().rows([Group("g", (whole,), aside=True)]) == []
    assert Utterances().rows([]) == []
    with pytest.raises(UserError, match="spread"):
        Utterances("even")


def test_an_unread_attribution_makes_no_row():
    """Goal 9 (-1, 1, 3): 3 and 9 -> 0 and 1. The scale does not see the unread utterance; the other dimension loses the utterance, too."""
    found = rows(episode((9, 6), ((-1, 1, 3), (3, 2, 0))))
    assert [(row["answers"], row["rewards"]) for row in found] == [(["b"], [0.5]), (["c"], [0.5])]
    assert [len(row["prompt"]) for row in found] == [3, 5]  # the unread utterance stays in the history
    apart = rows(episode((8,), ((-1, 3, 1),)), episode((4,), ((2, 0, 1),), name="y"), spread="normalised")
    assert [row["rewards"][0] for row in apart] == pytest.approx([1, 1 / 3, 4 / 9, 0, 2 / 9])  # 6, 2, 8/3, 0, 4/3
    assert rows(episode((9,), ((-1, -1, -1),))) == []


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


def test_the_reward_model_learns_the_squared_error():
    """Score 0 and R = .5: (0 - .5)^2 = .25, slope -1 at the last action."""
    term = JUDGE["players.judge.objective"]["scores"]
    assert term == LabelledScores(source="expert")
    made = toy_trajectory([1, 2], reward=0.5).but(source="expert", components=Frozen(recorded=0.5), advantages=np.zeros(2))
    batch = make_batch([toy_group(0).but(trajectories=(made,))])
    score = torch.zeros(2, requires_grad=True)
    loss, _ = term.loss({Value(): score}, batch)
    loss.backward()
    assert loss.item() == pytest.approx(0.25)
    assert score.grad.tolist() == pytest.approx([0.0, -1.0])


def test_a_run_labels_whole_dialogues_and_trains_single_utterances():
    small = {f"schedule__stages__{name}__until": Steps(n) for name, n in (("sft", 1), ("label", 1), ("judge", 1), ("policy", 1))}
    changes = {"label": Frozen({**LABEL, "setting.group": 1}), "judge": Frozen({**JUDGE, "setting.prompts": 2})}
    recipe = sotopia_rl.but(schedule__stages__sft__recipe=sft.but(study=None), **{f"schedule__stages__{name}__changes": c for name, c in changes.items()})
    seen, updates = [], []

    def watch(run, metrics, groups):
        seen.append(groups)
        updates.append(tuple(run.players[n].updates for n in ("policy", "judge") if n in run.players))

    run = gradus.train(
        recipe, "negotiation", model="gradus/policies/tiny/base", setting__prompts=1, setting__group=2, setting__learning_rate=2e-3,
        setting__warmup=0, study=None, on_step=watch, task_options={"skill": "0"}, **small,
    )  # fmt: skip
    label, judge, policy = seen[-3:]
    said = {pair[1] for g in label for t in g.trajectories for pair in t.extra["dialogue"]}
    assert all([pair[1] for pair in t.extra["dialogue"]] == t.completion.split("\n") for g in label for t in g.trajectories)
    assert all("turn" in t.contexts[0].streams for g in label for t in g.trajectories)
    assert {t.completion for g in judge for t in g.trajectories} <= said
    assert {len(g.trajectories) for g in policy} == {2}
    assert all("turn" not in t.contexts[-1].streams and t.problem.messages for g in policy for t in g.trajectories)
    assert updates[-3:] == [(0, 0), (0, 1), (2, 0)]
    assert run.recipe.reward == RewardModel("judge")


def test_without_stages_it_is_grpo():
    plain = sotopia_rl.but(schedule=ConstantSchedule(), players__judge=None, study=grpo.study, setting__group=grpo.setting.group)
    check_same_update(plain, grpo)
    assert (POLICY["update.epochs"], "update.count" in POLICY, STAGES["policy"].changes) == (2, False, POLICY)
    assert (sotopia_rl.setting.group, STAGES["policy"].start, STAGES["policy"].task) == (16, "sft", "made:label")


def test_a_group_of_one_and_equal_scores_teach_nothing():
    for group in (toy_group(0.5, lengths=[1]), toy_group(0.5, 0.5, lengths=[1, 1])):
        assert not any(a for row in advantages_of(sotopia_rl.credit, group)[0] for a in row)
