"""A number through points: exact values of every shape, whole numbers, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.recipe.compatibility import check_fit
from gradus.recipe.core import changes
from gradus.recipe.overrides import override_all
from gradus.recipe.scheduled import check_schedule
from gradus.recipe.serialise import from_json, to_json
from gradus.schedules.ramp import Ramp, ramp
from gradus.testing.methods import TOY, check_resumes, train_toy
from gradus.types import UserError
from gradus.types.moments import Moment

KL = "objective.kl.coefficient"


@pytest.mark.parametrize(
    ("shape", "values"),
    [
        # from 1 at step 10 to 5 at step 20: at 12 a fifth of the way, at 15 half
        ("linear", {0: 1.0, 10: 1.0, 12: 1.8, 15: 3.0, 20: 5.0, 99: 5.0}),
        # 1 + 4 (1 - cos(pi / 5)) / 2 = 1.381966 (cos(pi / 5) = 0.809017); half way is half
        ("cosine", {9: 1.0, 10: 1.0, 12: 1.381966, 15: 3.0, 20: 5.0, 21: 5.0}),
        # 5^(1/5) = 1.379730 and 5^(1/2) = 2.236068
        ("exponential", {0: 1.0, 10: 1.0, 12: 1.379730, 15: 2.236068, 20: 5.0, 99: 5.0}),
        ("step", {0: 1.0, 12: 1.0, 19: 1.0, 20: 5.0}),
    ],
)
def test_shapes(shape: Any, values: dict[int, float]) -> None:
    found = {step: ramp(step, ((10, 1.0), (20, 5.0)), (shape,)) for step in values}
    assert found == pytest.approx(values, abs=1e-6)


def test_shapes_by_piece_and_progress() -> None:
    """Up in a line from 0 to 1 in two steps, then down by a cosine in four: half way down it is 0.5."""
    both = Ramp(KL, ((0, 0.0), (2, 1.0), (6, 0.0)), shape=("linear", "cosine"))
    assert [both.value(Moment(step, 9)) for step in range(8)] == pytest.approx([0.0, 0.5, 1.0, 0.853553, 0.5, 0.146447, 0.0, 0.0], abs=1e-6)
    share = Ramp(KL, ((0.0, 2.0), (0.5, 4.0)), over="progress")
    assert [share.value(Moment(step, 8)) for step in (0, 1, 2, 4, 7)] == [2.0, 2.5, 3.0, 4.0, 4.0]
    assert Ramp(KL, ((5, 3.0),)).value(Moment(0, 9)) == 3.0


def test_the_recipe_of_a_step() -> None:
    rising = Ramp(KL, ((0, 0.04), (4, 0.08)))
    assert rising.at(Moment(0, 9), grpo)[0] is grpo  # its own value: nothing changes
    assert changes(grpo, rising.at(Moment(2, 9), grpo)[0]) == {KL: 0.06}
    whole = Ramp("setting.group", ((0, 8), (10, 4)))
    groups = [whole.at(Moment(step, 10), grpo)[0].setting.group for step in (0, 1, 2, 5, 10)]
    assert groups == [8, 8, 7, 6, 4]  # 8, 7.6, 7.2, 6, 4
    assert all(isinstance(group, int) for group in groups)


def test_the_rest_of_a_mixture_is_one_minus_the_number() -> None:
    mixed = Ramp(KL, ((0, 0.25), (4, 0.75)), rest="objective.policy.coefficient")
    assert changes(grpo, mixed.at(Moment(2, 9), grpo)[0]) == {KL: 0.5, "objective.policy.coefficient": 0.5}
    assert mixed.sets(grpo) == ((KL, 0.25), (KL, 0.75), ("objective.policy.coefficient", 0.75), ("objective.policy.coefficient", 0.25))


def test_it_moves_a_run_and_resumes() -> None:
    recipe = grpo.but(schedule=Ramp("optimizer.lr", ((0, 0.0), (4, 0.4))))
    assert [row["learning_rate"] for row in train_toy(recipe, steps=4, warmup=0).metrics] == pytest.approx([0.0, 0.1, 0.2, 0.3])
    check_resumes(recipe, steps=4, after=2)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Ramp(KL, ()), "must be pairs"),
        (lambda: Ramp(KL, ((3, 1.0), (3, 2.0))), "rising steps"),
        (lambda: Ramp(KL, ((0, 1.0), (3, 2.0)), shape="wave"), 'Ramp.shape is "wave"; it must be "linear", "cosine", "exponential" or "step"'),  # type: ignore[arg-type]
        (lambda: Ramp(KL, ((0, 0.1), (3, 0.0)), shape="exponential"), 'the shape "exponential" needs values above 0'),
        (lambda: Ramp(KL, ((0, 1.0), (3, 2.0)), shape=("step", "step")), "has 2 entries for 2 points"),
        (lambda: Ramp(KL, ((0, 1.0), (3, 2.0)), over="progress"), r"must lie in \[0, 1\]"),
        (lambda: check_schedule(grpo.but(schedule=Ramp("objective.kll.coefficient", ((0, 1.0),)))), 'unknown field "kll"'),
        (lambda: check_fit(grpo.but(schedule=Ramp("objective.kll", ((0, 1.0),))), TOY), "objective.kll cannot be 1.0, which lacks wants"),
        (lambda: check_schedule(grpo.but(schedule=Ramp("setting.steps", ((0, 5),)))), "setting.steps, which the run reads only at its start"),
        (lambda: check_schedule(grpo.but(schedule=Ramp("setting.temperature", ((0, 1.0), (9, -1.0))))), "Setting.temperature is -1.0"),
    ],
)
def test_refusals(made: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        made()


def test_it_is_stored_and_typed() -> None:
    schedule = Ramp(KL, ((0, 0.0), (200, 0.5), (600, 0.02)), shape=("linear", "cosine"))
    assert from_json(to_json(schedule)) == schedule
    typed = override_all(grpo, [("schedule", f"Ramp(path='{KL}',points=((0,0.0),(100,0.5)))")])
    assert typed.schedule == Ramp(KL, ((0, 0.0), (100, 0.5)))
