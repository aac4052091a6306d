"""Which problems come next: every one once a pass, in a keyed order, from where the run left off."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gradus.curricula.shuffled_epochs import Once, ShuffledEpochs, sweep_order
from gradus.testing.methods import ToySource
from gradus.types import Key

WORLD = SimpleNamespace(seed=Key(1), task=SimpleNamespace(level=None), group=4)


class Finite(ToySource):
    size = 5


def ids(requests):
    return [r.problem.id for r in requests]


def test_a_source_without_end_is_taken_in_order():
    part, state = ShuffledEpochs(), ShuffledEpochs().start()
    first, state = part.choose(ToySource(), 3, WORLD, state)
    second, state = part.choose(ToySource(), 2, WORLD, state)
    assert ids(first + second) == [f"toy/{i}" for i in range(5)]
    assert state == {"drawn": 5}
    assert {r.count for r in first} == {4}


@pytest.mark.parametrize("chunks", [(5, 5, 5), (3, 4, 8), (15,), (1,) * 15])
def test_every_pass_has_every_problem_once_however_it_is_cut(chunks):
    part, state, found = ShuffledEpochs(group=2), ShuffledEpochs().start(), []
    for count in chunks:
        requests, state = part.choose(Finite(), count, WORLD, state)
        assert {r.count for r in requests} == {2}
        found += ids(requests)
    assert all(sorted(found[i : i + 5]) == [f"toy/{n}" for n in range(5)] for i in (0, 5, 10))
    assert found == [f"toy/{i}" for i in sweep_order(5, range(15), Key(1))]


def test_passes_and_seeds_have_orders_of_their_own():
    passes = [tuple(sweep_order(20, range(20 * p, 20 * p + 20), Key(s))) for s in range(2) for p in range(3)]
    assert len(set(passes)) == 6


def test_once_asks_for_one_sample_of_as_many_problems_as_a_step_has_samples():
    requests, state = Once().choose(ToySource(), 3, WORLD, Once().start())
    assert ids(requests) == [f"toy/{i}" for i in range(12)]
    assert {r.count for r in requests} == {1}
    assert state == {"drawn": 12}
