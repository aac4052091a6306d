"""Twenty questions: find the hidden one of a few things by asking."""

from __future__ import annotations

from functools import partial
from random import Random

from gradus.environments.twenty_questions import Quiz, TwentyQuestions, solution, table
from gradus.tasks.drawn import Drawn, Made, demonstrated, posed
from gradus.types import Sampling
from gradus.types.parts import Task

INSTRUCTION = "I hide one of these. Ask: is it big? Guess: it is cat"
LEVELS = {1: 4, 2: 8, 3: 16, 4: 32}  # candidates


def twenty_questions(level: int = 2) -> Task:
    """Find the hidden one of 4 (`level` 1), 8, 16 or 32 things. Reward 1 for naming it; a wrong guess ends the game."""
    source = partial(Drawn, "twenty_questions", make, tuple(LEVELS), level)
    return Task(
        "twenty_questions",
        source(),
        source(held_out=True, size=256),
        environment=TwentyQuestions(),
        provides=frozenset({"demonstration", "solution", "difficulty"}),
        about="find a hidden thing by asking what it is like; a turn is a question or the guess",
        sampling=Sampling(max_tokens=24),
        level=level,
        chance=1 / LEVELS.get(level, len(table())),
    )


def make(rng: Random, level: int) -> Made:
    """Candidates in random order, one of them hidden, and halving questions as the demonstration."""
    candidates = tuple(rng.sample(sorted(table()), LEVELS[level]))
    item = rng.choice(candidates)
    actions = solution(item, candidates)
    demonstration = demonstrated(Quiz(item, candidates, TwentyQuestions()), actions)
    content = f"{item} of {' '.join(sorted(candidates))}"  # another order of the same candidates is the same problem
    return posed(INSTRUCTION, content, item, {"candidates": candidates, "solution": "\n".join(actions), "demonstration": demonstration})
