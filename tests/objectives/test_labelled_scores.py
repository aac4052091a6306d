"""Losses of reward models by hand: regression, chances and soft labels, several heads, and the margin."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gradus.objectives.labelled_scores import LabelledScores, score_losses
from gradus.objectives.ranking import MaxMargin
from gradus.testing.methods import loss_and_gradient, toy_group
from gradus.types import NOT_APPLICABLE, Frozen, UserError
from gradus.types.batch import make_batch
from gradus.types.signals import Value


@pytest.mark.parametrize(("fit", "loss"), [("squared", 0.25), ("squared_chance", 0.0), ("cross_entropy", math.log(2))])
def test_losses_by_hand(fit, loss):
    assert score_losses(torch.tensor([0.0]), torch.tensor([0.5]), fit).item() == pytest.approx(loss)


def test_only_the_value_before_the_last_action_learns():
    # scores 3 and 1 for rewards 1 and 0: (4 + 1) / 2; slopes 2 * 2 / 2 and 2 * 1 / 2
    loss, slopes, metrics = loss_and_gradient({"score": LabelledScores()}, [toy_group(1, 0, lengths=[2, 1])], [7.0, 3.0, 1.0], want=Value())
    assert loss == pytest.approx(2.5)
    assert slopes == pytest.approx([0, 2, 1])
    assert metrics["score_loss/value"] == pytest.approx(2.5)


def test_a_soft_label_has_its_minimum_at_its_own_chance():
    group = toy_group(0.25, lengths=[1])
    _, slopes, _ = loss_and_gradient({"score": LabelledScores(fit="cross_entropy")}, [group], [math.log(1 / 3)], want=Value())
    assert slopes == pytest.approx([0], abs=1e-6)
    _, slopes, _ = loss_and_gradient({"score": LabelledScores(fit="cross_entropy")}, [group], [0.0], want=Value())
    assert slopes == pytest.approx([0.25])  # sigmoid(0) - 1/4


def test_every_head_has_the_component_of_its_name_as_label_and_a_missing_component_is_no_label():
    group = toy_group(1, 0, lengths=[1, 1])
    parts = ({"tone": 0.5, "safe": 1.0}, {"tone": NOT_APPLICABLE, "safe": 0.0})
    made = group.but(trajectories=tuple(t.but(components=Frozen(c), advantages=np.zeros(1)) for t, c in zip(group.trajectories, parts, strict=True)))
    batch, term = make_batch([made]), LabelledScores(("tone", "safe"))
    tone, safe = torch.tensor([1.5, 9.0], requires_grad=True), torch.tensor([1.0, 3.0], requires_grad=True)
    loss, _ = term.loss({Value("tone"): tone, Value("safe"): safe}, batch)
    assert loss.item() == pytest.approx((1.0 + 0.0 + 9.0) / 2)  # tone 1, safe 0 and 9, over two answers
    loss.backward()
    assert tone.grad.tolist() == [1, 0]
    assert safe.grad.tolist() == [0, 3]


def test_a_label_that_is_no_chance_is_refused():
    with pytest.raises(UserError, match="learns probabilities, but value of answer g/0 is 2"):
        loss_and_gradient({"score": LabelledScores(fit="cross_entropy")}, [toy_group(2, lengths=[1])], [0.0], want=Value())
    with pytest.raises(UserError, match="fit is 'hinge'"):
        LabelledScores(fit="hinge")


def test_margin_by_hand():
    # rewards 1 and 0, scores .25 and 0: 1 - .25 = .75, slopes -1 and 1; scores 2 and 0: nothing
    loss, slopes, _ = loss_and_gradient({"score": MaxMargin()}, [toy_group(1, 0, lengths=[1, 1])], [0.25, 0.0], want=Value())
    assert (loss, slopes) == (pytest.approx(0.75), pytest.approx([-1, 1]))
    loss, slopes, _ = loss_and_gradient({"score": MaxMargin()}, [toy_group(1, 0, lengths=[1, 1])], [2.0, 0.0], want=Value())
    assert (loss, slopes) == (0.0, [0.0, 0.0])
