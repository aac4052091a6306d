"""Masked pictures: the share, the patches, the same tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradus.types import Context, Key, Seen, UserError, prompt_context
from gradus.types.signals import seen_through
from gradus.types.views import Masked, masked

WHITE = np.full((48, 48, 3), 255, np.uint8)


def shown(*pictures):
    at = np.arange(len(pictures), dtype=np.int32) * 2
    return prompt_context(np.arange(8), (Seen("image", "image", np.stack(pictures), at, np.full(len(pictures), 2, np.int32)),))


def answer(prompt, tokens):
    return Context(np.array(tokens, np.int32), np.ones(len(tokens), bool), parent=(prompt, 8))


def test_the_masked_share_of_patches():
    black = [(masked(WHITE, 0.6, 12, Key(i))[::12, ::12, 0] == 0).mean() for i in range(1000)]
    assert abs(np.mean(black) - 0.6) < 0.02  # 16,000 patches: deviation 0.004
    assert (masked(WHITE, 0.0, 14, Key()) == WHITE).all()
    assert (masked(WHITE, 1.0, 14, Key()) == 0).all()


def test_whole_patches_are_black_also_at_the_edges():
    found = masked(WHITE, 0.5, 14, Key(3))[..., 0]  # 4 x 4 patches, the last of 6 pixels
    for row in range(0, 48, 14):
        for column in range(0, 48, 14):
            assert len(np.unique(found[row : row + 14, column : column + 14])) == 1
    assert len(np.unique(found)) == 2


def test_tokens_and_actions_stay_and_answers_of_one_prompt_see_the_same():
    prompt = shown(WHITE, WHITE // 2)
    first, second = answer(prompt, [1, 2]), answer(prompt, [3])
    later = replace(answer(prompt, [4]), seen=(Seen("image", "image", WHITE[None], np.zeros(1, np.int32), np.ones(1, np.int32)),))
    a, b, _ = seen_through(Masked(0.5, 12), [first, second, later], Key(1))
    assert a.sequence.tolist() == first.sequence.tolist()
    assert a.beginning(8) == b.beginning(8) != first.beginning(8)
    other = seen_through(Masked(0.5, 12), [first], Key(2))[0]
    assert other.beginning(8) != a.beginning(8)
    alone = seen_through(Masked(0.5, 12), [first], Key(1))[0]
    assert alone.beginning(10) == a.beginning(10)
    assert seen_through(Masked(0.0), [first], Key(1))[0].beginning(10) == first.beginning(10)


def test_text_and_other_media_stay():
    vector = prompt_context(np.arange(3), (Seen("state", "array", np.ones((1, 4)), np.zeros(1, np.int32), np.ones(1, np.int32)),))
    assert Masked(1.0).of(vector, Key()).beginning(3) == vector.beginning(3)


def test_ranges():
    with pytest.raises(UserError, match="share"):
        Masked(1.5)
    with pytest.raises(UserError, match="patch"):
        Masked(0.5, 0)
