"""Evaluation of policies that may abstain: shares of right answers, abstentions and wrong answers, truthfulness and reliability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gradus.rewards.verified import Verified
from gradus.study.held_out import held_out_requests, of_problems
from gradus.types import Trajectory
from gradus.types.answers import abstains
from gradus.types.ranges import check_ranges


def truthfulness(accuracy: float, uncertain: float, hallucination: float, weights: tuple[float, float, float] = (1.0, 0.0, 1.0)) -> float:
    """Returns w1 accuracy + w2 uncertain - w3 hallucination.

    >>> round(truthfulness(0.5, 0.3, 0.2), 9)
    0.3
    """
    return weights[0] * accuracy + weights[1] * uncertain - weights[2] * hallucination


def reliability(accuracy: float, uncertain: float) -> float:
    """Returns Rate * Truth + (1 - Rate) * Acc: Rate = 1 - uncertain is the share of answered questions, Truth = accuracy + uncertain, Acc = accuracy.

    A policy that always abstains has 0, and a policy that never abstains has its accuracy. Xu et al., arXiv:2403.18349.

    >>> round(reliability(0.5, 0.2), 9), reliability(0.0, 1.0), reliability(0.5, 0.0)
    (0.66, 0.0, 0.5)
    """
    return (1 - uncertain) * (accuracy + uncertain) + uncertain * accuracy


@dataclass(frozen=True)
class Truthfulness:
    """Measures the shares of right answers, abstentions and wrong answers on held-out problems, the truthfulness and the reliability."""

    problems: int = 256
    by: str = "known"  # a column of the problems: the share of wrong answers and the accuracy are also measured for each value in it
    patience: int = 0  # the run stops early after this number of evaluations without improvement; 0: it never stops early
    target: float | None = None  # the run stops when held_out/accuracy reaches this number
    reward: Any = Verified()  # the reward that judges evaluations

    def __post_init__(self) -> None:
        check_ranges(self, problems="[1, inf)", patience="[0, inf)", target="[0, inf)")

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]:
        groups = await run.memory.answer(recipe, held_out_requests(world.task.held_out, self.problems, 1, world.task.level), world)
        answers = [t for g in groups for t in g.trajectories]
        found = {**of_problems([float(t.right) for t in answers]), **{f"held_out/{name}": value for name, value in shares(answers).items()}}
        for value in sorted({str(t.problem.meta[self.by]) for t in answers if self.by in t.problem.meta}):
            part = shares([t for t in answers if str(t.problem.meta.get(self.by)) == value])
            found |= {f"held_out/{name}/{value}": part[name] for name in ("accuracy", "hallucination")}
        return found


def shares(answers: Sequence[Trajectory]) -> dict[str, float]:
    """Returns the shares of right answers, abstentions and wrong answers, the truthfulness and the reliability. A failed answer is wrong."""
    count = max(len(answers), 1)
    right = sum(t.right for t in answers) / count
    uncertain = sum(not t.right and abstains(t.completion) for t in answers) / count
    wrong = 1 - right - uncertain
    both = {"truthfulness": truthfulness(right, uncertain, wrong), "reliability": reliability(right, uncertain)}
    return {"accuracy": right, "uncertain": uncertain, "hallucination": wrong, **both}
