"""Threads by the size of the network."""

import pytest

from gradus.runtime.threads import SMALL, threads_for


@pytest.mark.parametrize(
    ("parameters", "cores", "environment", "threads"),
    [(1_000_000, 2, {}, 1), (SMALL, 2, {}, None), (1_000_000, 2, {"OMP_NUM_THREADS": "2"}, None), (1_000_000, 1, {}, None)],
)
def test_a_small_network_takes_one_thread_unless_told(parameters, cores, environment, threads):
    assert threads_for(parameters, cores, environment) == threads
