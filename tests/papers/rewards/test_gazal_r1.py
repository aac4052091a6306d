"""Gazal-R1: the cosine, the form and the repetition by hand, what is trained, and Dr. GRPO at the limit."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

from gradus.papers.bases.dr_grpo import dr_grpo
from gradus.papers.rewards.gazal_r1 import RepeatedShare, gazal_r1, repeated_share
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.testing.methods import TOY, check_micro_batches, scripted_world, toy_trajectory, weights_after
from gradus.types import Group, Problem, UserError

LENGTH = gazal_r1.reward.parts["cosine_length"]


def test_the_cosine_by_hand() -> None:
    right, wrong = (LENGTH.values(np.array([0.0, 50.0, 100.0, 130.0]), np.full(4, r), 100).tolist() for r in (True, False))
    assert right == pytest.approx([1.0, 0.75, 0.5, 0.5])  # beyond the limit as at the limit
    assert wrong == pytest.approx([-1.0, -0.75, -0.5, -0.5])


def test_the_repetition_by_hand() -> None:
    assert repeated_share(["a", "b", "c", "a", "b", "c", "a", "b", "c"], 3) == pytest.approx(4 / 7)  # 7 of which 3 differ
    assert 0.5 * repeated_share(["a", "b", "c", "a", "b", "c", "a", "b", "c"], 3) == pytest.approx(0.2857, abs=5e-5)
    assert (repeated_share(["a"], 3), repeated_share(["a", "b", "c", "d"], 3)) == (0.0, 0.0)
    assert dict(gazal_r1.reward.weights) == {"tags": 0.5, "repetition": -0.5}
    with pytest.raises(UserError, match=r"RepeatedShare\.n"):
        RepeatedShare(n=0)


def test_the_whole_reward_by_hand() -> None:
    texts = ("<think>t</think>\\boxed{b}", "a a a a a a", "c")
    problem = Problem("p", "toy", text="a", answer="b")
    rows = tuple(toy_trajectory([2] * n, name=str(i)).but(problem=problem, completion=c) for i, (c, n) in enumerate(zip(texts, (50, 50, 100))))
    world, _ = scripted_world(TOY, lambda ask: "", max_tokens=100)
    (found,) = asyncio.run(gazal_r1.reward.score([Group("g", rows)], {}, world))
    # right at half the limit and the form; wrong at half with 3 n-grams of which 2 repeat; wrong at the limit
    assert [j.reward for j in found] == pytest.approx([0.75 + 0.5, -0.75 - 0.5 * 2 / 3, -0.5])


def test_at_the_limit_it_is_dr_grpo() -> None:
    bare = gazal_r1.but(reward=Verified(), players__policy=None)
    base = dr_grpo.but(objective__policy__trust=gazal_r1.objective["policy"].trust, objective__policy__average__length=1024, update__count=1)
    assert torch.equal(*(weights_after(r, steps=3)["policy.logits"] for r in (bare, base)))
    assert set(changes(base, bare)) == {"players.policy"}
    adapter = gazal_r1.players["policy"].model
    assert (adapter.rank, adapter.root, adapter.magnitude) == (256, True, True)
    check_micro_batches(gazal_r1)
