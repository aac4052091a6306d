"""Reptile: the meta step by hand, against plain loops over gradient steps, and its limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.papers.bases.sft import sft
from gradus.papers.data.meta_rtl import EachKind
from gradus.testing.methods import check_micro_batches, train_toy, weights_after
from gradus.types import UserError
from gradus.updates.reptile import EqualWeights, Reptile, meta_step

LOGITS = "policy.logits"


def reptile(**fields):
    return sft.but(curriculum=EachKind(), update=Reptile(**{"inner_lr": 0.5, **fields}))


def test_the_meta_step_by_hand():
    # 0 + .5 (.25 * 1 + .75 * 3)
    assert float(meta_step(torch.tensor(0.0), [torch.tensor(1.0), torch.tensor(3.0)], np.array([0.25, 0.75]), eta=0.5)) == 1.25


def test_the_step_goes_eta_of_the_way():
    start = weights_after(reptile(), steps=0)[LOGITS]
    ends = [weights_after(reptile(eta=eta), steps=1)[LOGITS] for eta in (0.0, 0.5, 1.0)]
    assert torch.equal(ends[0], start)
    assert_close(ends[1] - start, 0.5 * (ends[2] - start))
    assert float((ends[2] - start).norm()) > 0


def test_one_source_and_one_inner_step_is_plain_gradient_descent():
    """The toy task has the kinds `early` and `late`: with one source and eta 1 the weights move by inner_lr times the gradient, in proportion."""
    start = weights_after(reptile(), steps=0)[LOGITS]
    small, large = (weights_after(reptile(inner_steps=1, inner_lr=lr, eta=1.0), steps=1)[LOGITS] - start for lr in (0.25, 0.5))
    assert_close(2 * small, large)
    # problems of the kind `early` alone move the weights; the target `late` gives the rewards only
    alone = sft.but(curriculum=EachKind(arms=("early", "late")), update=Reptile(inner_steps=1, inner_lr=0.25, eta=1.0))
    assert torch.equal(weights_after(alone, steps=1)[LOGITS] - start, small)
    other = sft.but(curriculum=EachKind(arms=("late", "early")), update=Reptile(inner_steps=1, inner_lr=0.25, eta=1.0))
    assert not torch.equal(weights_after(other, steps=1)[LOGITS] - start, small)


def test_the_reward_is_the_loss_of_the_mixture_minus_that_of_the_source():
    """At eta 0 the mixture is the start, and at eta 1 it is the copy of the only source: both losses on the same target problems."""
    rows = []
    for eta in (0.0, 1.0):
        train_toy(reptile(eta=eta), steps=1, watch=lambda run, row, groups: rows.append(row))
    still, moved = rows
    assert still["gain/early"] == pytest.approx(still["target_loss"] - moved["target_loss"])
    assert still["gain/early"] != 0
    assert moved["gain/early"] == 0


def test_metrics_and_micro_batches():
    seen = []
    train_toy(reptile(), steps=2, watch=lambda run, row, groups: seen.append(row))
    assert all({"weight/early", "gain/early", "target_loss", "grad_norm"} <= row.keys() for row in seen)
    assert all(row["weight/early"] == 1.0 for row in seen)
    check_micro_batches(reptile())


def test_equal_weights():
    assert EqualWeights().weigh(4, None).tolist() == [0.25] * 4
    assert EqualWeights().observe(np.zeros(4)) == {}


def test_a_batch_of_one_kind_is_refused():
    with pytest.raises(UserError, match="at least two kinds"):
        train_toy(sft.but(update=Reptile()), steps=1)
    with pytest.raises(UserError, match="inner_steps"):
        Reptile(inner_steps=0)


def test_a_step_that_is_not_finite_leaves_the_weights_alone():
    start = weights_after(reptile(), steps=0)[LOGITS]
    recipe = reptile(inner_lr=1e308, eta=1e5).but(setting__guard__in_a_row=9)
    assert torch.equal(weights_after(recipe, steps=1)[LOGITS], start)
