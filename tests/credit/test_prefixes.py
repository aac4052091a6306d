"""Values of prefixes by hand and against plain loops. tests/papers/credit/test_tempo.py has the changes at the tokens of trajectories."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradus.credit.prefixes import after_prompt, prefix_changes, prefix_values
from gradus.testing.methods import toy_trajectory
from gradus.types import prompt_context


def values(words, rewards):
    return [v.tolist() for v in prefix_values([np.array([ord(c) for c in w]) for w in words], np.array(rewards, float))]


def test_values_of_prefixes_by_hand():
    found = values(["ab", "ac", "de", "df"], [1, 0, 0, 0])
    assert found == [[0.25, 0.5, 1.0], [0.25, 0.5, 0.0], [0.25, 0.0, 0.0], [0.25, 0.0, 0.0]]  # V(root) .25, V(a) .5, V(d) 0


def test_an_answer_that_ends_where_another_goes_on():
    # V(a) = .5; after it only the longer answer is left, with its own reward
    assert values(["a", "ab"], [1, 0]) == [[0.5, 0.5], [0.5, 0.5, 0.0]]


WORDS = st.lists(st.tuples(st.text("ab", max_size=5), st.floats(-2, 2)), min_size=1, max_size=7)


@given(WORDS)
def test_values_equal_a_plain_loop_over_prefixes_and_changes_sum_to_the_reward(rows):
    words, rewards = [w + str(i % 2) for i, (w, _) in enumerate(rows)], [r for _, r in rows]
    for word, reward, found in zip(words, rewards, values(words, rewards), strict=True):
        same = [[r for w, r in zip(words, rewards, strict=True) if w.startswith(word[:t])] for t in range(len(word) + 1)]
        assert found == pytest.approx([math.fsum(s) / len(s) for s in same], abs=1e-12)
        last = [r for w, r in zip(words, rewards, strict=True) if w.startswith(word)]
        if len(last) == 1:
            assert sum(np.diff(found)) == pytest.approx(reward - math.fsum(rewards) / len(rewards), abs=1e-12)


def test_contexts_with_the_same_prompt_share_a_tree():
    first, second = ([toy_trajectory([ord(c) for c in w], prompt=prompt_context([n])).contexts for w in ("ab", "ac")] for n in (1, 9))
    assert after_prompt(first[0][0])[0] == after_prompt(first[1][0])[0] != after_prompt(second[0][0])[0]
    found = prefix_changes([*first, *second], np.array([1.0, 0, 1, 0]))
    assert [row.tolist() for row in found] == [[0.0, 0.5], [0.0, -0.5]] * 2
