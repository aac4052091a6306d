"""The task transfer: string functions with few training problems, and four kinds of problems that help, do nothing, or mislead."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from gradus.tasks.generated import Draft, Generated, Make
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.tasks.several_kinds import SeveralKinds
from gradus.tasks.text.string_ops import string_ops
from gradus.types import Frozen, Outcome, Problem, UserError
from gradus.types.parts import Task, Verify


def transfer(level: int = 2, few: int = 50) -> Task:
    """Makes the task: composed string functions as in string_ops, at `level` 2 to 7.

    The training problems have five kinds, one after the other; the kinds are the arms of the source. The last kind, `target`, has only `few` problems.
    `shorter` and `longer` are string functions of the level below and of the level above. `sums` are problems of the task arithmetic at level 2.
    `swapped` are problems of the target's level; every word in their solutions is reversed. The held-out problems are all of the kind `target`. Raises:
    UserError if `few` is below 1, or if `level` is out of range.
    """
    if few < 1 or not 2 <= level <= 7:
        raise UserError(f"task transfer: `level` is {level} and `few` is {few}; `level` must be from 2 to 7, and `few` must be 1 or more")
    tasks = {"shorter": string_ops(level - 1), "longer": string_ops(level + 1), "sums": arithmetic(2), "swapped": string_ops(level), "target": string_ops(level)}
    sources = {kind: task.source for kind, task in tasks.items()}
    swapped, target = sources["swapped"], tasks["target"]
    assert isinstance(swapped, Generated)
    sources["swapped"] = replace(swapped, make=Swapped(swapped.make))
    assert target.verify is not None
    assert tasks["sums"].verify is not None
    return replace(
        target,
        name="transfer",
        source=SeveralKinds(Frozen(sources), few),
        verify=OfKind(target.verify, tasks["sums"].verify),
        level=None,
        about="string_ops with few training problems, and four further kinds that help, do nothing or mislead; level, few: problems of the target",
    )


@dataclass(frozen=True)
class Swapped:
    """A generator that reverses every word in the solutions of another generator. The answer is reversed, too."""

    make: Make

    def __call__(self, rng: random.Random, level: int) -> Draft:
        draft = self.make(rng, level)
        steps, _, answer = str(draft.solution).rpartition("=")
        turned = " ".join(word[::-1] for word in steps.split(" "))
        return replace(draft, answer=str(draft.answer)[::-1], solution=f"{turned}={answer[::-1]}")


@dataclass(frozen=True)
class OfKind:
    """A verifier that judges sums like the task `arithmetic`, and all other problems like the task `string_ops`."""

    words: Verify
    sums: Verify

    def __call__(self, problem: Problem, completion: str) -> Outcome:
        return (self.sums if problem.task == "arithmetic" else self.words)(problem, completion)
