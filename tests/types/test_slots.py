"""Slots: decoding steps by hand, the three orders apart, the bound of the plan, tokens in the caches."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from gradus.types import UserError
from gradus.types.slots import ORDERS, Slots, assigned, ends, ends_of_rounds, order_of, peak_tokens


def steps(lengths, order, count, expected=None):
    """The decoding steps of an order; the expected lengths are the true ones unless told."""
    taken = [lengths[i] for i in order_of(lengths if expected is None else expected, Slots(count, order))]
    return max((ends_of_rounds if order == "rounds" else ends)(taken, count))


@pytest.mark.parametrize(("order", "due"), [("rounds", 12), ("given", 10), ("shortest", 12), ("longest", 10), ("assigned", 10)])
def test_one_long_answer_and_three_short_ones_in_two_slots(order, due):
    assert steps([10, 2, 2, 2], order, 2) == due


def test_the_order_of_equal_answers_is_the_given_one():
    assert order_of([5, 9, 5, 1], Slots(2, "longest")) == [1, 0, 2, 3]
    assert order_of([5, 9, 5, 1], Slots(2, "shortest")) == [3, 0, 2, 1]
    assert [order_of([0, 0, 0], Slots(2, order)) for order in ORDERS] == [[0, 1, 2]] * 5


def best(lengths, count):
    return min(max(sum(n for n, s in zip(lengths, where) if s == slot) for slot in range(count)) for where in product(range(count), repeat=len(lengths)))


@pytest.mark.parametrize(("count", "eps"), [(2, 0.1), (2, 0.5), (3, 0.3)])
def test_the_plan_is_within_its_bound_of_the_best_one(count, eps):
    rng = np.random.default_rng(1)
    for _ in range(12):
        lengths = np.ceil(rng.lognormal(3, 1, 8 if count == 2 else 6)).astype(int).tolist()
        where = assigned(lengths, count, eps)
        plan = max(sum(n for n, s in zip(lengths, where) if s == slot) for slot in range(count))
        assert plan <= (1 + eps) * best(lengths, count)
        assert steps(lengths, "assigned", count) <= (1 + 0.1) * best(lengths, count)  # the order keeps the plan's bound; eps is 0.1 by default


def test_a_fine_plan_is_exact_where_longest_first_is_not():
    lengths = [3, 3, 2, 2, 2]
    assert max(ends(lengths, 2)) == 7
    where = assigned(lengths, 2, 0.01)
    assert sorted(sum(n for n, s in zip(lengths, where) if s == slot) for slot in (0, 1)) == [6, 6]
    assert steps(lengths, "assigned", 2) == 6


def test_long_tails_gain_most_from_the_longest_first():
    """32 answers with log-normal lengths in 8 slots: the mean number of steps relative to rounds of 8."""
    rng, found = np.random.default_rng(0), {order: [] for order in ("shortest", "given", "longest")}
    for _ in range(300):
        lengths = np.ceil(rng.lognormal(4, 0.8, 32)).astype(int).tolist()
        for order, ratios in found.items():
            ratios.append(steps(lengths, order, 8) / steps(lengths, "rounds", 8))
    assert [np.mean(found[order]) for order in ("shortest", "given", "longest")] == pytest.approx([0.62, 0.56, 0.46], abs=0.02)
    assert np.mean(found["longest"]) < np.mean(found["given"]) < np.mean(found["shortest"])


def test_too_many_cases_are_refused():
    with pytest.raises(UserError, match=r"32 answers for 8 slots has more than 200,000 cases; raise `eps`"):
        assigned(np.random.default_rng(0).integers(10, 900, 32).tolist(), 8, 0.1)
    assert assigned([], 3, 0.1) == []


def test_tokens_in_the_caches_by_hand():
    lengths = [4, 2, 2]
    assert ends(lengths, 2) == [4, 2, 4]
    assert peak_tokens(lengths, ends(lengths, 2)) == 6  # step 4: 4 + 2
    assert peak_tokens(lengths, ends(lengths, 3)) == 6  # step 2: 2 + 2 + 2
    assert peak_tokens([3, 1], [3, 1], prompts=[10], of=[0, 0]) == 13  # the prompt counts once: 11 + 1 at step 1, 13 at step 3
    assert peak_tokens([3, 1], [3, 1], prompts=[10, 5], of=[0, 1]) == 17  # step 1: 11 + 6


def test_a_quarter_of_the_slots_saves_half_of_the_tokens_in_the_caches_only_in_rounds():
    """The caches of 32 answers with log-normal lengths in 8 slots, relative to 32 slots. A slot that is refilled at once holds more tokens on average."""
    rng, found = np.random.default_rng(2), {order: [] for order in ("rounds", "shortest", "given", "longest")}
    for _ in range(100):
        lengths = np.ceil(rng.lognormal(4, 0.7, 32)).astype(int).tolist()
        for order, shares in found.items():
            taken = [lengths[i] for i in order_of(lengths, Slots(8, order))]
            finished = (ends_of_rounds if order == "rounds" else ends)(taken, 8)
            shares.append(peak_tokens(taken, finished) / peak_tokens(lengths, ends(lengths, 32)))
    rounds, shortest, given, longest = (np.mean(shares) for shares in found.values())
    assert rounds < 0.5 < shortest < given < longest < 0.8


def test_wrong_slots_are_refused():
    with pytest.raises(UserError, match=r"order.*longst.*longest"):
        Slots(order="longst")
    with pytest.raises(UserError, match="count is 0"):
        Slots(0)
