"""A chain of digits that a rule continues. The first wrong digit leaves the track, and all later digits count as wrong.

The dynamics are known and deterministic. So the task shows how the errors of an imitator grow with the length of the chain.
"""

from __future__ import annotations

import random

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import hints
from gradus.types import Frozen, Outcome, Problem
from gradus.types.parts import Task

LENGTHS = {1: 5, 2: 10, 3: 20, 4: 40, 5: 80}
"""Level -> number of digits to write."""


def token_chain(level: int = 2) -> Task:
    """Chains of 5, 10, 20, 40 and 80 digits at `level` 1 to 5. The reward of a completion is the share of digits before its first mistake."""
    return generated_task(
        "token_chain",
        _token_chain,
        verify,
        level=level,
        levels=(min(LENGTHS), max(LENGTHS)),
        max_tokens=LENGTHS.get(level, 0) + 8,
        chance=0.011,  # the first digit is right with chance 0.1, the second after it with chance 0.01, ...
        about='continue a chain: "2 7 x1 +3 5" -> "22722" (from 2, 7 each digit is 1 times the last one, plus the one before it, plus 3, without tens); '
        "the reward is the share of digits before the first mistake; level: length",
        provides=("hints",),
    )


def following(first: int, second: int, times: int, step: int, count: int) -> list[int]:
    """Returns the `count` digits after `first` and `second`: x_t = (times x_(t-1) + x_(t-2) + step) modulo 10.

    >>> following(2, 7, 1, 3, 5)
    [2, 2, 7, 2, 2]
    """
    found = [first, second]
    for _ in range(count):
        found.append((times * found[-1] + found[-2] + step) % 10)
    return found[2:]


def on_track(due: str, said: str) -> int:
    """Returns the number of characters of `said` before its first difference from `due`."""
    return next((i for i, (a, b) in enumerate(zip(due, said)) if a != b), min(len(due), len(said)))


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns the share of the digits before the first mistake. Spaces, and digits after the end of the chain, are ignored."""
    due = str(problem.answer)
    return on_track(due, completion[: 4 * len(due)].replace(" ", "").strip()) / len(due)


def _token_chain(rng: random.Random, level: int) -> Draft:
    first, second, times, step, count = rng.randrange(10), rng.randrange(10), rng.randrange(1, 10), rng.randrange(10), LENGTHS[level]
    answer = "".join(map(str, following(first, second, times, step, count)))
    planning = (f"multiply the last digit by {times}", ", add the digit before it", f", add {step}, and keep the last digit")
    told = hints(("each digit comes from the two digits before it",), planning, answer)
    return Draft(f"{first} {second} x{times} +{step} {count}", answer, answer, f"{first} {second} {times} {step}", Frozen(category=f"{count} digits", hints=told))
