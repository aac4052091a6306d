"""The weights that a toy run moves, the metrics that it logs, and recipes with few equal rounds."""

from __future__ import annotations

import torch

from gradus import load_recipe
from gradus.recipe.core import changes
from gradus.testing.methods import toy_run, train_toy
from gradus.testing.methods.batches import toy_step
from gradus.testing.methods.effects import few_rounds, misplaced, still, unlogged, weights_of
from gradus.types.systems import Streaming

GRPO = load_recipe("grpo")


def test_few_rounds_change_the_numbers_of_equal_rounds_alone() -> None:
    archer, ppo = load_recipe("archer"), load_recipe("ppo")
    assert {path: (getattr(archer.selection, "count", None), value) for path, value in changes(archer, few_rounds(archer)).items()} == {
        "selection.count": (16, 2),
        "update.every": (16, 2),
        "schedule.steps": (16, 1),
    }
    assert changes(ppo, few_rounds(ppo)) == {"update.epochs": 2}
    assert few_rounds(GRPO) is GRPO
    streaming = GRPO.but(system=Streaming(staleness=3, publish_every=2))
    assert few_rounds(streaming).system == Streaming(staleness=0)  # no clock decides
    staged = load_recipe("difficulty_staged_rl")
    assert few_rounds(staged) is staged


def test_weights_that_stay_are_those_of_players_that_learn() -> None:
    run = toy_run(load_recipe("ppo"))
    before = weights_of(run)
    assert sorted(still(before, run)) == ["critic", "policy"]
    assert list(misplaced(before, run)) == []
    run.players["reference"].policy.network.logits.data += 1.0
    assert list(misplaced(before, run)) == ["reference.logits moved, though frozen; change no weights outside the update"]
    run.players["policy"].policy.network.logits.data += 1.0
    assert list(still(before, run)) == ["critic"]


def test_a_moving_average_is_not_frozen() -> None:
    run = toy_run(load_recipe("archer"))
    before = weights_of(run)
    target = run.players["target"].policy.network
    with torch.no_grad():
        next(target.parameters()).add_(1.0)
    assert list(misplaced(before, run)) == []


def test_a_metric_that_no_step_has_is_named() -> None:
    step, run = toy_step(toy_run(GRPO)), train_toy(GRPO)
    assert list(unlogged(step, run)) == []
    for row in run.metrics:
        del row["loss/kl"]
    assert list(unlogged(step, run)) == ["loss/kl of KL is in no step's metrics; return all metrics from the update"]
