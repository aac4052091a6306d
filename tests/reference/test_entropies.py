"""Parts that read entropies, or compare the actions of an answer, against plain loops over Python's floats."""

from __future__ import annotations

import math
import random

import pytest
from torch.testing import assert_close

from gradus.papers.rewards.light_if import Covariance
from gradus.papers.rewards.light_if_sft import HardImitation
from gradus.types.signals import EntropyOf, LogProb
from tests.parts import name_of
from tests.reference.given import MIXED, batch_of, rows_of, tensor

WEIGHTS = [Covariance(), Covariance(3.0, 1.2)]
TERMS = [HardImitation(), HardImitation(0.3, 0.5), HardImitation(1.0, 0.0)]
PARTS_OF_ENTROPIES = [*WEIGHTS, *TERMS]


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
