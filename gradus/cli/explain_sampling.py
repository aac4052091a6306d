"""`gradus explain` for max_tokens and temperature, whose values may come from the task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gradus.cli.origins import Explanation, Origin
from gradus.recipe.core import Recipe
from gradus.types import Sampling

if TYPE_CHECKING:
    from gradus.types.parts import Task

LIMITED = {"setting.max_tokens": "max_tokens", "setting.temperature": "temperature"}
"""Fields of the setting that get their value from the task if they are empty. Each field is given with its name in the task's sampling settings."""


def with_task(found: Explanation, default: Explanation, recipe: Recipe, task: Task, spec: str, typed: Mapping[str, str]) -> Explanation:
    """The explanation of a field in `LIMITED` with the value that a run uses, and the task among its origins.

    Args: default: the explanation of default_tokens; recipe: the recipe with all options; spec: the task's name; typed: the options of the task.
    """
    from gradus.training.run import limit_of, sampling_of

    name = LIMITED[found.path]
    own: Any = getattr(task.sampling, name)
    if name == "max_tokens":
        origins = [replace(o, source=f"{o.source}, default_tokens") for o in default.origins]
        own = limit_of(task, 0) or None
    else:
        origins = [Origin("default of Sampling", Sampling().temperature)]
        own = None if own == Sampling().temperature and "sampling.temperature" not in typed else own
    if own is not None:
        text = typed.get(f"sampling.{name}")
        origins.append(Origin(f"set by task {spec}" if text is None else f"--task.sampling.{name} {text}", own))
    empty = [n for n, o in enumerate(found.origins) if o.value is None]
    origins += found.origins[max(empty, default=-1) + 1 :]
    return replace(found, value=getattr(sampling_of(recipe, task), name), origins=tuple(origins))
