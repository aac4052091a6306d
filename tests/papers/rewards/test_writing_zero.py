"""Writing-Zero: wins against a random peer by hand, their mean over draws, dropped groups, the judge's reward, and what is trained on."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.writing_zero import Bootstrapped, DrawnPairs, NotOneSided, ScoredPair, preferred, writing_zero
from gradus.recipe.core import changes
from gradus.rewards.scripted_judge import ScriptedJudge
from gradus.rewards.verdicts import Case, YesNo
from gradus.testing.methods import TOY, advantages_of, check_micro_batches, toy_group, toy_trajectory, train_toy
from gradus.types import NOT_APPLICABLE, Failed, Group, Key, UserError

DIGITS = Bootstrapped(DrawnPairs(ScriptedJudge(truth=lambda problem, text: float(text))))


@pytest.mark.parametrize(("text", "verdict"), [("1: 4\n2: 4", (0.5,)), ("1: 4\n2: 3", (1.0,)), ("1: 4", None)])
def test_two_scores_are_one_verdict(text, verdict):
    assert ScoredPair().read(text, Case("", None, ("x", "y"))) == verdict


def judged(scores, key, reward=DIGITS):
    world = SimpleNamespace(key=Key(key), task=TOY, note=lambda name, value: None)
    rows = tuple(toy_trajectory([2], name=f"t/{i}").but(completion=str(s)) for i, s in enumerate(scores))
    ((*found,),) = asyncio.run(reward.score([Group("g", rows)], {}, world))
    return [j.reward for j in found]


def by_reference(scores):
    """The rewards for each drawn reference."""
    out = {}
    for key in range(100):
        found = judged(scores, key)
        out[found.index(0.0)] = found
    return out


def test_wins_against_each_reference():
    found = by_reference([5, 7, 3, 9])
    assert found[0] == [0, 1, -1, 1]
    assert found[3] == [-1, -1, -1, 0]
    assert set(found) == {0, 1, 2, 3}


def test_the_mean_over_references_is_zero_without_ties_and_negative_with_them():
    rows = [judged([5, 7, 3, 9, 1], key) for key in range(2000)]
    assert abs(float(np.mean(rows))) < 0.02
    assert np.mean(list(by_reference([5, 7, 3, 9]).values())) == 0
    assert judged([4, 4, 4], 0).count(-1) == 2  # a tie is a loss


class Told:
    """A judge that says given verdicts."""

    def __init__(self, *verdicts):
        self.verdicts, self.cases = list(verdicts), []

    async def decide(self, form, cases, world):
        self.cases += cases
        return self.verdicts[: len(cases)]


def test_the_key_draws_the_order_and_the_verdict_is_read_in_the_right_sense():
    seen = set()
    for key in range(8):
        judge = Told((1.0,))
        found = judged(["4", "5"], key, DrawnPairs(judge))
        (case,) = judge.cases
        other = found.index(0.5) ^ 1  # the answer that was not drawn; the first shown answer wins
        assert found[other] == float(case.answers[0] == str(4 + other))
        seen.add((other, case.answers))
    assert len(seen) == 4


def test_a_coin_decides_without_a_verdict_and_a_failed_judge_fails_the_answer():
    found = {tuple(judged([1, 2], key, DrawnPairs(Told(None)))) for key in range(40)}
    assert found == {(0.5, 0.0), (0.5, 1.0), (0.0, 0.5), (1.0, 0.5)}
    failed = Failed("late")
    assert set(judged([1, 2], 0, DrawnPairs(Told(failed)))) == {0.5, failed}
    assert failed in judged([1, 2], 0, Bootstrapped(DrawnPairs(Told(failed))))
    with pytest.raises(UserError, match=r"DrawnPairs\.form is YesNo"):
        DrawnPairs(form=YesNo())


def test_one_sided_groups_are_dropped():
    made = [toy_group(*r) for r in ([0, 1, -1, 1], [-1, -1, -1, 0], [0, 1, 1, 1], [0, 1, 1, 1, 1, 1, 1, -1], [0.0, 0.0])]
    kept, dropped = NotOneSided().keep(made, Key(0))
    assert [made.index(g) for g in kept] == [0, 3]  # 5 / 7 = 0.71 passes
    assert len(dropped) == 3
    with pytest.raises(UserError, match="most"):
        NotOneSided(1.0)


def test_the_reward_is_the_advantage():
    assert [row[0] for row in advantages_of(writing_zero.credit, toy_group(0, 1, -1, 1, lengths=[1] * 4))[0]] == [0, 1, -1, 1]


def test_the_judges_reward():
    assert preferred("1: 3\n2: 9", False) == pytest.approx(1.3)
    assert preferred("1: 3\n2: 4.5", False) == pytest.approx(1.15)
    assert preferred("1: 3\n2: 4", True) == preferred("1: 4\n2: 4", False) == preferred("1: 4", True) == -1


def test_a_group_of_one_has_no_reward():
    assert judged([5], 0) == [NOT_APPLICABLE]


def test_it_trains_on_mixed_groups():
    scripted = writing_zero.but(reward=Bootstrapped(DrawnPairs(ScriptedJudge(truth=lambda problem, text: len(text)))))
    seen = []
    train_toy(scripted, steps=3, prompts=4, group=4, watch=lambda run, row, groups: seen.extend(groups))
    trained = [g for g in seen if any(t.advantages is not None for t in g.trajectories)]
    assert trained
    assert {float(t.reward) for g in trained for t in g.trajectories} == {-1.0, 0.0, 1.0}
    check_micro_batches(scripted)
    due = {"reward", "selection", "credit", "objective.kl", "players.reference", "players.judge"}
    assert set(changes(grpo, writing_zero)) == due
