"""A value drawn at each step: its chances, that it depends on the key alone, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.papers.bases.grpo import grpo
from gradus.recipe.scheduled import check_schedule
from gradus.schedules.random_choice import RandomChoice
from gradus.testing.methods import check_resumes, train_toy
from gradus.types import Key, UserError
from gradus.types.moments import Moment
from gradus.updates.minibatches import Minibatches


def test_chances() -> None:
    """4000 draws with weights 3 and 1: 3000 of the first, standard deviation sqrt(4000 x 3 / 16) = 27.4."""
    schedule = RandomChoice("setting.temperature", (0.5, 1.5), (3.0, 1.0))
    drawn = [schedule.value(Moment(i, 9, key=Key(i).fold("schedule"))) for i in range(4000)]
    assert abs(drawn.count(0.5) - 3000) < 4 * 27.4
    equal = RandomChoice("setting.temperature", (1.0, 2.0, 3.0))
    counts = np.bincount([int(equal.value(Moment(i, 9, key=Key(i)))) for i in range(3000)])[1:]
    assert (abs(counts - 1000) < 4 * 25.9).all()  # sqrt(3000 x 2 / 9)
    never = RandomChoice("setting.temperature", (1.0, 2.0), (0.0, 1.0))
    assert {never.value(Moment(i, 9, key=Key(i))) for i in range(200)} == {2.0}


def test_two_paths_are_drawn_apart() -> None:
    one, other = RandomChoice("a", (0, 1)), RandomChoice("b", (0, 1))
    pairs = {(one.value(Moment(0, 9, key=Key(i))), other.value(Moment(0, 9, key=Key(i)))) for i in range(50)}
    assert len(pairs) == 4


def test_a_run_draws_by_its_seed_and_resumes() -> None:
    recipe = grpo.but(schedule=RandomChoice("optimizer.lr", (0.01, 0.02)))

    def rates(seed: int) -> list[float]:
        return [row["learning_rate"] for row in train_toy(recipe, steps=8, warmup=0, seed=seed).metrics]

    assert rates(0) == rates(0) != rates(1)
    assert set(rates(0)) == {0.01, 0.02}
    check_resumes(recipe, steps=5, after=2)
    check_resumes(grpo.but(schedule=RandomChoice("update", (Minibatches(), Minibatches(epochs=2)))), steps=4, after=2)


def test_refusals() -> None:
    with pytest.raises(UserError, match=r"RandomChoice.choices is empty"):
        RandomChoice("optimizer.lr", ())
    for weights in ((1.0,), (1.0, -1.0), (0.0, 0.0)):
        with pytest.raises(UserError, match=r"RandomChoice.weights is"):
            RandomChoice("optimizer.lr", (0.1, 0.2), weights)
    with pytest.raises(UserError, match=r"AdamW.lr is -0.2"):
        check_schedule(grpo.but(schedule=RandomChoice("optimizer.lr", (0.1, -0.2))))
