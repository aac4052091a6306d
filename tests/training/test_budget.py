"""Budgets: what a run has spent, when it ends and evaluates, and the number of steps to expect."""

from __future__ import annotations

import pytest

from gradus.recipe.registry import recipe
from gradus.training.budget import Budget, budget_of, spent
from gradus.training.plan import load_task, plan
from gradus.training.run import Run
from gradus.types import UserError

ROWS = [
    {"step": 0, "reward": 0.5, "rollouts": 8, "tokens/rollout": 10, "tokens/rollout/critic": 4, "tokens/train": 5, "tokens/evaluate": 99, "tokens/agreement": 7},
    {"step": 1, "reward": None, "rollouts": 4, "tokens/rollout": 20, "tokens/score/reference": 3, "tokens/score": 3},
    {"step": 2, "held_out/accuracy": 0.5, "tokens/evaluate": 50},
]
SECONDS = {0: 1.5, 1: 2.0}


@pytest.mark.parametrize(("unit", "amount"), [("steps", 2), ("tokens", 10 + 5 + 20 + 3), ("rollouts", 12), ("seconds", 3.5)])
def test_what_is_spent(unit, amount):
    assert spent(unit, ROWS, SECONDS) == amount


def test_shares_evaluations_and_expected_steps():
    budget = Budget("rollouts", 24, points=4)
    assert [budget.due(a, b) for a, b in ((0.0, 0.2), (0.2, 0.25), (0.3, 0.6), (0.6, 0.7))] == [False, True, True, False]
    assert budget.steps(0, 0.0, 20) == 20
    assert budget.steps(2, 0.5, 20) == 4
    assert budget.steps(3, 0.9, 20) == 4  # 3.33 steps, rounded up
    assert budget.steps(3, 1.1, 20) == 3


def test_a_run_counts_new_rows_alone_and_forgets_discarded_ones():
    run = Run(recipe("grpo"), load_task("arithmetic"), {}, budget=Budget("rollouts", 24), seconds=SECONDS)
    assert run.progress == 0
    run.metrics = ROWS[:1]
    assert (run.spent(), run.progress) == ([0, 8], 1 / 3)
    run.metrics = ROWS
    assert (run.spent(), run.progress) == ([0, 8, 12, 12], 0.5)
    assert run.planned.setting.steps == run.budget.steps(0, 0.5, run.recipe.setting.steps)
    run.metrics = ROWS[:1]  # after a return to a checkpoint
    assert run.spent() == [0, 8]
    run.metrics = [*ROWS[:1], {**ROWS[1], "rollouts": 16}]  # the step done again
    assert run.progress == 1


def test_budgets_from_words():
    assert budget_of("tokens=2e6") == Budget("tokens", 2e6)
    assert str(budget_of("seconds=1_000")) == "seconds=1000"
    for wrong in ("2e6", "tokens=", "tokens=0", "tokens=nan", "tokens=-1"):
        with pytest.raises(UserError, match="with a number N above 0"):
            budget_of(wrong)
    with pytest.raises(UserError, match=r"\"token\".*did you mean tokens"):
        budget_of("token=5")


def test_a_plan_has_one_end():
    assert plan("grpo", budget="steps=30").recipe.setting.steps == 30
    assert plan("grpo", budget="steps=30").budget is None
    assert plan("grpo", budget="tokens=5e4").budget == Budget("tokens", 5e4)
    with pytest.raises(UserError, match="both set the length of the run"):
        plan("grpo", steps=3, budget="tokens=5e4")
    with pytest.raises(UserError, match="the stages of difficulty_staged_rl are measured in steps"):
        plan("difficulty_staged_rl", budget="tokens=5e4")
