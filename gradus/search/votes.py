"""Weighted votes: each of many samples votes for its final answer with a weight, such as a verdict on the sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from gradus.rollouts.auto import Auto, rolled
from gradus.search.best_of import affordable
from gradus.types import Group, Problem, Request, Trajectory
from gradus.types.answers import answered
from gradus.types.parts import Rollout, World
from gradus.types.ranges import check_ranges


class Weight(Protocol):
    """Gives the weight of the vote of each sample."""

    async def weights(self, trajectories: Sequence[Trajectory], world: World) -> list[float]:
        """Returns one number per trajectory."""
        ...


@dataclass(frozen=True)
class Equal:
    """The weight 1 for every sample: the vote of the majority."""

    async def weights(self, trajectories: Sequence[Trajectory], world: World) -> list[float]:
        return [1.0] * len(trajectories)


def winner(trajectories: Sequence[Trajectory], weights: Sequence[float]) -> Trajectory:
    """The winning final answer is the one with the largest sum of weights. Returns the sample with the largest weight among the samples with this final
    answer.

    If sums or weights are equal, the earlier sample wins. A sample without a final answer has no vote. If there is no vote, the first sample is returned. If
    all weights are 0, every sample has the weight 1.
    """
    sums: dict[object, float] = {}
    votes = [answered(t.completion) for t in trajectories]
    weights = weights if any(weights) else [1.0] * len(trajectories)
    for vote, weight in zip(votes, weights, strict=True):
        if vote is not None:
            sums[vote] = sums.get(vote, 0.0) + weight
    if not sums:
        return trajectories[0]
    best = max(sums, key=lambda vote: sums[vote])
    return max((pair for pair in zip(trajectories, weights, votes, strict=True) if pair[2] == best), key=lambda pair: pair[1])[0]


@dataclass(frozen=True)
class Vote:
    """Samples `count` answers, and adds up their weights for each final answer. The final answer with the largest sum wins. `weight` gives the weight of each
    sample.

    If no sample has a weight, the vote is the vote of the majority.
    """

    weight: Weight = Equal()
    count: int = 8
    rollout: Rollout = Auto()
    tokens: int | None = None  # largest number of sampled tokens per answer: the first samples that fit into this number vote; None: all samples vote

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)", tokens="[1, inf)")

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """Returns the choice among `count` answers to one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns `request.count` answers to each problem. Each answer is the choice among `count` samples."""
        asked = [replace(r, count=r.count * self.count, sample=r.sample * self.count) for r in requests]
        groups = await rolled(self.rollout, asked, world)
        weights = iter(await self.weight.weights([t for g in groups for t in g.trajectories], world))
        return [g.but(trajectories=self._chosen(g.trajectories, [next(weights) for _ in g.trajectories])) for g in groups]

    def _chosen(self, samples: Sequence[Trajectory], weights: Sequence[float]) -> tuple[Trajectory, ...]:
        sets = [(affordable(samples[i : i + self.count], self.tokens), weights[i:]) for i in range(0, len(samples), self.count)]
        return tuple(winner(some, mine[: len(some)]) for some, mine in sets)
