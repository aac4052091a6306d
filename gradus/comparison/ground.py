"""Proving grounds and their start models. A ground is a small task with one difficulty.

A ground is the object `name` of `gradus/grounds/<name>.py`. A ground contains equal terms for a comparison (task, start model, fields, budget,
measures). A ground also names a pair of arms that it should separate. `gradus grounds --calibrate NAME` measures whether the ground separates this pair.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gradus.comparison.measures import Measure
from gradus.training.budget import budget_of
from gradus.types import Frozen, UserError, unknown
from gradus.types.ranges import check_ranges

FOLDER = Path(__file__).parent.parent / "grounds"


@dataclass(frozen=True)
class Start:
    """A start model. A recipe trains the model on a task, from the built-in model or from another start model. The model is made once and kept.

    options: options of the task; fields: fields of the recipe, as on the command line.
    """

    recipe: str
    task: str
    steps: int
    options: Mapping[str, str] = field(default_factory=Frozen)
    fields: Mapping[str, str] = field(default_factory=Frozen)
    start: Start | None = None
    seed: int = 0

    def __str__(self) -> str:
        options = "".join(f" --task.{name} {value}" for name, value in self.options.items())
        fields = "".join(f" --{name} {value}" for name, value in self.fields.items())
        after = f", after: {self.start}" if self.start is not None else ""
        return f"{self.recipe} --task {self.task}{options} --steps {self.steps} --seed {self.seed}{fields}{after}"


@dataclass(frozen=True)
class Pair:
    """Two arms (in the words of `gradus compare`), the measure by which they differ on the ground, and the reason for the difference."""

    better: str
    worse: str
    measure: str
    why: str


@dataclass(frozen=True)
class Ground:
    """A small task with one difficulty: the settings of its comparisons, its measures, and the pair of arms that it separates."""

    name: str
    about: str  # the difficulty in one line
    task: str
    budget: str  # budget of one run, such as steps=40
    pair: Pair
    options: Mapping[str, str] = field(default_factory=Frozen)  # options of the task
    start: Start | None = None  # None: the built-in model
    judge: Start | None = None  # a reward model for the training; the task's verifier judges held-out answers
    fields: Mapping[str, str] = field(default_factory=Frozen)  # changed fields of every arm
    measures: tuple[str, ...] = ("accuracy",)  # the first measure decides
    others: tuple[str, ...] = ()  # further tasks of the examination: NAME=TASK --OPTION VALUE
    arms: tuple[str, ...] = ()  # further arms of the calibration
    seeds: int = 5  # number of seeds of the calibration
    problems: int = 100
    samples: int = 4

    def __post_init__(self) -> None:
        check_ranges(self, seeds="[2, inf)", problems="[1, inf)", samples="[1, inf)")
        budget_of(self.budget)
        needed = max(Measure(name).samples for name in (*self.measures, self.pair.measure))
        if needed > self.samples:
            raise UserError(f"the ground {self.name} measures pass@{needed} but has only {self.samples} answers per problem; set samples={needed}")


def grounds() -> list[str]:
    """The names of all grounds."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


def ground_of(name: str) -> Ground:
    """Returns the ground with this name. Raises UserError for an unknown name."""
    if name not in grounds():
        raise unknown("ground", name, grounds(), "List them with: gradus grounds")
    found = getattr(importlib.import_module(f"gradus.grounds.{name}"), name)
    if found.name != name:
        raise UserError(f'the ground in {name}.py has the name "{found.name}"; set its name to "{name}"')
    return found
