"""A penalty that grows as a completion approaches the length limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradus.rewards.combine import Combines
from gradus.types import Frozen, Group, UserError
from gradus.types.parts import Judgement, Signals, World
from gradus.types.signals import Signal


@dataclass(frozen=True)
class Overlong(Combines):
    """Soft overlong punishment, added to another reward: `Verified() + Overlong(max_tokens=96, cache=32)`.

    Reference: Yu et al., DAPO: An Open-Source LLM Reinforcement Learning System at Scale, arXiv:2503.14476, eq. 13. The length counts all
    actions of a trajectory, including its end token.
    """

    max_tokens: int = 20480  # length from which the penalty is -1
    cache: int = 4096  # number of tokens before max_tokens over which the penalty grows
    name: ClassVar[str] = "overlong"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        if not 0 < self.cache <= self.max_tokens:
            raise UserError(
                f"overlong: cache is {self.cache} of max_tokens {self.max_tokens}; it must be at least 1 and at most max_tokens"
            )

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        values = [[overlong_penalty(t.actions, self.max_tokens, self.cache) for t in group.trajectories] for group in groups]
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in values]


def overlong_penalty(length: int, max_tokens: int, cache: int) -> float:
    """0 up to max_tokens - cache, then ((max_tokens - cache) - length) / cache, and -1 beyond max_tokens."""
    return float(max(-1.0, min(0.0, (max_tokens - cache - length) / cache)))
