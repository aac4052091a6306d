"""A task for start models of critics and of actors that refine: problems of arithmetic with an answer that may be wrong.

A critic works the problem out and ends with a verdict. Part of the verdicts in the lessons is false, so the start model judges poorly. An actor reads
problem, answer and critique, and repeats the result that the critique suggests, whatever the verdict says.
"""

from __future__ import annotations

import random
from functools import partial

from gradus.papers.multi_agent.critique_rl import REFINES
from gradus.tasks.data.checked import checked
from gradus.tasks.generated import Draft, Generated, generated_task
from gradus.tasks.kinds import verify_exact
from gradus.types import Frozen
from gradus.types.parts import Task
from gradus.types.prompts import filled


def critiques(level: int = 2, false: float = 0.4) -> Task:
    """Makes the task. `false`: the share of false verdicts in the lessons."""
    return generated_task(
        "critiques", partial(draft, false=false), verify_exact, level=level, levels=(1, 8), max_tokens=32 + 14 * level, chance=0.0,
        about="critiques of answers, and answers after a critique",
    )  # fmt: skip


def draft(rng: random.Random, level: int, false: float) -> Draft:
    """Draws a critique, or an answer after a critique."""
    source = checked(level=level).source
    assert isinstance(source, Generated)
    made = source.make(rng, level)
    worked, _, verdict = str(made.solution).rpartition("=")
    said = {"yes": "no", "no": "yes"}[verdict] if rng.random() < false else verdict
    critique = f"{worked}={said}"
    if rng.random() < 0.5:
        return Draft(made.question, said, critique, made.content, Frozen())
    ((question, answer),) = made.meta["questions"]
    asked = filled(str(REFINES.template), text=critique, question=question)
    return Draft(asked, answer, f"={answer}", made.content, Frozen())
