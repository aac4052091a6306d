"""The token budget: which answers fill it, the border, the answer that waits, and answers that are left out."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.credit.groups import GroupRelative
from gradus.selection.token_budget import TokenBudget, filled, first_actions
from gradus.testing.methods import advantages_of, stored_state, toy_group
from gradus.types import Ended, Group, Key, UserError


class InOrder(Key):
    """A key that leaves the order as it is."""

    def fold(self, *parts):
        return self

    def permutation(self, n):
        return np.arange(n)


def step(*lengths, name="s"):
    """One group of answers with these lengths and the rewards 1, 0, 0, ..."""
    made = toy_group(1.0, *[0.0] * (len(lengths) - 1), lengths=list(lengths), key=name)
    return made.but(trajectories=tuple(t.but(id=f"{name}/{i}") for i, t in enumerate(made.trajectories)))


def trained(groups: list[Group]) -> dict[str, int]:
    return {t.id: t.actions for g in groups for t in g.trajectories if t.trained}


@pytest.mark.parametrize(
    ("lengths", "budget", "due"),
    [([5, 3, 4, 6], 12, (3, 0)), ([5, 3, 4], 9, (2, 1)), ([5], 4, (0, 4)), ([], 4, (0, 4)), ([2, 2], 9, (2, 5)), ([5, 9, 1], 6, (1, 1))],
)
def test_answers_are_taken_in_turn(lengths, budget, due):
    assert filled(lengths, budget) == due


@pytest.mark.parametrize("border", ["cut", "wait"])
def test_three_answers_fill_twelve_tokens(border):
    part = TokenBudget(12, border)
    kept, dropped, state = part.keep([step(5, 3, 4, 6)], InOrder(), part.start())
    assert trained(kept) == {"s/0": 5, "s/1": 3, "s/2": 4}
    assert dropped == []
    assert len(state["waiting"]) == (border == "wait")


def test_the_answer_at_the_border_gives_its_first_tokens():
    part = TokenBudget(10)
    kept, _, state = part.keep([step(5, 3, 4, 6)], InOrder(), part.start())
    assert trained(kept) == {"s/0": 5, "s/1": 3, "s/2": 2}
    cut = kept[0].trajectories[2].contexts[0]
    whole = step(5, 3, 4, 6).trajectories[2].contexts[0]
    assert cut.sequence.tolist() == whole.sequence.tolist()[:-2]
    assert cut.logprobs.tolist() == whole.logprobs.tolist()[:2]
    assert cut.ended is Ended.LENGTH
    assert state == {"waiting": []}


def test_the_answer_that_waits_comes_first_in_the_next_step():
    part = TokenBudget(12, "wait")
    _, _, state = part.keep([step(5, 3, 4, 6)], InOrder(), part.start())
    kept, dropped, state = part.keep([step(4, 2, 1, name="t")], InOrder(), stored_state(state))
    assert trained(kept) == {"s/3": 6, "t/0": 4, "t/1": 2}
    assert dropped == []
    kept, _, state = part.keep([step(1, name="u")], InOrder(), stored_state(state))
    assert trained(kept) == {"t/2": 1, "u/0": 1}
    assert state == {"waiting": []}


def test_an_answer_that_waits_is_compared_with_its_own_group():
    part = TokenBudget(12, "wait")
    _, _, state = part.keep([step(5, 3, 4, 6)], InOrder(), part.start())
    kept, _, _ = part.keep([step(4, name="t")], InOrder(), state)
    # rewards 1 0 0 0: mean 1/4, deviation sqrt(3)/4
    assert advantages_of(GroupRelative(), kept[0])[0][3] == pytest.approx([-1 / np.sqrt(3)] * 6)


def test_answers_without_training_still_count_in_their_group_and_other_groups_are_dropped():
    part = TokenBudget(5)
    first, second = step(5, 3), step(4, 6, name="t")
    kept, dropped, _ = part.keep([first, second], InOrder(), part.start())
    assert dropped == [second]
    assert [t.trained for t in kept[0].trajectories] == [True, False]
    assert kept[0].rewards.tolist() == [1.0, 0.0]


def test_answers_that_were_never_trained_on_take_no_room():
    group = step(5, 3)
    probe, other = group.trajectories
    kept, _, _ = TokenBudget(3).keep([group.but(trajectories=(probe.but(trained=False), other))], InOrder(), TokenBudget().start())
    assert trained(kept) == {"s/1": 3}


def test_the_order_is_random_and_every_step_is_full():
    part, seen = TokenBudget(9), set()
    for seed in range(12):
        kept, _, _ = part.keep([step(5, 3, 4, 6)], Key(seed), part.start())
        assert sum(trained(kept).values()) == 9
        seen |= set(trained(kept))
    assert seen == {f"s/{i}" for i in range(4)}


def test_a_step_with_fewer_tokens_is_whole():
    kept, dropped, state = TokenBudget(100).keep([step(5, 3)], Key(0), TokenBudget().start())
    assert trained(kept) == {"s/0": 5, "s/1": 3}
    assert (dropped, state) == ([], {"waiting": []})
    assert TokenBudget(100).keep([], Key(0), TokenBudget().start()) == ([], [], {"waiting": []})


def test_an_answer_that_could_never_be_taken_is_refused():
    with pytest.raises(UserError, match="an answer has 6 tokens, but TokenBudget allows 5"):
        TokenBudget(5, "wait").keep([step(2, 6)], Key(0), TokenBudget().start())
    with pytest.raises(UserError, match=r"TokenBudget.tokens"):
        TokenBudget(0)


def test_a_cut_may_lie_in_a_later_context():
    group = step(2, 3)
    first, second = group.trajectories
    both = first.but(contexts=(*first.contexts, *second.contexts))
    for count, due in ((1, [1]), (2, [2]), (4, [2, 2]), (5, [2, 3]), (9, [2, 3])):
        assert [c.actions for c in first_actions(both, count).contexts] == due
