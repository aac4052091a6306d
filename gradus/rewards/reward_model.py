"""A learned reward: the value head of another player scores an answer. A player with several heads gives several scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.rewards.combine import Combines
from gradus.types import Failed, Frozen, Group, Trajectory, UserError, unknown
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Read, Signal, Value, Values


@dataclass(frozen=True)
class RewardModel(Combines):
    """A reward: the value of `player` before the last action of a trajectory.

    If the answer is finished, the player has then read all its tokens except the end token. Scores have no fixed scale. Without a verifier, `accuracy` is the
    share of answers with a reward of at least 1, which has no meaning for such scores. A recipe with this reward cannot have parts that need right answers.
    If the task has a verifier, `--study.reward Verified` measures the accuracy.

    If the player has several heads, the reward is the weighted sum of their scores, and each score is a component. A head without a weight has the weight 1.
    With `chance`, a score is the sigmoid of the head's value, so it is from 0 to 1.
    """

    player: str = "judge"
    heads: tuple[str, ...] | None = None  # None: the heads that have a weight, or the head "value" without weights
    weights: Frozen[float] = Frozen()
    chance: bool = False
    name: ClassVar[str] = "scored"
    unmarked: ClassVar[bool] = True  # no score means "right"

    def __post_init__(self) -> None:
        if not self.scored:
            raise UserError("RewardModel.heads is empty; give at least one name of a head")
        for name in self.weights:
            if name not in self.scored:
                raise unknown("head", name, self.scored, "Weights belong to the heads of the reward model")

    @property
    def scored(self) -> tuple[str, ...]:
        """The names of the heads."""
        return (tuple(self.weights) or ("value",)) if self.heads is None else self.heads

    @property
    def needs(self) -> tuple[Signal, ...]:
        return tuple(_values_of(self.player, head) for head in self.scored)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        """Returns one judgement per trajectory. A trajectory without an action has failed.

        Raises UserError if the player's tokenizer turns the tokens into another text.
        """
        trajectories = [t for g in groups for t in g.trajectories if t.actions]
        if trajectories:
            self._check_tokens(trajectories[0], world)
        rows = [signals[need] for need in self.needs]
        return [[self._judged([row[t.id] for row in rows]) for t in g.trajectories] for g in groups]

    def _judged(self, values: Sequence[np.ndarray]) -> Judgement:
        """The judgement of an answer. Args: `values`: the values [A] of each head."""
        if not len(values[0]):
            failed = Failed("the answer has no token to score")
            return Judgement(failed, Frozen({self.name: failed}))
        last = [float(chance_of(v[-1]) if self.chance else v[-1]) for v in values]
        total = sum(self.weights.get(head, 1.0) * score for head, score in zip(self.scored, last, strict=True))
        several = dict(zip(self.scored, last, strict=True)) if self.scored != ("value",) else {}
        return Judgement(total, Frozen({self.name: total, **several}))

    def _check_tokens(self, trajectory: Trajectory, world: World) -> None:
        last = trajectory.contexts[-1]
        read = world.text(last.tokens[last.chosen], self.player)
        if read != trajectory.completion:
            raise UserError(
                f'player "{self.player}" reads an answer of {trajectory.player} as {read[:40]!r} in place of {trajectory.completion[:40]!r}, '
                "because their tokenizers differ; start the training of the reward model from the model that writes the answers"
            )


def chance_of(scores: np.ndarray) -> np.ndarray:
    """Returns 1 / (1 + exp(-s)), without overflow."""
    return 0.5 * (1 + np.tanh(np.asarray(scores, np.float64) / 2))


def _values_of(player: str, head: str) -> Signal:
    return Values(player=player) if head == "value" else Read(player=player, reads=Value(head))
