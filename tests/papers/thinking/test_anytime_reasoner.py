"""AnytimeReasoner: advantages of segments and of short answers by hand, mean-centred GRPO as a special case, and the variance of the baselines."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from gradus.credit.groups import group_relative
from gradus.papers.bases.grpo import grpo
from gradus.papers.thinking.anytime_reasoner import (
    AnytimeReturn,
    BudgetExits,
    BudgetRelative,
    anytime_reasoner,
    budget_relative,
    prior_of,
)
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.exits import Budgets
from gradus.testing.methods import TOY, check_micro_batches, readable, scripted_world, steps_of, toy_group, toy_trajectory
from gradus.types import Ended, Frozen, Group, Key, Request, UserError

TWO = np.array([[0, 0, 1, 1], [0, 0, 0, 0.0]])
PARTS = {"text": "..=", "mark": " =", "limit": 3}


def test_advantages_by_hand() -> None:
    found = budget_relative(TWO, prior_of(4, "uniform"))
    # s = 1: R = .5, V1 = 0, V2 = .25: .5 - 3/4 * .25; s = 3: R = .25, V1 = 4/7 * .25, V2 = .125: .25 - (3 * .14286 + .125) / 4
    assert found[0].tolist() == pytest.approx([0.25, 0.3125, 0.375, 0.1116], abs=1e-4)
    assert found[1].tolist() == pytest.approx([-0.25, -0.1875, -0.125, -0.03125])
    assert prior_of(4, "linear").tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert prior_of(3, "base").tolist() == [0, 0, 1]


def test_with_the_last_budget_and_the_groups_baseline_it_is_mean_centred_grpo() -> None:
    scores = np.random.default_rng(0).integers(0, 2, size=(6, 4)).astype(float)
    found = budget_relative(scores, prior_of(4, "base"), baseline="group")
    centred = group_relative(scores[:, -1], scale="none")
    assert np.array_equal(found, np.repeat(centred[:, None], 4, axis=1))


def test_the_first_segment_has_the_groups_baseline_alone() -> None:
    both, group = (budget_relative(TWO, prior_of(4, "uniform"), baseline=b) for b in ("both", "group"))
    assert np.array_equal(both[:, 0], group[:, 0])
    assert not np.array_equal(both[:, 1:], group[:, 1:])


def test_the_own_past_lowers_the_variance_of_later_segments() -> None:
    # a thought finds the answer at a random cut and keeps it in nine of ten later cuts
    draw = np.random.default_rng(1)
    spread = {"both": 0.0, "group": 0.0}
    for _ in range(200):
        found = draw.integers(0, 6, size=8)
        scores = (np.arange(4)[None, :] >= found[:, None]) * (draw.random((8, 4)) < 0.9).astype(float)
        for name in spread:
            spread[name] += budget_relative(scores, prior_of(4, "uniform"), baseline=name)[:, 1:].var()
    assert spread["both"] <= 0.8 * spread["group"]


def exits(scores, *, cuts, answers=1, actions=6):
    """A group of thoughts with their forced answers. scores[g][j]: the scores of the answers at a cut."""
    rows = []
    for g, row in enumerate(scores):
        for j, each in enumerate(row):
            for n, score in enumerate(each):
                links = Frozen(trace=g, exit=j, cuts=cuts)
                rows.append(toy_trajectory([2, 3], reward=score, name=f"{g}/{j}/{n}").but(links=links))
        links = Frozen(trace=g, exit=len(cuts), cuts=cuts)
        rows.append(toy_trajectory([2] * actions, reward=0.0, name=f"{g}").but(links=links))
    return Group("g", tuple(rows))


def test_tokens_get_the_advantage_of_their_segment() -> None:
    group = exits([[[0], [0], [1], [1]], [[0], [0], [0], [0]]], cuts=(1, 2, 4, 6))
    credited = BudgetRelative().assign([group], {})[0]
    assert credited[4].advantages.tolist() == pytest.approx([0.25, 0.3125, 0.375, 0.375, 0.11161, 0.11161], abs=1e-4)
    # one answer a cut: minus the mean over the thoughts at the cut
    assert [c.advantages.tolist() for c in credited[:4]] == [[0, 0], [0, 0], [0.5, 0.5], [0.5, 0.5]]
    assert [c.advantages[0] for c in credited[5:9]] == [0, 0, -0.5, -0.5]


def test_a_thought_that_ends_early_keeps_its_last_segment() -> None:
    # it has 3 tokens and a mark of 2; the cuts at 4 and 6 are at its end
    group = exits([[[0], [0], [1], [1]]], cuts=(1, 2, 3, 3), actions=5)
    (credited,) = BudgetRelative(baseline="group").assign([group], {})
    table = budget_relative(np.array([[0, 0, 1, 1.0]]), prior_of(4, "uniform"), baseline="group")[0]
    assert credited[-1].advantages.tolist() == table[[0, 1, 2, 2, 2]].tolist()


def test_several_answers_of_a_cut_are_compared_with_each_other() -> None:
    group = exits([[[1, 0, 0, 0], [1, 1, 0, 0]], [[0] * 4, [1] * 4]], cuts=(2, 4))
    credited = BudgetRelative().assign([group], {})[0]
    assert [c.advantages[0] for c in credited[:8]] == [0.75, -0.25, -0.25, -0.25, 0.5, 0.5, -0.5, -0.5]
    values, parts = AnytimeReturn().values(group)
    assert values[8] == (0.25 + 0.5) / 2
    assert parts["anytime"].tolist() == [0.375] * 9 + [0.5] * 9
    linear, _ = AnytimeReturn(prior="linear").values(group)
    assert linear[8] == pytest.approx((0.25 + 2 * 0.5) / 3)
    plain = toy_group(1, 0)
    assert AnytimeReturn().values(plain)[0].tolist() == [1, 0]


def test_a_step_of_the_recipe() -> None:
    def speak(ask):
        return "b" if "exit" in ask.request.tags else "bcdefg"

    world, _ = scripted_world(TOY, speak, reward=AnytimeReturn())
    rollout = anytime_reasoner.but(rollout__places=Budgets((2, 4)), rollout__answers=2).rollout
    asked = [Request(p, count=2) for p in TOY.source.draw([0], None, Key(0))]
    (group,) = asyncio.run(rollout.run(asked, world))
    assert group.rewards.tolist() == [1.0] * 10  # the first letter is right at every cut
    (rows,) = BudgetRelative().assign([group], {})
    assert [len(c.advantages) for c in rows] == [2, 2, 2, 2, 4] * 2  # answers train their own tokens, the thought its 4
    (_, groups), *_ = steps_of(anytime_reasoner.but(rollout__places=Budgets((1, 3)), rollout__text="h", rollout__mark="g"), steps=1)
    assert all(t.advantages is not None for g in groups for t in g.trajectories if t.actions)


def test_changes_and_micro_batches() -> None:
    small = anytime_reasoner.but(rollout__places=Budgets((1, 3)), rollout__text="h", rollout__mark="g")
    check_micro_batches(small)
    assert {"rollout", "reward", "credit", "update.count", "objective.kl"} <= set(changes(grpo, anytime_reasoner))
    assert (anytime_reasoner.rollout.answers, anytime_reasoner.rollout.places.at) == (4, (2000, 4000, 6000, 8000))


def run(part, speak=lambda ask: "Z" if "exit" in ask.request.tags else "abcdef =X", max_tokens=1000):
    world, _ = scripted_world(TOY, speak, reward=Verified(), max_tokens=max_tokens)
    asked = [Request(p, count=1) for p in TOY.source.draw([0], None, Key(0))]
    return asyncio.run(part.run(asked, world)), world


def actions(t) -> str:
    (context,) = t.contexts
    return readable(context.sequence[context.action_positions])


def everything(t) -> str:
    return readable(t.contexts[0].sequence)[1:]  # without the prompt of one token


def test_the_thought_is_trained_once() -> None:
    ((group,), _) = run(BudgetExits(Budgets((2, 4)), answers=2, **PARTS))
    assert [everything(t) for t in group.trajectories] == ["ab..=Z|"] * 2 + ["abcd..=Z|"] * 2 + ["abcd"]
    assert [actions(t) for t in group.trajectories] == ["Z|"] * 4 + ["abcd"]
    assert [t.completion for t in group.trajectories][:1] == ["ab..=Z"]
    assert [t.links["exit"] for t in group.trajectories] == [0, 0, 1, 1, 2]
    assert len({t.id for t in group.trajectories}) == 5
    assert group.trajectories[4].ended is Ended.LENGTH


def test_a_thought_that_ended_by_itself_gets_no_text() -> None:
    ((group,), _) = run(BudgetExits(Budgets((4, 8, 9)), answers=1, **PARTS))
    assert [everything(t) for t in group.trajectories] == ["abcd..=Z|", "abcdef =Z|", "abcdef =Z|", "abcdef ="]
    assert actions(group.trajectories[3]) == "abcdef ="  # the mark is an action of the thought, the old answer is dropped
    # without a mark the whole text is the thought, and the text is inserted after it
    ((group,), _) = run(BudgetExits(Budgets((2, 9)), answers=1, **PARTS), lambda ask: "Z" if "exit" in ask.request.tags else "abc")
    assert [everything(t) for t in group.trajectories] == ["ab..=Z|", "abc..=Z|", "abc"]


def test_a_short_thought_counts_as_a_whole() -> None:
    ((group,), _) = run(BudgetExits(Budgets((2, 9)), answers=1, **PARTS), lambda ask: "Z" if "exit" in ask.request.tags else "")
    assert [everything(t) for t in group.trajectories] == ["..=Z|", "..=Z|", ""]


def test_wrong_settings_are_refused() -> None:
    for make, text in (
        (lambda: BudgetExits(mark=""), "BudgetExits.mark is empty"),
        (lambda: BudgetExits(answers=0), "answers"),
        (lambda: BudgetExits(limit=0), "limit"),
    ):
        with pytest.raises(UserError, match=text):
            make()


def test_answers_without_exits_are_refused() -> None:
    with pytest.raises(UserError, match="set --rollout BudgetExits"):
        BudgetRelative().assign([toy_group(1, 0)], {})
