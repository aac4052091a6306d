"""What a schedule announces is checked before the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.ppo import ppo
from gradus.recipe.core import specs_of
from gradus.recipe.scheduled import READ_EVERY_STEP, check_events, check_schedule
from gradus.types import UserError
from gradus.types.moments import AverageWeights, CopyWeights, Freeze, Moment, ResetOptimizer, StopHere
from gradus.types.players import Copy, MovingAverage, VLLMServer


@dataclass(frozen=True)
class Says:
    """A schedule that says what it does."""

    pairs: tuple[tuple[str, Any], ...] = ()
    causes: tuple[Any, ...] = ()
    watches: tuple[str, ...] = ()

    def sets(self, recipe: Any) -> Any:
        return self.pairs

    def at(self, now: Moment, recipe: Any) -> Any:
        return recipe, ()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("objective.kll.coefficient", 0.1, 'unknown field "kll" (did you mean kl?)'),
        ("setting.steps", 5, "changes setting.steps, which the run reads only at its start"),
        ("players.reference.model", Copy(), "sets players.reference.model to Copy(of='policy')"),
        ("optimizer.lr", -1.0, "AdamW.lr is -1.0; it must be"),
        ("setting.group", 2.5, "Setting.group is 2.5; it must be a whole number"),
        ("objective", None, 'use the events Freeze("policy")'),
    ],
)
def test_what_it_may_set_is_tried(path: str, value: Any, said: str) -> None:
    if path == "players.reference.model":
        value = MovingAverage()
        said = "changes players.reference.model"
    with pytest.raises(UserError) as error:
        check_schedule(grpo.but(schedule=Says(pairs=((path, value),))))
    assert str(error.value).startswith("the schedule is Says (test_scheduled.py, line")
    assert said in str(error.value)
    check_schedule(grpo.but(schedule=Says(pairs=(("objective.kl.coefficient", 0.1), ("setting.group", 2)))))


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (ResetOptimizer("critc"), "critic"),
        (Freeze("reference"), "but player reference does not learn"),
        (CopyWeights("policy", "policy"), "but both players are the same"),
        (AverageWeights("policy", "nobody"), "nobody"),
        ("stop", "'stop' among its events; each event must be ResetOptimizer"),
    ],
)
def test_what_it_may_cause_is_tried(event: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        check_schedule(ppo.but(schedule=Says(causes=(event,))))
    check_schedule(ppo.but(schedule=Says(causes=(ResetOptimizer("critic"), CopyWeights("policy", "reference"), StopHere()))))


def test_weights_that_follow_or_are_loaded_once_are_not_copied_to() -> None:
    follows = grpo.but(players__reference__model=MovingAverage(), schedule=Says(causes=(CopyWeights("policy", "reference"),)))
    with pytest.raises(UserError, match=r'player reference already gets its weights from player policy by .* set the model of reference to Copy\("policy"\)'):
        check_schedule(follows)
    served = grpo.but(players__reference__model="folder", players__reference__engine=VLLMServer())
    with pytest.raises(UserError, match="loads the weights only once"):
        check_events(Says(), (CopyWeights("policy", "reference"),), specs_of(served))


def test_the_fields_that_are_read_at_each_step() -> None:
    player = "players.critic"
    read = ("objective.kl.coefficient", "credit", f"{player}.objective.value", "players.judge-1.every", "optimizer.lr", "setting.prompts", "reward.a.b")
    fixed = (f"{player}.model", f"{player}.engine", f"{player}.trains", "players", "optimizer", "environment", "policy", "requires", "system")
    fixed += ("setting.guard.spike", "setting.micro_tokens", "setting.steps", "study", "search", "schedule")
    assert all(READ_EVERY_STEP.fullmatch(path) for path in read)
    assert not any(READ_EVERY_STEP.fullmatch(path) for path in fixed)


def test_a_schedule_that_waits_for_evaluations_needs_a_study() -> None:
    schedule = Says(watches=("held_out/accuracy",))
    check_schedule(grpo.but(schedule=schedule))
    with pytest.raises(UserError, match="reads held_out/accuracy, but the recipe has no evaluations; set --study HeldOut"):
        check_schedule(grpo.but(schedule=schedule, study=None))
