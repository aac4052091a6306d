"""The choice of kinds by an upper confidence bound: bonus, window, memory, and the share of each kind."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gradus.curricula.bandit import Bandit, boltzmann
from gradus.curricula.upper_bound import UpperBound, upper_bounds
from gradus.rollouts.ids import group_name
from gradus.testing.methods import TOY, ToySource, scripted_context
from gradus.types import Frozen, Group, Key, Problem, Request, Trajectory, UserError

NOTES: dict[str, float] = {}
WORLD = SimpleNamespace(seed=Key(1), task=SimpleNamespace(level=None), group=4, note=NOTES.__setitem__)


def group(arm: str, *advantages: float) -> Group:
    """One trajectory of two actions per advantage, of a problem of the arm."""
    problem = Problem(f"p/{arm}", "toy", text="a", meta=Frozen(arm=arm))
    made = [
        Trajectory(str(i), problem, (scripted_context("bb"),), reward=0.0, advantages=np.array([a, -a], float)) for i, a in enumerate(advantages)
    ]
    return Group(group_name(Request(problem)), tuple(made))


def test_bounds_by_hand() -> None:
    # ln 201 = 5.3033; sqrt(2 x 5.3033 / 101) = 0.3241
    assert upper_bounds([0.8, 0.2], [100, 100]) == pytest.approx([1.1241, 0.5241], abs=1e-4)
    # ln 102 = 4.6250; sqrt(9.2500 / 102) = 0.3011, sqrt(9.2500 / 1) = 3.0414
    assert upper_bounds([0.0, 0.0], [101, 0]) == pytest.approx([0.3011, 3.0414], abs=1e-4)
    assert upper_bounds([0.0, 0.0], [101, 0], 0.5) == pytest.approx([0.1506, 1.5207], abs=1e-4)
    assert upper_bounds([0.3, 0.2], [0, 0]).tolist() == [0.3, 0.2]  # ln 1 = 0
    assert boltzmann(upper_bounds([0.8, 0.2], [100, 100]), 0.1) == pytest.approx([0.9975, 0.0025], abs=1e-4)


def test_an_arm_that_is_not_visited_gains_bonus() -> None:
    bonus = [upper_bounds([0.0, 0.0], [10, visits])[0] for visits in range(0, 200, 10)]
    assert np.all(np.diff(bonus) > 0)


def test_the_window_keeps_the_last_answers_and_the_count_keeps_all() -> None:
    part, state = UpperBound(window=3), UpperBound().start()
    state = part.learn([group("late", 4.0, 1.0)], [], WORLD, state)
    assert (state["recent"], state["answers"]) == ({"late": [4.0, 1.0]}, {"late": 2})
    state = part.learn([group("late", 2.0, 3.0), group("early", 0.5)], [], WORLD, state)
    assert state["recent"] == {"late": [1.0, 2.0, 3.0], "early": [0.5]}
    assert state["answers"] == {"late": 4, "early": 1}
    # N = 5: 2 + sqrt(2 ln 6 / 5) = 2.8466 and .5 + sqrt(2 ln 6 / 2) = 1.8386
    assert part.bounds(("late", "early", "none"), state) == pytest.approx([2.8466, 1.8386, 1.8930], abs=1e-4)


def test_a_dropped_group_counts_as_nothing_learned() -> None:
    dropped = group("x", 0.0, 0.0)
    dropped = dropped.but(trajectories=tuple(t.but(advantages=None) for t in dropped.trajectories))
    state = UpperBound().learn([group("x", 1.0)], [dropped], WORLD, UpperBound().start())
    assert (state["recent"], state["answers"]) == ({"x": [1.0, 0.0, 0.0]}, {"x": 3})


def test_without_an_answer_all_arms_are_equal() -> None:
    UpperBound().choose(ToySource(), 4, WORLD, UpperBound().start())
    assert (NOTES["arm/early"], NOTES["arm/late"]) == (0.5, 0.5)


def test_the_choice_follows_the_bounds() -> None:
    state = {"recent": {"early": [0.0], "late": [9.0]}, "answers": {"early": 500, "late": 500}, "drawn": {}}
    requests, after = UpperBound().choose(ToySource(), 50, WORLD, state)
    assert {r.problem.meta["arm"] for r in requests} == {"late"}
    assert after["drawn"] == {"late": 50}
    flat = {**state, "recent": {"early": [0.0], "late": [0.0]}, "answers": {"early": 5, "late": 500}}
    requests, _ = UpperBound().choose(ToySource(), 50, WORLD, flat)
    assert {r.problem.meta["arm"] for r in requests} == {"early"}  # few answers
    assert NOTES["arm/early"] > 0.999


def test_with_a_large_temperature_it_draws_the_problems_of_the_other_bandit() -> None:
    ours, _ = UpperBound(tau=1e12).choose(ToySource(), 20, WORLD, UpperBound().start())
    other, _ = Bandit(tau=1e12).choose(ToySource(), 20, WORLD, Bandit().start())
    assert [r.problem.id for r in ours] == [r.problem.id for r in other]
    assert {r.count for r in ours} == {4}


@pytest.mark.parametrize(
    ("part", "source", "says"),
    [
        (UpperBound(), SimpleNamespace(size=1, draw=None), "UpperBound chooses between kinds of problems, but the source of this task names no kinds"),
        (UpperBound(arms=("middle",)), ToySource(), 'curriculum.arms names "middle", which the task does not have; choose from early, late'),
    ],
)
def test_a_task_without_the_arms_is_refused(part: UpperBound, source: object, says: str) -> None:
    with pytest.raises(UserError, match=says):
        part.check_task(SimpleNamespace(**{**vars(TOY), "source": source}))


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(UserError, match=r"UpperBound.window is 0; it must be 1 or more"):
        UpperBound(window=0)
    with pytest.raises(UserError, match=r"UpperBound.exploration is -1"):
        UpperBound(exploration=-1)
