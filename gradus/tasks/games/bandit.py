"""Bandits with known payoffs: the prompt names a machine, and the answer is one of its arms. All expected rewards and optima are known exactly."""

from __future__ import annotations

import random
from functools import cache, partial

import numpy as np

from gradus.tasks.generated import Draft, digest, generated_task
from gradus.types import Frozen, Outcome, Problem, UserError
from gradus.types.parts import Task

MACHINES = "jkmpqvxz"
ARMS = "abcdefghABCDEFGH"
LEVELS = {1: 2, 2: 4, 3: 8, 4: 16}
"""Level -> arms of each machine."""
SPREAD = 0.2  # width of the range of a machine's lesser payoffs
_TAIL = 8  # characters at the end of a completion that are read


def bandit(level: int = 2, rich: float = 0.0, best: int = 1) -> Task:
    """Eight machines with 2 (`level` 1), 4, 8 or 16 (`level` 4) arms. `best` arms of each machine pay 1, and its other arms pay 0 to 0.2.

    `rich`: the extra payoff of the worse arms of half of the machines, in [0, 0.8]. The number before a machine's name has no effect. Raises:
    UserError if `rich` or `best` is out of range.
    """
    if not 0 <= rich <= 1 - SPREAD:
        raise UserError(f"task bandit: `rich` is {rich}; it must lie in [0, {1 - SPREAD}], because the best arm must pay more than the other arms")
    if not 1 <= best < (arms := LEVELS.get(level, len(ARMS))):
        raise UserError(f"task bandit: `best` is {best}; give 1 to {arms - 1}, because level {level} has {arms} arms")
    return generated_task(
        "bandit",
        partial(make, rich=rich, best=best),
        verify,
        level=level,
        levels=(min(LEVELS), max(LEVELS)),
        max_tokens=2,
        chance=best / arms,
        about='bandits with known payoffs: "pull 17q" -> "b"; level: arms',
        provides=("payoffs",),
    )


def make(rng: random.Random, level: int, rich: float, best: int) -> Draft:
    """Makes a question that names a number and a machine. The solution is one of the machine's best arms, chosen at random."""
    machine, number = rng.choice(MACHINES), rng.randrange(100)
    paid = payoffs(machine, LEVELS[level], rich, best)
    arm = rng.choice([arm for arm, pay in zip(ARMS, paid, strict=False) if pay == 1.0])
    return Draft(f"pull {number}{machine}", arm, arm, f"{number}{machine}", Frozen(category=machine, payoffs=paid))


def verify(problem: Problem, completion: str) -> Outcome:
    """Returns the payoff of the named arm; 0 if the text is not an arm of the machine. Spaces at both ends are ignored."""
    said = completion[-_TAIL:].strip()
    paid = problem.meta["payoffs"]
    at = ARMS.find(said) if len(said) == 1 == len(completion.strip()) else -1
    return float(paid[at]) if 0 <= at < len(paid) else 0.0


@cache
def payoffs(machine: str, arms: int, rich: float, best: int) -> tuple[float, ...]:
    """Returns the expected payoff of each arm of a machine, the same in every run.

    With up to 8 arms, every arm is the best arm of equally many machines. If an arm is the best arm of two or more machines, half of these machines have the
    extra payoff `rich`. So all answers that do not depend on the machine earn about the same.
    """
    at, rng = MACHINES.index(machine), random.Random(digest("bandit", machine))
    low = rich * ((at + at // arms) % 2)
    paid = [round(low + SPREAD * rng.random(), 3) for _ in range(arms)]
    return tuple(1.0 if (arm - at) % arms < best else pay for arm, pay in enumerate(paid))


def regularised(prior: np.ndarray, rewards: np.ndarray, *, beta: float) -> np.ndarray:
    """Returns the distribution that maximises E r - beta KL(pi | prior): prior exp(r / beta) / Z. Args: prior, rewards [arms]; beta above 0.  Returns: [arms]."""
    logits = np.log(prior) + np.asarray(rewards) / beta
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def total_variation(p: np.ndarray, q: np.ndarray) -> float:
    """Returns half the sum of absolute differences of two distributions, in [0, 1]."""
    return float(np.abs(np.asarray(p) - np.asarray(q)).sum() / 2)
