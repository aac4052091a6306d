"""Judges answers while later answers are sampled. Sampling and judging work on micro-batches of problems."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rollouts.in_flight import refuse_environment
from gradus.rollouts.single_turn import grouped
from gradus.runtime.transfer_queue import TransferQueue
from gradus.types import Group, Request, UserError
from gradus.types.parts import World
from gradus.types.ranges import check_ranges
from gradus.types.returned import remembers_within


@dataclass(frozen=True)
class Streamed:
    """Samples `micro_batch` problems at a time. While the next problems are sampled, up to `judges` concurrent calls judge the groups that are ready.

    A free judge takes the next ready groups, so a slow reward delays only its own micro-batch. This saves time if another thread draws the samples (with a
    system), or if the rewards are computed in other processes or behind a network. The random draws are as in `SingleTurn`. A reward sees at most
    `micro_batch` groups at a time. Raises UserError for an environment, and for a reward with a state, because the state would depend on the clock.
    """

    micro_batch: int = 4  # problems per micro-batch
    judges: int = 4  # micro-batches that are judged at the same time
    plays: ClassVar[str] = "answers"

    def __post_init__(self) -> None:
        check_ranges(self, micro_batch="[1, inf)", judges="[1, inf)")

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, in order."""
        refuse_environment(world)
        reward = getattr(world, "reward", None)
        if remembers_within(reward):
            raise UserError(f"Streamed judges micro-batches in any order, but {type(reward).__name__} has a state; set --rollout SingleTurn")
        queue = TransferQueue({"sample": (), "judge": ("answers",)})
        queue.add(range(len(requests)))
        sampled: dict[int, Group] = {}
        judged: dict[int, Group] = {}
        written = asyncio.Condition()

        async def sample() -> None:
            while rows := queue.get("sample", self.micro_batch):
                sampled.update(zip(rows, await grouped([requests[row] for row in rows], world), strict=True))
                async with written:
                    queue.put(rows, "answers")
                    written.notify_all()

        async def judge() -> None:
            while not queue.finished("judge"):
                if rows := queue.get("judge", self.micro_batch):
                    judged.update(zip(rows, await world.judge([sampled[row] for row in rows]), strict=True))
                    continue
                async with written:
                    await written.wait_for(lambda: queue.ready("judge") or queue.finished("judge"))
            async with written:
                written.notify_all()

        tasks = [asyncio.ensure_future(work) for work in (sample(), *(judge() for _ in range(self.judges)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return [judged[row] for row in range(len(requests))]
