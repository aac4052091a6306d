"""The task code_pair: its contract, its levels of reward, and its two seats."""

from __future__ import annotations

import asyncio

import pytest

from gradus.environments.mini_python import run
from gradus.tasks.code.code_pair import LEVELS, code_pair
from gradus.tasks.code.pair_environment import SEATS, CodePair, Pair, levels
from gradus.testing.tasks import Effort, check_task
from gradus.types import Key, UserError


def test_the_contract() -> None:
    check_task(code_pair(), effort=Effort(problems=25), strict=True)


@pytest.mark.parametrize("level", range(LEVELS[0], LEVELS[1] + 1))
def test_the_lines_of_a_solution_reach_all_levels(level: int) -> None:
    for problem in code_pair(level).source.draw(range(10), level, Key(0)):
        helper, main = problem.meta["lines"]
        turn = asyncio.run(Pair(str(problem.answer), CodePair()).step_all({"helper": helper, "main": main}))
        assert (turn.reward, turn.terminated) == (1.0, True)
        assert problem.meta["solution"] == f"{helper}\n{main}"
        assert str(problem.answer) == run(f"{helper}\n{main}").stdout.strip()


@pytest.mark.parametrize(
    ("helper", "main", "reached"),
    [
        ("a=3+6", "print(a*2)", 4),
        ("a = 3+6", "print(2*a)", 4),
        ("a=18", "print(a)", 3),  # the main player only prints
        ("a=1", "print(18)", 3),
        ("a=3+6", "print(a*3)", 2),
        ("a=3+6", "print(b*2)", 2),  # an error while the program runs
        ("a=3+", "print(18)", 1),
        ("b=9", "print(18)", 0),
        ("a==9", "print(18)", 0),
        ("a=9", "18", 0),
    ],
)
def test_a_level_counts_only_after_the_one_before(helper: str, main: str, reached: int) -> None:
    assert levels(helper, main, run(f"{helper}\n{main}"), "18") == reached


def test_further_turns_show_both_lines_and_the_output() -> None:
    episode = Pair("18", CodePair(limit=2))
    assert dict(episode.acting()) == {"helper": "helper: set a", "main": "main: print with a"}
    turn = asyncio.run(episode.step_all({"helper": "a=9", "main": "print(a)"}))
    assert (turn.reward, turn.terminated) == (0.5, False)
    assert episode.acting()["main"] == "a=9\nprint(a)\n9\nmain: print with a"
    assert asyncio.run(episode.step_all({"helper": "a=9", "main": "print(a*2)"})).reward == 1.0
    assert code_pair().environment.seats == SEATS  # type: ignore[union-attr]
    with pytest.raises(UserError, match="limit"):
        CodePair(limit=0)
    alone = asyncio.run(Pair("18", CodePair()).step("a=9\nprint(a*2)"))  # one player writes both lines
    assert (alone.reward, alone.terminated) == (1.0, True)
