"""EMPO: shares and entropy by hand, the bounds, labels that are never read, and GRPO at the limit."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from gradus.papers.bases.grpo import grpo
from gradus.papers.rewards.empo import ClassShare, empo
from gradus.rewards.verified import Verified
from gradus.testing.methods import TOY, check_micro_batches, toy_group, train_toy, weights_after
from gradus.types import Failed, Sampling, UserError
from tests.papers.rewards.test_ttrl import relabelled


def test_shares_and_entropy_by_hand() -> None:
    """Shares 1/2, 1/4 and 1/4 of [a, a, b, none]: H = 1/2 ln 2 + 1/2 ln 4 = 1.0397. Four classes: H = ln 4 = 1.3863, the upper bound."""
    rewards, entropy, inside = ClassShare().of(["=a", "=a", "=b", "="])
    assert (rewards, inside) == ([0.5, 0.5, 0.25, 0.0], True)
    assert entropy == pytest.approx(1.0397, abs=5e-5)
    rewards, entropy, inside = ClassShare().of(["=a", "=b", "=c", "=d"])
    assert (rewards, inside) == ([0.0] * 4, False)
    assert entropy == pytest.approx(1.3863, abs=5e-5)
    assert ClassShare().of(["=a", "=a", "=a"])[0] == [0.0] * 3  # H = 0, the lower bound; the advantages are 0 in both cases
    assert ClassShare().of(["=", "=", "=a"])[0] == [0.0] * 3  # two missing answers are two classes, so all three differ
    assert ClassShare().of([]) == ([], 0.0, False)


@pytest.mark.parametrize("count", [2, 3, 5, 6, 7, 10, 12, 49, 64])
def test_all_different_answers_are_at_the_bound_for_every_size(count: int) -> None:
    rewards, entropy, inside = ClassShare().of([f"={i}" for i in range(count)])
    assert entropy == pytest.approx(math.log(count))
    assert (inside, sum(rewards)) == (False, 0.0)


def test_the_bounds() -> None:
    texts = ["=a", "=a", "=b", "=c"]  # H = 1.0397
    assert ClassShare(low=1.03).of(texts)[2]
    assert not ClassShare(low=1.04).of(texts)[2]
    assert ClassShare(high=1.04).of(texts)[2]
    assert not ClassShare(high=1.03).of(texts)[2]
    with pytest.raises(UserError, match=r"ClassShare.low"):
        ClassShare(low=-1.0)


def test_the_mean_reward_is_the_chance_that_two_answers_agree() -> None:
    rewards, _, _ = ClassShare().of([f"={c}" for c in "aaabbcdd"])
    assert sum(rewards) / 8 == pytest.approx((9 + 4 + 1 + 4) / 64)


def test_failed_answers_do_not_count() -> None:
    notes: list[tuple[str, float]] = []
    group = toy_group(0, 0, 0, 0)
    texts = ("=a", "=a", "=b", "=b")
    answers = tuple(t.but(completion=c, reward=r) for t, c, r in zip(group.trajectories, texts, (None, None, None, Failed("late")), strict=True))
    world = SimpleNamespace(note=lambda *pair: notes.append(pair))
    ((*row,),) = asyncio.run(ClassShare().score([group.but(trajectories=answers)], {}, world))
    assert [j.reward for j in row] == [2 / 3, 2 / 3, 1 / 3, 0.0]
    assert dict(notes) == {"semantic_entropy": pytest.approx(2 / 3 * math.log(1.5) + math.log(3) / 3), "certain_groups": 1.0}


def short(task):
    """The task with answers of one letter, so that answers of a group often agree."""
    return replace(task, sampling=Sampling(max_tokens=1))


def test_labels_are_never_read() -> None:
    plain, other = (weights_after(empo, steps=3, group=8, task=short(task))["policy.logits"] for task in (TOY, relabelled("no letter")))
    assert torch.equal(plain, other)
    assert not torch.equal(plain, weights_after(empo, rate=0.0, group=8, task=short(TOY))["policy.logits"])  # the shares do train


def test_with_verdicts_it_is_grpo_without_a_kl_term() -> None:
    base = grpo.but(objective__kl=None, players__reference=None)
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (empo.but(reward=Verified()), base))
    assert torch.equal(one, other)
    check_micro_batches(empo)


def test_the_entropy_falls_on_the_toy_task() -> None:
    seen: list[float] = []
    train_toy(empo, steps=40, group=8, learning_rate=0.2, task=short(TOY), watch=lambda run, metrics, groups: seen.append(metrics["semantic_entropy"]))
    assert sum(seen[-5:]) < 0.6 * sum(seen[:5])


def test_the_papers_numbers() -> None:
    assert (empo.setting.group, empo.reward, "kl" in empo.objective, empo.study.reward) == (7, ClassShare(0.0, None), False, Verified())
