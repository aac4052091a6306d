"""Splits a trajectory into turns: the actions of each turn, the state before the turn, and the reward of the turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradus.credit.gae import action_rewards
from gradus.types import Trajectory, UserError


@dataclass(frozen=True, eq=False)
class Turns:
    """The T turns of a trajectory, in order."""

    lengths: np.ndarray  # int64 [T]: the number of actions of each turn
    states: np.ndarray  # int64 [T]: equal numbers mean equal states
    rewards: np.ndarray  # float64 [T]: the sum of rewards at the turn's actions; the last turn also has the rest of the trajectory's reward

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Gives every action the value of its turn."""
        return np.repeat(values, self.lengths)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Returns [T]: for each turn, the sum of `values` [A] over the actions of the turn."""
        return np.add.reduceat(values, np.cumsum(self.lengths) - self.lengths) if len(self.lengths) else np.zeros(0)


def turns_of(trajectory: Trajectory) -> Turns:
    """Returns the turns of an episode. Raises UserError if an action of the trajectory has no turn or no state."""
    if any(c.actions and not {"turn", "state"} <= set(c.streams) for c in trajectory.contexts):
        raise UserError(
            f"trajectory {trajectory.id} has no turns or no states, but this credit rule needs both; take a task with an environment, "
            "such as frozen_lake, and set --rollout Episodes"
        )
    turn = trajectory.stream("turn")
    starts = np.flatnonzero(np.append(True, turn[1:] != turn[:-1])) if len(turn) else np.zeros(0, np.int64)
    rewards = np.add.reduceat(action_rewards(trajectory), starts) if len(starts) else np.zeros(0)
    return Turns(np.diff(np.append(starts, len(turn))), trajectory.stream("state")[starts], rewards)


def first_tokens(trajectory: Trajectory) -> list[int]:
    """Returns, for an episode of one context, the position of the first token of every utterance in the sequence."""
    starts = np.cumsum([0, *turns_of(trajectory).lengths[:-1]])
    return trajectory.contexts[0].action_positions[starts].tolist()
