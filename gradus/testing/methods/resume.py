"""Checkpoints in memory, and a check that a resumed run gives the same numbers as a run without a stop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gradus.recipe.core import Recipe
from gradus.testing.methods.runs import toy_run
from gradus.training.launch import go
from gradus.training.run import Run
from gradus.training.state_format import join, split


def stored_state(state: Any) -> Any:
    """Returns the state of a part in the form that a checkpoint returns. Raises TypeError if the state cannot be stored.

    >>> stored_state({"drawn": 3, "seen": ("a", "b")})
    {'drawn': 3, 'seen': ['a', 'b']}
    """
    document, arrays = split(state)
    return join(json.loads(json.dumps(document)), arrays)


class MemoryCheckpoint:
    """A checkpoint of a run in memory, for `Run.restore`."""

    def __init__(self, run: Run) -> None:
        documents, files = run.documents()
        self.step = run.step
        self.texts = {name: json.dumps(document) for name, document in documents.items()}
        self.files: dict[str, dict[str, Tensor]] = {n: {key: t.clone() for key, t in file.items()} for n, file in files.items()}

    def has(self, name: str) -> bool:
        return name in self.texts or name in self.files

    def document(self, name: str) -> Any:
        return json.loads(self.texts[name])

    def tensors(self, name: str) -> dict[str, Tensor]:
        return {key: tensor.clone() for key, tensor in self.files[name].items()}

    def differences(self, other: MemoryCheckpoint) -> list[str]:
        """Returns the names of the documents and of the tensors (FILE/TENSOR) in which two checkpoints differ."""
        found = [name for name in {**self.texts, **other.texts} if self.texts.get(name) != other.texts.get(name)]
        for file in {**self.files, **other.files}:
            mine, theirs = self.files.get(file, {}), other.files.get(file, {})
            found += [f"{file}/{key}" for key in {**mine, **theirs} if not _same(mine.get(key), theirs.get(key))]
        return found


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    return one is not None and other is not None and torch.equal(one, other)


def stopped_after(recipe: Recipe, done: int, **options: Any) -> Run:
    """Returns a toy run that was stopped after `done` of its steps.

    >>> from gradus import load_recipe
    >>> run = stopped_after(load_recipe("grpo"), 1, steps=3)
    >>> run.step, len(run.metrics)
    (1, 1)
    """
    run = toy_run(recipe, **options)

    def stop(run: Run, metrics: Mapping[str, Any], groups: Any) -> None:
        if metrics["step"] == done - 1:
            run.stop.asked = "time"

    run.on_step = stop
    return go(run)


def resumed(recipe: Recipe, checkpoint: MemoryCheckpoint, **options: Any) -> Run:
    """Makes a new toy run, continues it from a checkpoint to its last step, and returns it."""
    run = toy_run(recipe, **options)
    run.restore(checkpoint)
    return go(run)


def check_resumes(recipe: Recipe, *, steps: int = 2, after: int = 1, **options: Any) -> None:
    """Checks that a run that stops after some steps and is resumed gives the same metrics, weights and states as a run without a stop.

    `options` are the options of `toy_run`.
    Raises: AssertionError that names the differences.

    >>> from gradus import load_recipe
    >>> check_resumes(load_recipe("grpo"), steps=3, after=2)
    """
    options = {"steps": steps, **options}
    whole = go(toy_run(recipe, **options))
    again = resumed(recipe, MemoryCheckpoint(stopped_after(recipe, after, **options)), **options)
    assert again.metrics == whole.metrics[after:], f"{recipe.key}: metrics differ after it was resumed at step {after}"
    apart = MemoryCheckpoint(whole).differences(MemoryCheckpoint(again))
    assert not apart, f"{recipe.key}: {', '.join(apart)} differ after it was resumed at step {after}"


def contents(part: Any, seen: tuple[int, ...] = ()) -> Any:
    """Returns the whole content of a part of Gradus or of a user's file, as text, to any depth.

    The content is equal before and after a run, because a part never changes. The content also includes attributes that are not fields, but not the values of
    `cached_property`.
    """
    if isinstance(part, (list, tuple)):
        return [contents(p, seen) for p in part]
    if isinstance(part, Mapping):
        return {name: contents(p, seen) for name, p in part.items()}
    if _is_part(part) and id(part) not in seen:
        worked_out = [name for name in vars(part) if isinstance(getattr(type(part), name, None), cached_property)]
        return {name: contents(p, (*seen, id(part))) for name, p in vars(part).items() if name not in worked_out}
    return repr(part)


def _is_part(part: Any) -> bool:
    ours = type(part).__module__.startswith(("gradus", "_user_")) or hasattr(type(part), "__dataclass_fields__")
    return ours and not isinstance(part, type) and hasattr(part, "__dict__")
