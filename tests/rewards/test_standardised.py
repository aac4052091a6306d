"""Rewards on the scale of their past: by hand, batch by batch, failures, single actions, resumption."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Any

import pytest

from gradus.papers.bases.reinforce import reinforce
from gradus.rewards.standardised import Standardised, including, standardised
from gradus.rewards.verified import Verified
from gradus.testing.methods import check_resumes, toy_group, train_toy
from gradus.types import NOT_APPLICABLE, Failed, Frozen
from gradus.types.parts import Judgement

START = Standardised().start()


@dataclass(frozen=True)
class Given:
    """Rewards as the groups hold them."""

    needs: tuple[Any, ...] = ()

    async def score(self, groups: Any, signals: Any, world: Any) -> Any:
        return [[Judgement(t.reward) for t in g.trajectories] for g in groups]


def test_two_batches_by_hand() -> None:
    """1 and 3: mean 2, deviation 1. Then 8 too: mean 4, deviation sqrt((9 + 1 + 16) / 3) = sqrt(26 / 3)."""
    part = Standardised(Given())
    (row,), state = asyncio.run(part.score([toy_group(1.0, 3.0)], {}, None, START))  # type: ignore[arg-type]
    assert [j.reward for j in row] == [-1.0, 1.0]
    assert [dict(j.components) for j in row] == [{"given": 1.0}, {"given": 3.0}]
    (row,), state = asyncio.run(part.score([toy_group(8.0)], {}, None, state))  # type: ignore[arg-type]
    assert row[0].reward == pytest.approx(4 / math.sqrt(26 / 3))
    assert state == {"count": 3, "mean": 4.0, "squares": pytest.approx(26.0)}


def test_batches_add_up_to_all_values_at_once() -> None:
    values = [0.1, 5.0, -3.0, 2.5, 2.5, 40.0]
    parts = including(including(including(START, values[:1]), values[1:4]), values[4:])
    assert parts == pytest.approx(including(START, values))
    assert including(START, []) == START


def test_equal_values_give_zero() -> None:
    (row,), _ = asyncio.run(Standardised(Given()).score([toy_group(0.1, 0.1, 0.1)], {}, None, START))  # type: ignore[arg-type]
    assert [j.reward for j in row] == [0.0] * 3


def test_components_steps_and_failures() -> None:
    judged = Judgement(5.0, Frozen(a=5.0), ((0, 1, "a", 3.0),))
    assert standardised(judged, 1.0, 2.0, "x") == Judgement(2.0, Frozen(a=5.0), ((0, 1, "a", 1.5),))
    failed = Judgement(Failed("broken"))
    assert standardised(failed, 1.0, 2.0, "x") == failed
    assert standardised(Judgement(NOT_APPLICABLE), 1.0, 2.0, "x").reward is NOT_APPLICABLE


def test_a_run_keeps_the_verdict_and_goes_on_after_a_resume() -> None:
    recipe = reinforce.but(reward=Standardised(Verified()))
    run = train_toy(recipe, steps=2)
    assert run.memory.states["reward"]["state"]["count"] == 32
    assert all(0 <= row["accuracy"] <= 1 for row in run.metrics)
    check_resumes(recipe, steps=3, after=2)
