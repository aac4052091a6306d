"""Passes that leave problems out: answers that are too frequent, duplicates, whole tasks, and the limit in which nothing is left out."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from gradus.curricula.filtered import BalancedBatch, Without, balanced_answers
from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.tasks.data.mixture import mix_tasks
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tasks.puzzles.graphs import graphs
from gradus.tasks.puzzles.planning import planning
from gradus.tasks.text.hidden_question import hidden_question
from gradus.testing.methods import ToySource
from gradus.types import Key, Problem, UserError


def world(notes=None):
    notes = {} if notes is None else notes
    return SimpleNamespace(seed=Key(1), task=SimpleNamespace(level=None), group=4, note=notes.__setitem__)


def answers_of(*answers: object) -> list[Problem]:
    return [Problem(str(i), "toy", text=f"question {i}", answer=answer) for i, answer in enumerate(answers)]


def test_what_is_kept_by_hand() -> None:
    assert [p.id for p in balanced_answers(answers_of("a", "a", "a", "b", "a", "c"), 4, 0.5)] == ["0", "1", "3", "5"]
    assert [p.id for p in balanced_answers(answers_of("a", "a", "a"), 3, 0.5)] == ["0", "1"]  # ceil(3 / 2)
    assert len(balanced_answers(answers_of("a", "a", "a"), 3, 1.0)) == 3
    assert len(balanced_answers(answers_of(None, None, None), 3, 0.3)) == 3  # without an answer there is no limit
    twice = [Problem("x", "toy", text="same", answer="a"), Problem("y", "toy", text="same", answer="b")]
    assert [p.id for p in balanced_answers(twice, 8, 0.5)] == ["x"]
    assert [p.id for p in balanced_answers(twice, 8, 0.5, unique=False)] == ["x", "y"]


def test_a_batch_of_32_has_no_answer_more_than_16_times() -> None:
    notes: dict[str, float] = {}
    source, limited = graphs(kinds="linked").source, 0.0
    state = BalancedBatch().start()
    for _ in range(5):
        requests, state = BalancedBatch(level=2).choose(source, 32, world(notes), state)
        counts = Counter(str(r.problem.answer) for r in requests)
        assert max(counts.values()) == 16  # yes or no
        assert len({str(r.problem.messages) for r in requests}) == 32
        limited = max(limited, notes["left_out"])
    assert limited > 0
    assert state["drawn"] > 160


def test_the_next_step_goes_on_where_the_last_one_ended() -> None:
    part, source = BalancedBatch(), ToySource()
    first, state = part.choose(source, 4, world(), part.start())
    second, _ = part.choose(source, 4, world(), state)
    assert not {r.problem.id for r in first} & {r.problem.id for r in second}
    assert {r.count for r in first} == {4}


class Same:
    """All problems have one answer."""

    size = None

    def draw(self, indices, level, key):
        return [Problem(f"same/{i}", "toy", text=str(i), answer="a") for i in indices]


def test_a_source_with_one_answer_still_gives_a_batch() -> None:
    requests, state = BalancedBatch().choose(Same(), 4, world(), BalancedBatch().start())
    assert len(requests) == 4
    assert 200 <= state["drawn"] < 220


def test_a_level_that_the_task_lacks_is_refused_before_the_run() -> None:
    BalancedBatch(level=2.5).check_task(planning())
    with pytest.raises(UserError, match=r"task planning has levels 1 to 6, but level 7.5 was given"):
        BalancedBatch(level=7.5).check_task(planning())
    with pytest.raises(UserError, match=r"BalancedBatch.most is 0"):
        BalancedBatch(most=0)


def test_without_limits_the_problems_are_those_of_the_passes() -> None:
    requests, _ = BalancedBatch(most=1.0, unique=False).choose(ToySource(), 9, world(), {"drawn": 3})
    passes, _ = ShuffledEpochs().choose(ToySource(), 9, world(), {"drawn": 3})
    assert [r.problem.id for r in requests] == [r.problem.id for r in passes]


def test_the_warm_stage_leaves_hidden_questions_out() -> None:
    notes: dict[str, float] = {}
    source = mix_tasks([("arithmetic", arithmetic(), 1.0), ("hidden_question", hidden_question(), 1.0)]).source
    requests, state = Without().choose(source, 16, world(notes), Without().start())
    assert {r.problem.task for r in requests} == {"arithmetic"}
    assert 0.3 < notes["left_out"] < 0.7
    again, _ = Without().choose(source, 16, world(notes), state)
    assert not {r.problem.id for r in requests} & {r.problem.id for r in again}
    every, _ = Without(("none",)).choose(source, 16, world(notes), {"drawn": 0})
    passes, _ = ShuffledEpochs().choose(source, 16, world(notes), {"drawn": 0})
    assert [r.problem.id for r in every] == [r.problem.id for r in passes]


def test_nothing_but_hidden_questions_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"curriculum.left_out names toy, and the last \d+ problems all came from these tasks; add another task"
    ):
        Without(("toy",)).choose(ToySource(), 1, world({}), {"drawn": 0})
