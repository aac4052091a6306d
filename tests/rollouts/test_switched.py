"""The place of the switch. tests/papers/objectives/test_q_sharp.py has the answers and what is learned from them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from gradus.rollouts.switched import switch_of
from gradus.types import Key


def test_the_cut_is_uniform_in_the_length_of_the_guided_answer():
    """Of 5 tokens 0 to 4 are kept, each in a fifth of the draws (2,000 of them: 400 with deviation 18)."""
    request = SimpleNamespace(player="policy", problem=SimpleNamespace(id="p"), tags=(), sample=0)
    world = SimpleNamespace(key=Key(3))
    found = []
    for i in range(2000):
        request.sample = i
        found.append(switch_of(request, 5, world))
    assert np.abs(np.bincount(found, minlength=5) - 400).max() < 80
    assert len(np.bincount(found)) == 5
    assert [switch_of(request, n, world) for n in (0, 1)] == [0, 0]
