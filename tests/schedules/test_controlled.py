"""A number that follows a metric: the adaptive KL of Ziegler et al. by hand, bounds, state."""

from __future__ import annotations

from typing import Any

import pytest

from gradus.papers.bases.grpo import grpo
from gradus.recipe.scheduled import check_schedule
from gradus.schedules.controlled import Controlled, controlled
from gradus.testing.methods import check_resumes, train_toy
from gradus.types import UserError
from gradus.types.moments import Moment

KL = "objective.kl.coefficient"
START = grpo.but(objective__kl__coefficient=0.2)


def values(schedule: Controlled, metrics: list[float]) -> list[float]:
    """The coefficients of the steps; the first step has no metrics of a step before."""
    state, out = schedule.start(), []
    for step, last in enumerate([{}, *({"kl": kl, "learning_rate": 1.0} for kl in metrics)]):
        recipe, events, state = schedule.at(Moment(step, 9, last=last), START, state)
        assert events == ()
        out.append(recipe.objective["kl"].coefficient)
    return out


def test_the_adaptive_kl_by_hand() -> None:
    """Target 6, rate 0.1, errors cut at 0.2: KL 12 gives 0.2 (1 + 0.1 x 0.2) = 0.204, then KL 5.4 (error -0.1) 0.204 x 0.99 = 0.20196,
    KL 6 leaves it, KL 0 (error -1, cut to -0.2) gives 0.20196 x 0.98 = 0.1979208."""
    assert values(Controlled(KL, "kl", target=6.0), [12.0, 5.4, 6.0, 0.0]) == pytest.approx([0.2, 0.204, 0.20196, 0.20196, 0.1979208])


def test_sums_signs_and_bounds() -> None:
    """By sum with rate -0.5: 0.2 - 0.5 (0.5 - 0.3) = 0.1, then -0.5 (0.1 - 0.3) more is 0.2, then it would be 0.35 and stays at 0.3."""
    falling = Controlled(KL, "kl", target=0.3, rate=-0.5, by="sum", low=0.05, high=0.3)
    assert values(falling, [0.5, 0.1, 0.0, 2.0]) == pytest.approx([0.2, 0.1, 0.2, 0.3, 0.05])
    assert controlled(2.0, 3.0, target=-2.0, rate=0.5, bound=9.0, by="factor") == pytest.approx(4.5)  # error 5 / 2: 2 (1 + 0.5 x 2.5)


def test_a_step_without_an_update_changes_nothing() -> None:
    schedule = Controlled(KL, "kl", target=6.0)
    recipe, _, state = schedule.at(Moment(1, 9, last={"reward": 1.0}), START, {"value": 0.3})
    assert (recipe.objective["kl"].coefficient, state) == (0.3, {"value": 0.3})
    with pytest.raises(UserError, match=r'unknown metric "kll" .did you mean kl'):
        Controlled(KL, "kll", target=6.0).at(Moment(1, 9, last={"kl": 1.0, "learning_rate": 0.1}), START, {"value": 0.3})


def test_a_run_follows_its_own_kl_and_resumes() -> None:
    recipe = START.but(schedule=Controlled(KL, "kl", target=1e-4, rate=0.5))
    seen: list[tuple[float, float]] = []
    train_toy(recipe, steps=5, watch=lambda run, row, groups: seen.append((run.players["policy"].spec.objective["kl"].coefficient, row["kl"])))
    value = 0.2
    for (used, _), before in zip(seen, [None, *(kl for _, kl in seen)], strict=False):
        value = value if before is None else controlled(value, before, target=1e-4, rate=0.5, bound=0.2, by="factor")
        assert used == pytest.approx(value)
    assert len({used for used, _ in seen}) > 2
    check_resumes(recipe, steps=5, after=3)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Controlled(KL, "kl", target=0.0), 'set by="sum"'),
        (lambda: Controlled(KL, "kl", target=1.0, low=2.0, high=1.0), "set `low` to"),
        (lambda: check_schedule(grpo.but(schedule=Controlled("objective.kl.estimator", "kl", target=1.0))), "at this path; give the path of a number"),
        (lambda: check_schedule(grpo.but(optimizer__lr=0.1, schedule=Controlled("optimizer.lr", "kl", target=1.0, low=-1.0))), "AdamW.lr is -1.0"),
        (lambda: check_schedule(grpo.but(schedule=Controlled("objective.kl.coefficent", "kl", target=1.0))), "coefficent"),
    ],
)
def test_refusals(made: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        made()
