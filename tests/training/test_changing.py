"""The players whose weights may change."""

from __future__ import annotations

from gradus.papers.bases.dpo import dpo
from gradus.papers.bases.grpo import grpo
from gradus.testing.methods import toy_run
from gradus.training.changing import changing, constant
from gradus.types.players import Head, Lagged, MovingAverage, Player


def test_a_frozen_reference_never_changes():
    run = toy_run(grpo)
    assert set(changing(run)) == {"policy"}
    assert constant(run) == {"reference"}
    assert constant(toy_run(dpo)) == {"reference"}


def test_a_lagged_player_and_a_moving_average_change():
    for model in (Lagged(updates=2), MovingAverage()):
        run = toy_run(grpo.but(players__reference=Player(model=model)))
        assert constant(run) == set()


def test_a_head_on_the_policys_trunk_changes_with_the_policy():
    run = toy_run(grpo)
    run.players["reference"].spec = Player(model=Head(of="policy"))
    assert constant(run) == set()


def test_a_schedule_with_events_may_change_every_player():
    class Events:
        causes = ("CopyWeights",)

    run = toy_run(grpo)
    run.recipe = run.recipe.but(schedule=Events())
    assert constant(run) == set()
