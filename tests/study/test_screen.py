"""Screening: the pass rate of every problem, the band that is kept, and that it leaves the parts' memory alone."""

from __future__ import annotations

import asyncio

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.study.screen import Measured, Screened, band, measure, rated
from gradus.testing.methods import ToySource, toy_group, toy_run
from gradus.types import Failed, Problem, UserError


def test_the_pass_rate_is_the_share_of_right_answers() -> None:
    group = toy_group(1.0, 0.0, 0.5, 1.0)  # right is a reward of 1 or more
    known, other = group.trajectories[0].problem, Problem("other", "toy")
    assert rated([group], [known, other]) == [(known, 0.5), (other, 0.0)]
    broken = group.but(trajectories=tuple(t.but(reward=Failed("no")) for t in group.trajectories))
    assert rated([broken, group], [known]) == [(known, 0.25)]  # without a reward: wrong


def test_a_band_holds_its_ends() -> None:
    problems = [Problem(str(n), "toy") for n in range(5)]
    found = Measured(tuple(zip(problems, (0.0, 0.25, 0.5, 0.75, 1.0), strict=True)))
    screen = Screened(0.25, 0.75)
    assert found.kept(screen) == [{"problem": problems[n], "pass_rate": n / 4} for n in (1, 2, 3)]
    assert found.numbers(screen) == {
        "screen/problems": 5, "screen/kept": 3, "screen/solved": 1, "screen/unsolved": 1, "screen/pass_rate": 0.5,
    }  # fmt: skip
    assert found.told(screen).startswith("3 of 5 problems have a pass rate from 0.25 to 0.75 (1 were never solved, 1 always")


def test_it_measures_the_first_problems_and_changes_no_memory() -> None:
    run = toy_run(grpo)
    world = run.world(run.recipe, "screen")
    seen: list[tuple[int, int]] = []
    found = asyncio.run(measure(run, run.recipe, world, Screened(samples=3, problems=5), ToySource(), lambda *done: seen.append(done)))
    assert [p.id for p, _ in found.rates] == [p.id for p in ToySource().draw(list(range(5)), None, world.seed.fold("problems"))]
    assert {rate * 3 for _, rate in found.rates} <= {0.0, 1.0, 2.0, 3.0}
    assert (seen, run.memory.states) == ([(5, 5)], {})
    again = asyncio.run(measure(run, run.recipe, run.world(run.recipe, "screen"), Screened(samples=3, problems=5), ToySource()))
    assert again == found


@pytest.mark.parametrize("text", ["0.1", "0.1..", "a..b", "0,1..0,9"])
def test_a_band_that_is_none_is_told(text: str) -> None:
    with pytest.raises(UserError, match=r"write two pass rates with two dots between them, such as 0.1..0.9"):
        band(text)


def test_bounds_in_the_wrong_order_are_told() -> None:
    assert band("0..1") == (0.0, 1.0)
    with pytest.raises(UserError, match=r"Screened.low is 0.9, which is above Screened.high \(0.1\); set `low` to 0.1 or less"):
        Screened(0.9, 0.1)
