"""ARPO: the branches of a real task, the two forms of credit, and the reward of tools."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import SequenceSum, TokenMean
from gradus.papers.agents.arpo import SharedPrefix, ToolReward, arpo, called, shared_mean
from gradus.papers.bases.grpo import grpo
from gradus.recipe.core import changes
from gradus.rewards.environment import EnvironmentReturn
from gradus.rollouts.branches import Branches, chance
from gradus.tasks.text.search_qa import search_qa
from gradus.testing.methods.batches import evaluated
from gradus.testing.methods.compare import check_bound_acts
from gradus.testing.methods.scripted import follow_demonstration, scripted_world
from gradus.types import Group, Request, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import LogProb

TASK = search_qa(2, people=40, calculator=True)
ALWAYS = replace(arpo.rollout, base=1.0)


def group_of(speak, rollout=ALWAYS, count=16):
    """A judged group on search_qa with a calculator; every token has the entropy share 0.5."""
    world, _ = scripted_world(TASK, speak, reward=arpo.reward)

    async def score(contexts, want, player="policy"):
        return [np.full(c.actions, 0.5, np.float32) for c in contexts]

    world.score = score
    (problem,) = TASK.source.draw([0], 2, world.seed)
    (group,) = asyncio.run(rollout.run([Request(problem, count=count)], world))
    return group


def said(*actions):
    """The reward of an episode of these actions, the same in all copies."""

    def speak(ask):
        plan = [p.replace("ANSWER", str(ask.request.problem.answer)) for p in actions]
        return plan[min(int(ask.request.tags[-1]), len(plan) - 1)]

    return {t.value for t in group_of(speak, count=2).trajectories}


def test_sixteen_trajectories_and_the_probability() -> None:
    assert (arpo.rollout.base, arpo.rollout.weight, arpo.rollout.copies, arpo.rollout.tokens) == (0.5, 0.2, 2, 20)
    assert arpo.rollout.roots(16) == 8
    assert [chance(rise, base=0.5, weight=0.2) for rise in (0.5, 0.0, -1.0)] == pytest.approx([0.6, 0.5, 0.3])
    for rollout in (arpo.rollout, ALWAYS):
        group = group_of(follow_demonstration, rollout)
        assert len(group.trajectories) == 16
        assert any("parent" in t.links for t in group.trajectories)
    assert sum("parent" in t.links for t in group.trajectories) == 8  # M = 16, N = 8 and every episode branches


def test_the_reward_of_tools() -> None:
    assert said("search: age", "calculate: 2 + 3", "answer: ANSWER") == {1.1}
    assert said("search: age", "answer: ANSWER") == {1.0}
    assert said("search: age", "calculate: 2 + 3", "answer: 1") == {0.0}
    assert said("search: age", "hm", "answer: ANSWER") == {-1.0}  # an illegal action
    assert said("search: age") == {-1.0}  # no answer within eight turns
    assert [called("search", t) for t in ("a\n Search: b", "research: b", "")] == [True, False, False]


def test_shared_tokens_have_the_mean_of_the_trajectories_that_contain_them() -> None:
    # tokens 0 and 1 are shared by two branches with advantages 1 and -1
    first, second = shared_mean([np.zeros(4, int), np.array([0, 0, 1])], [np.ones(4), -np.ones(3)])
    assert (first.tolist(), second.tolist()) == ([0, 0, 1, 1], [0, 0, -1])
    # a branch of a branch: token 0 in three trajectories (1 - 1 + 3) / 3 = 1, token 1 in the last two (-1 + 3) / 2 = 1
    rows = shared_mean([np.zeros(2, int), np.array([0, 1, 1]), np.array([0, 1, 2])], [np.ones(2), -np.ones(3), 3 * np.ones(3)])
    assert [r.tolist() for r in rows] == [[1, 1], [1, 1, -1], [1, 1, 3]]


@pytest.mark.parametrize("average", [SequenceSum(), TokenMean()])
def test_both_forms_pull_alike_at_shared_tokens_if_all_tokens_weigh_alike(average) -> None:
    words = iter(["search: age", "calculate: 1 + 1", "calculate: 11 + 21", "answer: 1", "answer: ANSWER"])

    def speak(ask):
        return next(words).replace("ANSWER", str(ask.request.problem.answer))

    group = group_of(speak, count=2)
    assert sorted(t.value for t in group.trajectories) == [0, 1.1]
    assert group.trajectories[1].links["shared"] == 1
    term = arpo.but(objective__policy__average=average).objective["policy"]
    found = {}
    for name, credit in (("soft", GroupRelative()), ("hard", SharedPrefix())):
        (row,) = credit.assign([group], {})
        made = Group(group.key, tuple(t.but(advantages=c.advantages) for t, c in zip(group.trajectories, row, strict=True)))
        batch = make_batch([made], dtype=torch.float64)
        rows = {LogProb(): batch.behaviour_logprobs.clone()}
        found[name] = (evaluated(term, rows, batch).gradient[LogProb()], [c.advantages for c in row])
    shared = int((group.trajectories[1].stream("branch") == 0).sum())
    length = group.trajectories[0].actions
    assert shared > 0
    assert [a[:shared].tolist() for a in found["hard"][1]] == [[0.0] * shared] * 2  # 1 and -1
    for a, b in zip(found["soft"][1], found["hard"][1], strict=True):
        assert a[shared:].tolist() == b[shared:].tolist()
    # the two copies of a shared token are one token of the network: their gradients add
    pulls = {n: (g[:shared] + g[length : length + shared]) for n, (g, _) in found.items()}
    assert torch.allclose(pulls["soft"], pulls["hard"], atol=1e-6)
    assert found["soft"][0][:shared].abs().min() > 0  # each copy alone is pulled


def test_without_shared_tokens_the_hard_form_is_the_soft_form() -> None:
    group = group_of(follow_demonstration, Branches(share=1.0), count=4)
    group = Group(group.key, tuple(t.but(reward=float(i)) for i, t in enumerate(group.trajectories)))
    soft, hard = [[c.advantages.tolist() for c in credit.assign([group], {})[0]] for credit in (GroupRelative(), SharedPrefix())]
    assert soft == hard


def test_branches_save_turns_of_the_tools() -> None:
    """Eight roots play four turns and eight copies three at most: 56 against 64 of independent episodes."""
    group = group_of(follow_demonstration)
    turns = sum(t.links["turns"] - t.links.get("shared", 0) for t in group.trajectories)
    whole = sum(t.links["turns"] for t in group_of(follow_demonstration, Branches(share=1.0)).trajectories)
    assert (turns, whole) == (56, 64)


def test_its_changes_to_grpo() -> None:
    assert set(changes(grpo, arpo)) == {"rollout", "reward", "objective.kl", "players.reference", "update.count"}
    assert set(changes(arpo, arpo.but(credit=SharedPrefix()))) == {"credit"}


def test_a_batch_is_cut_into_eight_and_the_clip_acts() -> None:
    check_bound_acts(arpo.but(reward=EnvironmentReturn()), updates=8, learning_rate=0.05)


def test_tools_without_a_name_are_refused() -> None:
    with pytest.raises(UserError, match="give one or more names, and no empty name"):
        ToolReward(tools=())
    with pytest.raises(UserError, match="bonus"):
        ToolReward(bonus=-1.0)
