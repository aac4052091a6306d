"""WebThinker: pairs by right, calls and length; findings outside the loss; DPO's number; an explorer aside; its base at the limit."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import gradus
from gradus.papers.agents.webthinker import webthinker
from gradus.papers.bases.dpo import dpo
from gradus.recipe.compatibility import check_fit
from gradus.rollouts.episodes import Episodes
from gradus.schedules.stages import Stages
from gradus.selection.filters import BestAndWorst
from gradus.selection.pairs import RankedPairs, Right, Shorter
from gradus.tasks.text.research import research
from gradus.tasks.text.research_environment import page
from gradus.tasks.text.search_environment import corpus
from gradus.testing.methods import (
    TOY,
    TOY_EPISODES,
    check_different_update,
    check_micro_batches,
    check_resumes,
    check_same_update,
    loss_and_gradient,
    readable,
    scripted_world,
    toy_group,
    train_toy,
)
from gradus.testing.methods.batches import evaluated
from gradus.testing.methods.tasks import TOY_ERRANDS
from gradus.types import Frozen, Group, Key, Request, UserError
from gradus.types.batch import make_batch
from gradus.types.moments import Steps
from gradus.types.players import Copy
from gradus.types.signals import LogProb, LogProbs

TASK = research(2, people=40, direct=0.0)  # demonstrations ask hop by hop: two calls


def episode(name, right, calls, tokens=4):
    """A judged episode of that many tool calls; the answer is one turn more."""
    made = toy_group(float(right), lengths=[tokens], key=name).trajectories[0]
    return made.but(links=Frozen(turns=calls + 1))


def pairs(*episodes):
    kept, _ = webthinker.selection.keep([Group("g", episodes)], Key())
    return [tuple(t.id.split("/")[0] for t in g.trajectories) for g in kept]


def played(speak, count=2, rollout=None):
    """(the judged groups of one question, the groups aside)."""
    world, _ = scripted_world(TASK, speak, reward=webthinker.reward)
    (problem,) = TASK.source.draw([0], 2, world.seed)

    async def run():
        return await (rollout or webthinker.rollout).run([Request(problem, count=count)], world), await world.aside()

    return asyncio.run(run())


def demonstrated(ask):
    """The demonstrated action of the main agent or of the explorer; sample 1 asks its first question twice before it goes on."""
    tags, meta = ask.request.tags, ask.request.problem.meta
    late = int(ask.request.sample == 1)
    if "errand" in tags:
        turn = max(0, tags[tags.index("errand") + 2] - late)
        return meta["errands"][turn]["demonstration"][tags[-1]][1]
    return meta["demonstration"][max(0, tags[-1] - late)][1]


def test_pairs_prefer_right_then_fewer_calls_then_shorter() -> None:
    # (right, 3 calls), (right, 5 calls), (wrong, 1 call): right-3 beats right-5, both beat wrong
    assert pairs(episode("right-3", True, 3), episode("right-5", True, 5), episode("wrong-1", False, 1)) == [
        ("right-3", "right-5"),
        ("right-3", "wrong-1"),
        ("right-5", "wrong-1"),
    ]
    assert pairs(episode("a", True, 3, 100), episode("b", True, 3, 120)) == []  # 120 < 1.5 * 100
    assert pairs(episode("a", True, 3, 100), episode("b", True, 3, 150)) == []  # 1.5 times is not more than 1.5 times
    assert pairs(episode("a", True, 3, 100), episode("b", True, 3, 151)) == [("a", "b")]
    assert pairs(episode("a", True, 5, 10), episode("b", True, 3, 1000)) == [("b", "a")]  # calls decide before length
    assert pairs(episode("a", False, 3, 10), episode("b", False, 1, 1000)) == []  # two wrong ones make no pair


def test_a_log_ratio_difference_of_two_costs_0_598() -> None:
    # h_w - h_l = 2, beta 0.1: -log sigmoid(0.2) = log(1 + exp(-0.2)) = log(1.818731) = 0.598139
    (pair,), _ = RankedPairs().keep([toy_group(0, 1, lengths=[1, 1])], Key())
    assert [t.right for t in pair.trajectories] == [True, False]
    rows = {LogProbs(player="reference"): {t.id: [0.0] for t in pair.trajectories}}
    loss, gradient, metrics = loss_and_gradient(webthinker.objective, [pair], [1.5, -0.5], signals=rows)
    assert loss == pytest.approx(math.log(1 + math.exp(-0.2))) == pytest.approx(0.598139, abs=1e-6)
    assert gradient == pytest.approx([-0.1 / (1 + math.exp(0.2)), 0.1 / (1 + math.exp(0.2))])  # -beta sigmoid(-0.2) = -0.045017
    assert metrics["margin"] == pytest.approx(0.2)


def test_the_pair_of_two_right_episodes_is_learned_from_too() -> None:
    group = Group("g", (episode("five", True, 5), episode("three", True, 3)))
    (pair,), _ = webthinker.selection.keep([group], Key())
    rows = {LogProbs(player="reference"): {t.id: [0.0] * 4 for t in pair.trajectories}}
    loss, gradient, _ = loss_and_gradient(webthinker.objective, [pair], [0.0] * 8, signals=rows)
    assert loss == pytest.approx(math.log(2))
    assert gradient == pytest.approx([-0.05] * 4 + [0.05] * 4)  # beta / 2, up for three calls and down for five


def test_findings_are_outside_the_loss() -> None:
    """The loss reads rows of actions alone. Other tokens in the place of a finding leave rows, ids and loss as they are."""
    (group,), _ = played(demonstrated)
    first, second = group.trajectories
    assert (first.value, second.value) == (1.0, 1.0)
    (pair,), _ = webthinker.selection.keep([group], Key())
    assert [t.links["turns"] for t in pair.trajectories] == [3, 4]
    other = pair.but(trajectories=tuple(t.but(contexts=tuple(map(relabelled, t.contexts))) for t in pair.trajectories))
    found = []
    for made in (pair, other):
        credited = made.but(trajectories=tuple(t.but(advantages=np.ones(t.actions)) for t in made.trajectories))
        rows = {LogProbs(player="reference"): {t.id: np.linspace(-3, -1, t.actions) for t in made.trajectories}}
        batch = make_batch([credited], rows, dtype=torch.float64)
        found.append(evaluated(webthinker.objective["sampled"], {LogProb(): batch.behaviour_logprobs.clone()}, batch))
    assert found[0].loss == found[1].loss
    assert torch.equal(found[0].gradient[LogProb()], found[1].gradient[LogProb()])
    (context,) = first.contexts
    hidden = readable(context.tokens[~context.chosen])
    assert str(first.problem.meta["demonstration"][1][0]) in hidden  # the finding
    assert str(first.problem.meta["demonstration"][1][0]) not in readable(context.tokens[context.chosen][:20])


def relabelled(context):
    """The context with another token wherever no player chose one."""
    return replace(context, tokens=np.where(context.chosen, context.tokens, context.tokens + 1).astype(np.int32))


def test_the_main_model_never_sees_a_page_and_the_explorer_stands_aside() -> None:
    (group,), (aside,) = played(demonstrated)
    main = "".join(readable(c.sequence) for t in group.trajectories for c in t.contexts)
    explorer = "".join(readable(c.sequence) for t in aside.trajectories for c in t.contexts)
    world = corpus(0, 40)
    assert not any(page(world, title) in main for title in world.facts)
    assert sum(page(world, title) in explorer for title in world.facts) == 2  # a page a hop
    assert aside.aside
    assert [t.links["role"] for t in aside.trajectories] == ["explorer"] * 5  # two calls, and three
    assert not any(t.trained for t in aside.trajectories)
    kept, _ = webthinker.selection.keep([group, aside], Key())
    assert all("errand" not in t.id for g in kept for t in g.trajectories)  # no pair holds a context of the explorer


def test_the_explorer_is_out_of_the_headline_numbers() -> None:
    seen = []
    train_toy(webthinker, task=TOY_ERRANDS, steps=3, group=8, watch=lambda run, row, groups: seen.append((row, groups)))
    assert any(row.get("aside/groups") for row, _ in seen)
    for row, groups in seen:
        own = [t for g in groups if not g.aside for t in g.trajectories]
        assert row["reward"] == pytest.approx(np.mean([t.value for t in own]))
        assert row["accuracy"] == pytest.approx(np.mean([t.right for t in own]))
        if beside := [t for g in groups if g.aside for t in g.trajectories]:
            assert row["aside/reward"] == pytest.approx(np.mean([t.value for t in beside]))
    assert any(row.get("aside/reward") not in (None, row["reward"]) for row, _ in seen)


def test_pairs_of_the_explorer_are_learned_from_if_asked() -> None:
    changed = webthinker.but(rollout__roles=Frozen(explorer="policy"))
    check_different_update(changed, webthinker, task=TOY_ERRANDS, group=16, steps=4)


def test_each_round_begins_with_a_new_reference() -> None:
    """A round is a stage, and copies of the policy are made anew at the start of a stage: the log-ratios are 0 in a round's first step, and only there."""
    assert webthinker.players["reference"].model == Copy("policy")
    schedule = webthinker.schedule
    assert isinstance(schedule, Stages)
    assert (schedule.repeat, [stage.until for stage in schedule.stages.values()]) == (2, [Steps(50)])
    assert webthinker.setting.group == 4
    made = webthinker.but(
        selection=RankedPairs(by=(Shorter(1.0),)),  # wrong episodes make pairs too: the model is not trained yet
        rollout=Episodes(max_turns=2, errand_turns=1),
        setting=replace(webthinker.setting, prompts=2, warmup=0, learning_rate=1e-3, eval_every=0),
    )
    run = gradus.train(made, task="research", task_options={"people": "40"}, steps=4, study__problems=2)  # two rounds of two steps
    margins = [row["margin"] for row in run.metrics if "margin" in row]
    assert [abs(margin) > 1e-5 for margin in margins] == [False, True, False, True]


