"""Many answers, one kept: the best by reward, or the one that most agree on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gradus.rollouts.auto import Auto, rolled
from gradus.tasks.data.final_answer import answered
from gradus.types import Group, Problem, Request, Trajectory
from gradus.types.parts import Rollout, World
from gradus.types.ranges import check_ranges


@dataclass(frozen=True)
class BestOf:
    """Samples `count` answers and keeps the one with the highest reward, the earliest of equals; those whose reward failed come last.

    It asks the recipe's reward at test time: with a verifier that knows the answer, its accuracy is pass@count and no measure of the policy.
    """

    count: int = 8
    rollout: Rollout = Auto()

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """The best of `count` answers to one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """`request.count` answers to each problem, each the best of `count` samples of its own."""
        return await keep_one(best, self.count, self.rollout, requests, world)


@dataclass(frozen=True)
class Majority:
    """Samples `count` answers and keeps the earliest of those whose final answer is the commonest; no reward is asked.

    Of final answers that are equally common the one that came first wins. An answer that says nothing has no vote.
    Reference: Wang et al., Self-Consistency Improves Chain of Thought Reasoning in Language Models, arXiv:2203.11171.
    """

    count: int = 8
    rollout: Rollout = Auto()

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """The majority's answer of `count` to one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """`request.count` answers to each problem, each the majority's of `count` samples of its own."""
        return await keep_one(elected, self.count, self.rollout, requests, world)


async def keep_one(
    choose: Callable[[Sequence[Trajectory]], Trajectory], count: int, rollout: Rollout, requests: Sequence[Request], world: World
) -> list[Group]:
    """Groups of `request.count` trajectories, each chosen among `count` that the rollout gave."""
    groups = await rolled(rollout, [replace(r, count=r.count * count, sample=r.sample * count) for r in requests], world)
    sets = [[g.trajectories[i : i + count] for i in range(0, len(g.trajectories), count)] for g in groups]
    return [g.but(trajectories=tuple(choose(some) for some in each)) for g, each in zip(groups, sets, strict=True)]


def best(trajectories: Sequence[Trajectory]) -> Trajectory:
    """The one with the highest reward, the earliest of equals."""
    return max(trajectories, key=lambda t: t.value if t.failed is None else float("-inf"))


def elected(trajectories: Sequence[Trajectory]) -> Trajectory:
    """The earliest whose final answer is the commonest; the first of all where none answers."""
    votes = [answered(t.completion) for t in trajectories]
    counts = Counter(vote for vote in votes if vote is not None)  # in the order of first appearance
    return trajectories[votes.index(counts.most_common(1)[0][0])] if counts else trajectories[0]
