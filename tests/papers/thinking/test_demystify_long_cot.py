"""Demystifying long CoT: the two sums of rewards by hand, prices at their tokens, and PPO at the limit. The cosine is in tests/rewards/test_length.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradus.credit.gae import GAE
from gradus.papers.bases.ppo import ppo
from gradus.papers.thinking.demystify_long_cot import CosineAndRepetition, TwoDiscounts, demystify_long_cot
from gradus.recipe.core import changes
from gradus.rewards.length import CosineLength
from gradus.rewards.repetition import Repetition
from gradus.testing.methods import advantages_of, check_micro_batches, toy_trajectory, weights_after
from gradus.types import Failed, Group, UserError
from gradus.types.signals import Values
from tests.rewards.judged import score, trajectory

PART = CosineAndRepetition(CosineLength(limit=100), Repetition(2, -0.5))


def test_the_papers_numbers() -> None:
    reward = demystify_long_cot.reward
    assert (reward.cosine.right, reward.cosine.wrong, reward.cosine.exceeds, reward.cosine.margin) == ((2.0, 1.0), (-10.0, 0.0), -10.0, 0)
    assert (reward.repetition.n, reward.repetition.price) == (40, -0.05)
    rule = demystify_long_cot.credit.rule
    assert (rule.gamma, rule.gamma_near, rule.near) == (1.0, 0.99, ("repetition",))


def test_the_sum_of_cosine_and_prices() -> None:
    row = [*range(100, 147), 1, 2, 1]  # 50 tokens without a repeated pair
    looped = [*range(100, 146), 1, 2, 1, 2]
    answers = [trajectory("yes", tokens=row), trajectory("yes", tokens=looped), trajectory("no", tokens=range(100)), trajectory("bad")]
    (found,) = score(PART, answers, verify=lambda p, c: Failed("broken") if c == "bad" else float(c == "yes"))
    assert [j.reward for j in found[:3]] == pytest.approx([1.5, 0.5, -10.0])
    assert [j.components["repetition"] for j in found[:3]] == [0, -1, 0]
    assert [j.components["repeated"] for j in found[:3]] == [0, 2 / 50, 0]
    assert [j.components["verified"] for j in found[:3]] == [1, 1, 0]
    assert found[1].steps == ((0, 48, "repetition", -0.5), (0, 49, "repetition", -0.5))
    assert isinstance(found[3].reward, Failed)


def priced(rewards, total, actions=4):
    t = toy_trajectory([2] * actions, reward=total)
    (context,) = t.contexts
    return t.but(contexts=(replace(context, rewards=rewards),))


def test_the_two_sums_by_hand() -> None:
    t = priced(((1, "repetition", -1.0), (2, "repetition", -1.0)), 1.0)  # so 3 at the last action
    assert TwoDiscounts(gamma_near=0.0).returns(t).tolist() == [3, 2, 2, 3]  # the price stays at its tokens
    assert TwoDiscounts(gamma_near=0.5).returns(t).tolist() == [3 - 0.5 - 0.25, 3 - 1 - 0.5, 2, 3]
    assert TwoDiscounts(gamma_near=1.0).returns(t).tolist() == [1, 1, 2, 3]
    assert TwoDiscounts(gamma=0.0, gamma_near=0.0).returns(t).tolist() == [0, -1, -1, 3]
    plain = priced((), 2.0)
    assert TwoDiscounts().returns(plain).tolist() == [2, 2, 2, 2]  # every token has the same return of the verdict
    half = priced(((0, "kl", -1.0),), 1.0)  # half of it is discounted to 0 before its action; 2 at the last action
    assert TwoDiscounts(gamma_near=0.0).returns(half).tolist() == [1, 2, 2, 2]


def test_advantages_are_returns_minus_values() -> None:
    group = Group("g", (priced(((1, "repetition", -1.0),), 1.0),))
    signals = {Values(player="critic"): {"t": np.array([1, 1, 0, 0.5], np.float32)}}
    assert advantages_of(TwoDiscounts(gamma_near=0.0, whitened=False), group, signals=signals) == [[[1, 0, 2, 1.5]]]
    whole = TwoDiscounts(gamma_near=1.0).assign([group], signals)[0][0]
    gae = GAE(lam=1.0).assign([group], {**signals, **{n: {"t": np.zeros(4)} for n in GAE().needs if n not in signals}})[0][0]
    assert whole.advantages.tolist() == pytest.approx(gae.advantages.tolist())
    assert whole.returns.tolist() == pytest.approx(gae.returns.tolist())


def test_without_a_price_it_is_ppo_with_a_cosine() -> None:
    plain = demystify_long_cot.but(reward__repetition__price=0.0, credit__rule__gamma_near=1.0)
    base = ppo.but(reward=CosineLength(), credit__rule__lam=1.0, credit__coefficient=0.01)
    ours, theirs = (weights_after(r, steps=2) for r in (plain, base))
    assert all(np.allclose(ours[name], theirs[name], atol=1e-9) for name in ours)
    assert not np.allclose(weights_after(demystify_long_cot.but(reward__repetition__n=1), steps=2)["policy.logits"], theirs["policy.logits"], atol=1e-4)
    assert {path.split(".")[0] for path in changes(ppo, demystify_long_cot)} == {"reward", "credit"}
    check_micro_batches(demystify_long_cot)


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(UserError, match="gamma_near"):
        TwoDiscounts(gamma_near=1.5)
