"""Names of groups and trajectories: deterministic, and unique within a run."""

from __future__ import annotations

from gradus.types import Request


def group_name(request: Request) -> str:
    """The problem id, then the player unless it is the policy, then the tags, joined by '/'."""
    player = () if request.player == "policy" else (request.player,)
    return "/".join(str(part) for part in (request.problem.id, *player, *request.tags))


def trajectory_name(step: int, request: Request, index: int) -> str:
    """step/group name/sample, for the index-th sample of the request."""
    return f"{step}/{group_name(request)}/{request.sample + index}"
