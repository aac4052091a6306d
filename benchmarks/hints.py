"""A task for start models that can go on from a hint: problems of a task, plain, or with the first part of their worked solution in the prompt.

The solution is worked out in both cases, so a hint adds no other form of answer than a plain problem has.
"""

from __future__ import annotations

import random
from functools import partial

from gradus.papers.guidance.questa import PartialSolution, first_part
from gradus.tasks.generated import Draft, generated_task
from gradus.training.plan import load_task
from gradus.types import Frozen, Key, Outcome, Problem
from gradus.types.parts import Task


def hints(of: str = "arithmetic", level: int = 3, plain: float = 0.5) -> Task:
    """Makes the task from the training problems of the task `of`. `plain`: share of the problems without a hint."""
    base = load_task(of)
    return generated_task(
        "hints", partial(draft, base=base, plain=plain), partial(judged, base=base), level=level, levels=(2, 8), max_tokens=16 + 14 * level, chance=0.0,
        about=f"problems of {of}, plain, or with the first part of the solution in the prompt",
    )  # fmt: skip


def judged(problem: Problem, completion: str, base: Task) -> Outcome:
    """Returns the verdict of the task `of` on an answer."""
    assert base.verify is not None
    return base.verify(problem, completion)


def draft(rng: random.Random, level: int, base: Task, plain: float) -> Draft:
    """Draws a problem of `base` with its worked solution, and sometimes a part of this solution as a hint."""
    (problem,) = base.source.draw([0], level, Key(rng.getrandbits(60)))
    question, worked = problem.question, str(problem.meta["solution"])
    part = "" if rng.random() < plain else first_part(worked, rng.random(), " ")
    shown = f"{question}\n{PartialSolution().form.replace('{}', part)}" if part else question
    return Draft(shown, problem.answer, worked, question, Frozen(category=problem.meta.get("category", "")))
