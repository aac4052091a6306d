"""The likeness of two texts by hand."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest

from gradus.rewards.likeness import Embedded
from gradus.types import prompt_context
from gradus.types.contexts import told_context
from gradus.types.readers import Hidden


class Letters:
    """A world whose encoder has the states (1, 0) for "a" and (0, 1) for "b"."""

    def __init__(self):
        self.read = []

    def opening(self, text, player):
        return prompt_context([ord(c) for c in text])

    def told(self, text, player):
        return told_context([0])

    def context_length(self, player):
        return 100

    async def score(self, contexts, want, player):
        assert (want, player) == (Hidden(pool="mean"), "encoder")
        self.read += [bytes(c.sequence.astype(np.uint8)) for c in contexts]
        before = [c.sequence[c.action_positions - 1] for c in contexts]
        return [np.tile(np.mean([[t == 97, t == 98] for t in seen], 0), (len(seen), 1)) for seen in before]


@pytest.mark.parametrize(
    ("pair", "window", "cosine"),
    [
        (("ab", "aab"), 256, 3 / math.sqrt(10)),  # (1, 1) and (2, 1)
        (("ba", "ab"), 256, 1.0),
        (("aa", "bb"), 256, 0.0),
        (("", "ab"), 256, 0.0),
        (("aaab", "a"), 256, 3 / math.sqrt(10)),
        (("aaab", "a"), 3, math.cos(math.pi / 8)),  # the windows aa and ab: the mean of (1, 0) and (1, 1)/sqrt(2) bisects their angle
    ],
)
def test_embeddings_by_hand(pair, window, cosine) -> None:
    assert asyncio.run(Embedded(window=window).alike([pair], Letters())) == pytest.approx([cosine])


def test_every_text_is_read_once_and_with_its_last_token() -> None:
    world = Letters()
    found = asyncio.run(Embedded().alike([("ab", "b"), ("b", "b"), ("ab", "ab")], world))
    assert found == pytest.approx([1 / math.sqrt(2), 1, 1])
    assert world.read == [b"ab\0", b"b\0"]
