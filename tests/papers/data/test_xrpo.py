"""XRPO: sharpened advantages by hand, the nearest examples, seeded answers under the plain prompt, the budget, its limit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.credit.groups import GroupRelative
from gradus.objectives.aggregation import TokenMean
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.xrpo import Seeded, Sharpened, nearest, sharpened, unseeded, xrpo
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.rollouts.auto import Auto
from gradus.rollouts.single_turn import SingleTurn
from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.testing.methods import TOY, check_resumes, scripted_world, steps_of, toy_group, toy_run, weights_after
from gradus.training.launch import go
from gradus.types import Key, Request, UserError
from gradus.types.signals import LogProbs


def test_the_example_by_hand():
    # the mean of s is -1: eta = exp(.6) = 1.8221 and exp(-.6) = .5488; 2.5 x .4512 = 1.128 is above kappa A = .5, .5 x .4512 = .2256 is not
    means, right = np.array([-0.4, -1.6, -0.8, -1.2]), np.array([True, True, False, False])
    advantages = np.array([1.0, 1.0, -1.0, -1.0])
    assert_close(sharpened(advantages, means, right, weight=2.5, most=0.5), np.array([1.0, 1.5, -1.0, -1.0]))
    assert_close(sharpened(advantages, means, right, weight=0.5, most=0.5), np.array([1.0, 1.2256, -1.0, -1.0]), rtol=0, atol=5e-5)
    assert_close(sharpened(advantages, means, right, weight=2.5, most=0.0), advantages)
    assert_close(sharpened(-advantages, means, right, weight=2.5, most=0.5), -advantages)  # no answer with A < 0 is touched


def test_the_part_takes_means_over_tokens():
    group = toy_group(1, 1, 0, 0, lengths=[1, 3, 1, 1])
    rows = {"g/0": np.array([-0.4]), "g/1": np.array([-1.0, -1.0, -2.8]), "g/2": np.array([-0.8]), "g/3": np.array([-1.2])}
    ((first, second, *wrong),) = Sharpened().assign([group], {LogProbs(): rows})
    assert first.advantages.tolist() == [1.0]
    assert second.advantages.tolist() == [1.5] * 3
    assert [c.advantages.tolist() for c in wrong] == [[-1.0], [-1.0]]
    assert LogProbs() in Sharpened().needs


def test_the_nearest_texts():
    texts = ["tail(rotate(planet))", "head(tail(moon))", "double(moon)", "rotate(star)"]
    assert nearest("rotate(tail(sun))", texts, 1) == [0]
    assert nearest("head(moon)", texts, 1) == [1]
    assert nearest("x", ["a b", "a b"], 2) == [0, 1]  # nothing in common: the earlier one
    assert nearest("", [], 2) == []


def spoken(asked):
    """A policy that answers every prompt wrongly unless the prompt has more than one line; `asked` collects its asks."""

    def speak(ask):
        asked.append(ask)
        return "z"

    return speak


def played(state, count, sample, asked):
    world, policy = scripted_world(TOY, spoken(asked), reward=Verified())

    async def score(contexts, want, player="policy", **_):
        return [np.full(c.actions, -0.5) for c in contexts]

    world.score = score
    world.note = lambda name, value: None
    problem = TOY.source.draw([0], None, Key(0))[0]
    request = Request(problem, count=count, sample=sample)
    groups, after = asyncio.run(Seeded().run([request], world, state))
    return problem, groups[0], after, policy


def test_a_problem_without_a_right_first_answer_is_marked():
    asked = []
    problem, group, after, _ = played({"solved": {}, "wrong": []}, 4, 0, asked)
    assert group.accuracy == 0.0
    assert after["wrong"] == [problem.id]
    assert len(group.trajectories) == 4


def test_half_of_the_further_answers_see_examples_and_lose_them():
    asked, solved = [], {"other": ["a b", "ab"], "third": ["c d", "cd"]}
    problem, group, after, policy = played({"solved": solved, "wrong": [TOY.source.draw([0], None, Key(0))[0].id]}, 4, 4, asked)
    texts = [policy.text(ask.parent.sequence) if hasattr(policy, "text") else "" for ask in asked]
    assert [len(t) > len(min(texts, key=len)) for t in texts] == [False, False, True, True]
    assert all(line in texts[-1] for line in ("a b", "ab", "c d", "cd"))
    assert len({bytes(t.contexts[0].prefix) for t in group.trajectories}) == 1  # all under the plain prompt
    assert [bool(t.links.get("seeded")) for t in group.trajectories] == [False, False, True, True]
    assert group.trajectories[2].contexts[0].logprobs.tolist() == [-0.5] * group.trajectories[2].actions
    assert len({t.id for t in group.trajectories}) == 4
    assert after["wrong"] == [problem.id]


@pytest.mark.parametrize(
    ("solved", "wrong", "sample", "count"),
    [({}, True, 4, 4), ({"other": ["a", "b"]}, False, 4, 4), ({"other": ["a", "b"]}, True, 0, 4), ({"other": ["a", "b"]}, True, 4, 1)],
    ids=["nothing solved", "some right", "first answers", "one answer"],
)
def test_otherwise_nothing_is_seeded(solved, wrong, sample, count):
    name = TOY.source.draw([0], None, Key(0))[0].id
    _, group, _, _ = played({"solved": solved, "wrong": [name] if wrong else []}, count, sample, [])
    assert not any(t.links.get("seeded") for t in group.trajectories)
    assert len(group.trajectories) == count


def test_a_problem_is_no_example_of_itself():
    name = TOY.source.draw([0], None, Key(0))[0].id
    _, group, _, _ = played({"solved": {name: ["a", "b"]}, "wrong": [name]}, 4, 4, [])
    assert not any(t.links.get("seeded") for t in group.trajectories)


def test_the_newest_right_answers_are_remembered():
    part = Seeded(most=2)
    made = [toy_group(1, 0, key=str(i)) for i in range(3)]
    named = [
        g.but(trajectories=tuple(t.but(problem=replace(t.problem, id=g.key, text=f"q{g.key}"), completion=f"y{j}") for j, t in enumerate(g.trajectories)))
        for g in made
    ]
    state = asyncio.run(part.learn(named, [], SimpleNamespace(), {"solved": {"0": ["q0", "old"]}, "wrong": ["5"]}))
    assert state == {"solved": {"1": ["q1", "y0"], "2": ["q2", "y0"]}, "wrong": []}


def test_an_answer_is_moved_with_its_own_tokens():
    world, _ = scripted_world(TOY, lambda ask: "ab", reward=Verified())

    async def score(contexts, want, player="policy", **_):
        return [np.arange(c.actions, dtype=float) for c in contexts]

    world.score = score
    problem = TOY.source.draw([0], None, Key(0))[0]
    plain, seeded = (asyncio.run(SingleTurn().run([Request(problem, count=2, prompt=prompt)], world))[0] for prompt in (None, "long prompt"))
    moved = asyncio.run(unseeded(seeded, plain, world, "policy"))
    for before, after in zip(seeded.trajectories, moved.trajectories, strict=True):
        one, other = before.contexts[0], after.contexts[0]
        assert other.sequence[: len(plain.trajectories[0].contexts[0].prefix)].tolist() == plain.trajectories[0].contexts[0].prefix.tolist()
        assert other.tokens[other.chosen].tolist() == one.tokens[one.chosen].tolist()
        assert (other.versions.tolist(), other.logprobs.tolist()) == (one.versions.tolist(), list(range(one.actions)))
        assert after.reward == before.reward


def test_a_run_spends_its_budget_and_seeds():
    seeded = 0
    for metrics, groups in steps_of(xrpo, steps=8, prompts=6, group=8, learning_rate=0.02):
        assert metrics["allotted"] == 8
        assert min(len(g.trajectories) for g in groups) >= 4
        seeded += sum(bool(t.links.get("seeded")) for g in groups for t in g.trajectories)
        for g in groups:
            assert len({bytes(t.contexts[0].prefix) for t in g.trajectories}) == 1
    assert seeded > 0


def test_the_state_of_a_run():
    run = go(toy_run(xrpo, steps=4, prompts=6, group=8))
    state = run.memory.states["rollout.rollout"]["state"]
    assert state["wrong"] == []
    assert state["solved"]


def test_a_run_resumes():
    check_resumes(xrpo, steps=4, after=2)


def test_what_it_changes():
    assert set(changes(grpo, xrpo)) == {"rollout", "credit", "objective.policy.average"}
    assert isinstance(xrpo.rollout.test, Auto)
    assert (xrpo.rollout.first, xrpo.rollout.rule.alpha, xrpo.rollout.rule.block) == (4, 0.05, 4)


def test_without_its_differences_it_is_grpo():
    plain = xrpo.but(rollout__first=None, credit__weight=0.0, objective__policy__average=grpo.objective["policy"].average)
    base = weights_after(grpo, steps=3)["policy.logits"]
    assert torch.equal(weights_after(plain, steps=3)["policy.logits"], base)
    token = weights_after(grpo.but(credit=GroupRelative(), objective__policy__average=TokenMean()), steps=3, group=8)["policy.logits"]
    assert not torch.equal(weights_after(xrpo, steps=3, group=8)["policy.logits"], token)


def test_tasks_of_many_turns_and_wrong_numbers_are_refused():
    with pytest.raises(UserError, match=r"has several turns; set --rollout.rollout Auto"):
        Seeded().check_task(frozen_lake())
    with pytest.raises(UserError, match="it must"):
        Seeded(share=1.0)
    with pytest.raises(UserError, match="it must"):
        Sharpened(most=-1.0)


@pytest.mark.parametrize("micro", [1, 7])
def test_gradient_does_not_depend_on_the_micro_batch(micro):
    whole, cut = (weights_after(xrpo, steps=2, group=8, micro=m)["policy.logits"] for m in (None, micro))
    assert_close(cut, whole, rtol=0, atol=1e-10)
