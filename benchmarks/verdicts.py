"""A task for start models of generators and of verifiers: problems of arithmetic, and worked solutions with a slip that a verifier judges step by step.

Part of the verdicts in the lessons is false, so the start model knows the form of verdicts and judges poorly.
"""

from __future__ import annotations

import random
from functools import partial

from gradus.papers.multi_agent.rl_tango import WithVerdicts, parts
from gradus.tasks.generated import Draft, Generated, generated_task
from gradus.tasks.kinds import verify_exact
from gradus.tasks.maths.arithmetic import arithmetic
from gradus.types import Frozen
from gradus.types.parts import Task
from gradus.types.prompts import filled
from gradus.types.spans import STEPS


def verdicts(level: int = 2, false: float = 0.3) -> Task:
    """Makes the task. `false`: the share of false verdicts in the lessons."""
    return generated_task(
        "verdicts", partial(draft, false=false), verify_exact, level=level, levels=(2, 8), max_tokens=32 + 14 * level, chance=0.0,
        about="problems of arithmetic, and verdicts on the steps of a solution",
    )  # fmt: skip


def draft(rng: random.Random, level: int, false: float) -> Draft:
    """Draws a problem with its solution, or a solution with verdicts."""
    source = arithmetic(level).source
    assert isinstance(source, Generated)
    made = source.make(rng, level)
    worked = str(made.solution)
    if rng.random() < 0.3:
        return Draft(made.question, made.answer, worked, made.content, Frozen())
    shown = worked if rng.random() < 0.5 else slipped(rng, worked)
    truths = [a == b for a, b in zip(parts(STEPS, shown), parts(STEPS, worked), strict=True)]
    said = [truth != (rng.random() < false) for truth in (*truths, all(truths))]
    words = ["yes" if one else "no" for one in said]
    asked = filled(WithVerdicts().template, problem=made.question, answer=shown)
    return Draft(asked, words[-1], f"{' '.join(words[:-1])} ={words[-1]}", f"{made.content} {shown}", Frozen())


def slipped(rng: random.Random, worked: str) -> str:
    """Returns the solution with another last digit in one step or in the answer."""
    steps = parts(STEPS, worked)
    at = rng.randrange(len(steps))
    digit = rng.choice([d for d in "0123456789" if d != steps[at][-1]])
    return " ".join([*steps[:at], steps[at][:-1] + digit, *steps[at + 1 :]])
