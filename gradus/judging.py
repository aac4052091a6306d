"""A recipe judged by another reward: a user's function, or a reward model that was trained before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradus.recipe import Recipe
from gradus.types import UserError


def judged_by(recipe: Recipe, reward: str | Any) -> Recipe:
    """The recipe with FILE.py:FUNCTION, a function, a reward, or a reward model's folder (that of its run: the best, else the last) as reward.

    A reward model becomes the frozen player `judge`, whose value head scores. Raises UserError for a folder that holds none.
    """
    from gradus.rewards.functions import reward_from

    if not (isinstance(reward, str) and Path(reward).is_dir()):
        return recipe.but(reward=reward_from(reward))
    from gradus.api import model_of
    from gradus.policies.heads import FILE
    from gradus.rewards.scored import Scored
    from gradus.types.players import Player

    model = Path(str(model_of(reward, "best"))).resolve()
    if not (model / FILE).is_file():
        raise UserError(
            f"the folder {reward} holds no reward model: {model} has no {FILE}; give the run of a recipe that trains a value head"
        )
    return recipe.but(reward=Scored("judge"), players__judge=Player(str(model)))
