"""The work of a simulated training run: groups with their lengths and delays, from a distribution or from the rollouts of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradus.types.errors import UserError
from gradus.types.ranges import check_ranges

STEPS_OF_LENGTH = 32
"""Lengths are rounded to multiples of a 32nd of their mean, so that a prediction has fewer events."""


@dataclass(frozen=True)
class Item:
    """A group: the tokens of the prompt and of each answer, and the seconds from the last token of the group to the rewards."""

    prompt: int
    lengths: tuple[int, ...]
    delay: float = 0.0

    @property
    def tokens(self) -> int:
        return sum(self.lengths)


@dataclass(frozen=True)
class LogNormal:
    """Draws groups whose lengths have a log-normal distribution, cut at `longest`.

    `spread` is the standard deviation of the logarithm of a length. A share `alike` of its variance is common to the answers of a group. The delay of a group is
    exponential with the mean `delay`.
    """

    mean: float = 1000.0  # tokens of an answer, before the cut
    spread: float = 0.7
    alike: float = 0.5
    longest: int = 1 << 30
    prompt: int = 200
    delay: float = 0.0

    def __post_init__(self) -> None:
        check_ranges(self, mean="[1, inf)", spread="[0, inf)", alike="[0, 1]", longest="[1, inf)", prompt="[1, inf)", delay="[0, inf)")

    def draw(self, count: int, group: int, seed: int = 0) -> list[Item]:
        """Returns `count` groups of `group` answers. Equal seeds give equal groups."""
        rng = np.random.default_rng(seed)
        shared = rng.normal(size=(count, 1)) * math.sqrt(self.alike)
        own = rng.normal(size=(count, group)) * math.sqrt(1 - self.alike)
        lengths = np.exp(math.log(self.mean) - self.spread**2 / 2 + self.spread * (shared + own))
        lengths = coarse(np.minimum(lengths, self.longest))
        delays = rng.exponential(self.delay, count) if self.delay else np.zeros(count)
        return [Item(self.prompt, tuple(row), float(delay)) for row, delay in zip(lengths.tolist(), delays, strict=True)]


@dataclass(frozen=True)
class Recorded:
    """Repeats the groups of a run. `groups`: prompt tokens and lengths of each group, in the order of the steps; `delay`: as for `LogNormal`."""

    groups: tuple[Item, ...]
    delay: float = 0.0

    def __post_init__(self) -> None:
        check_ranges(self, delay="[0, inf)")

    def draw(self, count: int, group: int, seed: int = 0) -> list[Item]:
        """Returns `count` groups of `group` answers. If the run has too few groups, or a group too few answers, these are repeated."""
        rng = np.random.default_rng(seed)
        delays = rng.exponential(self.delay, count) if self.delay else np.zeros(count)
        found = [self.groups[i % len(self.groups)] for i in range(count)]
        return [Item(item.prompt, tuple(item.lengths[j % len(item.lengths)] for j in range(group)), float(d)) for item, d in zip(found, delays, strict=True)]


def recorded(folder: str | Path, delay: float = 0.0) -> Recorded:
    """Reads the groups of a run's folder. Raises UserError if the folder contains no run, or a run without rollouts."""
    from gradus.lab import rollouts
    from gradus.lab.folder import ROLLOUTS, RunFolder

    path = RunFolder.open(folder).path
    items = []
    for _, groups in rollouts.scan(path / ROLLOUTS):
        for group in groups:
            answers = [t for t in group.trajectories if t.actions]
            if answers and not group.aside:
                context = answers[0].contexts[0]
                items.append(Item(len(context.sequence) - len(context.tokens), tuple(t.actions for t in answers)))
    if not items:
        raise UserError(f"{folder} has no rollouts; name a run that has finished at least one step")
    return Recorded(tuple(items), delay)


def coarse(lengths: np.ndarray) -> np.ndarray:
    """Rounds lengths to multiples of a 32nd of their mean, and to at least one such multiple."""
    grain = max(1, round(float(lengths.mean()) / STEPS_OF_LENGTH))
    return np.maximum(np.rint(lengths / grain), 1).astype(np.int64) * grain


def means(items: Sequence[Item]) -> tuple[float, float]:
    """Returns the mean number of tokens of an answer, and the number of prompt tokens per sampled token (a prompt counts once for each of its answers)."""
    answers, tokens = sum(len(i.lengths) for i in items), sum(i.tokens for i in items)
    return tokens / answers, sum(i.prompt * len(i.lengths) for i in items) / tokens
