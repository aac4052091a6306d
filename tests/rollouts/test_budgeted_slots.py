"""Slots with a token budget: tokens per step, the prefix of an unfinished answer, retirement, the order, and sampling without a budget."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.papers.bases.reinforce import reinforce
from gradus.rollouts.auto import Auto
from gradus.rollouts.budgeted_slots import BudgetedSlots
from gradus.tasks.games.lake_environment import FrozenLake
from gradus.testing.methods import TOY, check_resumes, check_same_update, scripted_world, stored_state, toy_run
from gradus.types import Key, Request, Sampling, UserError

LONG = replace(TOY, sampling=Sampling(max_tokens=12))


def played(rollout, steps=6, prompts=8, group=2, task=LONG, keep=stored_state):
    """Per step: the groups, the state, the notes and the new tokens."""
    run, state, out = toy_run(reinforce, task=task, group=group), rollout.start(), []
    for step in range(steps):
        run.step = step
        _, world = run.at(step)
        before = world.spent.get("rollout", 0)
        requests = asyncio.run(world.more(prompts))
        groups, state = asyncio.run(rollout.run(requests, world, keep(state)))
        out.append((groups, state, dict(world.notes), world.spent.get("rollout", 0) - before))
    return out


@pytest.mark.parametrize(("tokens", "slots"), [(20, 4), (7, 7), (13, 3), (30, 5), (1, 6)])
def test_a_step_has_at_least_the_budget_and_less_than_a_token_per_slot_more(tokens, slots):
    for _, _, notes, new in played(BudgetedSlots(tokens, slots, retention=20)):
        assert tokens <= new < tokens + slots
        assert notes["decode_steps"] * slots >= new
        assert notes["idle"] == pytest.approx(slots * notes["decode_steps"] / new - 1)


def test_an_answer_continues_from_its_prefix_and_none_stays_longer_than_the_retention():
    before: dict[tuple[int, str, int], list[int]] = {}
    ages: dict[tuple[int, str, int], int] = {}
    grown = retired = 0
    for _, state, notes, _ in played(BudgetedSlots(9, 4, retention=3), steps=10):
        now = {}
        for flight in state["flights"]:
            for i, (answer, age) in enumerate(zip(flight["answers"], flight["ages"], strict=True)):
                name, tokens = (flight["since"], flight["request"]["problem"]["id"], i), list(answer["tokens"])
                now[name] = tokens
                if age > 0:
                    assert age <= 2
                    assert tokens[: len(before.get(name, []))] == before.get(name, [])
                    assert age - ages.get(name, 0) in (0, 1)  # 0: finished in this step or before
                    grown += age > 1
                    ages[name] = age
        before, retired = now, retired + notes["retired"]
    assert grown > 3
    assert retired > 0


def test_retired_answers_leave_their_group():
    found = played(BudgetedSlots(8, 8, retention=1), steps=4)
    groups = [g for groups, *_ in found for g in groups]
    assert all(notes["retired"] > 0 and not state["flights"] for _, state, notes, _ in found)
    assert {len(g.trajectories) for g in groups} <= {1, 2}
    for made, _, notes, _ in found:
        assert sum(len(g.trajectories) for g in made) == 8 - notes["retired"]  # 8 answers begin in each step
    assert all(t.actions == 1 for g in groups for t in g.trajectories)  # one token per slot and step
    assert all(len(g.pool) == len(g.trajectories) for g in groups)


def test_without_a_limit_it_is_sampling_in_one_go():
    requests = [Request(p, count=3) for p in TOY.source.draw(range(3), None, Key())]
    plain = asyncio.run(Auto().run(requests, toy_run(reinforce).at(0)[1]))
    rollout = BudgetedSlots(tokens=10_000)
    groups, state = asyncio.run(rollout.run(requests, toy_run(reinforce).at(0)[1], rollout.start()))
    assert state == {"flights": []}
    for ours, theirs in zip(groups, plain, strict=True):
        assert (ours.key, ours.pool) == (theirs.key, theirs.pool)
        for a, b in zip(ours.trajectories, theirs.trajectories, strict=True):
            assert (a.id, a.completion, a.ended, a.value) == (b.id, b.completion, b.ended, b.value)
            assert a.contexts[0].logprobs.tolist() == b.contexts[0].logprobs.tolist()
    check_same_update(reinforce.but(rollout=rollout), reinforce)


def test_a_free_slot_begins_the_next_answer_at_once():
    # with their end tokens: a 5 | b 2, then c 3; d never begins, and no slot waits
    said = {f"toy/{i}": text for i, text in enumerate(("aaaa", "b", "cc", "dddd"))}
    world, _ = scripted_world(LONG, lambda ask: said[ask.request.problem.id][ask.at - 2 :])
    requests = [Request(replace(p, text="q?")) for p in TOY.source.draw(range(4), None, Key())]
    groups, state = asyncio.run(BudgetedSlots(10, 2).run(requests, world, BudgetedSlots().start()))
    assert [g.trajectories[0].completion for g in groups] == ["aaaa", "b", "cc"]
    assert state == {"flights": []}
    assert (world.notes["decode_steps"], world.notes["idle"]) == (5, 0)


def test_a_stored_state_goes_on_alike():
    rollout = BudgetedSlots(11, 3)
    ours, theirs = (played(rollout, keep=keep) for keep in (stored_state, lambda state: state))
    assert [[t.completion for g in row[0] for t in g.trajectories] for row in ours] == [
        [t.completion for g in row[0] for t in g.trajectories] for row in theirs
    ]
    check_resumes(reinforce.but(rollout=BudgetedSlots(6, 3)), steps=5, after=2)


def test_names_and_draws_are_never_used_twice():
    run, asked = toy_run(reinforce, task=LONG), []
    rollout, state, ids = BudgetedSlots(30, 8), BudgetedSlots().start(), []
    for step in range(6):
        run.step = step
        world = run.at(step)[1]
        sample = world.sample

        async def listening(requests, sample=sample, step=step):
            asked.extend((step, r.problem.id, r.tags, r.sample) for r in requests)
            return await sample(requests)

        world.sample = listening
        groups, state = asyncio.run(rollout.run(asyncio.run(world.more(1)), world, state))
        ids += [t.id for g in groups for t in g.trajectories]
    assert len(set(asked)) == len(asked)
    assert len(set(ids)) == len(ids) > 0


def test_an_environment_and_numbers_out_of_range_are_refused():
    world, _ = scripted_world(replace(TOY, environment=FrozenLake()), lambda ask: "up")
    with pytest.raises(UserError, match="has an environment"):
        asyncio.run(BudgetedSlots().run([], world, BudgetedSlots().start()))
    for wrong in ({"tokens": 0}, {"slots": 0}, {"retention": 0}):
        with pytest.raises(UserError, match=f"BudgetedSlots.{next(iter(wrong))}"):
            BudgetedSlots(**wrong)
    assert isinstance(BudgetedSlots().test, Auto)
