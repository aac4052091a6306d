"""Players that are updated in turns."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.schedules.taking_turns import TakingTurns
from gradus.testing.methods import TOY
from gradus.testing.methods.runs import toy_run
from gradus.training.launch import go
from gradus.types import UserError
from gradus.types.moments import Moment
from gradus.types.players import Copy, Player
from gradus.updates.only_players import OnlyPlayers

TWO = grpo.but(
    schedule=TakingTurns(("policy", "policy", "other"), OnlyPlayers(update=None), warmup=1),
    players__other=Player(Copy("policy"), objective=grpo.objective, learns_from="policy"),
)


def test_the_order_of_the_players():
    assert [TakingTurns(("a", "b"), None, steps=3).player(s) for s in range(13)] == list("aaabbbaaabbba")
    assert [TakingTurns(("a", "a", "a", "b"), None, warmup=2).player(s) for s in range(11)] == list("bbaaabaaaba")


def test_it_wraps_the_recipes_own_update():
    made, events = TWO.schedule.at(Moment(step=1, steps=4), TWO)
    assert made.update == OnlyPlayers(("policy",), grpo.update)
    assert events == ()
    assert [value.players for _, value in TWO.schedule.sets(TWO)] == [("policy",), ("other",)]


def test_only_the_player_of_a_step_moves():
    run = toy_run(TWO, task=TOY, steps=4, prompts=4, group=8)
    seen = [{name: [p.detach().clone() for p in player.policy.network.parameters()] for name, player in run.players.items()}]

    def keep(run, metrics, groups):
        seen.append({name: [p.detach().clone() for p in player.policy.network.parameters()] for name, player in run.players.items()})

    run.on_step = keep
    go(run)
    moved = [
        {name for name in ("policy", "other") if any(not torch.equal(a, b) for a, b in zip(before[name], after[name], strict=True))}
        for before, after in pairwise(seen)
    ]
    assert moved == [{"other"}, {"policy"}, {"policy"}, {"other"}]


def test_wrong_turns_are_refused():
    with pytest.raises(UserError, match="players is empty"):
        TakingTurns((), OnlyPlayers(update=None))
    with pytest.raises(UserError, match="steps"):
        TakingTurns(("policy",), OnlyPlayers(update=None), steps=0)
