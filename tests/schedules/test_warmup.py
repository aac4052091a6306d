"""Another update for the first steps."""

from __future__ import annotations

from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.vapo import vapo
from gradus.recipe.core import changes
from gradus.recipe.overrides import override_all
from gradus.schedules.warmup import Warmup
from gradus.types.moments import Moment
from gradus.updates.minibatches import Minibatches
from gradus.updates.only_players import OnlyPlayers


def recipe_at(schedule, step, recipe):
    found, events = schedule.at(Moment(step, 10), recipe)
    assert events == ()
    return found


def test_the_update_changes_back_after_the_first_steps():
    schedule = Warmup(2, Minibatches(epochs=3))
    assert [changes(grpo, recipe_at(schedule, step, grpo)) for step in range(3)] == [{"update.epochs": 3}] * 2 + [{}]
    assert recipe_at(Warmup(0, Minibatches(epochs=3)), 0, grpo) is grpo
    assert recipe_at(Warmup(50), 0, grpo) is grpo


def test_what_goes_round_another_update_goes_round_the_recipe_s_own():
    schedule = Warmup(1, OnlyPlayers(("critic",), update=None))
    for text in ("--update.count 4", "--update.epochs 3", "--update Minibatches(epochs=2,count=2)"):
        recipe = override_all(vapo.but(schedule=schedule), [tuple(text.removeprefix("--").split(" "))])
        assert recipe.update != vapo.update
        assert recipe_at(schedule, 0, recipe).update == OnlyPlayers(("critic",), recipe.update)
        assert recipe_at(schedule, 1, recipe) is recipe
    own = Warmup(1, OnlyPlayers(("critic",), Minibatches(count=5)))
    assert recipe_at(own, 0, vapo).update.update == Minibatches(count=5)


def test_vapo_s_critic_is_trained_by_the_same_mini_batches_as_its_policy():
    assert recipe_at(vapo.schedule, 0, vapo).update == OnlyPlayers(("critic",), Minibatches(epochs=1, count=16))
