"""A task for start models that can use a list of missing criteria: instructions, plain, or with an answer and the constraints that it misses in the prompt.

Solutions of plain problems are mostly the text alone. After an answer with missing constraints the solution counts the words of the text first. So the model
can do better with the list, as a large model that reads what its first answer lacks.
"""

from __future__ import annotations

import random
from functools import partial

from gradus.tasks.generated import Draft, Generated, generated_task
from gradus.tasks.text.instructions import Constraints, instructions, met
from gradus.tasks.text.texts import LEXICON
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

FORM = "{answer} misses {missing}"
"""The text after a problem, as in the claim of rgr_grpo."""


def rewrites(plain: float = 0.5, short: float = 0.9, level: int = 2) -> Task:
    """Makes the task. `plain`: share of the problems without further text. `short`: share of the plain solutions that are the text alone."""
    return generated_task(
        "rewrites", partial(draft, plain=plain, short=short), judged, level=level, levels=(2, 3), max_tokens=160, chance=0.0,
        about="instructions, plain, or with an answer and the constraints that it misses",
    )  # fmt: skip


def judged(problem: Problem, completion: str) -> Outcome:
    return Constraints()(problem, completion)


def draft(rng: random.Random, level: int, plain: float, short: float) -> Draft:
    """Draws a problem of the task instructions."""
    source = instructions(level).source
    assert isinstance(source, Generated)
    made = source.make(rng, level)
    if rng.random() < plain:
        return Draft(made.question, made.answer, f"={made.answer}" if rng.random() < short else made.solution, made.content, made.meta)
    attempt, missing = failed(rng, made)
    return Draft(f"{made.question}\n{FORM.format(answer=attempt, missing=', '.join(missing))}", made.answer, made.solution, made.content, made.meta)


def failed(rng: random.Random, made: Draft) -> tuple[str, list[str]]:
    """Returns a changed text that misses at least one constraint, and the missing constraints. It replaces, adds or removes words until this holds."""
    words, problem = str(made.answer).split(), Problem("draft", "draft", text=made.question, meta=Frozen(made.meta))
    while True:
        at, new = rng.randrange(len(words) + 1), rng.choice(LEXICON)
        words[at : at + rng.randint(0, 2)] = [new] * rng.randint(0, 1)
        words = words or [new]
        attempt = f"={' '.join(words)}"
        if missing := [name for name, holds in met(problem, attempt).items() if not holds]:
            return attempt, missing
