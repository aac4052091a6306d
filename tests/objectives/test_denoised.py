"""Policy gradient and KL on estimates: values by hand, the limits, and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.denoised import DenoisedPolicy
from gradus.objectives.kl import KL
from gradus.objectives.ratios import SequenceRatio, TokenRatio
from gradus.objectives.terms import PolicyGradient
from gradus.objectives.trust import Clip
from gradus.papers.generation.coupled_grpo import DenoisedKL
from gradus.testing.methods import toy_batch, toy_group
from gradus.types import UserError
from gradus.types.masks import Coupled, Denoised, Quadrature
from gradus.types.signals import LogProb, LogProbs, Read

WANT = Denoised(Coupled())


def rows_and_batch():
    batch = toy_batch(toy_group(1, 0, 1), toy_group(0, 1), advantages=[0.5, -0.5, 1.0, -1.0, 0.7])
    rows = torch.linspace(-2, -0.1, batch.actions * 3, dtype=torch.float64).view(-1, 3).requires_grad_()
    old = rows.detach() + torch.linspace(-0.4, 0.4, batch.actions, dtype=torch.float64)[:, None]
    return rows, replace(batch, old={WANT: old, LogProb(): old.sum(-1)})


@pytest.mark.parametrize("ratio", [TokenRatio(), SequenceRatio()])
def test_it_is_the_policy_gradient_of_the_summed_rows(ratio):
    rows, batch = rows_and_batch()
    ours, metrics = DenoisedPolicy(Coupled(), ratio, Clip(0.5, 0.5)).loss({WANT: rows}, batch)
    theirs, _ = PolicyGradient(ratio, Clip(0.5, 0.5)).loss({LogProb(): rows.sum(-1)}, batch)
    assert_close(ours, theirs, rtol=0, atol=0)
    assert metrics["clip_share"].mean > 0 or isinstance(ratio, SequenceRatio)  # 3 x 0.4 is beyond the clip of 0.5
    assert_close(*(torch.autograd.grad(loss, rows)[0] for loss in (ours, theirs)), rtol=0, atol=0)


def test_without_old_rows_the_ratio_is_one():
    rows, batch = rows_and_batch()
    _, metrics = DenoisedPolicy(Coupled()).loss({WANT: rows}, replace(batch, old={}))
    assert metrics["ratio"].mean == 1.0


def test_the_kl_reads_the_masks_of_its_move():
    rows, batch = rows_and_batch()
    term = DenoisedKL(Coupled(), 0.01, moves=2)
    assert term.needs == tuple(Read(player="reference", reads=WANT.at(m)) for m in (0, 1))
    equal, apart = rows.detach(), rows.detach() + 0.1
    batch = replace(batch, signals=dict(zip(term.needs, (equal, apart), strict=True)))
    assert term.loss({WANT: rows}, batch)[0].item() == 0.0
    moved = replace(batch, move=1)
    ours = term.loss({WANT: rows}, moved)[0]
    plain = replace(moved, signals={LogProbs(player="reference"): apart.sum(-1)})
    assert_close(ours, KL(0.01).loss({LogProb(): rows.sum(-1)}, plain)[0], rtol=0, atol=1e-15)
    with pytest.raises(UserError, match="set `moves` to the number of epochs of the update"):
        term.loss({WANT: rows}, replace(batch, move=2))


def test_a_ratio_against_the_behaviour_is_refused():
    with pytest.raises(UserError, match="the masks of the sampling differ"):
        DenoisedPolicy(Quadrature(), TokenRatio(against="behaviour"))
    with pytest.raises(UserError, match="the masks of the sampling differ"):
        DenoisedKL(Quadrature(), ratio=SequenceRatio(against="behaviour"))
