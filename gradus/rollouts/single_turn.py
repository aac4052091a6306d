"""A rollout of one turn: every sample is a trajectory, and every request gives a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rollouts.ids import group_name, trajectory_name
from gradus.types import Context, Group, Request, Trajectory, UserError
from gradus.types.parts import World


@dataclass(frozen=True)
class SingleTurn:
    """Samples `request.count` completions of each problem's prompt, all in one batch. The reward of the run judges them."""

    plays: ClassVar[str] = "answers"

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order. Raises UserError if the task has an environment."""
        if world.task.environment is not None:
            raise UserError(f'task "{world.task.name}" has an environment, but this rollout gives answers of one turn; set --rollout Episodes')
        return await world.judge(await grouped(requests, world))


async def grouped(requests: Sequence[Request], world: World) -> list[Group]:
    """Returns one group per request, which is not judged yet."""
    samples = await world.sample(requests)
    return [
        Group(group_name(request), tuple(one_turn(request, i, context, world) for i, context in enumerate(contexts)))
        for request, contexts in zip(requests, samples, strict=True)
    ]


def one_turn(request: Request, index: int, context: Context, world: World) -> Trajectory:
    """Returns the trajectory of sample number `index` of a request."""
    return Trajectory(
        id=trajectory_name(world.step, request, index),
        problem=request.problem,
        contexts=(context,),
        player=request.player,
        completion=world.text(context.tokens[context.chosen], request.player),
        ended=context.ended,
        trained=request.trained,
    )
