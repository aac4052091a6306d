"""Groups of earlier steps in the batch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from gradus import load_recipe
from gradus.selection.laws import Newest, Priority, Uniform
from gradus.selection.replay import Replay
from gradus.testing.methods import check_resumes, steps_of, stored_state, toy_group
from gradus.types import Key, UserError


def step(number: int, count: int = 2, size: int = 2):
    """Groups of a step; ids as a rollout gives them."""
    groups = [toy_group(*range(size), key=f"p{i}") for i in range(count)]
    return [g.but(trajectories=tuple(t.but(id=f"{number}/{t.id}") for t in g.trajectories)) for g in groups]


def names(groups):
    return [[t.id for t in g.trajectories] for g in groups]


def test_older_groups_stand_beside_the_new_ones():
    replay, state = Replay(law=Newest(), batch=1), None
    state = replay.start()
    kept, dropped, state = replay.keep(step(0), Key(), state)
    assert names(kept) == names(step(0))  # nothing is kept yet
    assert dropped == []
    kept, _, state = replay.keep(step(1), Key(), state)
    assert names(kept) == [*names(step(1)), ["0/p1/0", "0/p1/1"]]
    assert kept[2].rewards.tolist() == [0, 1]
    assert len(state["units"]) == 4


def test_the_oldest_leave_first():
    replay = Replay(size=3)
    state = replay.start()
    for i in range(3):
        _, _, state = replay.keep(step(i), Key(i), state)
    assert [unit["ids"][0] for unit in state["units"]] == ["1/p1/0", "2/p0/0", "2/p1/0"]
    assert len(state["priorities"]) == 3


def test_only_drawn_units_without_fresh():
    replay = Replay(fresh=False, batch=1, law=Newest(), source="replay")
    kept, dropped, state = replay.keep(step(0), Key(), replay.start())
    assert names(kept) == [["0/p1/0", "0/p1/1"]]
    assert names(dropped) == [["0/p0/0", "0/p0/1"]]
    assert {t.source for g in kept for t in g.trajectories} == {"policy"}  # of this step
    kept, dropped, state = replay.keep([], Key(), state)
    assert names(kept) == [["0/p1/0", "0/p1/1"]]
    assert {t.source for g in kept for t in g.trajectories} == {"replay"}
    assert dropped == []


def test_a_trajectory_is_a_unit_and_rejoins_its_group():
    replay = Replay(unit="trajectory", batch=3, law=Newest())
    _, _, state = replay.keep(step(0), Key(), replay.start())
    kept, _, state = replay.keep(step(1), Key(), state)
    assert names(kept)[2:] == [["0/p0/1"], ["0/p1/0", "0/p1/1"]]
    assert kept[2].pool == step(0)[0].pool
    kept, _, _ = replay.keep(step(2), Key(), state)  # p0 of steps 0 and 1 are two groups
    assert names(kept)[2:] == [["1/p0/1"], ["1/p1/0", "1/p1/1"]]
    both, _, _ = Replay(unit="trajectory", batch=8, law=Newest()).keep(step(2), Key(), state)
    assert [g.key for g in both] == ["p0", "p1"] * 3


def test_nothing_before_enough_is_kept():
    replay = Replay(least=3)
    kept, dropped, state = replay.keep(step(0), Key(), replay.start())
    assert kept == []
    assert names(dropped) == names(step(0))
    assert len(replay.keep(step(1), Key(), state)[0]) == 4


def test_a_unit_drawn_twice_counts_twice():
    replay = Replay(law=Uniform(again=True), batch=64)
    _, _, state = replay.keep(step(0), Key(), replay.start())
    kept, _, _ = replay.keep(step(1), Key(3), state)
    old = kept[2:]
    assert len(old) == 2
    assert sum(g.trajectories[0].weight for g in old) == 64
    assert len({t.weight for g in old for t in g.trajectories}) == 2  # both of a group alike


def test_priorities_are_advantages_and_new_units_have_the_largest():
    replay = Replay()
    _, _, state = replay.keep(step(0), Key(), replay.start())
    assert state["priorities"].tolist() == [1, 1]
    credited = [g.but(trajectories=tuple(t.but(advantages=np.array([3.0, -1.0])) for t in g.trajectories)) for g in step(0)[:1]]
    state = replay.learn(credited, [], None, state)
    assert state["priorities"].tolist() == [2, 1]
    _, _, state = replay.keep(step(1), Key(), state)
    assert state["priorities"].tolist() == [2, 1, 2, 2]


def test_a_stored_state_goes_on_alike():
    replay = Replay(law=Priority(), unit="trajectory")
    _, _, state = replay.keep(step(0), Key(), replay.start())
    one, _, after = replay.keep(step(1), Key(4), state)
    other, _, again = replay.keep(step(1), Key(4), stored_state(state))
    assert names(one) == names(other)
    assert stored_state(after).keys() == again.keys()


@pytest.mark.parametrize("law", [Uniform(), Priority()])
@pytest.mark.parametrize("unit", ["group", "trajectory"])
def test_a_run_with_replay_resumes_to_the_same_bytes(law, unit):
    recipe = load_recipe("grpo").but(selection=Replay(law=law, unit=unit, size=10))
    check_resumes(recipe, steps=4, after=2)
    check_resumes(recipe, steps=4, after=3)


def test_replayed_groups_move_the_weights_and_are_stored_once():
    """The second step differs from the plain run's; the groups that are recorded are those of the step alone."""
    plain, replayed = (steps_of(load_recipe("grpo").but(**more), steps=2) for more in ({}, {"selection": Replay()}))
    assert plain[0][0]["loss/policy"] == replayed[0][0]["loss/policy"]
    assert plain[1][0]["grad_norm"] != replayed[1][0]["grad_norm"]
    recorded = Counter(t.id for g in replayed[1][1] for t in g.trajectories)
    assert set(recorded.values()) == {1}
    assert all(name.startswith("1/") for name in recorded)


def test_ranges():
    with pytest.raises(UserError, match="size"):
        Replay(size=0)
