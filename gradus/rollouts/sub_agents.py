"""Sub-agents: an episode gives a sub-task (an errand) to a player with a separate context, and gets back only the result (the finding)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gradus.rollouts.turns import plain
from gradus.types import Ended, Frozen, Group, Request, Trajectory
from gradus.types.parts import Errand, Turn
from gradus.types.spaces import Observation


def sent(errand: Errand, request: Request, index: int, turn: int, roles: Mapping[str, str]) -> Request:
    """Returns the sub-agent's request: the errand's prompt for the sender's problem, with its own random draws. `roles`: role -> player, as in `Episodes`."""
    return replace(
        request,
        count=1,
        player=roles.get(errand.role, request.player),
        prompt=({"role": "user", "content": errand.prompt},),
        at=None,
        tags=(*request.tags, "errand", errand.role, turn),
        sample=request.sample + index,
        trained=request.trained and errand.role in roles,
    )


def handed(errand: Errand, trajectory: Trajectory, parent: str, turn: int, group: str) -> Group:
    """Returns the sub-agent's trajectory as an auxiliary group. Groups of one role and problem have the same key, so the step joins these groups."""
    links = Frozen({**trajectory.links, "episode": parent, "parent": parent, "role": errand.role, "turn": turn})
    return Group(f"{group}/errand/{errand.role}", (trajectory.but(links=links),))


def returned(turn: Turn, found: Observation) -> Turn:
    """Returns the turn with the finding as its observation. The finding becomes a part of the state before the next action."""
    return replace(turn, observation=found, state=None if turn.state is None else f"{turn.state}\n{plain(found)}")


def finding(errand: Errand, last: Observation, ended: Ended) -> Observation:
    """Returns the finding: the last observation of the errand's episode, or the errand's `otherwise` if the environment did not end the episode."""
    return last if ended is Ended.ENVIRONMENT else errand.otherwise