def test_with_right_alone_it_is_dpo_of_one_right_and_one_wrong_answer() -> None:
    ours = webthinker.but(selection=RankedPairs(by=(Right(),)), rollout=dpo.rollout, reward=dpo.reward, schedule=dpo.schedule)
    same = dpo.but(objective=ours.objective)
    assert isinstance(same.selection, BestAndWorst)
    options = {"task": TOY, "group": 2}  # two samples: the right and the wrong one are the best and the worst
    check_same_update(ours, same, steps=4, **options)
    check_different_update(webthinker.but(schedule=dpo.schedule), dpo.but(objective=ours.objective, rollout=Episodes(), reward=webthinker.reward),
                           task=TOY_EPISODES, group=8, steps=4)  # fmt: skip


def test_cuts_of_the_batch_and_a_resumed_run_change_nothing() -> None:
    for roles in (Frozen(), Frozen(explorer="policy")):
        made = webthinker.but(rollout__roles=roles)
        check_micro_batches(made, task=TOY_ERRANDS, group=8)
        check_resumes(made, task=TOY_ERRANDS, group=8)


@pytest.mark.nightly
def test_it_learns_to_be_right_and_then_to_be_thrifty() -> None:
    """A corridor of three steps: first more episodes reach the end, then they reach it in fewer turns; at least 15 % fewer than at the start."""
    seen = []

    def watch(run, row, groups):
        episodes = [t for g in groups if not g.aside for t in g.trajectories]
        seen.append((row["reward"], np.mean([t.links["turns"] for t in episodes if t.right])))

    train_toy(webthinker, task=TOY_ERRANDS, steps=40, group=8, prompts=8, watch=watch)
    (reward, turns), (later, fewer) = np.mean(seen[:5], 0), np.mean(seen[-5:], 0)
    assert later > reward + 0.5
    assert fewer < 0.85 * turns


def test_refusals() -> None:
    with pytest.raises(UserError, match='has no environment; use a task of many turns'):
        check_fit(webthinker, TOY)
    with pytest.raises(UserError, match='unknown player "reader"'):
        check_fit(webthinker.but(rollout__roles=Frozen(explorer="reader")), TASK)
