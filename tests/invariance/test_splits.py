"""The gradient of a step does not depend on how the batch was cut, ordered, packed or padded, for every objective and every average.

Here each objective is tried on a share of the ways; `python -m benchmarks.invariance` tries all of them on all.
"""

from __future__ import annotations

import pytest
import torch

from gradus.testing.methods import toy_flow
from gradus.types import Key
from gradus.types.signals import EntropyOf, LogProb, Value
from gradus.updates.minibatches import gradient
from tests.invariance.splits import COUNT, KINDS, LIMITS, Cut, adapted, batch_for, decoder, gradient_of, recorded, shuffled, spread, ways
from tests.parts import AVERAGES, FLOWING, PAIRED, POLICIES, RATIOS, TERMS, TRUSTS, name_of, untried, vanishes
from tests.reference.given import UNTIED

TYPES = [torch.float64, torch.float32]
KINDS_OF_MODEL = ["decoder", "adapter"]
types = pytest.mark.parametrize("dtype", TYPES, ids=str)


@pytest.mark.parametrize("kind", ["term", "trust", "ratio", "average", "weight", "score", "link", "likeness"])
def test_no_objective_is_forgotten(kind):
    assert untried(kind) == []


def test_every_ratio_trust_and_average_meet():
    met = {(term.ratio, term.trust, term.average) for term in POLICIES}
    assert {(r, t, a) for r in RATIOS for t in TRUSTS for a in AVERAGES} <= met


def test_ways_are_partitions():
    for way in ways(COUNT, 12):
        assert sorted(i for piece in way for i in piece) == list(range(12))
    assert [len(way) for way in ways(COUNT, 12)][:2] == [1, 12]
    assert len({str(way) for way in ways(COUNT, 12)}) == COUNT


def rewards_of(kind, shape, dtype, term):
    """The rewards of the answers that the term reads."""
    return [t.value for t in recorded(kind, shape, dtype).batches[0].trajectories if t.source == term.source]


@types
@pytest.mark.parametrize("kind", KINDS_OF_MODEL)
def test_rows_and_their_derivatives_do_not_depend_on_the_way(kind, dtype):
    made = recorded(kind, "untied", dtype)
    contexts = made.batches[0].contexts
    for want in KINDS:
        for part in (0, 1):  # values, derivatives
            seen = [torch.cat([cut.rows[id(c)][want][part] for c in contexts]) for cut in made.cuts]
            assert spread(seen) < LIMITS[dtype]
            assert seen[0].abs().max() > 0.1


@types
@pytest.mark.parametrize("trust", TRUSTS, ids=name_of)
def test_policy_terms(trust, dtype):
    # two ways each besides the whole batch at once: the ten averages of a ratio have all twenty
    number = 0
    for term in (t for t in POLICIES if t.trust == trust):
        which = [0, 1 + number % (COUNT - 1), 1 + (number + 1) % (COUNT - 1)]
        found = recorded("decoder", "untied", dtype).gradients(term, which)
        assert spread(found) < LIMITS[dtype], name_of(term)
        assert found[0].abs().max() > 0 or vanishes(term, rewards_of("decoder", "untied", dtype, term))
        number += 2


@types
@pytest.mark.parametrize("place", range(4))
def test_other_terms(place, dtype):
    for number, term in enumerate(TERMS[place::4]):
        which = [0, *(1 + (4 * number + i) % (COUNT - 1) for i in range(4))]
        found = recorded("decoder", "untied", dtype).gradients(term, which)
        assert spread(found) < LIMITS[dtype], name_of(term)
        assert found[0].abs().max() > 0 or vanishes(term, rewards_of("decoder", "untied", dtype, term))


@types
def test_terms_on_pairs(dtype):
    for term in PAIRED:
        found = recorded("decoder", "pairs", dtype).gradients(term, range(COUNT))
        assert spread(found) < LIMITS[dtype], name_of(term)
        assert found[0].abs().max() > 0


@types
def test_the_side_of_the_padding(dtype):
    # of every class one, or of the policy term every trust: what else there is reads the same rows
    chosen = [*{type(t): t for t in TERMS}.values(), *{t.trust: t for t in POLICIES}.values()]
    for term in chosen:
        found = recorded("adapter", "untied", dtype).gradients(term, range(6))
        assert spread(found) < LIMITS[dtype], name_of(term)
        assert found[0].abs().max() > 0 or vanishes(term, rewards_of("adapter", "untied", dtype, term))


@types
@pytest.mark.parametrize("make", [decoder, adapted])
def test_what_was_recorded_is_what_the_network_does(make, dtype):
    policy = make(dtype)
    batch = batch_for(policy, UNTIED, dtype)
    separable, coupled = POLICIES[0], next(t for t in POLICIES if not t.separable)
    value = next(t for t in TERMS if t.wants == (Value(),))
    entropy = next(t for t in TERMS if t.wants == (EntropyOf(),))
    for terms in ({"a": separable}, {"a": coupled, "b": entropy}, {"c": value}):
        found = [
            gradient_of(Cut(policy, batch.contexts, way), shuffled(batch, seed), terms)
            for seed, way in enumerate(ways(6, len(batch.contexts)))
        ]
        assert spread(found) < LIMITS[dtype]
        kind = "decoder" if make is decoder else "adapter"
        known = recorded(kind, "untied", dtype)
        assert spread([found[0], gradient_of(known.cuts[0], known.batches[0], terms)]) < LIMITS[dtype]


def test_a_gradient_that_depends_on_the_way_would_be_seen():
    class PerPiece:
        """An average over the piece at hand, which every framework has had at some time."""

        def coefficients(self, batch, source):
            return torch.full_like(batch.weight, 1.0 / batch.actions)

    from dataclasses import replace

    found = recorded("decoder", "untied", torch.float64).gradients(replace(POLICIES[0], average=PerPiece()), range(3))
    assert spread(found) > 1e-3


@types
def test_terms_of_flow_generators(dtype):
    made = flow(dtype)
    batch, cuts = made
    for number, term in enumerate(FLOWING):
        which = [0, *(1 + (3 * number + i) % (COUNT - 1) for i in range(3))]
        found = [gradient_of(cuts[i], batch, {"it": term}) for i in which]
        assert spread(found) < LIMITS[dtype], name_of(term)
        assert found[0].abs().max() > 0


def flow(dtype):
    """A flow generator's batch and the ways to cut it; all contexts with the streams of both kinds of term."""
    from tests.invariance.flows import batch_for_flow

    policy = toy_flow(dtype)
    batch = batch_for_flow(policy, UNTIED, dtype)
    return batch, [Cut(policy, batch.contexts, way) for way in ways(COUNT, len(batch.contexts))]


def test_accumulated_gradients_add_to_what_stands():
    policy = decoder(torch.float64)
    batch = batch_for(policy, UNTIED, torch.float64)
    once = gradient_of(policy, batch, {"it": POLICIES[0]})
    gradient(policy, batch, {"it": POLICIES[0]}, 10, Key())
    twice = torch.cat([p.grad.flatten() for p in policy.network.parameters() if p.grad is not None])
    assert policy.micro_batches(batch.contexts, 10) != policy.micro_batches(batch.contexts, 0)
    assert float((twice - 2 * once[: len(twice)]).abs().max()) < 1e-10
    assert LogProb() in POLICIES[0].wants
