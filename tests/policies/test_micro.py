from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gradus.policies.micro import micro_batches
from gradus.policies.pack import pack
from tests.policies.contexts import group


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 5)), min_size=1, max_size=6), st.integers(1, 200), st.booleans())
def test_every_context_once_within_the_limit(groups, limit, shared):
    rng = np.random.default_rng(0)
    contexts = [c for prompt, count in groups for c in group(rng, count, prompt, 1, 30)]
    batches = micro_batches(contexts, limit, shared=shared)
    assert sorted(i for batch in batches for i in batch) == list(range(len(contexts)))
    for batch in batches:
        members = [contexts[i] for i in batch]
        assert len(batch) > 0
        used = len(pack(members).tokens) if shared else len(members) * max(len(c.sequence) for c in members)
        assert used <= limit or len(batch) == 1


def test_groups_stay_together_where_they_fit():
    rng = np.random.default_rng(1)
    first, second = group(rng, 3, 10, 5, 5), group(rng, 3, 10, 5, 5)
    contexts = [c for pair in zip(first, second, strict=True) for c in pair]
    # a group holds 10 + 3 * 5 = 25 tokens
    assert micro_batches(contexts, 50, shared=True) == [[0, 2, 4, 1, 3, 5]]
    assert micro_batches(contexts, 30, shared=True) == [[0, 2, 4], [1, 3, 5]]
    assert micro_batches(contexts, 20, shared=True) == [[0, 2], [4], [1, 3], [5]]
    assert micro_batches(contexts, 1, shared=True) == [[0], [2], [4], [1], [3], [5]]


def test_padded_batches_count_the_longest():
    rng = np.random.default_rng(2)
    contexts = [group(rng, 1, 5, n, n)[0] for n in (5, 25, 15, 5)]  # lengths 10, 30, 20, 10
    assert micro_batches(contexts, 60, shared=False) == [[1, 2], [0, 3]]
