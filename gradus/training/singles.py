"""Requests that are divided into single answers (`Streaming.unit` "answer").

Each worker samples one answer or episode at a time. When all answers of a group are finished, the group is put together, judged and released.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gradus.rollouts.auto import Auto
from gradus.rollouts.episodes import Episodes
from gradus.rollouts.single_turn import SingleTurn
from gradus.training.judged import joined
from gradus.types import Group, Request, UserError

if TYPE_CHECKING:
    from gradus.training.world import RunWorld

SINGLY = (Auto, Episodes, SingleTurn)
"""The rollouts whose answers are independent of each other, so that each answer can be sampled alone."""


def check_singly(rollout: Any) -> None:
    """Raises UserError if the answers of a rollout cannot be sampled one by one."""
    if type(rollout) not in SINGLY:
        names = ", ".join(part.__name__ for part in SINGLY)
        raise UserError(f"{type(rollout).__name__} does not sample each answer alone; set --system.unit group, or take one of the rollouts {names}")


def members(requests: Sequence[Request], first: int) -> list[tuple[int, Request]]:
    """Divides requests into requests of one sample each. Returns (number of the group, request). A group has the number of its first request.

    Args: first: the number of the first request; the other requests have the next numbers.
    """
    found: list[tuple[int, Request]] = []
    for request in requests:
        home = first + len(found)
        found += [(home, replace(request, count=1, sample=request.sample + i)) for i in range(request.count)]
    return found


def released(done: Sequence[int], home: Mapping[int, int], count: int) -> list[int] | None:
    """Returns the requests of the first `count` groups that were complete, in the order of their numbers; None if fewer groups are complete.

    Args: done: the finished requests, in the order in which they finished; home: the group of every request that is not yet released.

    >>> released([3, 0, 4, 1], {0: 0, 1: 0, 2: 2, 3: 3, 4: 3}, 1), released([3, 0, 4, 1], {0: 0, 1: 0, 2: 2, 3: 3, 4: 3}, 3)
    ([3, 4], None)
    """
    left, complete = Counter(home.values()), list[int]()
    for number in done:
        left[home[number]] -= 1
        if not left[home[number]]:
            complete.append(home[number])
    chosen = set(complete[:count])
    return sorted(number for number in done if home[number] in chosen) if len(complete) >= count else None


class _Unjudged:
    """A `World` whose groups are judged later."""

    def __init__(self, world: RunWorld) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    async def judge(self, groups: Sequence[Group]) -> list[Group]:
        return list(groups)


async def sampled_alone(rollout: Any, request: Request, world: RunWorld) -> list[Group]:
    """Samples the answer of a request. Returns the group of the answer, which is not judged yet."""
    groups: list[Group] = await rollout.run([request], _Unjudged(world))
    return groups


def put_together(groups: Mapping[int, Sequence[Group]], home: Mapping[int, int]) -> tuple[list[Group], list[Group]]:
    """Joins the answers of each group, in the order of their numbers. Returns the groups, and the auxiliary groups of all answers.

    Args: groups: for each request, the group of its answer, then its auxiliary groups; home: the group of each request.
    """
    whole: dict[int, Group] = {}
    for number in sorted(groups):
        own = groups[number][0]
        before = whole.get(home[number])
        whole[home[number]] = own if before is None else before.but(trajectories=(*before.trajectories, *own.trajectories))
    return list(whole.values()), joined([group for number in sorted(groups) for group in groups[number][1:]])
