"""The window: its weights, its draws, its moves, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.curricula.window import Column, WhenSolved, Window, accuracy, drawn_places, log_weights
from gradus.testing.methods import ToySource, toy_group
from gradus.types import Failed, Frozen, Key, Problem, UserError


@dataclass(frozen=True)
class Graded:
    """Problem i of 40 has difficulty 39 - i."""

    size: int | None = 40

    def draw(self, indices, level, key):
        return [replace(ToySource().draw([0], level, key)[0], id=f"graded/{i}", meta=Frozen(difficulty=39 - i)) for i in indices]


def world(notes=None):
    notes = {} if notes is None else notes
    return SimpleNamespace(seed=Key(1), task=SimpleNamespace(level=None), group=4, note=notes.__setitem__)


def choose(part, count, state, source=None, notes=None):
    return asyncio.run(part.choose(source or Graded(), count, world(notes), state))


def learn(part, rewards, state, notes=None):
    groups = [toy_group(*rewards)]
    return asyncio.run(part.learn(groups, [], world(notes), state))


def test_weights_by_hand() -> None:
    weights = np.exp(log_weights(5, 1.0, 2.0))
    # distances 1 0 1 2 3 of a width of 2: exp(-1/8), 1, exp(-1/8), exp(-1/2), exp(-9/8)
    assert weights == pytest.approx([0.8825, 1.0, 0.8825, 0.6065, 0.3247], abs=1e-4)
    assert log_weights(3, 1.0, float("inf")).tolist() == [0, 0, 0]


def test_draws_follow_the_weights_without_repetition() -> None:
    weights = np.log([1.0, 2.0, 4.0])
    first = [int(drawn_places(weights, 1, Key(5).fold(i))[0]) for i in range(4000)]
    assert np.bincount(first, minlength=3) / 4000 == pytest.approx([1 / 7, 2 / 7, 4 / 7], abs=0.03)
    # two draws one after the other miss place 0 with probability 2/7 x 4/5 + 4/7 x 2/3 = 0.6095
    pairs = [drawn_places(weights, 2, Key(6).fold(i)).tolist() for i in range(4000)]
    assert all(a < b for a, b in pairs)
    assert np.mean([pair == [1, 2] for pair in pairs]) == pytest.approx(0.6095, abs=0.03)
    assert drawn_places(log_weights(6, 500.0, 1.0), 2, Key()).tolist() == [4, 5]  # far away weights do not vanish


def test_problems_are_sorted_and_the_first_ones_are_drawn() -> None:
    requests, state = choose(Window(width=0.02, epoch=4), 4, Window().start())
    assert state["order"] == list(range(39, -1, -1))  # the easiest is problem 39
    assert {int(r.problem.id.removeprefix("graded/")) for r in requests} <= set(range(30, 40))
    assert {r.count for r in requests} == {4}
    _, falling = choose(Window(by=Column(descending=True)), 1, Window().start())
    assert falling["order"] == list(range(40))


def test_an_epoch_has_different_problems_and_is_read_to_its_end() -> None:
    part, state, seen = Window(epoch=10), Window().start(), []
    for _ in range(5):
        requests, state = choose(part, 4, state)
        seen += [r.problem.id for r in requests]
    assert len(set(seen[:10])) == len(set(seen[10:])) == 10
    assert state["epochs"] == 2
    one, _ = choose(part, 20, part.start())
    assert [r.problem.id for r in one] == seen  # the step's size does not matter


def test_the_window_moves_after_an_epoch_by_its_accuracy() -> None:
    notes: dict[str, float] = {}
    part = Window(epoch=4, pace=WhenSolved(target=0.5, alpha=2.0, step=0.5))
    _, state = choose(part, 2, part.start())
    state = learn(part, [1, 1, 1, 1], state)
    assert (state["center"], state["groups"], state["measured"]) == (0.0, 1, {"accuracy": 1.0})  # the epoch goes on
    _, state = choose(part, 2, state)
    state = learn(part, [1, 1, 0, 0], state, notes)
    # the mean is .75, and .5 x 40 x tanh(2 x .25) = 9.2423
    assert state["center"] == pytest.approx(9.2423, abs=1e-4)
    assert (state["groups"], state["measured"], notes) == (0, {}, {"window/accuracy": 0.75})
    _, state = choose(part, 4, state, notes=notes)
    assert notes["window"] == pytest.approx(9.2423 / 39, abs=1e-4)
    assert learn(part, [0, 0, 0, 0], state)["center"] == state["center"]  # never back
    assert learn(part, [1, 1, 1, 1], {**state, "center": 35.0})["center"] == 39.0  # at most the last place


def test_accuracy_counts_an_answer_without_reward_as_wrong() -> None:
    group = toy_group(1.0, 0.0, 1.0, 1.0)
    failed = group.but(trajectories=(group.trajectories[0].but(reward=Failed("no")), *group.trajectories[1:]))
    assert accuracy([group]) == 0.75
    assert accuracy([group, failed]) == 0.625
    assert accuracy([]) == 0.0


@pytest.mark.parametrize("source", [Graded(), ToySource()], ids=["finite", "without end"])
def test_an_epoch_of_all_problems_is_a_pass(source: object) -> None:
    part = Window(epoch=40, pool=40, by=_Zero())
    ours, _ = choose(part, 40, part.start(), source)
    passes, _ = ShuffledEpochs().choose(source, 40, world(), {"drawn": 0})
    assert [r.problem.id for r in ours] == [r.problem.id for r in passes]


@dataclass(frozen=True)
class _Zero:
    async def values(self, problems, world):
        return np.zeros(len(problems))


@dataclass(frozen=True)
class _Wrong:
    async def values(self, problems, world):
        return np.full(len(problems), np.nan)


def test_refusals() -> None:
    with pytest.raises(UserError, match=r"_Wrong.values returned numbers of shape \[40\] for 40 problems; it must return one finite number per problem"):
        choose(Window(by=_Wrong()), 2, Window().start())
    with pytest.raises(UserError, match=r"problem x has no number in the column difficulty; name another column, or take another task"):
        asyncio.run(Column().values([Problem("x", "toy")], world()))
    with pytest.raises(UserError, match=r"Window.width is 0"):
        Window(width=0)
    with pytest.raises(UserError, match=r"WhenSolved.target is 2"):
        WhenSolved(target=2)
