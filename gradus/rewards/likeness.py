"""The likeness of two texts: the cosine of their embeddings by a player, or the overlap of their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from gradus.rewards.overlap import MEASURES
from gradus.types import unknown
from gradus.types.contexts import pieces
from gradus.types.parts import World
from gradus.types.ranges import check_ranges
from gradus.types.readers import Hidden


class Likeness(Protocol):
    async def alike(self, pairs: Sequence[tuple[str, str]], world: World) -> list[float]:
        """Returns the likeness of the two texts of each pair, at most 1."""
        ...


@dataclass(frozen=True)
class Embedded:
    """The cosine of the embeddings of two texts. An embedding is the mean of the hidden states of `player` in windows of at most `window` tokens. An empty
    text has the cosine 0."""

    player: str = "encoder"
    window: int = 256
    names_players: ClassVar[tuple[str, ...]] = ("player",)

    def __post_init__(self) -> None:
        check_ranges(self, window="[2, inf)")

    async def alike(self, pairs: Sequence[tuple[str, str]], world: World) -> list[float]:
        found = await self.embeddings(list(dict.fromkeys(text for pair in pairs for text in pair if text)), world)
        return [float(found[a] @ found[b]) if a and b else 0.0 for a, b in pairs]

    async def embeddings(self, texts: Sequence[str], world: World) -> dict[str, np.ndarray]:
        """Returns text -> its embedding, of length 1. Each text is read alone."""
        end, most = world.told("", self.player).tokens, min(self.window, world.context_length(self.player))
        cut = [pieces(np.concatenate([world.opening(text, self.player).sequence, end]), most) for text in texts]
        rows = iter(await world.score([c for windows in cut for c in windows], Hidden(pool="mean"), self.player) if cut else [])
        return {text: unit(np.mean([unit(next(rows)[0].astype(np.float64)) for _ in windows], 0)) for text, windows in zip(texts, cut, strict=True)}


def unit(vector: np.ndarray) -> np.ndarray:
    """Returns the vector with length 1. A vector of zeros does not change."""
    return vector / max(float(np.linalg.norm(vector)), 1e-12)


@dataclass(frozen=True)
class Worded:
    """The overlap of the words of two texts, by a measure such as rouge_l (see `gradus.rewards.overlap`)."""

    measure: str = "rouge_l"

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise unknown("measure", self.measure, MEASURES, "Worded.measure names it")

    async def alike(self, pairs: Sequence[tuple[str, str]], world: World) -> list[float]:
        return [MEASURES[self.measure](a, b) for a, b in pairs]
