"""Some players move, the others stay."""

from __future__ import annotations

import pytest
import torch

from gradus.papers.bases.ppo import ppo
from gradus.testing.methods import toy_run, train_toy
from gradus.types import UserError
from gradus.updates.only_players import OnlyPlayers


def test_only_the_named_players_move():
    before = toy_run(ppo).players
    run = train_toy(ppo.but(update=OnlyPlayers(("critic",), ppo.update)), steps=2)
    assert {n: p.updates for n, p in run.players.items()} == {"policy": 0, "critic": 8, "reference": 0}
    assert torch.equal(run.players["policy"].policy.network.logits, before["policy"].policy.network.logits)
    assert not torch.equal(run.players["critic"].policy.network.values, before["critic"].policy.network.values)
    assert "critic/loss/value" in run.metrics[-1]
    assert "loss/policy" not in run.metrics[-1]


def test_all_of_them_is_the_update_itself():
    ours, plain = (train_toy(ppo.but(update=u), steps=1) for u in (OnlyPlayers(("policy", "critic"), ppo.update), ppo.update))
    for name in ("policy", "critic"):
        assert torch.equal(*(r.players[name].policy.network.state_dict()["logits"] for r in (ours, plain)))


def test_a_player_that_is_not_there_is_named():
    with pytest.raises(UserError, match='unknown player "critc"'):
        train_toy(ppo.but(update=OnlyPlayers(("critc",), ppo.update)), steps=1)


def test_without_an_update_it_says_which_to_set():
    with pytest.raises(UserError, match=r"set --update\.update Minibatches"):
        train_toy(ppo.but(update=OnlyPlayers(("critic",), None)), steps=1)
