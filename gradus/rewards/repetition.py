"""Rewards against repetition: a penalty on tokens of repeated n-grams, and a score for loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.rewards.combine import Combines
from gradus.types import Frozen, Group, Trajectory, UserError
from gradus.types.parts import Judgement, Signals, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def repeated(tokens: Sequence[int] | np.ndarray, n: int) -> np.ndarray:
    """Returns [A], bool: whether a token is part of an n-gram that also occurs earlier in `tokens`.

    Reference: Yeo et al., Demystifying Long Chain-of-Thought Reasoning in LLMs, arXiv:2502.03373, section 4.5.

    >>> repeated([1, 2, 1, 2, 3], 2).tolist()
    [False, False, True, True, False]
    """
    row = np.asarray(tokens).tolist()
    seen: set[tuple[int, ...]] = set()
    found = np.zeros(len(row), bool)
    for i in range(len(row) - n + 1):
        gram = tuple(row[i : i + n])
        if gram in seen:
            found[i : i + n] = True
        seen.add(gram)
    return found


def loop(tokens: Sequence[int] | np.ndarray, *, shortest: int = 4, longest: int = 20, times: int = 3) -> int | None:
    """Returns the number of tokens before the first loop; None if there is no loop.

    A loop is a block of `shortest` to `longest` tokens that occurs at least `times` times in a row.

    >>> loop([9, 1, 2, 1, 2, 1, 2], shortest=2, longest=3)
    1
    """
    row = np.asarray(tokens)
    first: list[int] = []
    for size in range(shortest, longest + 1):
        need = size * (times - 1)  # in a loop, at least this number of tokens in a row equal the token one block later
        if len(row) < size + need:
            break
        equal = np.concatenate([[0], np.cumsum(row[:-size] == row[size:])])
        starts = np.flatnonzero(equal[need:] - equal[:-need] == need) if len(equal) > need else np.zeros(0, int)
        first += starts[:1].tolist()
    return min(first) if first else None


def sampled(trajectory: Trajectory) -> np.ndarray:
    """Returns the actions of a trajectory as tokens [A]."""
    return np.concatenate([c.tokens[c.chosen] for c in trajectory.contexts] or [np.zeros(0, np.int32)])


@dataclass(frozen=True)
class Repetition(Combines):
    """A penalty on repetition: if an n-gram occurred earlier in the answer, each of its tokens gets the reward `price`. The reward is the sum of the
    penalties.

    The penalties are rewards at single actions, under the component "repetition". A token in several repeated n-grams gets the penalty once.
    """

    n: int = 40
    price: float = -0.05
    name: ClassVar[str] = "repetition"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, n="[1, inf)", price="(-inf, 0]")

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [[self.judged(t) for t in group.trajectories] for group in groups]

    def judged(self, trajectory: Trajectory) -> Judgement:
        """Returns the judgement of one answer."""
        places = [(c, a) for c, context in enumerate(trajectory.contexts) for a in range(context.actions)]
        marks = repeated(sampled(trajectory), self.n)
        steps = tuple((c, a, self.name, self.price) for (c, a), mark in zip(places, marks.tolist(), strict=True) if mark)
        value = self.price * len(steps)
        return Judgement(value, Frozen({self.name: value}), steps)


@dataclass(frozen=True)
class Looped(Combines):
    """The score f of a loop: 0 without a loop, else 1 - (tokens before the first loop) / (all tokens). So an early loop has a high score (see `loop`)."""

    shortest: int = 4  # tokens of a block
    longest: int = 20
    times: int = 3  # how often a block must occur in a row
    name: ClassVar[str] = "looped"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, shortest="[1, inf)", longest="[1, inf)", times="[2, inf)")
        if self.shortest > self.longest:
            raise UserError(f"Looped.shortest is {self.shortest} and Looped.longest is {self.longest}; set `longest` to {self.shortest} or more")

    def value(self, tokens: Sequence[int] | np.ndarray) -> float:
        """Returns the score of an answer."""
        at = loop(tokens, shortest=self.shortest, longest=self.longest, times=self.times)
        return 0.0 if at is None else 1 - at / len(tokens)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        found = [[self.value(sampled(t)) for t in group.trajectories] for group in groups]
        return [[Judgement(value, Frozen({self.name: value})) for value in row] for row in found]
