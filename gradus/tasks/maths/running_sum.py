"""The task running_sum: add many numbers, and note the sum so far after each number."""

from __future__ import annotations

import random

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.maths.arithmetic import verify
from gradus.types.parts import Task

_LABELS = "abcdefghijklmnopqrstuvwxyz"


def running_sum(level: int = 20) -> Task:
    """Makes the task: add `level` one-digit numbers (4 to 26). A letter stands before each number. The notes of the worked solution give each letter with
    the sum so far."""
    return generated_task(
        "running_sum",
        _running_sum,
        verify,
        level=level,
        levels=(4, 26),
        max_tokens=12 + 5 * level,
        chance=0.02,
        about='a sum of many numbers with scratch notes: "a3b8c5" -> "a3b11c16=16"; level: how many',
    )


def _running_sum(rng: random.Random, level: int) -> Draft:
    numbers = [rng.randint(1, 9) for _ in range(level)]
    question = "".join(f"{label}{n}" for label, n in zip(_LABELS, numbers, strict=False))
    notes = "".join(f"{label}{sum(numbers[: i + 1])}" for i, label in enumerate(_LABELS[:level]))
    return Draft(question, sum(numbers), f"{notes}={sum(numbers)}", question)
