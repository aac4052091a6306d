"""Twenty questions: find the hidden item among a few items by asking questions."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from gradus.tasks.demonstrations import demonstrated
from gradus.tasks.games.questions_environment import Quiz, TwentyQuestions, solution, table
from gradus.tasks.generated import Draft, Generated
from gradus.types import Frozen, Sampling
from gradus.types.parts import Task

INSTRUCTION = "I hide one of these. Ask: is it big? Guess: it is cat"
LEVELS = {1: (4, 3), 2: (8, 2), 3: (16, 1), 4: (32, 1)}
"""Level -> number of candidates, and the step through the table: with step 3 every third item is used, with step 1 every item."""


def twenty_questions(level: int = 2) -> Task:
    """Find the hidden item among 4 (`level` 1), 8, 16 or 32 (`level` 4) items. The item's name earns 1; a wrong guess ends the game."""
    source = Generated("twenty_questions", make, level, (min(LEVELS), max(LEVELS)))
    return Task(
        "twenty_questions",
        source,
        replace(source, held_out=True),
        environment=TwentyQuestions(),
        provides=frozenset({"demonstration", "solution", "difficulty"}),
        about="find a hidden item by asking for its attributes; a turn is a question or the guess",
        sampling=Sampling(max_tokens=24),
        level=level,
        chance=1 / LEVELS[level][0] if level in LEVELS else 0.0,
    )


def make(rng: Random, level: int) -> Draft:
    """Draws candidates in random order, and hides one of them. The demonstration asks questions that halve the candidates."""
    count, part = LEVELS[level]
    candidates = tuple(rng.sample(list(table())[::part], count))
    item = rng.choice(candidates)
    actions = solution(item, candidates)
    pairs = demonstrated(Quiz(item, candidates, TwentyQuestions()), actions)
    return Draft(
        question=f"{INSTRUCTION}\n{' '.join(candidates)}",
        answer=item,
        solution="\n".join(actions),
        content=f"{item} of {' '.join(sorted(candidates))}",  # another order of the same candidates is the same problem
        meta=Frozen(candidates=candidates, demonstration=pairs),
    )
