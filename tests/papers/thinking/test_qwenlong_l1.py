"""QwenLong-L1: probabilities of hard problems, bands of the phases, the larger reward, and the limit without phases."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.papers.bases.grpo import grpo
from gradus.papers.thinking.qwenlong_l1 import Either, LengthPhases, chances, qwenlong_l1
from gradus.recipe.core import changes
from gradus.rewards.two_way import TwoWay
from gradus.rewards.verified import Verified
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import check_micro_batches, check_same_update, toy_group
from gradus.types import NOT_APPLICABLE, Failed, Key, Problem, UserError
from gradus.types.moments import Moment, ResetOptimizer
from tests.rewards.judged import score, trajectory

PART = LengthPhases(bounds=(0, 5, 9), steps=(2,), share=0.5, pool=18)


def test_probabilities_by_hand() -> None:
    assert chances([1.0, 0.5, 0.25], 0.01).round(3).tolist() == [0.143, 0.286, 0.571]
    assert chances([0.0, 0.5], 1 / 16).tolist() == pytest.approx([16 / 18, 2 / 18])  # m is at least 1 / (2 G)


class Source:
    """Problem i has a prompt of 1 + i % 9 tokens."""

    size = None

    def draw(self, indices, level, key):
        return [Problem(f"p/{i}", "p", text="a" * (1 + i % 9)) for i in indices]


def world(step: int, notes: dict[str, float] | None = None):
    kept = notes if notes is not None else {}
    return SimpleNamespace(
        step=step, seed=Key(1), group=8, task=SimpleNamespace(level=None),
        note=kept.__setitem__, prompt=lambda request: SimpleNamespace(sequence=request.problem.text),
    )  # fmt: skip


def lengths(requests):
    return [len(r.problem.text) for r in requests]


def answered(requests, rewards):
    return [
        (g := toy_group(*[r] * 8)).but(trajectories=tuple(t.but(problem=request.problem) for t in g.trajectories))
        for request, r in zip(requests, rewards, strict=True)
    ]


def test_every_new_problem_of_a_phase_lies_in_its_band() -> None:
    state = PART.start()
    first, state = PART.choose(Source(), 10, world(0), state)
    assert all(0 < n <= 5 for n in lengths(first))
    assert len({r.problem.id for r in first}) == 10  # a pass over the ten problems of the band
    state = PART.learn(answered(first, [1, 1, 1, 1, 1, 0.5, 0.25, 0.25, 0, 0]), [], world(0), state)
    notes: dict[str, float] = {}
    later, state = PART.choose(Source(), 10, world(2, notes), state)
    assert notes["retrospective"] == 0.5
    assert all(5 < n <= 9 for n in lengths(later)[:5])
    old = [r.problem.id for r in later[5:]]
    assert set(old) <= {r.problem.id for r in first}
    assert len(set(old)) == 5


def test_hard_problems_come_again_more_often() -> None:
    state = PART.start()
    first, state = PART.choose(Source(), 3, world(0), state)
    state = PART.learn(answered(first, [1.0, 0.5, 0.25]), [], world(0), state)
    drawn = [PART.choose(Source(), 2, world(2 + i), state)[0][1].problem.id for i in range(2000)]
    found = [drawn.count(r.problem.id) / 2000 for r in first]
    assert found == pytest.approx([1 / 7, 2 / 7, 4 / 7], abs=0.03)


def test_a_problem_without_a_right_answer_has_the_weight_of_half_a_right_one() -> None:
    state = PART.start()
    first, state = PART.choose(Source(), 2, world(0), state)
    state = PART.learn(answered(first, [0.0, 0.5]), [], world(0), state)
    drawn = [PART.choose(Source(), 2, world(2 + i), state)[0][1].problem.id for i in range(1000)]
    assert drawn.count(first[0].problem.id) / 1000 == pytest.approx(16 / 18, abs=0.04)  # m is at least 1/16, so 16 : 2


def test_a_problem_that_two_visits_never_solved_is_not_drawn_again() -> None:
    state = PART.start()
    first, state = PART.choose(Source(), 2, world(0), state)
    for _ in range(2):
        state = PART.learn(answered(first, [0.0, 1.0]), [], world(0), state)
    drawn = {PART.choose(Source(), 2, world(2 + i), state)[0][1].problem.id for i in range(50)}
    assert drawn == {first[1].problem.id}


def test_an_empty_band_is_refused() -> None:
    with pytest.raises(UserError, match="no problem of the pool has 10 to 12 tokens"):
        LengthPhases(bounds=(0, 9, 12), steps=(1,), pool=9).choose(Source(), 2, world(5), LengthPhases().start())
    for fields in ({"bounds": (0, 5)}, {"bounds": (0, 9, 5)}, {"steps": ()}):
        with pytest.raises(UserError, match="bounds in rising order"):
            LengthPhases(**fields)


def test_the_larger_reward_counts() -> None:
    verdicts = {"=7": 1.0, "=7 as words": 0.0, "=wrong": 0.0, "bad": Failed("broken"), "none": NOT_APPLICABLE}
    answers = [trajectory(text, answer="7") for text in verdicts]
    (found,) = score(Either(Verified(), TwoWay()), answers, verify=lambda p, c: verdicts[c])
    assert [j.reward for j in found[:3]] == [1.0, 1.0, 0.0]  # rule 0 and judge 1 gives 1
    assert [j.components["judge"] for j in found[:3]] == [1.0, 1.0, 0.0]
    assert found[1].components["verified"] == 1.0
    assert isinstance(found[3].reward, Failed)
    assert found[4].reward == 0.0  # the judge alone


def test_without_phases_and_judge_it_is_grpo() -> None:
    plain = qwenlong_l1.but(curriculum=ShuffledEpochs(), reward=Verified(), schedule=ConstantSchedule())
    loss = {"objective__policy__average": plain.objective["policy"].average, "objective__kl": None, "players__reference": None, "update__count": 4}
    check_same_update(plain, grpo.but(selection=plain.selection, setting__temperature=0.7, **loss))
    changed = {path.split(".")[0] for path in changes(grpo, qwenlong_l1)}
    assert changed == {"curriculum", "reward", "selection", "objective", "players", "schedule", "setting", "update"}
    assert (plain.objective["policy"].trust.low, plain.objective["policy"].trust.high) == (0.2, 0.2)
    check_micro_batches(plain)


def test_the_optimiser_forgets_at_the_start_of_a_phase() -> None:
    events = [qwenlong_l1.schedule.at(Moment(step=step, steps=400), qwenlong_l1)[1] for step in (0, 199, 200, 201)]
    assert events == [(), (), (ResetOptimizer(),), ()]
    assert [qwenlong_l1.curriculum.phase(step) for step in (0, 199, 200, 399)] == [0, 0, 1, 1]
    three = qwenlong_l1.but(curriculum=LengthPhases((0, 5, 9, 12), (2, 3)))
    assert [step for step in range(12) if three.schedule.at(Moment(step=step, steps=12), three)[1]] == [2, 5]
    for curriculum in (LengthPhases((0, 9), ()), ShuffledEpochs()):
        one = qwenlong_l1.but(curriculum=curriculum)
        assert not any(one.schedule.at(Moment(step=step, steps=9), one)[1] for step in range(9))
