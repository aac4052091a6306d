"""Given answers: their tokens, what is chosen in them, demonstrated episodes, pairs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gradus.papers.bases.sft import sft
from gradus.rollouts.demonstrations import DemonstratedPairs, Demonstrations
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.episodes import Episodes
from gradus.selection.filters import Informative
from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.testing.methods import TOY, readable, scripted_world, toy_run
from gradus.types import Frozen, Key, Problem, Request, UserError
from gradus.types.parts import Task
from gradus.types.signals import LogProbs


def asked(text="what?", count=3, **meta):
    return Request(Problem("p", "t", messages=({"role": "user", "content": text},), meta=Frozen(meta)), count=count)


PLAIN = Task("t", TOY.source, TOY.held_out, TOY.verify, system="be brief")


def run(rollout, requests, task=PLAIN, **options):
    world, policy = scripted_world(task, lambda ask: "sampled", **options)
    groups = asyncio.run(rollout.run(requests, world))
    return groups, policy


def test_a_solution_stands_where_a_sample_would():
    groups, policy = run(Demonstrations(), [asked(solution="because")])
    (trajectory,) = groups[0].trajectories
    (context,) = trajectory.contexts
    assert policy.batches == []  # nothing was sampled
    assert readable(context.sequence) == "<s>be brief|<u>what?|<a>because|"
    assert readable(context.sequence[context.action_positions]) == "because|"
    assert context.logprobs is None
    assert (trajectory.source, trajectory.completion, trajectory.trained) == ("expert", "because", True)
    assert (trajectory.value, dict(trajectory.components), groups[0].pool) == (1.0, {"demonstration": 1.0}, (1.0,))


def test_names_are_those_of_a_sampled_group():
    groups, _ = run(Demonstrations(), [asked(solution="x"), replace(asked(solution="y"), tags=("again",))])
    assert [(g.key, g.trajectories[0].id) for g in groups] == [("p", "3/p/0"), ("p/again", "3/p/again/0")]


@pytest.mark.parametrize("value", [None, 5])
def test_a_problem_without_a_text_is_named(value):
    with pytest.raises(UserError, match="problem p"):
        run(Demonstrations(), [asked(solution=value)])


def test_an_answer_longer_than_the_context_is_named():
    # <s>be brief|<u>what?|<a> is 18 tokens, with "because|" 26
    with pytest.raises(UserError, match="problem p: the prompt and the given answer have 26 tokens, but the model's context has room for 25 tokens"):
        run(Demonstrations(), [asked(solution="because")], context_length=25)
    run(Demonstrations(), [asked(solution="because")], context_length=26)


def test_a_demonstrated_episode_has_the_tokens_of_a_played_one():
    task = frozen_lake()
    (problem,) = task.source.draw([0], task.level, Key(1))
    actions = [action for _, action in problem.meta["demonstration"]]
    request = Request(problem)
    (given,), _ = run(Demonstrations(), [request], task)

    turn = iter(actions)
    world, _ = scripted_world(task, lambda ask: next(turn))
    (played,) = asyncio.run(Episodes().run([request], world))
    ours, theirs = given.trajectories[0].contexts[0], played.trajectories[0].contexts[0]
    assert ours.sequence.tolist() == theirs.sequence.tolist()
    assert ours.chosen.tolist() == theirs.chosen.tolist()
    assert ours.streams["turn"].tolist() == theirs.streams["turn"].tolist()
    assert ours.logprobs is None
    assert theirs.logprobs is not None


def test_at_test_time_the_policy_acts():
    groups, policy = run(Demonstrations().test, [asked(solution="because")])
    assert policy.batches == [3]
    assert groups[0].trajectories[0].source == "policy"


def test_a_pair_gives_the_better_answer_first_and_others_are_sampled():
    chat = [{"role": "user", "content": "what?"}, {"role": "assistant", "content": "bad"}]
    groups, policy = run(DemonstratedPairs(), [asked(chosen="good", rejected=chat), asked(count=2), replace(asked(chosen="only one", count=1), tags=("b",))])
    assert [[t.completion for t in g.trajectories] for g in groups] == [["good", "bad"], ["sampled"] * 2, ["sampled"]]
    assert [[t.source for t in g.trajectories] for g in groups] == [["expert"] * 2, ["policy"] * 2, ["policy"]]
    assert [t.value for t in groups[0].trajectories] == [1.0, 0.0]
    a, b = (t.contexts[0] for t in groups[0].trajectories)
    assert a.parent[0] is b.parent[0]  # one prompt for both
    assert policy.batches == [3]


def test_given_answers_are_scored_by_whoever_is_asked():
    """Log-probabilities as sampled do not exist for them, so the policy's own are computed."""
    world = toy_run(sft).at(0)[1]
    (group,) = asyncio.run(Demonstrations().run([Request(TOY.source.draw([1], None, Key())[0])], world))
    found = asyncio.run(world.signals([group], [LogProbs()]))[LogProbs()]
    (trajectory,) = group.trajectories
    table = world.players["policy"].policy.network.logits.log_softmax(-1).detach().numpy()
    sequence = trajectory.contexts[0].sequence
    np.testing.assert_allclose(found[trajectory.id], [table[a, b] for a, b in pairwise(sequence)], rtol=1e-6)
    assert world.spent == {"score": len(sequence)}


def test_what_brings_its_reward_need_not_be_judged():
    pairs = replace(PLAIN, provides=frozenset({"chosen", "rejected", "solution"}))
    assert [Demonstrations().judges(t) for t in (PLAIN, pairs)] == [False, False]
    assert [DemonstratedPairs().judges(t) for t in (PLAIN, pairs, replace(PLAIN, provides=frozenset({"chosen"})))] == [True, False, True]


def test_groups_of_further_problems_come_after_those_asked_for():
    world = toy_run(sft.but(rollout=DemonstratedPairs())).at(0)[1]
    asked = asyncio.run(world.more(2))
    given = replace(asked[0], problem=replace(asked[0].problem, meta=Frozen(chosen="b", rejected="c")))
    groups = asyncio.run(DemonstratedPairs(DynamicSampling(until=Informative(), rounds=2)).run([given, asked[1]], world))
    plain = asyncio.run(DemonstratedPairs().run([given, asked[1]], world))
    assert [g.key for g in groups[:2]] == [g.key for g in plain]
    assert len(groups) > 2  # a group of one sample tells nothing, so that further problems were asked for
