"""Generated problems: the split, the levels, and demonstrations that must win."""

from __future__ import annotations

from random import Random

import pytest

from gradus.environments.frozen_lake import FrozenLake, Walk
from gradus.tasks.drawn import Drawn, Made, demonstrated, held_out, posed
from gradus.types import Key, UserError


def number(rng: Random, level: int) -> Made:
    value = rng.randrange(10 * level)
    return posed("say it", str(value), value, {"double": 2 * value})


SOURCE = Drawn("number", number, (1, 20), 20)


def test_a_tenth_of_the_contents_is_held_out() -> None:
    share = sum(held_out(str(i)) for i in range(5000))
    assert abs(share - 500) < 85  # four standard deviations of a tenth of 5000


def test_each_side_draws_from_its_own_contents() -> None:
    other = Drawn("number", number, (1, 20), 20, held_out=True)
    train = {p.answer for p in SOURCE.draw(range(3000), None, Key(0))}
    held = {p.answer for p in other.draw(range(1000), None, Key(0))}
    assert train == {i for i in range(200) if not held_out(str(i))}
    assert held == {i for i in range(200) if held_out(str(i))}


def test_a_problem_by_its_fields() -> None:
    (problem,) = SOURCE.draw([6], 1, Key(0))
    assert (problem.id, problem.task, problem.question) == ("number/1/train/6", "number", "say it")
    assert dict(problem.meta) == {"double": 2 * problem.answer, "difficulty": 1}
    assert SOURCE.draw([6], None, Key(0))[0].meta["difficulty"] == 20


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(UserError, match="no level 2; it has 1, 20"):
        SOURCE.draw([0], 2, Key(0))


def test_a_demonstration_must_win() -> None:
    def walk() -> Walk:
        return Walk(("P.G",), FrozenLake(), Key(0))

    assert demonstrated(walk(), ["right", "right"]) == [("P.G", "right"), (".PG", "right")]
    with pytest.raises(ValueError, match="earns nothing"):
        demonstrated(walk(), ["right"])
    with pytest.raises(ValueError, match="ended before"):
        demonstrated(walk(), ["right", "right", "up"])
    with pytest.raises(ValueError, match="earns nothing"):
        demonstrated(Walk(("PH",), FrozenLake(), Key(0)), ["right"])
