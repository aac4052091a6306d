"""Rounds of further answers: who gets how many, that the draws are those of one long round, when it ends, what a probe is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.rewards.verified import Verified
from gradus.rollouts.allot import Allot, HalfWidth, UntilSignal, UntilUnequal, half_width, priority, still_open
from gradus.rollouts.auto import Auto
from gradus.rollouts.behaviour_policy import BehaviourPolicy
from gradus.rollouts.dynamic_sampling import DynamicSampling
from gradus.rollouts.single_turn import SingleTurn
from gradus.testing.methods import TOY, scripted_world, toy_group
from gradus.types import Failed, Key, Problem, Request, UserError


def requests(count, each=2):
    return [Request(Problem(str(i), "t", text="a"), count=each) for i in range(count)]


@dataclass
class Scripted:
    """Answer n to problem i has the reward `rewards[i][n]`. `asked` has the problem, first sample, count and training of every request."""

    rewards: list
    asked: list = field(default_factory=list)

    async def run(self, requests, world):
        self.asked.append([(r.problem.id, r.sample, r.count, r.trained) for r in requests])
        groups = []
        for r in requests:
            row = self.rewards[int(r.problem.id)][r.sample : r.sample + r.count]
            made = toy_group(*row, key=r.problem.id)
            found = tuple(t.but(id=f"{r.problem.id}/{r.sample + i}", trained=r.trained) for i, t in enumerate(made.trajectories))
            groups.append(made.but(trajectories=found, pool=tuple(row)))
        return groups


def allotted(rewards, each=2, **options):
    inner, notes = Scripted(rewards), {}
    world = SimpleNamespace(key=Key(), note=notes.__setitem__)
    groups = asyncio.run(Allot(rollout=inner, **options).run(requests(len(rewards), each), world))
    return inner.asked, groups, notes


@dataclass(frozen=True)
class Fixed:
    """Gives these numbers in every round."""

    counts: object

    async def more(self, groups, requests, world):
        return self.counts


def test_only_open_problems_are_sampled_further():
    rewards = [[1, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0, 0], [0] * 8, [1] * 8]
    asked, groups, notes = allotted(rewards, rule=UntilSignal(right=1, wrong=1, count=2), first=2)
    # 0 is closed at once; 1 has its right answer as the fourth; 2 and 3 are never closed
    assert [[(name, first) for name, first, _, _ in row] for row in asked] == [
        [("0", 0), ("1", 0), ("2", 0), ("3", 0)],
        [("1", 2), ("2", 2), ("3", 2)],
        [("2", 4), ("3", 4)],
        [("2", 6), ("3", 6)],
    ]
    assert [len(g.trajectories) for g in groups] == [2, 4, 8, 8]
    assert [g.pool for g in groups] == [(1, 0), (0, 0, 0, 1), (0,) * 8, (1,) * 8]
    assert notes == {"allotted": 22 / 4, "allotted_most": 8}


def test_one_right_answer_closes_a_problem_if_no_wrong_one_is_asked_for():
    asked, _, _ = allotted([[1, 1, 1, 1], [0, 0, 0, 0]], rule=UntilSignal(right=1, wrong=0, count=1), first=1, rounds=3)
    assert [[name for name, *_ in row] for row in asked] == [["0", "1"], ["1"], ["1"]]


def test_a_balanced_signal_keeps_an_all_right_problem_open():
    assert still_open(16, 0, least_right=2, least_wrong=2)
    assert still_open(2, 1, least_right=2, least_wrong=2)
    assert not still_open(2, 2, least_right=2, least_wrong=2)
    assert not still_open(1, 0, least_right=1, least_wrong=0)


def test_a_failed_answer_is_neither_right_nor_wrong():
    group = toy_group(1, 0)
    broken = group.but(trajectories=(group.trajectories[0], group.trajectories[1].but(reward=Failed("no"))))
    rule = UntilSignal(right=1, wrong=1, count=3)
    assert asyncio.run(rule.more([group, broken], requests(2), None)) == [0, 3]


def test_equal_rewards_ask_for_more():
    broken = toy_group(1, 0).but(trajectories=(toy_group(1).trajectories[0], toy_group(0).trajectories[0].but(reward=Failed("no"))))
    groups = [toy_group(1, 1), toy_group(0.5, 0.25), toy_group(0), broken]
    assert asyncio.run(UntilUnequal(count=3).more(groups, requests(4), None)) == [3, 0, 3, 3]


def test_half_widths_by_hand():
    # the deviation of 1 0 0 0 is .5; t is 3.1824 for three degrees and 2.7764 for four
    assert half_width(0.5, 4, alpha=0.05) == pytest.approx(3.1824 * 0.5 / 2, abs=5e-5) == pytest.approx(0.7956, abs=5e-5)
    assert half_width(0.5, 5, alpha=0.05) == pytest.approx(2.7764 * 0.5 / 5**0.5, abs=5e-5) == pytest.approx(0.6208, abs=5e-5)
    assert priority(0.5, 4, 16, alpha=0.05, bonus=0.0) == pytest.approx(0.1748, abs=5e-5)
    assert priority(0.0, 4, 16, alpha=0.05, bonus=0.0) == 0.0
    assert priority(0.5, 1, 16, alpha=0.05, bonus=0.0) == half_width(0.5, 1, alpha=0.05) == 0.0  # no degree of freedom
    assert priority(0.0, 4, 16, alpha=0.05, bonus=0.1) == pytest.approx(0.1 * (2.8332 / 4) ** 0.5, abs=1e-5)


def test_blocks_go_to_the_least_certain_means():
    rule = HalfWidth(bonus=0.0)
    assert rule.divided([[1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]], 4, 12) == [4, 0, 0]
    # (1, 1, 0, 0) has the deviation .577 and goes first; at eight answers its gain is below that of (1, 0, 0, 0) at four
    assert rule.divided([[1, 0, 0, 0], [1, 1, 0, 0]], 4, 8) == [0, 4]
    assert rule.divided([[1, 0, 0, 0], [1, 1, 0, 0]], 8, 8) == [4, 4]
    assert rule.divided([[1, 0, 0, 0], [1, 1, 0, 0]], 7, 8) == [3, 4]
    # with the bonus, 4 answers of equal rewards (.1 sqrt(ln 17 / 4) = .084) come before 12 answers of unequal ones (.02 + .05)
    assert HalfWidth(bonus=0.1).divided([[1, 0, 0] * 4, [0, 0, 0, 0]], 4, 16) == [0, 4]
    assert HalfWidth(bonus=0.0).divided([[1, 0, 0] * 4, [0, 0, 0, 0]], 4, 16) == [4, 0]


def test_the_half_width_spends_the_budget_exactly():
    rewards = [[1, 0] * 40, [0] * 80, [1] * 80]
    asked, groups, notes = allotted(rewards, each=13, rule=HalfWidth(), first=4, rounds=16)
    assert sum(len(g.trajectories) for g in groups) == 39
    assert notes["allotted"] == 13
    assert [sum(count for _, _, count, _ in row) for row in asked] == [12, 12, 12, 3]
    assert len(groups[0].trajectories) == max(len(g.trajectories) for g in groups)
    assert allotted(rewards, each=2, rule=HalfWidth(), first=4, rounds=16)[0][1:] == []  # the first round has more than the budget


@given(st.lists(st.lists(st.sampled_from([0, 1]), min_size=12, max_size=12), min_size=1, max_size=5), st.integers(1, 4), st.integers(1, 3))
def test_a_problem_stops_at_its_signal_and_never_exceeds_the_rounds(rewards, rounds, count):
    _, groups, _ = allotted(rewards, rule=UntilSignal(right=1, wrong=1, count=count), first=count, rounds=rounds)
    for row, group in zip(rewards, groups, strict=True):
        due = next((n for n in range(1, rounds) if 0 < sum(row[: n * count]) < n * count), rounds) * count
        assert group.rewards.tolist() == row[:due]


def test_without_a_first_number_the_requests_decide():
    asked, _, _ = allotted([[0] * 9, [0] * 9], each=5, rule=Fixed([1, 2]), first=None, rounds=2)
    assert asked == [[("0", 0, 5, True), ("1", 0, 5, True)], [("0", 5, 1, True), ("1", 5, 2, True)]]


def test_the_answers_of_a_probe_are_not_trained_on():
    _, groups, _ = allotted([[0] * 9, [0] * 9], rule=Fixed([0, 2]), first=3, rounds=2, probe=True)
    assert [[t.trained for t in g.trajectories] for g in groups] == [[False] * 3, [False] * 3 + [True] * 2]


def test_a_rule_that_asks_for_nothing_ends_the_sampling():
    asked, _, _ = allotted([[0] * 4], rule=Fixed([0]), first=2, rounds=4)
    assert len(asked) == 1


def test_further_draws_are_those_of_one_long_round():
    def draws(rollout):
        def spoken(ask):
            return "ab"[int(ask.key.uniform() * 2)]

        world, _ = scripted_world(TOY, spoken, reward=Verified())
        asked = [Request(p, count=6) for p in TOY.source.draw([0, 1, 2], None, Key(0))]
        return asyncio.run(rollout.run(asked, world))

    whole, rounds = draws(SingleTurn()), draws(Allot(rule=Fixed([2, 2, 2]), first=2, rounds=3))
    for one, other in zip(whole, rounds, strict=True):
        assert [(t.id, t.completion, t.reward) for t in one.trajectories] == [(t.id, t.completion, t.reward) for t in other.trajectories]
        assert (one.key, one.pool) == (other.key, other.pool)
    assert len({t.completion for g in whole for t in g.trajectories}) == 2


@pytest.mark.parametrize(
    ("counts", "words"),
    [([1], "Fixed.more .* must return 2 whole"), ([1, -1], "returned -1"), ([1, 0.5], "returned 0.5"), (None, "returned None; it must return 2 whole numbers")],
)
def test_a_wrong_rule_is_refused(counts, words):
    with pytest.raises(UserError, match=words):
        allotted([[0] * 4, [0] * 4], rule=Fixed(counts), first=2)


def test_it_refuses_a_rollout_that_adds_groups():
    class Twice:
        async def run(self, requests, world):
            return [toy_group(1, 0, key=str(i)) for i in range(2 * len(requests))]

    with pytest.raises(UserError, match="--rollout DynamicSampling --rollout"):
        asyncio.run(Allot(rollout=Twice()).run(requests(1), SimpleNamespace(key=Key(), note=lambda *_: None)))


def test_evaluation_is_that_of_the_inner_rollout():
    assert isinstance(Allot().test, Auto)
    assert isinstance(Allot(rollout=BehaviourPolicy("start")).test, Auto)
    assert isinstance(DynamicSampling(rollout=Allot()).test, Auto)


@pytest.mark.parametrize("wrong", [{"first": 0}, {"rounds": 0}])
def test_numbers_out_of_range_are_refused(wrong):
    with pytest.raises(UserError, match="it must"):
        Allot(**wrong)
    with pytest.raises(UserError, match="it must"):
        UntilSignal(count=0)
