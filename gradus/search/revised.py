"""Revises an answer in rounds: feedback on an earlier answer makes the prompt of the next round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.rollouts.feedback import Attempt, Feedback, Told
from gradus.types import Frozen, Group, Problem, Request, Trajectory
from gradus.types.parts import Rollout, World
from gradus.types.prompts import after, prompt_of
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class Revised:
    """Samples an answer, and revises it `rounds` times. Each round has a prompt with the feedback on the best answer so far, or on the latest answer.

    `place` "instead": the text of the feedback is the whole prompt. "after": the text follows the prompt of the problem. If `keep` is "latest", a right
    answer is not revised. An answer is also not revised if it has no reward, or if `feedback` gives no text for it. The result is the best answer
    (the earliest of equally good ones), or the latest one. Metrics, for each round r from 0: `revised/r`, the mean reward of the result after r rounds, and
    `revised/right/r`, the share of right results. The search reads the recipe's reward at test time, so the reward must not need the hidden answer.
    """

    rounds: int = 3
    feedback: Feedback = Told()
    keep: Literal["best", "latest"] = "latest"
    place: Literal["instead", "after"] = "instead"
    rollout: Rollout = Auto()

    def __post_init__(self) -> None:
        check_ranges(self, rounds="[0, inf)")

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """Returns the revised answer to one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns `request.count` revised answers to each problem."""
        groups = one_each(await rolled(self.rollout, requests, world), requests, self)
        kept = [list(g.trajectories) for g in groups]
        self._note(0, kept, world)
        for number in range(1, self.rounds + 1):
            due = [(i, k) for i, row in enumerate(kept) for k, t in enumerate(row) if t.failed is None and not (self.keep == "latest" and t.right)]
            attempts = [(requests[i], kept[i][k]) for i, k in due]
            texts = await self.feedback.texts(attempts, world) if attempts else []
            asked = [(place, self._request(a, text, number, world)) for place, a, text in zip(due, attempts, texts, strict=True) if text is not None]
            again = [r for _, r in asked]
            found = one_each(await rolled(self.rollout, again, world), again, self) if again else []
            for ((i, k), _), group in zip(asked, found, strict=True):
                kept[i][k] = self._better(kept[i][k], group.trajectories[0], number)
            self._note(number, kept, world)
        return [g.but(trajectories=tuple(row)) for g, row in zip(groups, kept, strict=True)]

    def _request(self, attempt: Attempt, text: str, number: int, world: World) -> Request:
        request, before = attempt
        prompt = after(prompt_of(request, world.task.system), text)
        if self.place == "instead":
            prompt = text if request.problem.text is not None else ({"role": "user", "content": text},)
        return replace(request, count=1, sample=0, prompt=prompt, tags=(*request.tags, "revised", number, before.id))

    def _better(self, before: Trajectory, new: Trajectory, number: int) -> Trajectory:
        made = new.but(links=Frozen({**new.links, "round": number}))
        if self.keep == "latest":
            return made
        return made if new.failed is None and new.value > before.value else before

    def _note(self, number: int, kept: Sequence[Sequence[Trajectory]], world: World) -> None:
        for t in (t for row in kept for t in row if t.failed is None):
            world.note(f"revised/{number}", t.value)
            world.note(f"revised/right/{number}", float(t.right))
