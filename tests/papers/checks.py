"""What most recipe tests ask: that no cut of a batch changes a gradient, that a difference switched off is gone, that a toy is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.testing import assert_close

from gradus.recipe.core import Recipe
from gradus.training.state_format import join, split
from gradus.updates.minibatches import Minibatches
from tests.toy import gradients, train_toy


def weights(recipe: Recipe, **options: Any) -> dict[str, torch.Tensor]:
    """Weights of every learning player after plain gradient steps, as `player.tensor`."""
    found = gradients(recipe, **{"micro": None, **options})
    return {f"{player}.{name}": value for player, state in found.items() for name, value in state.items()}


def check_same(ours: Recipe, base: Recipe, **options: Any) -> None:
    """Both recipes move the policy to the same bits."""
    found, expected = (weights(r, **{"steps": 2, **options})["policy.logits"] for r in (ours, base))
    assert torch.equal(found, expected)


def check_differs(ours: Recipe, base: Recipe, **options: Any) -> None:
    """The recipes move the policy apart: a limit that holds by itself would say nothing."""
    found, expected = (weights(r, **{"steps": 2, **options})["policy.logits"] for r in (ours, base))
    assert not torch.equal(found, expected)


def check_cut(recipe: Recipe, **options: Any) -> None:
    """Micro-batches of 1 and 7 contexts give what one of all gives, to 1e-10, in two epochs of two mini-batches too."""
    for made in (recipe, recipe.but(update=Minibatches(epochs=2, count=2))):
        whole = weights(made, steps=2, **options)
        for micro in (1, 7):
            for name, value in weights(made, steps=2, micro=micro, **options).items():
                assert_close(value, whole[name], rtol=0, atol=1e-10)


def check_acts(recipe: Recipe, *, updates: int, metric: str = "clip_share", learning_rate: float = 0.1, **options: Any) -> None:
    """Every batch brings this many updates, and some actions meet the bound that `metric` counts; with one update per batch none does."""
    seen: list[float] = []
    options = {"steps": 4, "learning_rate": learning_rate, "watch": lambda run, metrics, groups: seen.append(metrics[metric]), **options}
    assert train_toy(recipe, **options).players["policy"].updates == updates * options["steps"]
    assert 0 < np.mean(seen) < 0.5
    seen.clear()
    train_toy(recipe.but(update__count=1), **{**options, "steps": 1})
    assert seen == [0]


def check_learns(recipe: Recipe, *, steps: int = 60, gain: float = 0.15, **options: Any) -> None:
    """The mean reward of the last ten steps is `gain` above that of the first five; steps without a group have none."""
    seen: list[float] = []
    options = {"prompts": 8, "group": 8, **options}
    train_toy(recipe, steps=steps, watch=lambda run, metrics, groups: seen.extend([metrics["reward"]] if groups else []), **options)
    assert np.mean(seen[-10:]) > np.mean(seen[:5]) + gain


def stored(state: Any) -> Any:
    """The state as it comes back from a checkpoint."""
    return join(*split(state))
