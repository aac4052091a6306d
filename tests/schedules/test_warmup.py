"""Another update for the first steps."""

from __future__ import annotations

from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.vapo import vapo
from gradus.recipe.core import changes
from gradus.recipe.overrides import override_all
from gradus.schedules.warmup import Warmup
from gradus.updates.minibatches import Minibatches
from gradus.updates.only_players import OnlyPlayers


def test_the_update_changes_back_after_the_first_steps():
    schedule = Warmup(2, Minibatches(epochs=3))
    assert [changes(grpo, schedule.at(step, grpo)) for step in range(3)] == [{"update.epochs": 3}] * 2 + [{}]
    assert Warmup(0, Minibatches(epochs=3)).at(0, grpo) is grpo
    assert Warmup().at(0, grpo) is grpo


def test_what_goes_round_another_update_goes_round_the_recipe_s_own():
    schedule = Warmup(1, OnlyPlayers(("critic",), update=None))
    for text in ("--update.count 4", "--update.epochs 3", "--update Minibatches(epochs=2,count=2)"):
        recipe = override_all(vapo.but(schedule=schedule), [tuple(text.removeprefix("--").split(" "))])
        assert recipe.update != vapo.update
        assert schedule.at(0, recipe).update == OnlyPlayers(("critic",), recipe.update)
        assert schedule.at(1, recipe) is recipe
    own = Warmup(1, OnlyPlayers(("critic",), Minibatches(count=5)))
    assert own.at(0, vapo).update.update == Minibatches(count=5)


def test_vapo_s_critic_is_trained_by_the_same_mini_batches_as_its_policy():
    assert vapo.schedule.at(0, vapo).update == OnlyPlayers(("critic",), Minibatches(epochs=1, count=16))
