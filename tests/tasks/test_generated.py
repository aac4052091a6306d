from __future__ import annotations

import random
from itertools import pairwise

import pytest

from gradus.tasks.generated import HELD_OUT_SHARE, Draft, Generated, is_held_out
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tasks.maths.running_sum import running_sum
from gradus.tasks.puzzles.countdown import countdown
from gradus.tasks.puzzles.knights_knaves import knights_knaves
from gradus.tasks.text.string_ops import string_ops
from gradus.types import Key, UserError

TASKS = (arithmetic(), running_sum(), countdown(), string_ops(), knights_knaves())
HOSTILE = (
    "",
    "=",
    "=" * 100_000,
    "9" * 100_000,
    "=" + "9" * 100_000,
    "\x00=\n",
    "=１２",
    "=1e9",
    "= ",
    "=--1",
    ";,",
    "÷=½",
    "__import__('os')=1",
    "(" * 9999,
)


def number(rng: random.Random, level: int) -> Draft:
    n = rng.randrange(level)
    return Draft(f"n{n}", n, f"={n}", str(n))


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.name)
def test_held_out_problems_are_never_among_the_training_ones(task) -> None:
    for level in task.source.levels:
        kept = {p.question for p in task.held_out.draw(range(100), level, Key(1))}
        drawn = {p.question for seed in range(3) for p in task.source.draw(range(1000), level, Key(seed))}
        assert len(kept) == 100
        assert not kept & drawn


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.name)
def test_a_problem_depends_on_index_level_and_key_alone(task) -> None:
    for source in (task.source, task.held_out):
        some = source.draw([5, 0, 300], None, Key(7))
        again = [source.draw([i], task.level, Key(7))[0] for i in (5, 0, 300)]
        assert [(p.id, p.question, p.meta["solution"]) for p in some] == [(p.id, p.question, p.meta["solution"]) for p in again]
        assert source.draw([0], None, Key(8))[0].question != some[1].question


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.name)
def test_worked_solutions_are_right_and_fit_the_limit_at_every_level(task) -> None:
    low, high = task.source.levels
    for level in range(low, high + 1):
        for p in task.source.draw(range(60), level, Key(0)):
            assert task.verify(p, p.meta["solution"]) == 1.0, p
            assert p.meta["difficulty"] == level
            if level == task.level:
                assert len(p.meta["solution"]) < task.sampling.max_tokens


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.name)
def test_hostile_text_is_wrong_and_never_an_error(task) -> None:
    p = task.source.draw([0], None, Key(0))[0]
    assert [task.verify(p, text) for text in HOSTILE] == [0.0] * len(HOSTILE)


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.name)
def test_another_problems_solution_is_wrong(task) -> None:
    problems = task.source.draw(range(40), None, Key(0))
    wrong = sum(task.verify(p, q.meta["solution"]) for p, q in pairwise(problems))
    assert wrong <= 40 * (task.chance + 0.25)


def test_the_held_out_share_is_what_it_says() -> None:
    kept = sum(is_held_out("arithmetic", str(n)) for n in range(20_000))
    # 20,000 draws of chance 0.1: mean 2,000, standard deviation sqrt(20000 * 0.1 * 0.9) = 42; five of them either way
    assert abs(kept - 20_000 * HELD_OUT_SHARE) < 5 * 42


def test_levels_with_few_problems_say_how_many_there_are() -> None:
    held = Generated("n", number, 40, (1, 100), held_out=True)
    there = [n for n in range(40) if is_held_out("n", str(n))]
    assert 0 < len(there) < 15
    assert sorted(p.answer for p in held.draw(range(len(there)), None, Key(0))) == there
    with pytest.raises(UserError, match=f"only {len(there)} held-out problems at level 40, but {len(there) + 1}"):
        held.draw(range(len(there) + 1), None, Key(0))


def test_a_number_of_held_out_problems_beyond_reason_is_refused_at_once() -> None:
    with pytest.raises(UserError, match="at most 100000 are possible"):
        arithmetic().held_out.draw([10**20], 2, Key(0))


def test_a_level_that_is_not_there_is_named() -> None:
    with pytest.raises(UserError, match=r"task arithmetic has levels 1 to 8, but level 9 was given"):
        arithmetic(level=9)
    with pytest.raises(UserError, match=r"task countdown has levels 1 to 7, but level 0 was given"):
        countdown().source.draw([0], 0, Key(0))


def test_held_out_problems_are_made_when_they_are_asked_for() -> None:
    made: list[int] = []

    def plain(rng: random.Random, level: int) -> Draft:
        return Draft(name := str(rng.random()), 0, "=0", name)

    def noted(rng: random.Random, level: int) -> Draft:
        made.append(0)
        if len(made) == stop:
            raise KeyboardInterrupt
        return plain(rng, level)

    stop = 0
    lazy, whole = (Generated("lazy", make, 1, (1, 1), held_out=True) for make in (noted, plain))
    asked = [p.question for p in lazy.draw([0], 1, Key(3))]
    few = len(made)
    assert few < 150  # a tenth is held out, so the first of them comes after ten or so; not after two thousand five hundred
    stop = few + 1
    with pytest.raises(KeyboardInterrupt):
        lazy.draw([1], 1, Key(3))
    stop = 0
    asked += [lazy.draw([i], 1, Key(3))[0].question for i in (1, 2, 3)]
    assert asked == [p.question for p in whole.draw(range(4), 1, Key(3))]
    made.clear()
    lazy.draw(range(4), 1, Key(3))
    assert not made  # and kept


def test_a_level_between_two_gives_both_in_proportion():
    drawn = countdown().source.draw(range(400), 2.3, Key(5))
    levels = [p.meta["difficulty"] for p in drawn]
    assert set(levels) == {2, 3}
    assert 0.23 < levels.count(3) / 400 < 0.37  # 0.3 with deviation 0.023
    assert [p.id for p in drawn[7:9]] == [p.id for p in countdown().source.draw([7, 8], 2.3, Key(5))]


def test_a_whole_level_as_a_number_is_that_level():
    source = countdown().source
    assert source.draw([0, 1], 3.0, Key()) == source.draw([0, 1], 3, Key())


@pytest.mark.parametrize(("level", "says"), [(2.5, "give a whole number"), (7.5, "has levels 1 to 7, but level 7.5 was given")])
def test_held_out_problems_have_whole_levels(level, says):
    with pytest.raises(UserError, match=says):
        countdown().held_out.draw([0], level, Key())


def test_an_arm_is_a_level():
    source = countdown().source
    assert source.arms == tuple(f"countdown/{n}" for n in range(1, 8))
    (drawn,) = source.draw_arm("countdown/2", [5], None, Key(1))
    (plain,) = source.draw([5], 2, Key(1))
    assert (drawn.id, drawn.answer, drawn.meta["arm"]) == (plain.id, plain.answer, "countdown/2")
    with pytest.raises(UserError, match='unknown arm "countdown/8"'):
        source.draw_arm("countdown/8", [0], None, Key())
