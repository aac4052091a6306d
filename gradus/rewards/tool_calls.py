"""For rewards of episodes with tools: the share of calls that ran, and the whole text with the inserted results."""

from __future__ import annotations

from collections.abc import Sequence

from gradus.types import Trajectory
from gradus.types.parts import World


def ran_share(calls: Sequence[tuple[int, str, bool]], without: float = 0.0) -> float:
    """Returns the share of calls that ran without an error; `without` if there are no calls. `calls`: as in `Trajectory.links`.

    >>> ran_share([(0, "python", True), (1, "python", True), (2, "python", False), (3, "python", True)])
    0.75
    """
    return sum(ok for _, _, ok in calls) / len(calls) if calls else without


def whole_text(trajectory: Trajectory, world: World) -> str:
    """Returns the text after the prompt: the text of the player, and the results of tools that were inserted into it."""
    return "".join(world.text(context.tokens, trajectory.player) for context in trajectory.contexts)
