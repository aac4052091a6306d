"""The loop: its size, its blindness to recipes, and what it does with groups between the seams."""

from __future__ import annotations

import ast
import asyncio
import inspect
from pathlib import Path

import numpy as np
import pytest

from gradus.credit.groups import GroupRelative
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.ppo import ppo
from gradus.selection.filters import Mixed
from gradus.testing.methods import TOY, toy_group, toy_run, toy_trajectory, train_toy
from gradus.training import loop
from gradus.training.lessons import credit, theirs, with_credit
from gradus.training.loop import merged, refuse_failures, refuse_nothing
from gradus.types import Failed, Group, Key, Request, UserError
from gradus.types.parts import Credited
from gradus.types.players import Player
from gradus.types.signals import LogProbs, Values

SOURCE = Path(inspect.getsourcefile(loop) or "")


def test_the_loop_fits_a_screen():
    assert len(inspect.getsource(loop.train).splitlines()) <= 60
    assert len(SOURCE.read_text().splitlines()) <= 120


def test_the_loop_never_asks_which_recipe_it_runs():
    tree = ast.parse(SOURCE.read_text())
    read = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    assert not read & {"key_of", "family", "base", "about"}
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == "key" and ast.unparse(n.value) == "recipe"]
    (train,) = [n for n in tree.body if isinstance(n, ast.AsyncFunctionDef) and n.name == "train"]
    assert not [n for n in ast.walk(train) if isinstance(n, ast.If | ast.Match)]  # it branches on nothing at all


def test_players_see_their_own_trajectories():
    mixed = Group("g", (toy_trajectory([1], name="a"), toy_trajectory([2], name="b", player="other")))
    alone = Group("h", (toy_trajectory([1], name="c"),))
    assert [[t.id for t in g.trajectories] for g in theirs([mixed, alone], "other")] == [["b"]]
    assert [[t.id for t in g.trajectories] for g in theirs([mixed, alone], "policy")] == [["a"], ["c"]]


def test_credit_is_written_into_copies():
    made = toy_group(1, 0)
    (row,) = GroupRelative().assign([made], {})
    (done,) = with_credit([made], [row])
    assert [t.advantages.tolist() for t in done.trajectories] == [[1, 1], [-1, -1]]
    assert made.trajectories[0].advantages is None
    (done,) = with_credit([made], [[Credited(np.zeros(2), np.full(2, 7.0), np.array([0.5, 0.0]))] * 2])
    assert all(t.weights.tolist() == [0.5, 0.0] for t in done.trajectories)
    assert done.trajectories[1].returns.tolist() == [7, 7]


def test_what_was_not_credited_stays_in_the_record():
    first, second = toy_group(1, 0, key="a"), toy_group(1, 1, key="b")
    (done,) = with_credit([first.but(trajectories=first.trajectories[:1])], [[Credited(np.ones(2))]])
    whole = merged([first, second], [done])
    assert [[t.advantages is not None for t in g.trajectories] for g in whole] == [[True, False], [False, False]]


def test_a_step_without_requests_and_without_groups_ends_the_run():
    refuse_nothing([], [toy_group(1.0)], grpo)  # what was in flight comes back
    refuse_nothing([Request(TOY.source.draw([0], None, Key())[0])], [], grpo)  # what was asked for may come later
    with pytest.raises(UserError, match=r"^ShuffledEpochs.choose .* has no more requests, so the run has no more training data"):
        refuse_nothing([], [], grpo)


def test_too_many_failures_stop_the_run_with_the_commonest_reason():
    groups = [toy_group(Failed("late"), Failed("late"), Failed("odd"), 1.0)]
    refuse_failures(groups, 0.75)
    with pytest.raises(UserError, match=r"3 of 4 trajectories .* but the allowed share is 50%; the most common reason: late"):
        refuse_failures(groups, 0.5)
    refuse_failures([], 0.0)
    with pytest.raises(UserError, match=r"reason: x; each failure is in here. Fix the cause"):
        refuse_failures([toy_group(Failed("x"))], 0.0, lambda: "; each failure is in here")
    with pytest.raises(UserError, match="1 of 4"):
        refuse_failures([toy_group(1, 1, 1, Failed("x"))], 0.0)


def credited(recipe, *groups, **players):
    run = toy_run(recipe.but(**players))
    world = run.at(0)[1]
    return asyncio.run(credit(run, list(groups), world)), world


def test_every_player_that_learns_gets_one_batch():
    (policy, batches), world = credited(ppo, toy_group(1, 0, key="a"), toy_group(1, key="b"))
    assert set(batches) == {"policy", "critic"}
    assert batches["critic"].trajectories == batches["policy"].trajectories
    assert batches["critic"].signals.keys() == {Values(player="critic")}
    assert bool(batches["critic"].returns.isfinite().all())
    assert [t.id for g in policy for t in g.trajectories] == ["a/0", "a/1", "b/0"]
    assert world.spent["score/critic"] > 0


def test_a_player_with_credit_of_its_own_judges_what_it_learns_from():
    own = Player(objective=grpo.objective, credit=GroupRelative("none"), learns_from="policy")
    (_, batches), _ = credited(grpo, toy_group(2, 0, 0, 0), players__second=own)
    assert batches["policy"].advantages.tolist() == pytest.approx([3**0.5, 3**0.5] + [-(3**-0.5)] * 6)
    assert batches["second"].advantages.tolist() == [1.5, 1.5] + [-0.5] * 6
    assert batches["second"].signals.keys() == {LogProbs(player="reference")}


def test_without_groups_nobody_learns():
    (policy, batches), world = credited(grpo)
    assert (policy, batches, world.spent) == ([], {}, {})


def test_a_step_that_trains_on_nothing_used_0_tokens():
    """A group of one is never mixed, so every step drops all its groups; the mean over steps then counts these steps as 0."""
    nothing = train_toy(grpo.but(selection=Mixed()), steps=2, group=1).metrics
    assert [row["tokens/train"] for row in nothing if "reward" in row] == [0, 0]
    assert all(row["tokens/rollout"] > 0 for row in nothing if "reward" in row)
    assert all(row["tokens/train"] > 0 for row in train_toy(grpo, steps=2).metrics if "reward" in row)


def test_a_step_goes_through_all_seams_in_order():
    seen = []
    run = train_toy(grpo, steps=3, watch=lambda run, metrics, groups: seen.append((run.step, metrics, groups)))
    assert [s for s, _, _ in seen] == [0, 1, 2]
    assert run.memory.states["curriculum"]["state"] == {"drawn": 12}
    assert [len(g) for _, _, g in seen] == [4, 4, 4]
    assert [m["step"] for m in run.metrics[:3]] == [0, 1, 2]
    assert {int(v) for g in seen[2][2] for t in g.trajectories for v in t.contexts[0].versions} == {2}
    assert all(t.advantages is not None for _, _, groups in seen for g in groups for t in g.trajectories)
