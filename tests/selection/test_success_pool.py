"""The pool of successes: when a success enters a group, which one, and what it brings."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.selection.success_pool import SuccessPool
from gradus.testing.methods import stored_state, toy_trajectory
from gradus.types import Group, Key, Problem, UserError


def group(name, *rewards, problem="p", **more):
    told = Problem(problem, "toy", text="a")
    made = (toy_trajectory([2, 3], reward=float(r), name=f"{name}/{i}", logprobs=[-0.5, -i - 1.0], **more) for i, r in enumerate(rewards))
    return Group(name, tuple(t.but(problem=told) for t in made))


def after(part, *groups, state=None, key=Key(3)):
    kept, dropped, new = part.keep(list(groups), key, part.start() if state is None else stored_state(state))
    assert dropped == []
    return kept, new


def test_four_failures_and_one_stored_success_give_exactly_one_pool_trajectory():
    part = SuccessPool()
    _, state = after(part, group("first", 1, 0, 0, 0))
    (found,), _ = after(part, group("later", 0, 0, 0, 0), state=state)
    assert len(found.trajectories) == 4
    (pooled,) = [t for t in found.trajectories if t.source == "replay"]
    assert (pooled.id, pooled.value) == ("first/0", 1.0)
    assert pooled.contexts[0].logprobs.tolist() == [-0.5, -1.0]  # of the policy that sampled it
    assert pooled.advantages is None
    assert {t.id for t in found.trajectories} < {"first/0", *(f"later/{i}" for i in range(4))}
    assert sorted(found.rewards) == [0, 0, 0, 1]


def test_a_group_with_a_success_and_a_problem_without_one_stay_as_they_are():
    part = SuccessPool()
    _, state = after(part, group("first", 1, 0))
    mixed, other = group("mixed", 0, 1), group("other", 0, 0, problem="q")
    kept, _ = after(part, mixed, other, state=state)
    assert kept == [mixed, other]
    kept, _ = after(part, group("empty", 0, 0))
    assert [t.source for t in kept[0].trajectories] == ["policy"] * 2


def test_the_pool_holds_the_newest_successes():
    part = SuccessPool(size=2)
    _, state = after(part, group("a", 1, 1, 1))
    assert [unit["id"] for unit in state["kept"]["p"]] == ["a/1", "a/2"]
    _, state = after(part, group("b", 0, 1), state=state)
    assert [unit["id"] for unit in state["kept"]["p"]] == ["a/2", "b/1"]
    kept, again = after(part, group("c", 0, 0), state=state)
    assert [unit["id"] for unit in again["kept"]["p"]] == ["a/2", "b/1"]  # a success from the pool is not stored again
    assert sum(t.source == "replay" for t in kept[0].trajectories) == 1


def test_a_success_is_in_a_step_once():
    part = SuccessPool()
    _, state = after(part, group("first", 1))
    kept, _ = after(part, *(group(f"later{i}", 0, 0) for i in range(3)), state=state)
    assert sum(t.source == "replay" for g in kept for t in g.trajectories) == 1


def test_keys_draw_the_success_and_its_place():
    part = SuccessPool()
    _, state = after(part, group("first", 1, 1, 1, 1))
    drawn = []
    for seed in range(60):
        (found,), _ = after(part, group("later", 0, 0, 0), state=state, key=Key(seed))
        drawn += [(i, t.id) for i, t in enumerate(found.trajectories) if t.source == "replay"]
    assert len(drawn) == 60
    assert len(set(drawn)) == 12  # four successes and three places
    counts = np.bincount([i for i, _ in drawn])
    assert counts.min() > 8


def test_untrained_trajectories_are_neither_stored_nor_replaced():
    part = SuccessPool()
    _, state = after(part, group("probe", 1, trained=False))
    assert state["kept"] == {}
    _, state = after(part, group("first", 1))
    probes = group("later", 0, 0, trained=False)
    kept, _ = after(part, probes, state=state)
    assert kept == [probes]
    with pytest.raises(UserError, match="size"):
        SuccessPool(size=0)
