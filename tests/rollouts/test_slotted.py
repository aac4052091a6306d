"""Answers in slots: the bytes of one-turn answers, expected lengths by hand, metrics, state."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gradus.papers.bases.reinforce import reinforce
from gradus.rollouts.slotted import Slotted, expected_length, learned
from gradus.tasks.games.lake_environment import FrozenLake
from gradus.testing.methods import TOY, check_resumes, check_same_update, scripted_world, stored_state
from gradus.types import Request, UserError
from gradus.types.slots import Slots

IN_SLOTS = reinforce.but(rollout=Slotted(Slots(3)))


def test_the_update_is_that_of_answers_without_slots():
    check_same_update(IN_SLOTS, reinforce, steps=3)
    check_same_update(IN_SLOTS.but(rollout=Slotted(Slots(1, "shortest"))), reinforce, steps=2)


def test_the_expected_length_is_the_mean_of_the_problem_else_a_line_over_prompts():
    state = Slotted().start()
    assert expected_length("a", 9, state) == 0
    state = learned(state, ["a"], [10], [[4, 8]], 100)
    assert (expected_length("a", 10, state), expected_length("new", 99, state)) == (6, 6)  # one length of prompts: the mean
    state = learned(state, ["b"], [20], [[10, 12]], 100)
    assert (expected_length("a", 10, state), expected_length("b", 20, state)) == (6, 11)
    assert expected_length("new", 30, state) == pytest.approx(16)  # 6 at 10, 11 at 20
    assert expected_length("new", 0, state) == pytest.approx(1)
    assert expected_length("new", -10, state) == 0
    state = learned(state, ["a"], [10], [[30]], 100)
    assert expected_length("a", 10, state) == 14


def test_only_the_newest_problems_are_kept():
    state = Slotted().start()
    for name in ("a", "b", "a", "c"):
        state = learned(state, [name], [10], [[4]], 2)
    assert list(state["problems"]) == ["a", "c"]
    assert state["sums"]["n"] == 4
    assert learned(state, ["d"], [1], [[2]], 0)["problems"] == {}


def run(slots, lengths, state=None):
    """A step with answers of these lengths (with the end token), one row per problem; the notes of the world and the state."""
    rows = iter([n for row in lengths for n in row])
    world, _ = scripted_world(TOY, lambda ask: "x" * (next(rows) - 1))
    requests = [Request(p, count=len(row)) for p, row in zip(TOY.source.draw(list(range(len(lengths))), None, world.key), lengths, strict=True)]
    rollout = Slotted(slots)
    groups, state = asyncio.run(rollout.run(requests, world, stored_state(state or rollout.start())))
    assert [[t.actions for t in g.trajectories] for g in groups] == lengths
    return dict(world.notes), state


def test_the_metrics_by_hand():
    notes, state = run(Slots(2, "rounds"), [[2, 2], [10, 2]])
    assert (notes["decode_steps"], notes["rounds"], "length_error" in notes) == (12, 1, False)
    assert notes["idle"] == pytest.approx(2 * 12 / 16 - 1)
    notes, state = run(Slots(2, "longest"), [[2, 2], [10, 2]], state)
    assert notes["decode_steps"] == 10  # the second problem is expected to be longer, so its long answer begins at once
    assert notes["rounds"] == pytest.approx(10 / 12)
    assert notes["length_error"] == pytest.approx((0 + 0 + 4 + 4) / 4)
    notes, _ = run(Slots(2, "shortest"), [[2, 2], [10, 2]], state)
    assert notes["decode_steps"] == 12
    notes, state = run(Slots(2, "longest"), [[6, 6], [6, 6]])
    prompt = state["sums"]["x"] // state["sums"]["n"]
    assert notes["peak_tokens"] == pytest.approx((12 + prompt) / (24 + 2 * prompt))


def test_its_state_is_stored():
    check_resumes(IN_SLOTS)


def test_an_environment_is_refused():
    world, _ = scripted_world(replace(TOY, environment=FrozenLake()), lambda ask: "x")
    with pytest.raises(UserError, match="answers of one turn"):
        asyncio.run(Slotted().run([], world, Slotted().start()))
