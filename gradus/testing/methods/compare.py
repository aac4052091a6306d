"""Checks for tests of methods: that results are equal for all micro-batch sizes, that an update equals or differs from the update of the base, and that a
method makes progress on the toy task.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradus.recipe.core import Recipe
from gradus.testing.methods.runs import train_toy, weights_after
from gradus.updates.minibatches import Minibatches

TOLERANCE = 1e-10  # largest difference of a weight between micro-batch sizes, in float64


def check_micro_batches(recipe: Recipe, **options: Any) -> None:
    """Checks that micro-batches of 1 and of 7 contexts give the same weights, to 1e-10, as one micro-batch of all contexts.

    The function also checks this with two epochs of two mini-batches. `options` are the options of `toy_run`.
    Raises: AssertionError that names the weights that differ.

    >>> from gradus import load_recipe
    >>> check_micro_batches(load_recipe("dr_grpo"))
    """
    found = [*cut_differences(recipe, **options), *cut_differences(recipe.but(update=Minibatches(epochs=2, count=2)), **options)]
    assert not found, f"{recipe.key}: {'; '.join(found)}"


def cut_differences(recipe: Recipe, *, steps: int = 2, **options: Any) -> list[str]:
    """Returns a sentence for each weight that differs between micro-batches of 1 or 7 contexts and one micro-batch of all contexts."""
    whole = weights_after(recipe, steps=steps, **options)
    found = []
    for micro in (1, 7):
        for name, value in weights_after(recipe, steps=steps, micro=micro, **options).items():
            apart = float((value - whole[name]).abs().max())
            found += [] if apart <= TOLERANCE else [f"{name} differs by {apart:.2g} between micro-batches of {micro} contexts and one of all"]
    return found


def check_same_update(ours: Recipe, base: Recipe, **options: Any) -> None:
    """Checks that two recipes give the policy the same weights, bit for bit. `ours` is a method whose difference from `base` is switched off.

    >>> from gradus import load_recipe
    >>> reinforce, rloo = load_recipe("reinforce"), load_recipe("rloo")
    >>> check_same_update(rloo.but(credit=reinforce.credit), reinforce)
    """
    found, expected = (_policy(r, options) for r in (ours, base))
    moved = [name for name, value in found.items() if not torch.equal(value, expected[name])]
    assert not moved, f"{ours.key} and {base.key} give other values for {', '.join(moved)}"


def check_different_update(ours: Recipe, base: Recipe, **options: Any) -> None:
    """Checks that two recipes give the policy different weights. `check_same_update` alone would also pass if the difference never has an effect."""
    found, expected = (_policy(r, options) for r in (ours, base))
    assert any(not torch.equal(value, expected[name]) for name, value in found.items()), f"{ours.key} moves the policy exactly as {base.key} does"


def _policy(recipe: Recipe, options: dict[str, Any]) -> dict[str, torch.Tensor]:
    found = weights_after(recipe, **{"steps": 2, **options})
    policy = {name: value for name, value in found.items() if name.startswith("policy.")}
    assert policy, f"the policy of {recipe.key} does not learn, so its updates cannot be compared"
    return policy


def check_bound_acts(recipe: Recipe, *, updates: int, metric: str = "clip_share", learning_rate: float = 0.1, **options: Any) -> None:
    """Checks that every batch gives `updates` updates, and that some actions, but fewer than half, reach the bound that `metric` counts. With one update per
    batch, no action may reach the bound, because every ratio is 1.

    >>> from gradus import load_recipe
    >>> check_bound_acts(load_recipe("grpo").but(update__count=4), updates=4)
    """
    seen: list[float] = []
    options = {"steps": 4, "learning_rate": learning_rate, "watch": lambda run, metrics, groups: seen.append(metrics[metric]), **options}
    made = train_toy(recipe, **options).players["policy"].updates
    assert made == updates * options["steps"], f"{recipe.key} made {made} updates in {options['steps']} steps, not {updates} per step"
    share = float(np.mean(seen))
    assert 0 < share < 0.5, f"{recipe.key}: {metric} is {share:.3f}; it must lie between 0 and a half"
    seen.clear()
    train_toy(recipe.but(update__count=1), **{**options, "steps": 1})
    assert seen == [0], f"{recipe.key}: {metric} is {seen[0]:.3f} with one update per batch; every ratio is 1 then, so it must be 0"


def check_learns(recipe: Recipe, *, steps: int = 60, gain: float = 0.15, **options: Any) -> None:
    """Checks that the mean reward of the last ten steps is more than `gain` above the mean reward of the first five steps. Steps without groups do
    not count.

    >>> from gradus import load_recipe
    >>> check_learns(load_recipe("grpo"), steps=40)
    """
    seen: list[float] = []
    options = {"prompts": 8, "group": 8, **options}
    train_toy(recipe, steps=steps, watch=lambda run, metrics, groups: seen.extend([metrics["reward"]] if groups else []), **options)
    first, last = np.mean(seen[:5]), np.mean(seen[-10:])
    assert last > first + gain, f"{recipe.key}: the mean reward goes from {first:.3f} to {last:.3f} in {steps} steps"
