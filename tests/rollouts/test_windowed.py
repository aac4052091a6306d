"""Windows: slots, names, cut answers, each token new once, state, and whole answers in one window."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.papers.bases.reinforce import reinforce
from gradus.rollouts.auto import Auto
from gradus.rollouts.windowed import Windowed
from gradus.tasks.games.lake_environment import FrozenLake
from gradus.testing.methods import TOY, scripted_world, stored_state, toy_run
from gradus.types import Ended, Key, Request, Sampling, UserError
from gradus.types.pieces import continues, new_actions


def played(rollout, steps, keep=lambda state: state, count=2):
    """The groups of each step, and the number of answers in flight after it."""
    run, state, out = toy_run(reinforce), rollout.start(), []
    for step in range(steps):
        run.step = step
        _, world = run.at(step)
        requests = [replace(r, count=count) for r in asyncio.run(world.more(3))]
        groups, state = asyncio.run(rollout.run(requests, world, keep(state)))
        out.append((groups, len(state["flights"]), world.notes))
    return out


def trajectories(groups):
    return [t for g in groups for t in g.trajectories]


def test_every_step_fills_all_slots_and_a_cut_answer_goes_on():
    before: list = []
    ids: list = []
    for groups, flying, notes in played(Windowed(2), 8):
        now = trajectories(groups)
        assert len(now) == 6  # 3 requests of 2 answers
        cut = [t for t in now if continues(t)]
        assert (len(cut), notes["cut_share"]) == (flying, flying / 6)
        goes_on = {tuple(t.contexts[0].sequence) for t in before}
        for t in now:
            new = new_actions(t)
            assert 1 <= new <= 2
            assert new == t.actions or tuple(t.contexts[0].sequence[:-new]) in goes_on
        assert sum(new_actions(t) < t.actions for t in now) == len(before)
        assert all(t.reward == 0 and t.ended is Ended.LENGTH and t.actions < 6 for t in cut)
        assert all(t.ended is Ended.STOP or t.actions == 6 for t in now if not continues(t))
        assert [g.aside for g in groups] == [all(continues(t) for t in g.trajectories) for g in groups]
        ids += [t.id for t in now]
        before = cut
    assert before
    assert len(set(ids)) == len(ids)


def test_every_token_is_new_in_one_step_only():
    steps = played(Windowed(2), 8)
    made = [trajectories(groups) for groups, _, _ in steps]
    finished = sum(t.actions for now in made for t in now if not continues(t))
    assert sum(new_actions(t) for now in made for t in now) == finished + sum(t.actions for t in made[-1] if continues(t))
    assert any(t.actions > new_actions(t) for now in made for t in now)


def test_a_window_as_long_as_the_limit_gives_the_answers_of_one_go():
    requests = [Request(p, count=3) for p in TOY.source.draw(range(3), None, Key())]
    plain = asyncio.run(Auto().run(requests, toy_run(reinforce).at(0)[1]))
    groups, state = asyncio.run(Windowed(6).run(requests, toy_run(reinforce).at(0)[1], Windowed().start()))
    assert state == {"flights": []}
    for ours, theirs in zip(groups, plain, strict=True):
        assert (ours.key, ours.pool, ours.aside) == (theirs.key, theirs.pool, False)
        for a, b in zip(ours.trajectories, theirs.trajectories, strict=True):
            assert (a.id, a.completion, a.ended, a.value) == (b.id, b.completion, b.ended, b.value)
            assert a.contexts[0].logprobs.tolist() == b.contexts[0].logprobs.tolist()


def test_a_stored_state_goes_on_alike():
    def told(steps):
        return [[(t.id, t.completion, t.reward, dict(t.links)) for t in trajectories(groups)] for groups, _, _ in steps]

    assert told(played(Windowed(2), 4, stored_state)) == told(played(Windowed(2), 4))


def test_fewer_slots_than_answers_in_flight_begin_nothing():
    run, rollout = toy_run(reinforce), Windowed(1)
    _, world = run.at(0)
    (first, *_), (more, *_) = asyncio.run(world.more(1)), asyncio.run(world.more(1))
    groups, state = asyncio.run(rollout.run([replace(first, count=6)], world, rollout.start()))
    flying = len(state["flights"])
    assert flying > 1
    groups, state = asyncio.run(rollout.run([replace(more, count=1)], world, state))
    assert len(trajectories(groups)) == flying
    groups, _ = asyncio.run(rollout.run([], world, state))
    assert len(trajectories(groups)) == len(state["flights"])


def test_idle_slots_by_hand():
    """Answers of 4, 2 and 1 characters and their end tokens, in windows of 3: tokens 3, 3, 2, then 2 and two new answers."""
    texts = {0: "abcd", 1: "ef", 2: "g"}
    world, _ = scripted_world(TOY, lambda ask: texts[ask.request.sample][ask.at - 2 :])
    problem = replace(TOY.source.draw([0], None, Key())[0], text="q?")
    request = Request(problem, count=3, sampling=Sampling(max_tokens=9))
    groups, _ = asyncio.run(Windowed(3).run([request], world, Windowed().start()))
    assert sorted((t.completion, new_actions(t), continues(t)) for t in trajectories(groups)) == [("abc", 3, True), ("ef", 3, False), ("g", 2, False)]
    assert world.notes["decode_steps"] == 3
    assert world.notes["idle"] == pytest.approx(1 / 8)  # 3 slots of 3 steps, 8 tokens


def test_a_task_of_many_turns_and_a_window_of_nothing_are_refused():
    world, _ = scripted_world(replace(TOY, environment=FrozenLake()), lambda ask: "up")
    with pytest.raises(UserError, match="set --rollout Episodes"):
        asyncio.run(Windowed().run([], world, Windowed().start()))
    with pytest.raises(UserError, match="window"):
        Windowed(0)
    assert isinstance(Windowed().test, Auto)
