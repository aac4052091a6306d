"""Ways to run the parts of a step at the same time: the value of `recipe.system`."""

from __future__ import annotations

from dataclasses import dataclass

from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Ahead:
    """Samples the rollouts of the next `steps` steps while the current step updates the weights.

    The rollout of step t has the weights that the players had before the update of step t - `steps`. The first `steps` + 1 steps have the first weights. The
    problems of step t are chosen at the same time, so a curriculum that learns has not yet seen the last `steps` steps. No clock decides anything. If every
    step has one update, the result is equal, byte for byte, to that of a run whose rollouts are sampled by a player with `Lagged(updates=steps)`.

    Every player has a second copy of its weights, with which the rollouts are sampled.
    """

    steps: int = 1  # 1: the rollout of the next step runs while this step updates

    def __post_init__(self) -> None:
        check_ranges(self, steps="[1, inf)")
