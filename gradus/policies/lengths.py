"""The lengths of sequences that fit into a cache of the engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Lengths:
    """The largest lengths that fit into a cache: the length of a prefix, the number of new tokens, and the length of a sequence."""

    prefix: int
    own: int
    whole: int

    @staticmethod
    def of(prefixes: np.ndarray, rooms: np.ndarray) -> Lengths:
        return Lengths(int(prefixes.max()), int(rooms.max()), int((prefixes + rooms).max()))

    def cover(self, other: Lengths) -> bool:
        return self.prefix >= other.prefix and self.own >= other.own and self.whole >= other.whole

    def grown(self, to: Lengths, most: int) -> Lengths:
        """Returns lengths that are at least as large as the lengths of both `self` and `to`. If a length of `self` is too small, the new length is at least
        twice as large, but at most `most` tokens. So a cache grows only a few times.
        """

        def longer(have: int, need: int) -> int:
            return have if have >= need else max(need, min(2 * have, most))

        return Lengths(longer(self.prefix, to.prefix), longer(self.own, to.own), longer(self.whole, to.whole))
