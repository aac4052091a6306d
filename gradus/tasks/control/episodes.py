"""Episodes of environments whose state is a vector of float64 numbers, and whose motion is deterministic.

An episode can be copied, and its state can be read and set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradus.types import Key
from gradus.types.parts import Turn
from gradus.types.spaces import Action

Move = Callable[[np.ndarray, Any], tuple[np.ndarray, float, bool]]
"""(state, action) to (next state, reward, whether the episode is over)."""


class VectorEpisode:
    """One running episode. `limit`: the number of steps after which the episode is truncated. An action outside the space is not legal and costs a step.

    `name`: returns the name of a state for `Turn.state`, if the observation does not show the whole state.
    """

    def __init__(
        self,
        state: np.ndarray,
        move: Move,
        show: Callable[[np.ndarray], Mapping[str, np.ndarray]],
        read: Callable[[Action], Any],
        limit: int,
        name: Callable[[np.ndarray], str | None] = lambda _: None,
    ) -> None:
        self.state, self.move, self.show, self.read, self.limit, self.name = state, move, show, read, limit, name
        self.steps = 0
        self.first = Turn(show(state), state=name(state))

    async def step(self, action: Action) -> Turn:
        self.steps += 1
        chosen = self.read(action)
        valid = chosen is not None
        reward, over = 0.0, False
        if valid:
            self.state, reward, over = self.move(self.state, chosen)
        truncated = self.steps >= self.limit and not over
        return Turn(self.show(self.state), reward, over, truncated, state=self.name(self.state), valid=valid)

    def fork(self, key: Key) -> VectorEpisode:
        other = VectorEpisode(self.state.copy(), self.move, self.show, self.read, self.limit, self.name)
        other.restore(self.snapshot())
        return other

    def snapshot(self) -> dict[str, Any]:
        return {"state": self.state.copy(), "steps": self.steps}

    def restore(self, snapshot: Any) -> None:
        self.state, self.steps = np.array(snapshot["state"], np.float64), int(snapshot["steps"])
