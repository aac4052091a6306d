"""Samples many answers and keeps one of them: the answer with the best reward, or an answer with the most common final answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gradus.rollouts.auto import Auto, rolled
from gradus.types import Context, Group, Problem, Request, Trajectory
from gradus.types.answers import answered, most_common_answer
from gradus.types.parts import Rollout, World
from gradus.types.ranges import check_ranges

Sampled = TypeVar("Sampled", Trajectory, Context)


@dataclass(frozen=True)
class BestOf:
    """Samples `count` answers and keeps the answer with the highest reward. If several answers are equally good, keeps the earliest one.

    Answers with a failed reward come last.

    The search uses the recipe's reward at test time. If this reward is a verifier that knows the answer, the measured accuracy is pass@count, not the
    policy's accuracy.
    """

    count: int = 8
    rollout: Rollout = Auto()
    tokens: int | None = None  # largest number of sampled tokens per answer: the first samples that fit into this number count; None: all samples count

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)", tokens="[1, inf)")

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """Returns the best of `count` answers to one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns `request.count` answers to each problem. Each answer is the best of `count` samples."""
        return await keep_one(best, self.count, self.rollout, requests, world, self.tokens)


@dataclass(frozen=True)
class Majority:
    """Samples `count` answers and keeps the earliest answer with the most common final answer. No reward is used.

    If several final answers are equally common, the one that occurs first wins. A sample without a final answer has no vote.
    Reference: Wang et al., Self-Consistency Improves Chain of Thought Reasoning in Language Models, arXiv:2203.11171.
    """

    count: int = 8
    rollout: Rollout = Auto()
    tokens: int | None = None  # largest number of sampled tokens per answer: the first samples that fit into this number count; None: all samples count

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)", tokens="[1, inf)")

    async def solve(self, problem: Problem, world: World) -> Trajectory:
        """Returns the majority's choice among `count` answers to one problem."""
        return (await self.run([Request(problem)], world))[0].trajectories[0]

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns `request.count` answers to each problem. Each answer is the majority's choice among `count` samples."""
        return await keep_one(elected, self.count, self.rollout, requests, world, self.tokens)


async def keep_one(
    choose: Callable[[Sequence[Trajectory]], Trajectory], count: int, rollout: Rollout, requests: Sequence[Request], world: World, tokens: int | None = None
) -> list[Group]:
    """Returns a group of `request.count` trajectories per request. `choose` picks each trajectory from `count` samples of the rollout. `tokens`: `choose`
    sees only the first samples that fit into this number of tokens; None: no limit.
    """
    groups = await rolled(rollout, [replace(r, count=r.count * count, sample=r.sample * count) for r in requests], world)
    sets = [[g.trajectories[i : i + count] for i in range(0, len(g.trajectories), count)] for g in groups]
    return [g.but(trajectories=tuple(choose(affordable(some, tokens)) for some in each)) for g, each in zip(groups, sets, strict=True)]


def affordable(samples: Sequence[Sampled], tokens: int | None) -> Sequence[Sampled]:
    """Returns the first samples that together have at most `tokens` actions, but at least one sample. `tokens` None: all samples."""
    if tokens is None:
        return samples
    spent = itertools.accumulate(s.actions for s in samples)
    return samples[: max(1, sum(total <= tokens for total in spent))]


def best(trajectories: Sequence[Trajectory]) -> Trajectory:
    """Returns the trajectory with the highest reward; if rewards are equal, the earliest one."""
    return max(trajectories, key=lambda t: t.value if t.failed is None else float("-inf"))


def elected(trajectories: Sequence[Trajectory]) -> Trajectory:
    """Returns the earliest trajectory with the most common final answer, or the first trajectory if no trajectory has a final answer."""
    winner = most_common_answer([t.completion for t in trajectories])
    return next(t for t in trajectories if winner is None or answered(t.completion) == winner)
