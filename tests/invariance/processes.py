"""Players whose work two processes share: the leading one is this, the other a real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from gradus.players.build import build_players
from gradus.players.learner import Learner
from gradus.policies.lm import LanguageModel
from gradus.recipe.core import Recipe, Setting
from gradus.systems.channel import leave
from gradus.systems.leader import Crew, _started, begin
from gradus.types import Frozen, Key
from gradus.types.batch import Batch
from gradus.types.parts import Task
from gradus.types.players import Copy, Head, Player
from gradus.types.signals import Value
from gradus.updates.optimizers import AdamW
from tests.invariance.splits import batch_for, decoder, gradient_of, trunk
from tests.reference.given import Shape

MICRO = 24  # tokens a micro-batch: several of them
NAMES = {torch.float64: "float64", torch.float32: "float32"}


@contextmanager
def two() -> Iterator[Crew]:
    """This process and another."""
    with ExitStack() as stack:
        crew = _started(stack, 2)
        stack.callback(leave)
        stack.callback(crew.close)
        yield crew


def players(folder: Path, dtype: torch.dtype) -> dict[str, Learner]:
    """A policy, its critic and its teacher, of the small decoder."""
    if not (folder / "config.json").exists():
        decoder(dtype).save(folder)
        LanguageModel(trunk(dtype, 8), None, (0,)).save(folder / "teacher")
    learns = Frozen()
    specs = Frozen(policy=Player(), critic=Player(Head(Copy("policy")), objective=learns), teacher=Player(str(folder / "teacher")))
    recipe = Recipe("two", players=specs, objective=learns, optimizer=AdamW(), setting=Setting(precision=NAMES[dtype]))
    return build_players(recipe, folder, task(), Key(0))


def task() -> Task:
    return Task("two", None, None)  # type: ignore[arg-type]


def led(folder: Path, dtype: torch.dtype, crew: Crew) -> dict[str, Learner]:
    """The same, shared."""
    made = players(folder, dtype)
    crew.marks.clear()
    setting = Setting(precision=NAMES[dtype])
    begin(made, SimpleNamespace(setting=setting, system=None), task(), folder, 0, "cpu", crew)
    return made


def difference(alone: dict[str, Learner], together: dict[str, Learner], batch: Batch, term: Any) -> tuple[float, float]:
    """The largest difference between the gradients of one process and of two, and the largest entry."""
    name = "critic" if term.wants == (Value(),) else "policy"
    found = [gradient_of(p[name].policy, batch, {"it": term}, MICRO) for p in (alone, together)]
    return float((found[0] - found[1]).abs().max()), float(found[0].abs().max())


def batch(alone: dict[str, Learner], shape: list[list[Shape]], dtype: torch.dtype) -> Batch:
    return batch_for(alone["policy"].policy, shape, dtype)
