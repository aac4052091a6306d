"""Leaves out problems that are similar to other problems. The kept problems are a clique: every two of them are dissimilar."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradus.curricula.shuffled_epochs import problems_at, sweep_order
from gradus.types import Key, Request
from gradus.types.parts import Source, World
from gradus.types.ranges import check_ranges

_TOKEN = re.compile(r"\w+|[^\w\s]")


def grams(text: str, n: int = 3) -> frozenset[tuple[str, ...]]:
    """Returns the n-grams of the tokens of a text (words and single signs). If the text has fewer than n tokens, all its tokens are one gram."""
    tokens = _TOKEN.findall(text)
    return frozenset(tuple(tokens[i : i + n]) for i in range(max(1, len(tokens) - n + 1)))


def similarities(texts: Sequence[str]) -> np.ndarray:
    """Returns the overlaps |A cap B| / |A cup B| of the 3-grams of all pairs of texts, float64 [N, N]."""
    sets = [grams(text) for text in texts]
    return np.array([[len(a & b) / len(a | b) for b in sets] for a in sets], np.float64).reshape(len(texts), len(texts))


def clique(similar: np.ndarray, *, threshold: float, orders: int, key: Key) -> list[int]:
    """Searches for a large set of indices whose pairs all have a similarity below `threshold`. Returns the indices in ascending order.

    The search is greedy: in each of `orders` random orders, an index joins the set if it is dissimilar to all indices in the set. The largest set is returned.
    """
    best: list[int] = []
    for n in range(orders):
        found: list[int] = []
        for i in key.fold("order", n).permutation(len(similar)):
            if all(similar[i, j] < threshold for j in found):
                found.append(int(i))
        best = max(best, found, key=len)
    return sorted(best)


@dataclass(frozen=True)
class CuratedClique:
    """Requests problems by shuffled passes over a set of dissimilar problems. This set is chosen from the first `pool` problems of the source.

    Reference: Wang et al., CodeBoost, arXiv:2508.05242. The measure of similarity (3-grams) and the random orders of the search are not from the paper.
    """

    pool: int = 128
    threshold: float = 0.5  # if two problems have at least this similarity, at most one of them is used; above 1: all problems are used
    orders: int = 10
    equal_size: bool = False  # True: a random subset of the size of the clique replaces the clique

    def __post_init__(self) -> None:
        check_ranges(self, pool="[1, inf)", threshold="(0, inf)", orders="[1, inf)")

    def start(self) -> dict[str, Any]:
        return {"drawn": 0, "kept": []}

    def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests. The state has the number of problems drawn so far, and the indices of the kept problems."""
        kept = state["kept"] or self._kept(source, world)
        world.note("curated", len(kept))
        first = state["drawn"]
        places = [kept[i] for i in sweep_order(len(kept), range(first, first + count), world.seed)]
        return [Request(p, count=world.group) for p in problems_at(source, places, world)], {"drawn": first + count, "kept": kept}

    def _kept(self, source: Source, world: World) -> list[int]:
        size = self.pool if source.size is None else min(self.pool, source.size)
        texts = [p.question for p in problems_at(source, range(size), world)]
        found = clique(similarities(texts), threshold=self.threshold, orders=self.orders, key=world.seed.fold("curated"))
        return sorted(int(i) for i in world.seed.fold("subset").permutation(size)[: len(found)]) if self.equal_size else found
