"""Deterministic names of groups and trajectories. A name is unique within a run."""

from __future__ import annotations

from gradus.types import Request


def group_name(request: Request) -> str:
    """Returns the id of the problem, the player (unless it is the policy) and the tags, joined by '/'."""
    player = () if request.player == "policy" else (request.player,)
    return "/".join(str(part) for part in (request.problem.id, *player, *request.tags))


def trajectory_name(step: int, request: Request, index: int) -> str:
    """Returns STEP/GROUP NAME/SAMPLE for sample number `index` of the request."""
    return f"{step}/{group_name(request)}/{request.sample + index}"
