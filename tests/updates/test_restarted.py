"""Updates that begin from the start: weights, optimiser, players that stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from gradus.papers.bases.best_of_n import best_of_n
from gradus.types import UserError
from gradus.types.players import Copy, Player
from gradus.updates.minibatches import Minibatches
from gradus.updates.restarted import Restarted
from tests.toy import toy_run, train_toy

RECIPE = best_of_n.but(update=Restarted(Minibatches(epochs=2)), players__start=Player(Copy("policy")))


def policy(run):
    return run.players["policy"].policy.network.logits.detach()


@dataclass(frozen=True)
class Told:
    """An update that tells what it was given."""

    seen: list[Any]
    update: Any

    def apply(self, players, batches, step, key):
        self.seen.append((batches, step, key))
        return self.update.apply(players, batches, step, key)


def test_a_step_is_that_of_a_player_who_has_learned_nothing_yet():
    seen = []
    run = train_toy(RECIPE.but(update=Told(seen, RECIPE.update)), steps=3)
    fresh = toy_run(RECIPE, steps=3)
    RECIPE.update.update.apply(fresh.players, *seen[2])
    assert torch.equal(policy(run), policy(fresh))
    assert not torch.equal(policy(run), policy(train_toy(RECIPE.but(update=RECIPE.update.update), steps=3)))
    assert [run.players[n].updates for n in ("policy", "start")] == [6, 0]


def test_without_a_batch_nothing_is_touched():
    run = toy_run(RECIPE)
    with torch.no_grad():
        run.players["policy"].policy.network.logits.add_(1.0)
    moved = policy(run).clone()
    assert Restarted().apply(run.players, {}, 0, run.key) == {}
    assert torch.equal(policy(run), moved)


def test_a_start_that_is_not_there_is_named():
    with pytest.raises(UserError, match='unknown player "start"'):
        train_toy(RECIPE.but(players__start=None))
    with pytest.raises(UserError, match='unknown player "polcy"'):
        train_toy(RECIPE.but(update__player="polcy"))
