"""RLSC: F and its gradient on three answers, the losses without and with alpha, labels that are not read, and REINFORCE at the limit."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace

import pytest
import torch

from gradus.credit.groups import BatchBaseline
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.rewards.rlsc import OwnLikelihood, rlsc
from gradus.rewards.verified import Verified
from gradus.testing.methods import TOY, check_micro_batches, loss_and_gradient, toy_trajectory, train_toy, weights_after
from gradus.types import Failed, Group, UserError
from tests.papers.rewards.test_ttrl import relabelled

P = (0.6, 0.3, 0.1)


def test_the_chance_of_agreement_and_its_gradient_by_hand() -> None:
    """sum p^2 = 0.36 + 0.09 + 0.01. The gradient by logit k is 2 p_k (p_k - F): 1.2 * 0.14, 0.6 * -0.16, 0.2 * -0.36."""
    logits = torch.tensor(P, dtype=torch.float64).log().requires_grad_()
    f = logits.softmax(0).square().sum()
    f.backward()
    assert f.item() == pytest.approx(0.46)
    assert logits.grad.tolist() == pytest.approx([0.168, -0.096, -0.072])


@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_the_expected_descent_is_half_of_the_gradient(alpha: float) -> None:
    """The loss of one batch with each answer p times is exact: here ten answers, of which 6, 3 and 1 are the three arms."""
    arms = [0] * 6 + [1] * 3 + [2]
    reward = OwnLikelihood(alpha)
    rows = tuple(toy_trajectory([2], name=f"g/{i}", logprobs=[math.log(P[arm])]) for i, arm in enumerate(arms))
    values = [reward.of(t) + reward.alpha for t in rows]
    assert values == pytest.approx([P[arm] + alpha for arm in arms])
    group = Group("g", tuple(t.but(reward=v) for t, v in zip(rows, values, strict=True)))
    (credited,) = rlsc.credit.assign([group], {})
    given = [float(c.advantages[0]) for c in credited]
    assert given == values  # no baseline
    _, gradient, _ = loss_and_gradient(rlsc.objective, [group], [math.log(P[arm]) for arm in arms], advantages=given)
    logits = torch.tensor(P, dtype=torch.float64).log().requires_grad_()
    (logits.log_softmax(0)[arms] * torch.tensor(gradient, dtype=torch.float64)).sum().backward()
    assert (-logits.grad).tolist() == pytest.approx([0.084, -0.048, -0.036], abs=1e-6)


def test_the_probability_of_an_answer() -> None:
    answer = toy_trajectory([2, 3], logprobs=[math.log(0.5), math.log(0.2)])
    assert OwnLikelihood().of(answer) == pytest.approx(0.1)
    assert OwnLikelihood(form="mean").of(answer) == pytest.approx(math.sqrt(0.1))
    with pytest.raises(UserError, match=r"OwnLikelihood.alpha"):
        OwnLikelihood(-0.1)


def test_the_reward_is_the_probability_plus_alpha() -> None:
    answer = toy_trajectory([2, 3], logprobs=[math.log(0.5), math.log(0.2)])
    late = answer.but(reward=Failed("late"))
    notes: list[tuple[str, float]] = []
    world = SimpleNamespace(note=lambda *pair: notes.append(pair))
    ((found, failed),) = asyncio.run(OwnLikelihood().score([Group("g", (answer, late))], {}, world))
    assert found.reward == pytest.approx(0.1 + 0.1)
    assert found.components["likelihood"] == pytest.approx(0.1)
    assert failed.reward == Failed("late")
    assert notes == [("likelihood", pytest.approx(0.1))]


def test_no_reference_answer_is_read() -> None:
    plain, other = (weights_after(rlsc, steps=3, task=task)["policy.logits"] for task in (TOY, relabelled("no letter")))
    assert torch.equal(plain, other)
    assert torch.equal(plain, weights_after(rlsc, steps=3, task=relabelled(None))["policy.logits"])


def test_with_verdicts_it_is_reinforce_without_a_baseline() -> None:
    base = reinforce.but(credit=BatchBaseline("none"), setting__temperature=0.5)
    one, other = (weights_after(r, steps=3)["policy.logits"] for r in (rlsc.but(reward=Verified()), base))
    assert torch.equal(one, other)
    check_micro_batches(rlsc)


def test_own_samples_become_likelier() -> None:
    seen: list[float] = []
    train_toy(rlsc.but(reward__form="mean"), steps=30, watch=lambda run, metrics, groups: seen.append(metrics["likelihood"]))
    assert sum(seen[-5:]) > 1.2 * sum(seen[:5])


def test_the_papers_numbers() -> None:
    assert (rlsc.reward, rlsc.setting.group, rlsc.setting.temperature) == (OwnLikelihood(0.1, "product"), 16, 0.5)
    assert ("kl" in rlsc.objective, rlsc.study.reward) == (False, Verified())
