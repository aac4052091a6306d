"""A reward by steps: a process reward model of another player scores the text up to the end of each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gradus.rewards.combine import Combines
from gradus.rewards.reward_model import chance_of
from gradus.types import Failed, Frozen, Group, Outcome, Trajectory, UserError
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal, Values
from gradus.types.spans import Marking, Separated, scores_at_ends

_OVER = ("last", "least", "mean", "product")


@dataclass(frozen=True)
class StepScores(Combines):
    """A reward: the step scores of a process reward model, reduced to one number per answer. A step score is the sigmoid of the player's value head.

    `over`: "last" is the score of the whole answer, "least" the smallest step score, "mean" their mean, and "product" their product.
    """

    player: str = "judge"
    marking: Marking = Separated()
    over: Literal["last", "least", "mean", "product"] = "least"
    name: ClassVar[str] = "step_scores"
    unmarked: ClassVar[bool] = True  # no score means "right"

    def __post_init__(self) -> None:
        if self.over not in _OVER:
            raise UserError(f"StepScores.over is {self.over!r}; it must be one of {', '.join(_OVER)}")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Values(player=self.player),)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        """Returns one judgement per trajectory. A trajectory without an action has failed."""
        rows = signals[Values(player=self.player)]
        return [[self._judged(t, rows[t.id], world) for t in g.trajectories] for g in groups]

    def _judged(self, trajectory: Trajectory, values: np.ndarray, world: World) -> Judgement:
        scores = chance_of(scores_at_ends(values, step_numbers(self.marking, trajectory, world)))
        found: Outcome = self._reduced(scores) if len(scores) else Failed("the answer has no step to score")
        return Judgement(found, Frozen({self.name: found}))

    def _reduced(self, scores: np.ndarray) -> float:
        if self.over == "last":
            return float(scores[-1])
        return float(np.prod(scores) if self.over == "product" else np.min(scores) if self.over == "least" else np.mean(scores))


def step_numbers(marking: Marking, trajectory: Trajectory, world: World) -> np.ndarray:
    """Returns [A]: the number of the step of each action, -1 without a step. The numbers of the steps continue from one context to the next."""
    out, first = [np.zeros(0, np.int64)], 0
    for context in trajectory.contexts:
        row = np.asarray(marking.of(context, lambda tokens: world.text(tokens, trajectory.player)), np.int64)
        out.append(np.where(row >= 0, row + first, row))
        first += int(row.max(initial=-1)) + 1
    return np.concatenate(out)
