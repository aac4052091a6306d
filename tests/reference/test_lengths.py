"""Parts of methods for shorter answers against plain loops over Python's floats."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from gradus.papers.thinking.drpo import ScoreGap
from gradus.types.signals import LogProb
from tests.parts import name_of
from tests.reference.given import MIXED, Row, batch_of, rows_of, tensor, weighed

SHAPE = [[s for s in group if s[0] == "policy"] for group in MIXED if any(s[0] == "policy" for s in group)]
GAPS = [ScoreGap(most=3, beta=0), ScoreGap(lam=0.5, most=2, tau=0.7, beta=3.0, delta=0.01), ScoreGap(beta=2.0, delta=5.0)]
PARTS_OF_LENGTHS = [*GAPS]


def slow_gap(term: ScoreGap, rows: list[Row], now: list[float]) -> float:
    total, groups = 0.0, {r.group for r in rows}
    for g in groups:
        answers: dict[tuple[int, bool], list[float]] = {}
        for r, value in zip(rows, now, strict=True):
            if r.group == g:
                answers.setdefault((r.trajectory, r.reward >= 1), []).append(value)
        scores = {key: sum(v) / len(v) for key, v in answers.items()}
        right = {key: math.exp((1 - len(answers[key]) / term.most) / term.lam) for key in answers if key[1]}
        wrong = [scores[key] for key in answers if not key[1]]
        if right and wrong:
            total += sum(w * scores[key] for key, w in right.items()) / sum(right.values())
            total -= term.tau * math.log(sum(math.exp(s / term.tau) for s in wrong))
    excess = max(0.0, sum(r.old + 0.3 - value for r, value in zip(rows, now, strict=True)) / len(rows) - term.delta)
    return term.beta / 2 * excess**2 - total / len(groups)


@pytest.mark.parametrize("term", GAPS, ids=name_of)
def test_the_loss_and_its_gradient(term: ScoreGap) -> None:
    rows = weighed(rows_of(SHAPE, 3))
    batch = batch_of(rows)
    batch = replace(batch, old={LogProb(): tensor(r.old + 0.3 for r in rows)})
    now = tensor(r.now for r in rows).requires_grad_()
    loss, _ = term.loss({LogProb(): now}, batch)
    held = [r.now for r in rows]
    assert_close(loss.item(), slow_gap(term, rows, held), rtol=1e-10, atol=1e-12)
    loss.backward()
    assert now.grad is not None
    for i, r in enumerate(rows):
        lifted, lowered = ([v + (d if j == i else 0) for j, v in enumerate(held)] for d in (1e-5, -1e-5))
        slope = (slow_gap(term, rows, lifted) - slow_gap(term, rows, lowered)) / 2e-5
        assert_close(now.grad[i], torch.tensor(slope * r.weighs, dtype=torch.float64), rtol=1e-5, atol=1e-8)
