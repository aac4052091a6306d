"""Parts that read entropies or states, or compare actions or texts with each other, against plain loops over Python's floats."""

from __future__ import annotations

import math
import random

import pytest
import torch
from torch.testing import assert_close

from gradus.objectives.contrastive import Contrastive
from gradus.papers.rewards.light_if import Covariance
from gradus.papers.rewards.light_if_sft import HardImitation
from gradus.types.readers import Hidden
from gradus.types.signals import EntropyOf, LogProb
from tests.parts import name_of
from tests.reference.given import MIXED, batch_of, rows_of, tensor

WEIGHTS = [Covariance(), Covariance(3.0, 1.2)]
TERMS = [HardImitation(), HardImitation(0.3, 0.5), HardImitation(1.0, 0.0)]
CONTRASTS = [Contrastive(0.3), Contrastive(2.0, 0.5)]
PARTS_OF_ENTROPIES = [*WEIGHTS, *TERMS, *CONTRASTS]


@pytest.mark.parametrize("weight", WEIGHTS, ids=name_of)
def test_weights_of_entropies(weight: Covariance) -> None:
    rows = rows_of(MIXED, 2)
    due = []
    for r in rows:
        raised = {i: math.exp(s.advantage * s.old) for i, s in enumerate(rows) if s.trajectory == r.trajectory}
        due.append(min(weight.scale * math.exp(r.advantage * r.old) / sum(raised.values()), weight.most))
    assert_close(weight.factors(tensor(r.old for r in rows), batch_of(rows)), tensor(due), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("term", TERMS, ids=name_of)
def test_the_hardest_tokens_are_imitated(term: HardImitation) -> None:
    rows, draw = rows_of(MIXED, 3), random.Random(4)
    entropies = [draw.uniform(0, 3) for _ in rows]
    now = tensor(r.now for r in rows).requires_grad_()
    found, _ = term.loss({LogProb(): now, EntropyOf(): tensor(entropies)}, batch_of(rows))
    order = sorted(range(len(rows)), key=lambda i: rows[i].now + term.coefficient * entropies[i])
    chosen = order[: max(int(term.share * len(rows)), 1)]
    assert_close(found.detach(), tensor([sum(-rows[i].now * rows[i].weighs for i in chosen) / len(chosen)])[0], rtol=1e-10, atol=1e-12)
    found.backward()
    assert now.grad is not None
    assert_close(now.grad, tensor(-r.weighs / len(chosen) if i in chosen else 0.0 for i, r in enumerate(rows)), rtol=1e-10, atol=1e-12)


def slow_contrast(term: Contrastive, texts: dict[int, list[float]], owners: dict[int, int]) -> float:
    losses = []
    for i, a in texts.items():
        alike = {j: sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b) / term.tau for j, b in texts.items() if j != i}
        total = math.log(sum(map(math.exp, alike.values())))
        partners = [total - cosine for j, cosine in alike.items() if owners[j] == owners[i]]
        losses += [sum(partners) / len(partners)] if partners else []
    return term.coefficient * sum(losses) / len(losses)


@pytest.mark.parametrize("term", CONTRASTS, ids=name_of)
def test_the_texts_of_a_group_are_partners(term: Contrastive) -> None:
    rows, draw = rows_of(MIXED, 5), random.Random(6)
    given = [[draw.gauss(0, 1) for _ in range(3)] for _ in rows]
    owners = {r.trajectory: r.group for r in rows}

    def due(table: list[list[float]]) -> float:
        sums = {i: [sum(row[d] for row, r in zip(table, rows, strict=True) if r.trajectory == i) for d in range(3)] for i in owners}
        return slow_contrast(term, sums, owners)

    states = torch.tensor(given, dtype=torch.float64, requires_grad=True)
    found, _ = term.loss({Hidden(pool="mean"): states}, batch_of(rows))
    assert found.item() == pytest.approx(due(given), rel=1e-10)
    found.backward()
    assert states.grad is not None
    for i, d in ((0, 0), (len(rows) // 2, 1), (len(rows) - 1, 2)):
        moved = [[x + (1e-6 if (r, c) == (i, d) else 0) for c, x in enumerate(row)] for r, row in enumerate(given)]
        assert states.grad[i, d].item() == pytest.approx((due(moved) - due(given)) / 1e-6, abs=1e-5)
