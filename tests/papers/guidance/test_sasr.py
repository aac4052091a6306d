"""SASR: the probability by hand, which steps are drawn, when the norms change, and pure imitation as the limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.papers.bases.grpo import grpo
from gradus.papers.bases.sft import sft
from gradus.papers.guidance.sasr import ByGradientNorm, imitation_chance, sasr, seen_norm
from gradus.rollouts.auto import Auto
from gradus.rollouts.demonstrations import Demonstrations
from gradus.schedules.constant import ConstantSchedule
from gradus.testing.methods import check_resumes, train_toy, weights_after
from gradus.types import Key, UserError
from gradus.types.moments import CopyWeights, Moment


def test_the_probability_by_hand() -> None:
    assert imitation_chance(0.5, 2.0, gamma=1.0) == pytest.approx(0.2)
    assert imitation_chance(2.0, 2.0, gamma=1.0) == 0.5
    assert imitation_chance(0.3, 2.0, gamma=0.0) == 1.0
    assert imitation_chance(0.0, 0.0, gamma=1.0) == 1.0


def drawn(schedule: ByGradientNorm, state: dict[str, Any], step: int, norm: float | None = None) -> tuple[bool, dict[str, Any], Any]:
    last = {} if norm is None else {"grad_norm": norm}
    recipe, events, new = schedule.at(Moment(step, 99_999, last, key=Key(step)), sasr, state)
    assert isinstance(recipe.rollout, Demonstrations if new["imitated"] else Auto)
    return new["imitated"], new, events


def test_the_share_of_imitation_is_the_probability() -> None:
    schedule = ByGradientNorm(warmup=1, forced=0)
    state = {"warm": 2.0, "count": 1, "last": 0.5, "imitated": False, "since": 0}
    share = sum(drawn(schedule, state, step)[0] for step in range(2, 10_002)) / 10_000
    assert 0.185 <= share <= 0.215


def test_the_norms_of_a_run() -> None:
    """The warm-up's norms 4 and 2 have the mean 3. A step of RL with norm 9 changes nothing; a later step of imitation with norm 1 is the last."""
    schedule = ByGradientNorm(warmup=2)
    state = schedule.start()
    imitates, state, _ = drawn(schedule, state, 0)
    assert imitates
    imitates, state, events = drawn(schedule, state, 1, 4.0)
    assert (imitates, events) == (True, ())
    _, state, events = drawn(schedule, state, 2, 2.0)
    assert events == (CopyWeights("policy", "reference"),)
    assert (state["warm"] / state["count"], state["last"]) == (3.0, 2.0)
    explored = seen_norm({**state, "imitated": False}, Moment(5, 9, {"grad_norm": 9.0}), 2)
    assert (explored["last"], explored["warm"]) == (2.0, 6.0)
    imitated = seen_norm({**state, "imitated": True}, Moment(6, 9, {"grad_norm": 1.0}), 2)
    assert (imitated["last"], imitated["warm"]) == (1.0, 6.0)
    for lost in ({}, {"grad_norm": float("nan")}):
        assert seen_norm({**state, "imitated": True}, Moment(6, 9, lost), 2) == {**state, "imitated": True}
    assert drawn(replace(schedule, reference=None), state, 2)[2] == ()


def test_imitation_is_forced_after_many_steps_of_rl() -> None:
    state = {"warm": 1.0, "count": 1, "last": 0.0, "imitated": False, "since": 0}  # p = 0
    found, schedule = [], ByGradientNorm(warmup=1, forced=3)
    for step in range(2, 10):
        imitates, state, _ = drawn(schedule, state, step)
        found.append(imitates)
    assert found == [False, False, False, True] * 2


def test_only_imitation_is_sft_and_only_rl_is_grpo() -> None:
    ours = weights_after(sasr.but(schedule__gamma=0.0, schedule__warmup=1), steps=3)["policy.logits"]
    base = weights_after(sft.but(curriculum=ShuffledEpochs()), steps=3)["policy.logits"]
    torch.testing.assert_close(ours, base, rtol=0, atol=1e-14)
    plain = weights_after(grpo, steps=3)["policy.logits"]
    never = sasr.but(schedule=ConstantSchedule())
    torch.testing.assert_close(weights_after(never, steps=3)["policy.logits"], plain, rtol=0, atol=1e-14)


def test_a_run_has_both_kinds_of_steps() -> None:
    kinds: list[set[str]] = []
    mixed = sasr.but(schedule__warmup=2, schedule__forced=2)
    train_toy(mixed, steps=8, watch=lambda run, row, groups: kinds.append({t.source for g in groups for t in g.trajectories}))
    assert kinds[:2] == [{"expert"}] * 2
    assert {"expert"} in kinds[2:]
    assert {"policy"} in kinds[2:]
    check_resumes(mixed, steps=4, after=2)
    with pytest.raises(UserError, match="gamma"):
        ByGradientNorm(gamma=-1.0)
