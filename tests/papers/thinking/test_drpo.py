"""DRPO: weights, shares and the gradient by hand, the sign for long right answers against GRPO, and the KL bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gradus.credit.groups import group_relative
from gradus.objectives.terms import evaluate
from gradus.papers.bases.reinforce import reinforce
from gradus.papers.thinking.drpo import ScoreGap, drpo, length_weights
from gradus.recipe.core import changes
from gradus.testing.methods import check_different_update, check_micro_batches, check_same_update, loss_and_gradient, toy_batch, toy_group
from gradus.types import Frozen, UserError
from gradus.types.signals import LogProb

ONE = {"gap": ScoreGap(most=8, lam=0.1)}


def test_weights_by_hand() -> None:
    assert length_weights([0.25, 0.5], lam=0.1, most=1).tolist() == pytest.approx([0.92414, 0.07586], abs=1e-5)
    assert length_weights([0.25, 0.5], lam=1e6, most=1).tolist() == pytest.approx([0.5, 0.5], abs=1e-6)
    assert length_weights([2, 4], lam=0.1, most=8).tolist() == pytest.approx([0.92414, 0.07586], abs=1e-5)
    assert length_weights([1, 8000], lam=1e-3, most=8192).tolist() == pytest.approx([1.0, 0.0])  # no overflow
    assert length_weights([5], lam=0.1, most=8).tolist() == [1.0]


def test_the_gradient_by_hand() -> None:
    # right answers of 2 and 4 tokens, wrong answers of 1 token with the scores -1 and -2: shares 0.52498 and 0.47502
    group = toy_group(1, 1, 0, 0, lengths=[2, 4, 1, 1])
    rows = [-0.5, -0.5, -1, -1, -1, -1, -1.0, -2.0]
    loss, slopes, seen = loss_and_gradient(ONE, [group], rows)
    wrong = 10 * math.log(math.exp(-0.1) + math.exp(-0.2))
    assert loss == pytest.approx(-(0.92414 * -0.5 + 0.07586 * -1 - wrong), abs=1e-4)
    assert slopes == pytest.approx([-0.92414 / 2] * 2 + [-0.07586 / 4] * 4 + [0.52498, 0.47502], abs=1e-5)
    assert (seen["gap_right"], seen["gap_wrong"]) == (-0.75, -1.5)
    twice, halves, _ = loss_and_gradient(ONE, [group, toy_group(1, 1, 0, 0, lengths=[2, 4, 1, 1], key="h")], rows * 2)
    assert twice == pytest.approx(loss)
    assert halves == pytest.approx([s / 2 for s in slopes] * 2)


def test_a_long_right_answer_is_always_raised() -> None:
    lengths = np.array([0.1, 0.1, 0.9, 0.5])
    right = np.array([True, True, True, False])
    price = group_relative(np.where(right, 1 - lengths, 0.0))
    assert price.tolist() == pytest.approx([0.9966, 0.9966, -0.8793, -1.1138], abs=1e-4)
    _, slopes, _ = loss_and_gradient({"gap": ScoreGap(most=10)}, [toy_group(1, 1, 1, 0, lengths=[1, 1, 9, 5])], [-1.0] * 16)
    assert all(s < 0 for s in slopes[:11])  # a negative slope of the loss raises the token
    assert all(s > 0 for s in slopes[11:])


@pytest.mark.parametrize("rewards", [(1, 1), (0, 0), (1,)])
def test_pure_groups_have_no_gradient(rewards: tuple[float, ...]) -> None:
    loss, slopes, _ = loss_and_gradient(ONE, [toy_group(*rewards)], [-1.0] * 2 * len(rewards))
    assert loss == 0
    assert not any(slopes)


def bound(rows: list[float]) -> tuple[float, list[float]]:
    batch = toy_batch(toy_group(1, 0, lengths=[1, 3]))
    batch.old[LogProb()] = torch.full((4,), -1.0, dtype=torch.float64)
    leaves = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
    loss, seen = evaluate({"gap": ScoreGap(beta=10, delta=0.1)}, {LogProb(): leaves}, batch)
    loss.backward()
    free, slopes, _ = loss_and_gradient({"gap": ScoreGap(beta=0)}, [toy_group(1, 0, lengths=[1, 3])], rows)
    assert seen["step_kl"].mean == pytest.approx(-1 - np.mean(rows))
    return loss.item() - free, (leaves.grad.numpy() - slopes).tolist()


def test_the_bound_by_hand() -> None:
    # K = mean of 0.4, 0, 0.4, 0 = 0.2; the excess is 0.1: the loss is 5 * 0.01, the slope of a row 10 * 0.1 * (-1/4)
    loss, slopes = bound([-1.4, -1, -1.4, -1])
    assert loss == pytest.approx(0.05)
    assert slopes == pytest.approx([-0.25] * 4)
    assert bound([-1.0, -1.2, -1, -1]) == (0.0, [0.0] * 4)  # K = 0.05, below delta
    assert bound([1.0, -1, -1, -1]) == (0.0, [0.0] * 4)  # a negative estimate is no excess


def test_the_bound_acts_from_the_second_update_on() -> None:
    free = drpo.but(objective__gap__beta=0.0)
    check_same_update(drpo.but(update__count=1), free.but(update__count=1))
    check_different_update(drpo, free)


def test_without_its_differences_it_is_reinforce() -> None:
    plain = drpo.but(
        selection=reinforce.selection, credit=reinforce.credit, objective=Frozen(policy=reinforce.objective["policy"]), update__count=1, setting__temperature=1.0
    )
    check_same_update(plain, reinforce)
    assert set(changes(reinforce, drpo)) == {"selection", "credit", "objective.policy", "objective.gap", "update.count", "setting.temperature"}
    check_micro_batches(drpo)
    check_different_update(drpo.but(objective__gap__most=6.0), drpo.but(objective__gap__most=6.0, objective__gap__lam=1e6), prompts=6, group=16)


def test_wrong_numbers_are_refused() -> None:
    for name, value in (("lam", 0), ("tau", 0), ("most", 0), ("beta", -1), ("delta", -1)):
        with pytest.raises(UserError, match=name):
            ScoreGap(**{name: value})
