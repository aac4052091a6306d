"""Makes data from judged dialogues: one row per utterance, with its share of the scores of the dialogue.

A reward such as `SocialScores` judges the dialogues, and writes dialogue, scores and attributions into `extra`.
Reference: Yu et al., Sotopia-RL: Reward Design for Social Intelligence, arXiv:2508.03905.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from gradus.types import Frozen, Group, UserError

HIGHEST = 3  # largest attribution
Spread = Literal["scaled", "normalised", "equal"]


def spread_score(score: float, attributions: Sequence[int], spread: Spread = "scaled") -> list[float]:
    """Returns the reward of each utterance in one dimension.

    >>> [round(r, 4) for r in spread_score(8, (3, 0, 1))], spread_score(8, (3, 0, 1), "normalised"), spread_score(8, (0, 0), "normalised")
    ([8.0, 0.0, 2.6667], [6.0, 0.0, 2.0], [0.0, 0.0])
    """
    if spread == "equal":
        return [float(score)] * len(attributions)
    whole = HIGHEST if spread == "scaled" else sum(attributions)
    return [score * a / whole if whole else 0.0 for a in attributions]


def scaled(values: Sequence[float]) -> np.ndarray:
    """Returns the values on a scale from 0, the smallest, to 1, the largest; zeros if all are equal. Returns: float64 [N].

    >>> scaled([2, 6, 10]).tolist(), scaled([3, 3]).tolist()
    ([0.0, 0.5, 1.0], [0.0, 0.0])
    """
    found = np.asarray(values, np.float64)
    width = np.ptp(found) if len(found) else 0.0
    return (found - found.min()) / width if width else np.zeros(len(found))


@dataclass(frozen=True)
class Utterances:
    """Makes one row per utterance: its history as `prompt`, the utterance in `answers`, and R in `rewards`."""

    spread: Spread = "scaled"
    weights: Frozen[float] = Frozen()  # dimension -> weight; a dimension without an entry has the weight 1
    reads: ClassVar[str] = "episodes"

    def __post_init__(self) -> None:
        if self.spread not in ("scaled", "normalised", "equal"):
            raise UserError(f'Utterances.spread is "{self.spread}"; it must be "scaled", "normalised" or "equal"')

    @property
    def provides(self) -> frozenset[str]:
        return frozenset({"answers", "rewards"})

    def rows(self, groups: Iterable[Group]) -> list[Mapping[str, Any]]:
        """Returns the rows in the order of the episodes. Failed and auxiliary episodes, and utterances with an attribution below 0, are left out."""
        kept = [t.extra for g in groups if not g.aside for t in g.trajectories if t.failed is None and "dialogue" in t.extra]
        values: dict[str, list[float]] = {}
        made: list[tuple[list[dict[str, str]], str]] = []
        for extra in kept:
            read = [i for i, marks in enumerate(zip(*extra["attributions"].values(), strict=True)) if min(marks) >= 0]
            made += [(history(extra["dialogue"], i), extra["dialogue"][i][1]) for i in read]
            for name, score in extra["scores"].items():
                spread = spread_score(score, [max(a, 0) for a in extra["attributions"][name]], self.spread)
                values.setdefault(name, []).extend(spread[i] for i in read)
        if not made:
            return []
        weights = np.array([self.weights.get(name, 1.0) for name in values])
        rewards = np.average([scaled(column) for column in values.values()], axis=0, weights=weights)
        return [{"prompt": before, "answers": [text], "rewards": [float(r)]} for (before, text), r in zip(made, rewards, strict=True)]


def history(pairs: Sequence[Sequence[str]], index: int) -> list[dict[str, str]]:
    """Returns the messages before utterance `index`."""
    both = [m for seen, said in pairs[:index] for m in ({"role": "user", "content": seen}, {"role": "assistant", "content": said})]
    return [*both, {"role": "user", "content": pairs[index][0]}]
