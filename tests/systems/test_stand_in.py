"""Another process makes the same fresh networks from the sizes of a world."""

from __future__ import annotations

import json

import pytest
import torch

from gradus.players.build import build_players
from gradus.recipe.registry import recipe
from gradus.systems.stand_in import StandIn, sizes_of
from gradus.tasks.control.pendulum import pendulum
from gradus.tasks.games.frozen_lake import frozen_lake
from gradus.types import Key
from gradus.types.parts import Task
from gradus.types.players import Fresh


@pytest.mark.parametrize("task", [frozen_lake(show="array"), pendulum()], ids=lambda task: task.name)
def test_the_networks_are_equal(task: Task) -> None:
    world = StandIn.of(json.loads(json.dumps(sizes_of(task))))
    made = recipe("reinforce").but(players__policy__model=Fresh(hidden=(8,)))
    there = Task("other", world, world, environment=world)  # type: ignore[arg-type]
    ours, theirs = (build_players(made, None, t, Key(3))["policy"].policy for t in (task, there))
    assert ours.config == theirs.config
    weights = theirs.network.state_dict()
    assert all(torch.equal(w, weights[name]) for name, w in ours.network.state_dict().items())
