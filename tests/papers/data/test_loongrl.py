"""LoongRL: the two-way match, the stages and the problems of each, and the limit of the method."""

from __future__ import annotations

import pytest
import torch

from gradus.objectives.trust import Clip
from gradus.papers.bases.grpo import grpo
from gradus.papers.data.loongrl import loongrl
from gradus.recipe.core import changes
from gradus.rewards.two_way import TwoWay, judged
from gradus.study.screen import Measured
from gradus.tasks.text.hidden_question import hidden_question
from gradus.testing.methods import check_bound_acts, weights_after
from gradus.training.course import recipe_of
from gradus.types import Key, Problem


@pytest.mark.parametrize("level", [1, 3, 4])
def test_solutions_of_the_task_earn_the_reward(level: int) -> None:
    for problem in hidden_question().source.draw(range(20), level, Key(1)):
        assert judged(problem, str(problem.meta["solution"])) == 1.0
        assert judged(problem, "=nobody") == 0.0


def test_the_hard_stage_keeps_what_is_not_always_solved() -> None:
    screen = loongrl.schedule.stages["hard"].screen
    problems = [Problem(str(n), "toy") for n in range(9)]
    kept = Measured(tuple((p, n / 8) for n, p in enumerate(problems))).kept(screen)
    assert [row["pass_rate"] for row in kept] == [n / 8 for n in range(8)]


def test_what_it_changes() -> None:
    found = changes(grpo, loongrl)
    assert set(found) == {"objective.kl", "objective.policy.trust.high", "players.reference", "reward", "schedule", "update.count"}
    assert loongrl.update.count == 4
    assert (loongrl.reward, loongrl.objective["policy"].trust) == (TwoWay(), Clip(0.2, 0.28))
    stages = {name: recipe_of(loongrl, name) for name in loongrl.schedule.stages}
    assert [type(recipe.curriculum).__name__ for recipe in stages.values()] == ["Without", "ShuffledEpochs", "ShuffledEpochs"]


def test_one_stage_with_answers_of_one_letter_is_grpo_with_its_clip() -> None:
    plain = loongrl.but(schedule=grpo.schedule, reward=grpo.reward)
    due = grpo.but(objective__kl=None, players__reference=None, objective__policy__trust=Clip(0.2, 0.28), update__count=4)
    assert torch.equal(weights_after(plain, steps=3)["policy.logits"], weights_after(due, steps=3)["policy.logits"])


def test_the_clip_acts() -> None:
    check_bound_acts(loongrl.but(schedule=grpo.schedule, reward=grpo.reward), updates=4)
