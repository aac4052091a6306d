"""A learned reward: the value head of another player scores an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.rewards.combine import Combines
from gradus.types import Failed, Frozen, Group, Outcome, Trajectory, UserError
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal, Values


@dataclass(frozen=True)
class RewardModel(Combines):
    """A reward: the value that `player` gives before the last action of a trajectory.

    At this point of a finished answer, the player has read all tokens except the end token. Scores have no fixed scale. Without a verifier, `accuracy` is the
    share of rewards of at least 1, which means nothing here. A recipe with this reward cannot have parts that need right answers. If the task has a verifier,
    `--study.reward Verified` measures the accuracy.
    """

    player: str = "judge"
    name: ClassVar[str] = "scored"
    unmarked: ClassVar[bool] = True  # no score means "right"

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (Values(player=self.player),)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        """Returns one judgement per trajectory. A trajectory without an action has failed.

        Raises UserError if the player's tokenizer turns the tokens into another text.
        """
        trajectories = [t for g in groups for t in g.trajectories if t.actions]
        if trajectories:
            self._check_tokens(trajectories[0], world)
        rows = signals[Values(player=self.player)]
        return [[_judged(rows[t.id]) for t in g.trajectories] for g in groups]

    def _check_tokens(self, trajectory: Trajectory, world: World) -> None:
        last = trajectory.contexts[-1]
        read = world.text(last.tokens[last.chosen], self.player)
        if read != trajectory.completion:
            raise UserError(
                f'player "{self.player}" reads an answer of {trajectory.player} as {read[:40]!r}, but the answer is {trajectory.completion[:40]!r}, '
                "because their tokenizers differ; start the training of the reward model from the model that writes the answers"
            )


def _judged(values: np.ndarray) -> Judgement:
    found: Outcome = float(values[-1]) if len(values) else Failed("the answer has no token to score")
    return Judgement(found, Frozen({RewardModel.name: found}))
