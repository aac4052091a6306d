"""The policy of a race by hand, and on simulated contestants: a planted one is found, at a share of the cost of running all to the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from gradus.comparison.rungs import Outcome, Rung, Scores, affordable, cost, hold, judged, rungs_of, runs_of


def test_rungs_halve_and_double():
    assert rungs_of(20) == (Rung(20, 1, 1 / 16), Rung(10, 1, 1 / 8), Rung(5, 1, 1 / 4), Rung(3, 3, 1 / 2), Rung(2, 3, 1.0))
    assert rungs_of(2, seeds=2) == (Rung(2, 2, 1.0),)
    assert runs_of(rungs_of(20)) == 20 + 10 + 5 + 9 + 6


def test_the_cost_by_hand():
    # 20/16 + 10/16 + 5/8 + (3 continued for 1/4, 6 begun for 1/2) + 6 continued for 1/2; 50 times the extra
    slope, fixed = cost(rungs_of(20), extra=2.0)
    assert slope == pytest.approx(1.25 + 0.625 + 0.625 + 0.75 + 3.0 + 3.0)
    assert fixed == 100.0
    assert affordable(rungs_of(20), 9.25 * 40 + 100, extra=2.0) == pytest.approx(40)


def test_what_is_left_is_shared_among_the_rungs_that_are_left():
    # 2 contestants x 3 seeds from 20 to R: 6 (R - 20) = 60
    assert affordable(rungs_of(20)[4:], 60.0, arms=2, reached=20.0, seeds=3) == pytest.approx(30.0)


def scores(**rows: Sequence[Sequence[float]]) -> Mapping[str, np.ndarray]:
    return {name: np.array(found, dtype=np.float64) for name, found in rows.items()}


def test_a_verdict_keeps_the_better_half_and_says_why_the_others_go():
    wave = [0.0, 1.0] * 20
    found = scores(a=[[1.0] * 40], b=[[1.0] * 38 + [0.0] * 2], c=[wave], d=[[0.0] * 40])
    verdict = judged(1, 2, found)
    assert verdict.order == ("a", "b", "c", "d")
    assert verdict.kept == ("a", "b")
    assert [(loss.name, loss.place) for loss in verdict.lost] == [("c", 3), ("d", 4)]
    assert {loss.reason for loss in verdict.lost} == {"significantly below the leader"}
    assert verdict.lost[0].behind == 0.5
    assert verdict.lost[0].low < 0.5 < verdict.lost[0].high
    assert judged(1, 2, found, sign=-1).kept == ("d", "c")


def test_one_seed_keeps_two_though_its_interval_is_clear():
    found = scores(a=[[1.0] * 40], b=[[0.0] * 40], c=[[0.0] * 40])
    assert judged(1, 2, found).kept == ("a", "b")
    many = {str(n): np.full((1, 40), float(n == 0)) for n in range(20)}
    assert len(judged(1, 10, many).kept) == 5  # a quarter


def test_several_seeds_end_the_race_when_one_is_beyond_chance():
    rows = [[1.0] * 39 + [0.0]] * 3
    clear = scores(a=rows, b=[[0.5 + 0.01 * s] * 40 for s in range(3)], c=[[0.4] * 40] * 3)
    assert judged(4, 2, clear).kept == ("a",)
    close = scores(a=[[0.6] * 40, [0.5] * 40, [0.7] * 40], b=[[0.5] * 40, [0.7] * 40, [0.5] * 40])
    verdict = judged(5, 1, close)
    assert verdict.kept == ("a",)
    assert verdict.lost[0].reason == "second, without a significant difference"


def test_failed_contestants_are_listed_with_their_failure():
    verdict = judged(2, 1, {"a": np.ones((1, 4)), "b": "NaN in step 3"})
    assert verdict.kept == ("a",)
    assert [(loss.name, loss.place, loss.reason) for loss in verdict.lost] == [("b", None, "failed: NaN in step 3")]
    assert judged(1, 1, {"a": "no", "b": "no"}).kept == ()


def test_equal_contestants_stay_in_their_order():
    verdict = judged(1, 2, {name: np.full((1, 8), 0.5) for name in "abcd"})
    assert verdict.kept == ("a", "b")
    assert {loss.reason for loss in verdict.lost} == {"in the lower half, without a significant difference"}


def test_a_race_without_budget_ends_with_those_that_are_left():
    outcome = hold("abcd", rungs_of(4), lambda number, rung, names: None if number else {name: np.full((1, 8), 0.5) for name in names})
    assert outcome.spent
    assert outcome.left == ("a", "b")
    assert hold("ab", rungs_of(2), lambda *_: {"a": "x", "b": "y"}).winner is None


def simulated(seed: int, gain: float, contestants: int = 20, problems: int = 100) -> tuple[Outcome, str, float]:
    """A race of contestants whose accuracy rises from 0.3 as 1 - exp(-4 r); one of them rises by `gain` more. Returns also its name and the cost of the race.

    Every run has a luck of its own (deviation 0.03 of its gain), every problem a difficulty, every answer (four to a problem) a chance.
    """
    draw = np.random.default_rng(seed)
    planted = int(draw.integers(contestants))
    gains = draw.uniform(0.15, 0.2, contestants) + gain * (np.arange(contestants) == planted)
    luck, hard = draw.normal(0, 0.03, (contestants, 3)), draw.normal(0, 1, problems)
    done: dict[tuple[int, int], float] = {}
    spent = 0.0

    def run(number: int, rung: Rung, names: Sequence[str]) -> Scores:
        nonlocal spent
        found = {}
        for name in map(int, names):
            rows = []
            for s in range(rung.seeds):
                spent += rung.share - done.get((name, s), 0.0)
                done[name, s] = rung.share
                p = 0.3 + (gains[name] + luck[name, s]) * (1 - np.exp(-4 * rung.share))
                rows.append(draw.binomial(4, 1 / (1 + np.exp(-np.log(p / (1 - p)) - hard))) / 4)
            found[str(name)] = np.array(rows)
        return found

    return hold([str(n) for n in range(contestants)], rungs_of(contestants), run), str(planted), spent


def test_a_clearly_better_contestant_is_found_at_a_third_of_the_cost():
    races = [simulated(seed, gain=0.35) for seed in range(30)]
    assert sum(outcome.winner == planted for outcome, planted, _ in races) >= 27
    assert np.mean([spent for *_, spent in races]) <= 20 / 3  # runs of full length; all to the end once: 20
    assert max(spent for *_, spent in races) <= cost(rungs_of(20))[0] + 1e-9


def test_without_a_better_one_the_race_costs_what_was_planned_and_says_so():
    races = [simulated(seed, gain=0.0) for seed in range(20)]
    told = [outcome.lost[0].reason for outcome, *_ in races]
    assert told.count("significantly below the leader") <= 4
