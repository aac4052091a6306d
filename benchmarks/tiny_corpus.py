"""What the built-in model is pre-trained on: correct solutions only, in several styles, of problems that are never held out.

Every task is told in a short style, easy to imitate and hard to get right, and in a worked one that is longer and reliable. Pre-training
first shows mostly worked solutions and ends with mostly short ones: the model can do both and prefers the wrong one, which is what
reinforcement learning then has to find out.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from gradus.tasks.arithmetic import arithmetic, running_sum
from gradus.tasks.countdown import attempt, countdown, rules, text
from gradus.tasks.knights_knaves import knights_knaves
from gradus.tasks.string_ops import string_ops
from gradus.types import Key, Problem
from gradus.types.parts import Task


@dataclass(frozen=True)
class Share:
    """One task of the corpus."""

    task: Task
    weight: float  # share of the examples
    levels: dict[int, float]  # level -> weight
    short: Callable[[Problem, random.Random], str]
    worked: Callable[[Problem, random.Random], str]
    early: float  # share of short solutions at the start
    late: float  # at the end


def answer_only(problem: Problem, rng: random.Random) -> str:
    return f"={problem.answer}"


def solution(problem: Problem, rng: random.Random) -> str:
    return str(problem.meta["solution"])


def searched(problem: Problem, rng: random.Random) -> str:
    """Up to three attempts at a countdown that miss the target, then one that reaches it."""
    numbers, level = problem.meta["numbers"], problem.meta["difficulty"]
    _, _, largest, operations = rules(level)
    missed: list[str] = []
    for _ in range(rng.randint(0, 3)):
        steps = attempt(rng, numbers, operations, largest)
        if len(steps) == len(numbers) - 1 and steps[-1][3] != problem.answer:
            missed.append(text(steps))
    return ";".join([*missed, str(problem.meta["solution"])])


def corpus() -> tuple[Share, ...]:
    """The tasks with their shares; the level of most examples is the one that the task names."""
    return (
        Share(string_ops(), 0.30, {1: 0.3, 2: 0.6, 3: 0.1}, answer_only, solution, 0.25, 0.70),
        Share(arithmetic(), 0.30, {1: 0.1, 2: 0.2, 3: 0.6, 4: 0.1}, answer_only, solution, 0.20, 0.70),
        Share(countdown(), 0.20, {1: 0.2, 2: 0.7, 4: 0.1}, solution, searched, 0.40, 0.70),
        Share(knights_knaves(), 0.16, {1: 0.2, 2: 0.7, 3: 0.1}, answer_only, solution, 0.20, 0.70),
        Share(running_sum(), 0.04, {6: 0.4, 12: 0.3, 20: 0.3}, solution, solution, 0.0, 0.0),
    )


def example(shares: tuple[Share, ...], index: int, progress: float, key: Key) -> tuple[str, str]:
    """(prompt, completion) number `index`, when `progress` of the training (0 to 1) is over."""
    rng = key.fold("example", index).random()
    share = rng.choices(shares, [s.weight for s in shares])[0]
    level = rng.choices(list(share.levels), list(share.levels.values()))[0]
    (problem,) = share.task.source.draw([index], level, key)
    prompt = problem.question
    if "hints" in problem.meta and rng.random() < 0.1:
        parts = problem.meta["hints"][rng.choice(("knowledge", "planning", "solution"))]
        return f"{prompt}\nhint: {''.join(parts[: rng.randint(1, 4)])}", solution(problem, rng)
    write = share.short if rng.random() < short_share(share, progress) else share.worked
    return prompt, write(problem, rng)


def short_share(share: Share, progress: float) -> float:
    """`early` for the first three quarters, then `late`."""
    return share.early if progress < 0.75 else share.late
