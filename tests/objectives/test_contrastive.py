"""The contrastive loss by hand, and its partners."""

from __future__ import annotations

import math

import pytest
import torch

from gradus.objectives.contrastive import Contrastive, contrastive_losses
from gradus.testing.methods import toy_batch, toy_group
from gradus.types.readers import Hidden


def test_the_contrastive_loss_by_hand() -> None:
    features = torch.tensor([[1.0, 0], [2, 0], [0, 3], [0, 1]], dtype=torch.float64)  # lengths have no effect
    losses, nearest = contrastive_losses(features, torch.tensor([0, 0, 1, 1]), tau=1.0)
    assert losses.tolist() == pytest.approx([math.log(1 + 2 / math.e)] * 4)
    assert nearest.all()
    losses, nearest = contrastive_losses(features[[0, 2, 1, 3]], torch.tensor([5, 5, 5, 9]), tau=0.5)
    # cosines / tau: the first text has its partners at 0 and 2, the stranger at 0; the second has both partners at 0, the stranger at 2
    total = math.log(math.e**2 + 2)
    assert losses.tolist() == pytest.approx([total - 1, total, total - 1])  # the stranger has no partner and no loss
    assert nearest.tolist() == [True, False, True]


def test_the_term_takes_the_texts_of_a_group_as_partners() -> None:
    batch = toy_batch(toy_group(1, 1, lengths=[2, 1]), toy_group(1, lengths=[1]).but(key="h"))
    rows = torch.tensor([[2.0, 0], [0, 2], [1, 1], [1, 1]], dtype=torch.float64, requires_grad=True)  # the mean of the first text is (1, 1)
    loss, metrics = Contrastive(tau=1.0).loss({Hidden(pool="mean"): rows}, batch)
    assert loss.item() == pytest.approx(math.log(2))  # partner and stranger have the cosine 1
    loss.backward()
    assert rows.grad is not None
    alone, _ = Contrastive().loss({Hidden(pool="mean"): rows}, toy_batch(toy_group(1, lengths=[2]), toy_group(1, lengths=[2]).but(key="h")))
    assert alone.item() == 0.0
    assert metrics["matched"].count == 2
