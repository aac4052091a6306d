"""RLPT: prefixes by hand, numbers, lambda, the prompts, and GRPO at the limit."""

from __future__ import annotations

import asyncio

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.rlpt import ByCategory, Prefixed, prefix_likeness, rlpt
from gradus.recipe.core import changes
from gradus.rewards.verified import Verified
from gradus.tasks.text.segments import MASK, segments
from gradus.testing.methods import advantages_of, check_micro_batches, scripted_world, toy_group, toy_trajectory, weights_after
from gradus.types import Frozen, Group, Key, Problem, UserError


def rewards(reward: Prefixed, reference: str, *texts: str) -> list[float]:
    problem = Problem("p", "segments", text="q", answer="x", meta=Frozen(reference=reference))
    rows = tuple(toy_trajectory([2], name=str(i)).but(problem=problem, completion=f"={c}") for i, c in enumerate(texts))
    world, _ = scripted_world(segments(), lambda ask: "")
    (found,) = asyncio.run(reward.score([Group("g", rows)], {}, world))
    return [j.reward for j in found]  # type: ignore[misc]


def test_prefixes_by_hand() -> None:
    texts = ("a b c", "a x c", "a b c d e f g", "a b c d e f", "")
    assert rewards(Prefixed(), "a b c d e f", *texts) == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert prefix_likeness("a x c", "a b c d e f") == pytest.approx(1 - 1 / 3)
    assert prefix_likeness("a b c d e f g", "a b c d e f") == pytest.approx(1 - 1 / 7)
    assert rewards(Prefixed(strict=True), "a b c d e f", *texts) == [0.0, 0.0, 0.0, 1.0, 0.0]


def test_one_edit_in_ten_words_is_near_enough_but_no_number_may_differ() -> None:
    ten = "a b c d e f g h i j"
    assert rewards(Prefixed(), ten, ten.replace("c", "x"), "a b c d e f g h i".replace("c", "x")) == [1.0, 0.0]
    numbers = "a b c d e f g h has 10"
    assert rewards(Prefixed(), numbers, numbers.replace("10", "11"), numbers) == [0.0, 1.0]


def test_the_prompts_of_the_two_predictions() -> None:
    for p in segments().source.draw(range(40), None, Key(1)):
        after = p.question.partition(MASK)[2].strip(". ")
        assert bool(after) == (p.meta["category"] == "gap")


def test_lambda_scales_the_advantages_of_gaps() -> None:
    group = toy_group(1, 0)
    gap = group.but(trajectories=tuple(t.but(problem=Problem("p", "t", text="", meta=Frozen(category="gap"))) for t in group.trajectories))
    rule = rlpt.but(credit__factor=ByCategory(Frozen(gap=0.25))).credit
    assert advantages_of(rule, group, gap) == [[[1.0, 1.0], [-1.0, -1.0]], [[0.25, 0.25], [-0.25, -0.25]]]


def test_with_lambda_0_gaps_train_nothing() -> None:
    task = segments()
    only = rlpt.but(credit__factor=ByCategory(Frozen(gap=0.0)))
    gaps = [toy_group(1, 0, key=k) for k in "ab"]
    gaps = [g.but(trajectories=tuple(t.but(problem=task.source.draw([i], None, Key(0))[0]) for i, t in enumerate(g.trajectories))) for g in gaps]
    rows = advantages_of(only.credit, *gaps)
    assert all((rows[g][i][0] == 0) == (t.problem.meta["category"] == "gap") for g, group in enumerate(gaps) for i, t in enumerate(group.trajectories))
    # on "next" problems alone lambda has no effect, bit for bit
    assert torch.equal(*(weights_after(r, steps=2)["policy.logits"] for r in (only, rlpt)))


def test_with_the_verdict_it_is_grpo() -> None:
    base = grpo.but(objective__kl=None, players__reference=None)
    assert torch.equal(*(weights_after(r, steps=3)["policy.logits"] for r in (rlpt.but(reward=Verified()), base)))
    assert {"reward", "credit"} <= set(changes(grpo, rlpt))
    check_micro_batches(rlpt)
    with pytest.raises(UserError, match=r"Prefixed\.least"):
        Prefixed(least=2)
