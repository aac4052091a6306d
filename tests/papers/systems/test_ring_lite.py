"""Ring-lite: the constant divisor by hand, GRPO at the limit, the tokens of every step, and the model at which training begins."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gradus
from gradus.objectives.aggregation import ConstantTotal
from gradus.papers.bases.grpo import grpo
from gradus.papers.systems.ring_lite import ring_lite
from gradus.recipe.core import changes
from gradus.schedules.constant import ConstantSchedule
from gradus.selection.filters import Everything
from gradus.selection.token_budget import TokenBudget
from gradus.testing.methods import (
    check_different_update,
    check_micro_batches,
    check_resumes,
    check_same_update,
    loss_and_gradient,
    toy_group,
    train_toy,
    weights_after,
)
from gradus.types import Frozen
from gradus.types.moments import Fallen, Steps

PLAIN = ring_lite.but(schedule=ConstantSchedule(), study=None)
TIGHT = {"objective__policy__average__total": 12, "objective__kl__average__total": 12}


def test_a_batch_of_nine_of_twelve_tokens_has_three_quarters_of_the_loss():
    term = {"policy": PLAIN.but(**TIGHT).objective["policy"]}
    for lengths, due in (([5, 3, 4], -1.0), ([5, 4], -0.75)):
        loss, gradient, _ = loss_and_gradient(
            term, [toy_group(*[1.0] * len(lengths), lengths=lengths)], [0.0] * sum(lengths), advantages=[1.0] * len(lengths)
        )
        assert loss == pytest.approx(due)
        assert gradient == pytest.approx([-1 / 12] * sum(lengths))


def test_with_a_budget_above_all_tokens_it_is_grpo_with_another_divisor():
    whole = PLAIN.but(selection=TokenBudget(100_000))
    check_same_update(whole, PLAIN.but(selection=Everything()))
    check_same_update(whole.but(selection__border="wait"), PLAIN.but(selection=Everything()))
    check_different_update(PLAIN.but(selection=TokenBudget(5)), PLAIN.but(selection=Everything()))
    back = {"objective": grpo.objective, "setting__group": grpo.setting.group, "study": grpo.study}
    check_same_update(whole.but(**back), grpo)


def test_every_step_trains_on_as_many_tokens():
    seen: dict[str, list[float]] = {"cut": [], "wait": []}
    for border, row in seen.items():
        limited = PLAIN.but(selection=TokenBudget(12, border), setting__group=4)
        train_toy(limited, steps=4, watch=lambda run, metrics, groups, row=row: row.append(metrics["tokens/train"]))
    assert seen["cut"] == [12] * 4
    assert max(seen["wait"]) <= 12
    assert min(seen["wait"]) < 12


def test_metrics_describe_all_sampled_answers():
    rows: list[dict[str, float]] = []
    for tokens in (6, 100_000):
        train_toy(
            PLAIN.but(selection=TokenBudget(tokens), setting__group=4), steps=1, watch=lambda run, metrics, groups: rows.append(metrics)
        )
    for name in ("reward", "accuracy", "length", "entropy", "truncated", "rollouts"):
        assert rows[0][name] == rows[1][name]


def test_a_run_that_is_resumed_ends_at_the_same_weights():
    check_resumes(PLAIN.but(selection=TokenBudget(12, "wait"), setting__group=4), steps=4, after=2)


@pytest.mark.parametrize("micro", [1, 7])
def test_the_gradient_does_not_depend_on_the_micro_batch(micro):
    limited = PLAIN.but(selection=TokenBudget(12))
    whole, cut = (weights_after(limited, micro=m, steps=2)["policy.logits"] for m in (None, micro))
    torch.testing.assert_close(cut, whole, rtol=0, atol=1e-10)
    check_micro_batches(limited)


def test_training_begins_when_the_entropy_has_fallen(tmp_path):
    quick = {
        "schedule__stages__distil__until": Fallen("held_out/entropy", to=0.9, most=8), "schedule__stages__reinforce__until": Steps(1),
        "study__problems": 8, "study__greedy": False, "setting__prompts": 8, "setting__group": 4, "setting__learning_rate": 1e-3, "setting__warmup": 0,
    }  # fmt: skip
    stages = ring_lite.schedule.stages
    often = replace(stages["distil"], changes=Frozen({"setting.eval_every": 1}))
    recipe = ring_lite.but(schedule=replace(ring_lite.schedule, stages=Frozen(stages).replace(distil=often)))
    run = gradus.train(recipe, task="arithmetic", task_options={"level": "1"}, run=tmp_path / "run", **quick)
    names = [row["stage"] for row in run.metrics if "grad_norm" in row]
    assert names[-1] == "reinforce"
    assert 1 <= names.count("distil") < 8


def test_what_it_changes():
    paths = {
        "selection",
        "objective.policy.average",
        "objective.kl.coefficient",
        "objective.kl.average",
        "schedule",
        "study.entropy",
        "setting.group",
    }
    assert set(changes(grpo, ring_lite)) == paths
    assert (ring_lite.selection, ring_lite.setting.group) == (TokenBudget(409600, "cut"), 16)
    assert ring_lite.objective["policy"].average == ring_lite.objective["kl"].average == ConstantTotal(409600)
    assert ring_lite.objective["kl"].coefficient == 0.001
    distil, reinforce = (ring_lite.schedule.stages[name] for name in ("distil", "reinforce"))
    assert distil.until == Fallen("held_out/entropy", to=0.6, most=200)
    assert distil.changes == Frozen({"setting.eval_every": 5})
    assert reinforce.until == Steps(200)
