"""Re:Form: the stages by hand, the order of the checks, the naive reward, and GRPO at the limit."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.reform_dafny import Staged, reform_dafny
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.tasks.code.specifications import Checker, specifications
from gradus.testing.methods import check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Frozen, Group, Problem, UserError

PROBLEM = Problem("x", "specifications", text="q", meta=Frozen(lines=("r = x+1",), requires=("x >= 0",), ensures=("r >= x",)))
TEXTS = {
    "code r = x+1; ens r == x+1": 1.0,
    "req x > 0; code r = x+1; ens r == x+1": 0.6,
    "req x >= 0; code r = x+1; ens r < x": 0.2,
    "code r = x+1; ens true": 0.0,
    "code r = x+1; ens true; ens r >= x": 0.0,  # one "true" is a cheat, also beside a promise
    "assume x > 0; code r = x+1; ens r >= x": 0.0,
    "code r = x+1": 0.0,
    "code r = x+1; ens r >= y": 0.01,
    "code r = x+1; ens true; ens r >=": 0.01,  # an error is found before the cheat
    "code r = x; ens r >= x": 0.0,
    "": 0.0,
}


def rewards(reward: Staged, *texts: str) -> list[float]:
    rows = tuple(toy_trajectory([2], name=str(i)).but(problem=PROBLEM, completion=c) for i, c in enumerate(texts))
    world, _ = scripted_world(specifications(), lambda ask: "")
    (found,) = asyncio.run(reward.score([Group("g", rows)], {}, world))
    return [j.reward for j in found]  # type: ignore[misc]


def test_the_stages_by_hand() -> None:
    assert rewards(Staged(), *TEXTS) == pytest.approx(list(TEXTS.values()))


def test_the_naive_reward_pays_weak_specifications() -> None:
    naive = Staged(verified=0.8, strong=0.0)
    assert rewards(naive, "code r = x+1; ens r == x+1", "req x > 7; code r = x+1; ens r > 0") == pytest.approx([1.0, 1.0])
    assert rewards(Staged(), "req x > 7; code r = x+1; ens r > 0") == pytest.approx([0.6])


def test_the_components() -> None:
    rows = tuple(toy_trajectory([2], name=str(i)).but(problem=PROBLEM, completion=c) for i, c in enumerate(TEXTS))
    world, _ = scripted_world(specifications(), lambda ask: "")
    (found,) = asyncio.run(Staged().score([Group("g", rows)], {}, world))
    assert [j.components["strong"] for j in found] == [1.0] + [0.0] * 10
    assert [j.components["verified"] for j in found] == [1.0] + [0.0] * 10
    assert found[1].components["verified_code"] == 1.0
    assert [Checker()(PROBLEM, text) for text in TEXTS] == [1.0] + [0.0] * 10


def test_with_the_verdict_it_is_grpo() -> None:
    bare = reform_dafny.but(reward=Verified(), objective__entropy=None)
    base = grpo.but(objective__kl__coefficient=0.001)
    assert torch.equal(*(weights_after(r, steps=3)["policy.logits"] for r in (bare, base)))
    assert {"reward", "objective.entropy", "objective.kl.coefficient", "setting.group"} <= set(changes(grpo, reform_dafny))
    check_micro_batches(reform_dafny)
    with pytest.raises(UserError, match=r"Staged\.error"):
        Staged(error=-1)
