"""The clock of every system: by hand, against the recurrence of steps, and the limits."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from gradus.simulation.rates import Affine, Rates
from gradus.simulation.schedules import Model
from gradus.simulation.work import Item
from gradus.types import UserError
from gradus.types.systems import Ahead, Streaming

SECOND = Rates(Affine(1.0), update_start=10.0)


def trace(system, items=(Item(0, (10,)),), rates=SECOND, prompts=1, steps=10, replicas=1, **options):
    return Model(system, rates, items, prompts, steps, replicas, **options).run()


@pytest.mark.parametrize(
    ("system", "due"),
    [(None, 200), (Ahead(1), 110), (Ahead(2), 110), (Streaming(0, 1), 200), (Streaming(1, 1), 110), (Streaming(2, 1), 110)],
)
def test_ten_steps_of_ten_seconds_each(system, due):
    found = trace(system)
    assert found.ends[-1] == due
    assert (found.sampling, found.updating) == (100, 100)


@pytest.mark.parametrize("ahead", [0, 1, 2, 3])
def test_the_recurrence_of_steps(ahead):
    """Rollout k begins after rollout k - 1 and update k - 1 - ahead; update k after rollout k and update k - 1."""
    rng = np.random.default_rng(ahead)
    lengths, costs = rng.integers(1, 30, 12), 0.5
    items = [Item(0, (int(n),)) for n in lengths]
    sampled, updated = [], []
    for k, n in enumerate(lengths):
        begin = max(sampled[k - 1] if k else 0, updated[k - 1 - ahead] if k > ahead else 0)
        sampled.append(begin + n)
        updated.append(max(sampled[k], updated[k - 1] if k else 0) + costs * n)
    for system in (Ahead(ahead) if ahead else None, Streaming(ahead, 1)):
        assert trace(system, items, Rates(Affine(1.0), update=costs), steps=12).ends == pytest.approx(updated)


@pytest.mark.parametrize("system", [None, Ahead(2), Streaming(2, 6), Streaming(3, 5, publish_every=2, deadline=4.0)])
def test_every_group_trains_once_and_none_is_too_old(system):
    rng = np.random.default_rng(3)
    items = [Item(1, tuple(int(n) for n in rng.integers(1, 40, 2)), float(rng.uniform(0, 20))) for _ in range(60)]
    found = trace(system, items, Rates(Affine(0.5, 0.1), prefill=0.1, update=0.02, publish=0.5), prompts=5, steps=12, replicas=2)
    assert sum(found.tokens) == sum(item.tokens for item in items)
    assert max(found.ages) <= (0 if system is None else system.steps if isinstance(system, Ahead) else system.staleness)
    assert list(found.ends) == sorted(found.ends)


def test_a_late_group_stops_a_rollout_but_not_a_stream():
    items = [Item(0, (1,), 50.0 if i % 8 == 1 else 1.0) for i in range(40)]
    rates = Rates(Affine(0.1), update_start=1.0)
    plain = trace(None, items, rates, prompts=4, steps=8)
    streamed = trace(Streaming(4, 4), items, rates, prompts=4, steps=8)
    assert plain.ends[-1] == pytest.approx(4 * (0.1 + 50 + 1) + 4 * (0.1 + 1 + 1))
    assert streamed.ends[-1] < 0.8 * plain.ends[-1]
    assert max(streamed.ages) > 1


def test_a_group_that_is_too_old_is_sampled_again():
    items = [Item(0, (1,), 30.0 if i == 1 else 0.5) for i in range(20)]
    found = trace(Streaming(1, 2), items, Rates(Affine(0.1), update_start=4.0), prompts=2, steps=10)
    assert found.dropped >= 1
    assert max(found.ages) <= 1


def test_a_deadline_gives_a_late_group_to_a_second_worker():
    items = [Item(0, (1,), 5.0)] * 4
    plain, helped = (trace(Streaming(0, 2, deadline=d), items, Rates(Affine(0.1)), prompts=1, steps=4) for d in (None, 1.0))
    assert helped.ends == pytest.approx(plain.ends)  # the second worker begins later and is not faster
    assert helped.sampling > plain.sampling


def test_new_weights_and_a_run_without_an_end():
    rates = Rates(Affine(1.0), publish=2.0)
    assert trace(None, rates=rates, steps=5).ends[-1] == 5 * 10 + 4 * 2
    slow = Rates(Affine(1.0), update_start=15.0)
    assert [trace(Ahead(2), rates=slow, steps=3, endless=endless).sampling for endless in (False, True)] == [30, 50]


def test_without_simpy_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "simpy", None)
    with pytest.raises(UserError, match=r'pip install "gradus\[simulate\]"'):
        trace(None)


@pytest.mark.parametrize("field", [{"interrupt": True}, {"unit": "answer"}, {"trains_on": "newest"}, {"dispatch": "speed"}])
def test_fields_that_the_simulation_does_not_know_are_refused(field):
    ((name, value),) = field.items()
    with pytest.raises(UserError, match=f"Streaming has {name} {value}; leave these fields out"):
        trace(Streaming(**field))
