"""Scores of trajectories by hand, whichever of them a batch holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.scores import LengthDiscounted, LogOdds, LogRatio, MeanLogProb, log_odds, shared_lengths
from gradus.testing.methods import toy_batch, toy_group
from gradus.types import UserError
from gradus.types.signals import LogProbs

ROWS = torch.tensor([0.5, 0.5, 0.125], dtype=torch.float64).log()
REFERENCE = {LogProbs(player="other"): {"g/0": np.log([0.25]), "g/1": np.log([0.5, 0.5])}}


def test_scores_by_hand():
    made = toy_batch(toy_group(1, 0, lengths=[1, 2]), signals=REFERENCE)
    # log(.5/.25); log(.5/.5) + log(.125/.5)
    assert_close(LogRatio("other").scores(ROWS, made), torch.tensor([math.log(2), -math.log(4)], dtype=torch.float64))
    assert_close(MeanLogProb().scores(ROWS, made), torch.tensor([0.5, 0.25], dtype=torch.float64).log())
    assert_close(LogOdds().scores(ROWS, made), torch.tensor([1.0, 1 / 3], dtype=torch.float64).log())
    assert LogRatio("other").needs == tuple(REFERENCE)
    assert MeanLogProb().needs == LogOdds().needs == ()


@pytest.mark.parametrize("score", [LogRatio("other"), MeanLogProb(), LogOdds()])
def test_trajectories_that_a_batch_has_no_action_of_change_nothing(score):
    made = toy_batch(toy_group(1, 0, lengths=[1, 2]), signals=REFERENCE)
    rows = ROWS[1:].clone().requires_grad_()
    part = made.rows(torch.tensor([1, 2]))
    found = score.scores(rows, part)
    assert_close(found[1], score.scores(ROWS, made)[1])
    found[1].backward()
    assert bool(rows.grad.isfinite().all())


def test_odds_near_certainty_are_finite_and_rise():
    p = torch.tensor([0.0, -1e-30, -1e-6, -1e-3, -50.0], dtype=torch.float64, requires_grad=True)
    odds = log_odds(p)
    assert odds.tolist() == sorted(odds.tolist(), reverse=True)
    assert_close(odds[3].item(), math.log(math.exp(-1e-3) / (1 - math.exp(-1e-3))))
    odds.sum().backward()
    assert p.grad.tolist()[:2] == [0, 0]
    assert bool(p.grad.isfinite().all())


def pairs(*lengths):
    """A batch of pairs of answers with these lengths, and a reference whose log-probabilities are 0."""
    groups = [toy_group(1.0, 0.0, lengths=list(pair), key=str(n)) for n, pair in enumerate(lengths)]
    rows = {t.id: np.zeros(t.actions) for g in groups for t in g.trajectories}
    return toy_batch(*groups, signals={LogProbs(player="reference"): rows})


@pytest.mark.parametrize(("alpha", "due"), [(0.5, [-4, -5]), (1.0, [-4, -6]), (0.0, [-4, -4])])
def test_discounted_scores_by_hand(alpha, due):
    batch = pairs((4, 6))
    assert LengthDiscounted(alpha=alpha).scores(-torch.ones(10, dtype=torch.float64), batch).tolist() == due


def test_every_pair_has_its_own_shared_length():
    batch = pairs((4, 6), (3, 1))
    assert shared_lengths(batch).tolist() == [4] * 10 + [1] * 4
    scores = LengthDiscounted(alpha=0.5).scores(-torch.ones(14, dtype=torch.float64), batch)
    assert scores.tolist() == [-4, -5, -2, -1]  # a surplus of the right answer too
    piece = batch.subset([2, 3])  # groups keep their numbers apart after a cut
    assert shared_lengths(piece).tolist() == [1] * 4


def test_a_discount_above_one_is_refused():
    with pytest.raises(UserError, match="alpha"):
        LengthDiscounted(alpha=1.5)
