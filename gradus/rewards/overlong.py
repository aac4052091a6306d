"""A penalty that grows as a completion approaches the length limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rewards.combine import Combines
from gradus.types import Frozen, Group, Trajectory, UserError
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class Overlong(Combines):
    """The soft overlong punishment of DAPO. This penalty is added to another reward: `Verified() + Overlong()`.

    The length is the number of all actions of a trajectory, including its end token. An episode of several turns or contexts has no single limit on new
    tokens. It gets the penalty only if `max_tokens` is a number.

    Reference: Yu et al., DAPO: An Open-Source LLM Reinforcement Learning System at Scale, arXiv:2503.14476, eq. 13. The paper uses 20,480 new tokens and a
    cache of 4,096 tokens, which is a fifth of 20,480.
    """

    max_tokens: int | None = None  # the penalty is -1 at this length and above; None: the sampling limit on new tokens
    cache: int | None = None  # the penalty grows over this number of tokens before `max_tokens`; None: `share` of `max_tokens`
    share: float = 0.2  # `cache` as a share of `max_tokens`, if `cache` is None
    name: ClassVar[str] = "overlong"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, max_tokens="[1, inf)", cache="[1, inf)", share="[0, 1]")
        if self.max_tokens is not None:
            self.cache_of(self.max_tokens)

    def cache_of(self, limit: int) -> int:
        """Returns the cache for this limit. Raises UserError if the cache is larger than the limit."""
        cache = max(1, int(self.share * limit)) if self.cache is None else self.cache
        if cache > limit:
            raise UserError(f"overlong: `cache` is {cache}, but `max_tokens` is {limit}; set `cache` to {limit} or less")
        return cache

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [[self._judged(t, world) for t in group.trajectories] for group in groups]

    def _judged(self, trajectory: Trajectory, world: World) -> Judgement:
        limit = self.max_tokens or (world.sampling.limit if _one_answer(trajectory) else None)
        value = 0.0 if limit is None else overlong_penalty(trajectory.actions, limit, self.cache_of(limit))
        return Judgement(value, Frozen({self.name: value}))


def overlong_penalty(length: int, max_tokens: int, cache: int) -> float:
    """Computes the penalty: 0 for lengths up to max_tokens - cache, then ((max_tokens - cache) - length) / cache, and -1 above max_tokens."""
    return float(max(-1.0, min(0.0, (max_tokens - cache - length) / cache)))


def _one_answer(trajectory: Trajectory) -> bool:
    """Whether a single sampling limit applies to the whole trajectory."""
    return len(trajectory.contexts) == 1 and "turn" not in trajectory.contexts[0].streams
