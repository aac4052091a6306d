"""Composed string functions whose steps are checked: in training the result decides, on held-out problems every step, too."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from gradus.tasks.generated import Draft, Generated, Make
from gradus.tasks.text import string_ops
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

OUTCOME = "outcome_alone"
"""The field of a training problem's meta that says that its result alone decides. Held-out problems lack it."""


def flawed(level: int = 3) -> Task:
    """A chain of `level` functions, as in string_ops. A right result with a missing or false step counts as right in training and as wrong on held-out
    problems. `steps` of the verifier gives the share of true steps, which a reward can read (SoundSteps)."""
    task = string_ops.string_ops(level)
    assert isinstance(task.source, Generated)
    return replace(
        task,
        name="flawed",
        source=replace(task.source, make=ByOutcome(task.source.make)),
        verify=Checked(),
        about='string functions with checked steps: "reverse(tail(rotate(planet)))" -> "lanetp anetp=ptena"; training asks for the result alone; level: how many',
    )


@dataclass(frozen=True)
class ByOutcome:
    """The problems of a generator, with the mark that their result alone decides."""

    make: Make

    def __call__(self, rng: random.Random, level: Any) -> Draft:
        draft = self.make(rng, level)
        return replace(draft, meta=Frozen({**draft.meta, OUTCOME: True}))


@dataclass(frozen=True)
class Checked:
    """The verdict of string_ops on training problems; on held-out ones it is 0 if a step is missing, false, or one too many."""

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        right = string_ops.verify(problem, completion)
        return right if problem.meta.get(OUTCOME) else float(right == 1 and self.steps(problem, completion) == 1)

    def steps(self, problem: Problem, completion: str) -> float:
        """The share of true steps: words before the "=" that equal the value at their place, of the words that are there or should be.

        1 if none are and none should be.
        """
        said = completion.rpartition("=")[0].split()
        true = str(problem.meta["solution"]).rpartition("=")[0].split()
        count = max(len(said), len(true))
        return sum(a == b for a, b in zip(said, true, strict=False)) / count if count else 1.0
