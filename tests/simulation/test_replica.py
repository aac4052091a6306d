"""A replica by hand: sequences share steps, leave, join and wait."""

from __future__ import annotations

import pytest
import simpy

from gradus.simulation.rates import Affine, Rates
from gradus.simulation.replica import Replica
from gradus.simulation.work import Item


def ends(rates, *submitted):
    """The seconds at which groups end that join at given seconds: (second, item) or (second, item, version); and the replica."""
    clock = simpy.Environment()
    replica, found = Replica(clock, rates), {}

    def come(number, second, item, version=0):
        yield clock.timeout(second)
        yield replica.submit(item, version)
        found[number] = clock.now

    for number, one in enumerate(submitted):
        clock.process(come(number, *one))
    clock.run()
    return [found[number] for number in range(len(submitted))], replica


def test_a_step_takes_longer_for_more_sequences():
    # 2 sequences for 3 steps of 1.2 s, then 1 sequence for 2 steps of 1.1 s
    found, replica = ends(Rates(Affine(1, 0.1)), (0, Item(0, (3, 5))))
    assert found == pytest.approx([3 * 1.2 + 2 * 1.1])
    assert replica.busy == pytest.approx(found[0])


def test_a_group_joins_while_another_decodes():
    # alone for 2 steps of 2 s; from second 4 on together, steps of 4 s: the second group ends after 3 steps, the first after 8 more of its 10
    found, replica = ends(Rates(Affine(0, 2)), (0, Item(0, (10,))), (4, Item(0, (3,))))
    assert found == pytest.approx([4 + 3 * 4 + 5 * 2, 4 + 3 * 4])
    assert replica.busy == pytest.approx(26)


def test_a_sequence_waits_if_the_memory_is_full():
    found, _ = ends(Rates(Affine(1), most=2), (0, Item(0, (4, 2, 2, 5))))
    assert found == [4 + 5]  # slots: 4, 5 and 2, 2


def test_prompts_and_new_weights_stop_the_decoding():
    found, replica = ends(Rates(Affine(1), prefill=0.5, publish=3), (0, Item(4, (2,)), 0), (10, Item(2, (2,)), 1), (20, Item(2, (2,)), 1))
    assert found == [2 + 2, 10 + 1 + 3 + 2, 20 + 1 + 2]  # the first weights take no time
    assert replica.busy == 4 + 6 + 3


def test_the_prompts_of_groups_that_join_together_add_up():
    found, _ = ends(Rates(Affine(1), prefill=0.5), (0, Item(4, (2,))), (0, Item(6, (2,))))
    assert found == [2 + 3 + 2] * 2
