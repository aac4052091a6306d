"""Updates that begin from the start: weights, optimiser, players that stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from gradus.papers.bases.best_of_n import best_of_n
from gradus.players.build import build_players
from gradus.testing.methods import TOY, toy_run, train_toy
from gradus.types import Key, UserError
from gradus.types.players import Adapter, Copy, Player
from gradus.updates.minibatches import Minibatches
from gradus.updates.reset_weights import ResetWeights
from tests.small_model import save_small_model

RECIPE = best_of_n.but(update=ResetWeights(Minibatches(epochs=2)), players__start=Player(Copy("policy")))


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
    assert ResetWeights().apply(run.players, {}, 0, run.key) == {}
    assert torch.equal(policy(run), moved)


def test_a_start_that_is_not_there_is_named():
    with pytest.raises(UserError, match='unknown player "start"'):
        train_toy(RECIPE.but(players__start=None))
    with pytest.raises(UserError, match='unknown player "polcy"'):
        train_toy(RECIPE.but(update__player="polcy"))


class Fallen:
    """An update that notes the weights it begins from, and leaves others behind."""

    def __init__(self):
        self.seen = []

    def apply(self, players, batches, step, key):
        learner = players["policy"]
        self.seen.append({n: w.clone() for n, w in learner.policy.network.state_dict().items()})
        assert not learner.optimizer.state
        for p in learner.parameters:
            p.grad = torch.ones_like(p)
        learner.move(step)
        return {}


class Batch:
    actions = 1


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_adapter_begins_from_its_start(tmp_path, precision):
    folder = save_small_model(tmp_path / "model")
    recipe = RECIPE.but(players__policy=Player(Adapter(rank=2)), setting__precision=precision, setting__learning_rate=1e-2)
    players = build_players(recipe, folder, TOY, Key(1))
    start = {n: w.clone() for n, w in players["start"].policy.network.state_dict().items()}
    update = Fallen()
    for step in (10, 11):
        ResetWeights(update).apply(players, {"policy": Batch()}, step, Key())
    assert [n for n in start if ".lora_" in n]
    for seen in update.seen:
        assert all(torch.equal(seen[n], w) for n, w in start.items())
    after = players["policy"].policy.network.state_dict()
    assert all(torch.equal(after[n], w) == (".lora_" not in n) for n, w in start.items())  # both moves began at the start, and moved it
    assert all(torch.equal(w, start[n]) for n, w in players["start"].policy.network.state_dict().items())


def test_a_start_of_another_make_is_named(tmp_path):
    folder = save_small_model(tmp_path / "model")
    recipe = RECIPE.but(players__policy=Player(Adapter(rank=2)), players__start=Player())  # the whole model, without adapter
    with pytest.raises(UserError, match=r'their networks differ .* --players\.start\.model Copy$'):
        ResetWeights(Fallen()).apply(build_players(recipe, folder, TOY, Key(1)), {"policy": Batch()}, 0, Key())
