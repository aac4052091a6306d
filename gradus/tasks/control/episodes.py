"""Episodes of deterministic environments. The state is a vector of float64 numbers.

An episode can be copied, and its state can be read and set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradus.types import Key
from gradus.types.parts import Turn
from gradus.types.spaces import Action

Move = Callable[[np.ndarray, Any], tuple[np.ndarray, float, bool]]
"""(state, action) to (next state, reward, whether the episode is over)."""


class VectorEpisode:
    """One running episode. `limit`: the largest number of steps; then the episode is truncated. An action outside the action space is not legal and costs a
    step.

    `name`: returns the name of a state for `Turn.state`, if the observation does not show the whole state. `chunk`: the number of steps of one action.
    The steps of a chunk are executed one after another, until the episode is over or has reached the limit. `Turn.steps` has their rewards.
    """

    def __init__(
        self,
        state: np.ndarray,
        move: Move,
        show: Callable[[np.ndarray], Mapping[str, np.ndarray]],
        read: Callable[[Action], Any],
        limit: int,
        name: Callable[[np.ndarray], str | None] = lambda _: None,
        chunk: int = 1,
    ) -> None:
        self.state, self.move, self.show, self.read, self.limit, self.name, self.chunk = state, move, show, read, limit, name, chunk
        self.steps = 0
        self.first = Turn(show(state), state=name(state))

    async def step(self, action: Action) -> Turn:
        if self.chunk > 1:
            return self._steps(self.read(action))
        self.steps += 1
        chosen = self.read(action)
        valid = chosen is not None
        reward, over = 0.0, False
        if valid:
            self.state, reward, over = self.move(self.state, chosen)
        truncated = self.steps >= self.limit and not over
        return Turn(self.show(self.state), reward, over, truncated, state=self.name(self.state), valid=valid)

    def _steps(self, chosen: Any) -> Turn:
        """Executes a chunk: an array with one row per step, or None for an action that is not legal."""
        rewards: list[float] = []
        over = False
        for row in () if chosen is None else chosen:
            self.state, reward, over = self.move(self.state, row)
            rewards.append(reward)
            self.steps += 1
            if over or self.steps >= self.limit:
                break
        self.steps += chosen is None
        truncated = self.steps >= self.limit and not over
        return Turn(
            self.show(self.state), math.fsum(rewards), over, truncated, state=self.name(self.state), valid=chosen is not None, steps=tuple(rewards)
        )

    def fork(self, key: Key) -> VectorEpisode:
        other = VectorEpisode(self.state.copy(), self.move, self.show, self.read, self.limit, self.name, self.chunk)
        other.restore(self.snapshot())
        return other

    def snapshot(self) -> dict[str, Any]:
        return {"state": self.state.copy(), "steps": self.steps}

    def restore(self, snapshot: Any) -> None:
        self.state, self.steps = np.array(snapshot["state"], np.float64), int(snapshot["steps"])
