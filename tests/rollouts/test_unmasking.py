"""The rollout of masked models asks for its own way of unmasking."""

from __future__ import annotations

import pytest

from gradus.papers.generation.coupled_grpo import coupled_grpo
from gradus.rollouts.unmasking import Unmasking
from gradus.testing.methods import steps_of
from gradus.types import UserError


def orders(rollout):
    (_, groups), *_ = steps_of(coupled_grpo.but(rollout=rollout), steps=1)
    return [c.streams["order"] for g in groups for t in g.trajectories for c in t.contexts]


def test_the_order_is_that_of_the_rollout():
    assert all((order[1:] > order[:-1]).all() for order in orders(Unmasking("left")))
    assert not all((order[1:] > order[:-1]).all() for order in orders(Unmasking("entropy")))


def test_several_tokens_a_step():
    assert max(order.max() for order in orders(Unmasking("left", per_step=3))) == 1


def test_wrong_settings_are_refused():
    with pytest.raises(UserError, match='unknown order "up"'):
        Unmasking("up")
    with pytest.raises(UserError, match="per_step"):
        Unmasking(per_step=0)
