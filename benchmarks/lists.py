"""A task for start models that sort and merge: problems of sorting letters with short answers, and pairs of sorted lists to be merged."""

from __future__ import annotations

import random
from functools import partial

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.puzzles.sorting import verify
from gradus.types import Frozen
from gradus.types.parts import Task

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def lists(level: int = 2, longest: int = 12, merged: float = 0.5) -> Task:
    """Makes the task. `longest`: most letters of a list to sort; merged lists have up to 20. `merged`: share of the problems that are merges."""
    make = partial(draft, longest=longest, merged=merged)
    about = "sort letters, or merge two sorted lists"
    return generated_task("lists", make, verify, level=level, levels=(2, 2), max_tokens=60, chance=0.0, about=about)


def draft(rng: random.Random, level: int, longest: int, merged: float) -> Draft:
    """Draws a list to sort, or two sorted lists to merge."""
    join = rng.random() < merged
    items = rng.sample(LETTERS, rng.randint(2, 20 if join else longest))
    half, ordered = (len(items) + 1) // 2, sorted(items)
    one, two = " ".join(sorted(items[:half])), " ".join(sorted(items[half:]))
    question = f"merge {one}, {two}" if join else f"letters {' '.join(items)}"
    answer = " ".join(ordered)
    return Draft(question, answer, f"={answer}", question, Frozen(category="letters", items=tuple(items), rank=0))
