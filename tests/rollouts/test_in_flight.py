"""Answers in flight: who chose which token, that a step is full and nothing is lost, state, stops across chunks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gradus.papers.bases.reinforce import reinforce
from gradus.rollouts.auto import Auto
from gradus.rollouts.in_flight import InFlight
from gradus.tasks.games.lake_environment import FrozenLake
from gradus.testing.methods import TOY, scripted_world, stored_state, toy_run, train_toy
from gradus.types import Ended, Key, Request, Sampling, UserError

FLYING = reinforce.but(rollout=InFlight(parts=3))


def test_every_token_has_the_version_and_the_chances_of_the_weights_that_chose_it():
    tables, seen = {0: toy_run(FLYING).players["policy"].policy.network.logits.detach().log_softmax(-1).numpy()}, []

    def watch(run, metrics, groups):
        seen.append((metrics, groups))
        player = run.players["policy"]
        tables[player.updates] = player.policy.network.logits.detach().log_softmax(-1).numpy()

    train_toy(FLYING, steps=6, watch=watch)
    mixed = 0
    for _, groups in seen:
        for (c,) in (t.contexts for g in groups for t in g.trajectories):
            expected = [tables[v][a, b] for v, (a, b) in zip(c.versions, pairwise(c.sequence[-c.actions - 1 :]), strict=True)]
            np.testing.assert_allclose(c.logprobs, expected, rtol=1e-6)
            assert (np.diff(c.versions) >= 0).all()
            mixed += len(set(c.versions.tolist())) > 1
    assert mixed > 5
    assert max(m.get("versions", 0) for m, _ in seen) > 1


def test_two_parts_of_an_answer_in_one_step_have_draws_of_their_own():
    """Another rollout may call it several times a step: the second part must not repeat the draws of the first."""
    run = toy_run(FLYING)
    world = run.at(0)[1]
    asked = []
    sample = world.sample

    async def listening(requests):
        asked.append([(r.problem.id, r.tags, r.sample) for r in requests])
        return await sample(requests)

    world.sample = listening
    rollout, state = InFlight(6), {"flights": []}
    requests = asyncio.run(world.more(4))
    for more in (requests, [], []):
        _, state = asyncio.run(rollout.run(more, world, state))
    names = [name for call in asked for name in call]
    assert len(asked) == 3
    assert len(set(names)) == len(names)
    assert all("again" not in tags for _, tags, _ in asked[0])


def test_every_group_comes_back_within_its_parts_and_nothing_is_lost():
    seen, launched = [], {}

    def watch(run, metrics, groups):
        flying = [f["request"]["problem"]["id"] for f in run.memory.states["rollout"]["state"]["flights"]]
        assert metrics["in_flight"] == len(flying)
        step = len(seen)
        seen.append(groups)
        launched.update({f"toy/{i}": step for i in range(4 * step, 4 * step + 4)})
        done = {g.trajectories[0].problem.id for groups in seen for g in groups}
        assert sorted([*done, *flying]) == sorted(launched)
        assert all(step - launched[g.trajectories[0].problem.id] <= 2 for g in groups)

    train_toy(FLYING, steps=9, watch=watch)
    assert len(seen[0]) < 4
    assert sum(len(groups) for groups in seen) >= 7 * 4
    trajectories = [t for groups in seen for g in groups for t in g.trajectories]
    assert all(t.ended is Ended.STOP or t.actions == 6 for t in trajectories)
    assert len({t.id for t in trajectories}) == len(trajectories)


def test_a_step_without_a_finished_group_moves_nothing():
    endless = replace(TOY, sampling=Sampling(max_tokens=30))
    run = train_toy(reinforce.but(rollout=InFlight(parts=30)), steps=1, task=endless, group=8)
    assert run.players["policy"].updates == 0
    assert run.metrics[0]["reward"] is None


def test_in_one_part_it_is_sampling_in_one_go():
    requests = [Request(p, count=3) for p in TOY.source.draw(range(3), None, Key())]
    plain = asyncio.run(Auto().run(requests, toy_run(FLYING).at(0)[1]))
    rollout = InFlight(parts=1)
    groups, state = asyncio.run(rollout.run(requests, toy_run(FLYING).at(0)[1], rollout.start()))
    assert state == {"flights": []}
    for ours, theirs in zip(groups, plain, strict=True):
        assert (ours.key, ours.pool) == (theirs.key, theirs.pool)
        for a, b in zip(ours.trajectories, theirs.trajectories, strict=True):
            assert (a.id, a.completion, a.ended, a.value) == (b.id, b.completion, b.ended, b.value)
            assert a.contexts[0].sequence.tolist() == b.contexts[0].sequence.tolist()
            assert a.contexts[0].logprobs.tolist() == b.contexts[0].logprobs.tolist()


def test_a_stored_state_goes_on_alike():
    def played(keep):
        run, rollout, state, out = toy_run(FLYING), FLYING.rollout, FLYING.rollout.start(), []
        for step in range(4):
            run.step = step
            _, world = run.at(step)
            requests = asyncio.run(world.more(2))
            groups, state = asyncio.run(rollout.run(requests, world, keep(state)))
            out += [(t.id, t.completion, t.value, t.problem) for g in groups for t in g.trajectories]
        return out

    assert played(stored_state) == played(lambda state: state)


def test_a_problem_that_comes_again_while_it_is_in_flight_has_names_of_its_own():
    run, rollout, state = toy_run(FLYING), FLYING.rollout, FLYING.rollout.start()
    (problem,) = TOY.source.draw([0], None, Key())
    together = 0
    for step in range(30):
        run.step = step
        groups, state = asyncio.run(rollout.run([Request(problem)], run.at(step)[1], state))
        ids = [t.id for g in groups for t in g.trajectories]
        assert len(set(ids)) == len(ids)
        together += len(groups) > 1
    assert together > 0


def scripted(text, parts, **sampling):
    """One answer of `text`, written a character at a time over as many steps as it takes; and how many those were."""

    def speak(ask):
        return text[ask.at - 2 :]  # after the prompt "q?"

    world, policy = scripted_world(TOY, speak)
    problem = replace(TOY.source.draw([0], None, Key())[0], text="q?")
    rollout = InFlight(parts)
    groups, state = asyncio.run(rollout.run([Request(problem, sampling=Sampling(**sampling))], world, rollout.start()))
    while not groups:
        groups, state = asyncio.run(rollout.run([], world, state))
    return groups[0].trajectories[0], len(policy.batches)


def test_a_limit_is_that_of_the_whole_answer():
    made, steps = scripted("abcdefgh", 2, max_tokens=5)
    assert (made.completion, made.ended, steps) == ("abcde", Ended.LENGTH, 2)  # 3 and 2


def test_a_stop_across_two_parts_ends_the_answer():
    made, steps = scripted("abcdefgh", 3, max_tokens=9, stops=("cd",))
    assert (made.completion, made.ended, steps) == ("abcd", Ended.STOP, 2)
    assert len(made.contexts[0].logprobs) == made.actions == 4


def test_a_stop_across_two_parts_ends_an_answer_that_its_end_token_ends_later():
    made, steps = scripted("abcde", 3, max_tokens=9, stops=("cd",))  # parts of 3: "abc", then "de" and the end token
    assert (made.completion, made.ended, steps) == ("abcd", Ended.STOP, 2)
    assert len(made.contexts[0].logprobs) == made.actions == 4


def test_a_task_of_many_turns_is_refused():
    world, _ = scripted_world(replace(TOY, environment=FrozenLake()), lambda ask: "up")
    with pytest.raises(UserError, match="set --rollout Episodes"):
        asyncio.run(InFlight().run([], world, InFlight().start()))


def test_evaluation_answers_in_one_go():
    assert isinstance(InFlight().test, Auto)
