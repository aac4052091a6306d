"""The gradient of every objective by two processes is that of one: here to the last bit, since what is added is added in the same order.

Of the policy term every ratio, trust and average is here, not every combination: `python -m benchmarks.invariance` tries them all.
"""

from __future__ import annotations

import pytest
import torch

from tests.invariance.processes import MICRO, batch, difference, led, players, two
from tests.parts import AVERAGES, PAIRED, POLICIES, TERMS, name_of, vanishes
from tests.reference.given import PAIRS, UNTIED

CHOSEN = [
    term
    for i, term in enumerate(POLICIES)
    if i % (len(AVERAGES) + 1) == 0 or term.weight is not None or term.source == "expert" or term.average not in AVERAGES
]
CLASSES = list({type(term): term for term in TERMS}.values())  # of every class one


@pytest.fixture(scope="module")
def crew():
    with two() as made:
        yield made


def test_every_ratio_trust_and_average_is_among_the_chosen():
    for name in ("ratio", "trust", "average", "weight"):
        assert {getattr(t, name) for t in CHOSEN} == {getattr(t, name) for t in POLICIES}


@pytest.mark.parametrize(("dtype", "every"), [(torch.float64, 4), (torch.float32, 5), pytest.param(torch.float64, 1, marks=pytest.mark.nightly)], ids=str)
def test_gradients_of_two_processes(crew, dtype, every, tmp_path):
    alone, together = players(tmp_path, dtype), led(tmp_path, dtype, crew)
    mixed, pairs = (batch(alone, shape, dtype) for shape in (UNTIED, PAIRS))
    assert len(alone["policy"].policy.micro_batches(mixed.contexts, MICRO)) > 2
    for term in (*CHOSEN[::every], *CLASSES, *TERMS[:: 3 * every], *PAIRED[:: 3 * every]):
        off, largest = difference(alone, together, pairs if term in PAIRED else mixed, term)
        assert off == 0.0, name_of(term)
        assert largest > 0 or vanishes(term, [t.value for t in mixed.trajectories if t.source == term.source])
