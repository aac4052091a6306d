"""The default rollout: one turn if the task has no environment, else an episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.rollouts.episodes import Episodes
from gradus.rollouts.single_turn import SingleTurn
from gradus.types import Group, Request, UserError
from gradus.types.parts import Rollout, World
from gradus.types.returned import check_groups


@dataclass(frozen=True)
class Auto:
    """Runs `Episodes(max_turns, history, timeout)` if the task has an environment, and `SingleTurn` otherwise."""

    max_turns: int = 20
    history: int | None = None
    timeout: float = 300.0  # seconds that the environment may take per turn; if it takes longer, the episode fails

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request."""
        rollout = SingleTurn() if world.task.environment is None else Episodes(self.max_turns, self.history, self.timeout)
        return await rollout.run(requests, world)
    gives: ClassVar[frozenset[str]] = frozenset({"turns"})  # if the task has an environment


async def rolled(rollout: Rollout, requests: Sequence[Request], world: World) -> list[Group]:
    """Runs a rollout that is part of another rollout, and returns its groups. Raises UserError if the result does not consist of judged groups."""
    groups = await rollout.run(requests, world)
    check_groups(rollout, groups, requests, world)
    return list(groups)


def one_each(groups: Sequence[Group], requests: Sequence[Request], outer: Any) -> list[Group]:
    """Returns the groups if there is one per request. Otherwise raises UserError, because the rollout `outer` would join unrelated groups."""
    if len(groups) != len(requests):
        name = type(outer).__name__
        raise UserError(
            f"{name} needs one group per request, but its inner rollout gave {len(groups)} groups for {len(requests)} requests; set "
            f"--rollout.rollout Auto, or make {name} the inner rollout: --rollout DynamicSampling --rollout.rollout {name}"
        )
    return list(groups)
