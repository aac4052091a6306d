"""A weight of 0 pulls through no term of any recipe, and weights of 1 are the same bytes as none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gradus.objectives.ratios import TokenRatio
from gradus.recipe.registry import recipe, recipe_modules
from gradus.testing.methods.batches import evaluated, moved, toy_step, unsettle, with_signs
from gradus.testing.methods.diagnosis import on_toys
from gradus.testing.methods.runs import toy_run
from gradus.testing.methods.tasks import toy_task
from gradus.types import UserError
from gradus.types.batch import make_batch


def batches(key: str):
    """(player, term's name, term, rows of its wants, batch) of a toy step in which the policy has moved."""
    made = on_toys(recipe(key))
    task = toy_task(made)
    run = toy_run(made, task=task, **({} if task.environment is None else {"prompts": 2}))
    unsettle(run)
    try:
        step = toy_step(run)
    except UserError as error:
        if "names no seats" not in str(error):
            raise
        pytest.skip("plays seats of an environment, which the toy task has not; its terms are those of others")
    for name, batch in step.batches.items():
        if batch.actions:
            batch = moved(with_signs(batch), step.rows[name])
            for label, term in run.players[name].spec.objective.items():
                if term.source in batch.counts:
                    yield name, label, term, step.rows[name], batch


@pytest.mark.parametrize("key", sorted(recipe_modules()))
def test_an_action_without_weight_is_not_pulled(key: str) -> None:
    acted = []
    for name, label, term, rows, batch in batches(key):
        free = evaluated(term, rows, batch)
        if free.largest == 0:
            continue
        acted.append(label)
        silent = batch.trajectory % 2 == 0
        if isinstance(getattr(term, "ratio", TokenRatio()), TokenRatio):  # the ratio of a sequence is moved by all its actions
            silent |= torch.arange(batch.actions) % 5 == 3
        masked = replace(batch, weight=torch.where(silent, torch.zeros_like(batch.weight), batch.weight))
        for want, gradient in evaluated(term, rows, masked).gradient.items():
            assert gradient is None or not gradient[silent].any(), f"{name}.{label} pulls at {type(want).__name__} without weight"
        again = evaluated(term, rows, replace(batch, weight=batch.weight * torch.ones_like(batch.weight)))
        assert torch.equal(again.loss, free.loss)
    made = recipe(key)
    assert acted or not (made.objective or any(player.objective for player in made.players.values()))


def test_weights_of_actions_reach_the_batch() -> None:
    from gradus.testing.methods import toy_group
    from gradus.types import Group

    group = toy_group(1, 0, lengths=[2, 3])
    first, second = (t.but(advantages=np.ones(t.actions)) for t in group.trajectories)
    weighted = Group("g", (first.but(weight=2.0, weights=np.array([0.5, 0.0])), second.but(weight=3.0)))
    assert make_batch([weighted], dtype=torch.float64).weight.tolist() == [1.0, 0.0, 3.0, 3.0, 3.0]
    plain = make_batch([Group("g", (first, second))]).weight
    ones = make_batch([Group("g", tuple(t.but(weights=np.ones(t.actions)) for t in (first, second)))]).weight
    assert torch.equal(plain, ones)
    with pytest.raises(ValueError, match="has 2 actions but 1 weights"):
        make_batch([Group("g", (first.but(weights=np.ones(1)),))])
