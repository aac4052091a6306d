from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gradus.policies.micro import balanced_bins, micro_batches
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
    assert micro_batches(contexts, 20, shared=True) == [[0, 2], [1, 3], [4], [5]]
    assert micro_batches(contexts, 35, shared=True) == [[0, 2, 4], [1, 3, 5]]
    assert micro_batches(contexts, 1, shared=True) == [[0], [2], [4], [1], [3], [5]]


def test_padded_batches_count_the_longest():
    rng = np.random.default_rng(2)
    contexts = [group(rng, 1, 5, n, n)[0] for n in (5, 25, 15, 5)]  # lengths 10, 30, 20, 10
    assert micro_batches(contexts, 60, shared=False) == [[1, 2], [0, 3]]


def test_bins_by_hand():
    assert balanced_bins([10, 4, 3, 2], 14, least=2) == [[0, 3], [1, 2]]  # by the smallest sum alone, 2 would go to 4 + 3
    assert balanced_bins([10, 4, 3, 2], 14) == [[0, 1], [2, 3]]
    assert balanced_bins([2, 10, 3, 4], 14, least=2) == [[1, 0], [3, 2]]  # the order of the sizes has no effect
    assert balanced_bins([5, 5, 5], 10) == [[0, 1], [2]]  # an item that fills a bin fits
    assert balanced_bins([7, 6, 2, 1], 10) == [[0, 3], [1, 2]]  # 2 joins 6 and not 7, because the sum is smaller; then 7 has fewer items
    assert balanced_bins([20, 3], 10) == [[0], [1]]
    assert balanced_bins([], 10) == []


def smallest_sum(sizes, capacity):
    """Another rule: the bin with room that has the smallest sum."""
    sums: list[int] = []
    for size in sorted(sizes, reverse=True):
        room = [b for b, used in enumerate(sums) if used + size <= capacity]
        if room:
            sums[min(room, key=lambda b: sums[b])] += size
        else:
            sums.append(size)
    return sorted(sums)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=40), st.integers(1, 80), st.integers(1, 5))
def test_bins_hold_every_item_and_no_two_bins_could_be_one(sizes, capacity, least):
    bins = balanced_bins(sizes, capacity, least)
    assert sorted(i for chosen in bins for i in chosen) == list(range(len(sizes)))
    sums = [sum(sizes[i] for i in chosen) for chosen in bins]
    assert all(used <= capacity or len(chosen) == 1 for used, chosen in zip(sums, bins, strict=True))
    assert len(bins) >= min(least, len(sizes))
    opening = [sizes[chosen[0]] for chosen in bins]
    assert opening == sorted(opening, reverse=True)
    for later in range(least, len(bins)):  # when a bin was opened, no earlier bin had room for its first item
        assert all(sum(s for s in sizes_before(sizes, bins[b], bins[later][0])) + opening[later] > capacity for b in range(later))


def sizes_before(sizes, members, item):
    """The sizes of the members that were packed before the item: larger ones, and equal ones with a smaller index."""
    return [sizes[i] for i in members if (-sizes[i], i) < (-sizes[item], item)]


def test_the_fewest_items_decide_before_the_smallest_sum():
    """On random sizes the two rules differ often, so a test of the rule can tell them apart."""
    rng = np.random.default_rng(3)
    apart = 0
    for _ in range(100):
        sizes = rng.integers(1, 30, 14).tolist()
        apart += sorted(sum(sizes[i] for i in chosen) for chosen in balanced_bins(sizes, 60)) != smallest_sum(sizes, 60)
    assert apart > 30


def test_families_fill_micro_batches_to_the_budget():
    """In their order, the families of 30, 20, 12 and 20 tokens would need three micro-batches."""
    rng = np.random.default_rng(4)
    contexts = [c for new in (10, 5, 1, 5) for c in group(rng, 2, 10, new, new)]
    assert micro_batches(contexts, 42, shared=True) == [[0, 1, 4, 5], [2, 3, 6, 7]]


def test_a_family_above_the_budget_is_cut_into_pieces_that_join_other_families():
    rng = np.random.default_rng(5)
    contexts = [*group(rng, 5, 10, 10, 10), *group(rng, 1, 10, 10, 10)]  # 60 tokens with the prefix once, and 20
    assert micro_batches(contexts, 50, shared=True) == [[0, 1, 2, 3], [4, 5]]
    assert micro_batches(contexts, 40, shared=True) == [[0, 1, 2], [3, 4], [5]]


def test_contexts_without_actions_are_in_the_first_micro_batch():
    rng = np.random.default_rng(6)
    silent, acting = group(rng, 1, 5, 3, 3, chosen=np.zeros(3, bool)), group(rng, 2, 10, 5, 5)
    assert micro_batches([acting[0], *silent, acting[1]], 15, shared=True) == [[1, 0], [2]]
    assert micro_batches(silent, 15, shared=True) == [[0]]
    assert micro_batches([], 15, shared=True) == []
