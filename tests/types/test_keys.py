"""Keyed draws: known values, independence of paths, distributions."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.types.keys import Key, mix, uniforms


def test_mix_is_splitmix64():
    # the generator's published first and second outputs from the state 0
    golden = np.uint64(0x9E3779B97F4A7C15)
    assert [hex(v) for v in mix(np.array([0, golden], np.uint64))] == ["0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4"]


def test_mix_leaves_its_input():
    array = np.arange(3, dtype=np.uint64)
    mix(array)
    assert array.tolist() == [0, 1, 2]


def test_draws_are_the_same_on_every_machine():
    key = Key(5).fold("sample", 3, "problem/1")
    assert key.value == 13289259733236953132
    assert key.uniform(2).tolist() == [0.02813436882187248, 0.07380108001623253]


def test_order_type_and_boundaries_of_a_path_count():
    paths = [("a", "b"), ("b", "a"), ("ab",), ("a",), (1,), ("1",), (), ("a", ""), ("str:a",)]
    assert len({Key(0).fold(*p).value for p in paths}) == len(paths)
    assert Key(0).fold("a").value != Key(1).fold("a").value


def test_a_number_of_numpy_draws_as_the_plain_number_that_a_stored_state_gives_back():
    assert Key(1).fold(np.int64(3), np.str_("a")) == Key(1).fold(3, "a")


def test_shapes_broadcast_and_positions_do_not_depend_on_company():
    keys, positions = np.array([[1], [2]], np.uint64), np.array([0, 7, 9])
    table = uniforms(keys, positions)
    assert table.shape == (2, 3)
    assert table[1, 2] == uniforms(np.uint64(2), np.array(9))
    assert len(np.unique(table)) == 6


def test_uniform_draws_are_uniform():
    draws = Key(3).uniform(20000)
    assert 0 <= draws.min() < draws.max() < 1
    counts = np.histogram(draws, bins=20, range=(0, 1))[0]
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8  # chi-square, 19 degrees of freedom, 0.1 %
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.03


def test_normal_draws_have_mean_0_and_deviation_1():
    draws = Key(4).normal(20000)
    assert abs(draws.mean()) < 0.03
    assert abs(draws.std() - 1) < 0.02
    assert abs((draws**4).mean() - 3) < 0.25
    assert np.isfinite(draws).all()
    assert Key(4).normal(2, 3).shape == (2, 3)


@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_a_permutation_has_every_index_once(n):
    assert sorted(Key(1).permutation(n).tolist()) == list(range(n))


def test_permutations_of_other_keys_differ():
    assert len({tuple(Key(k).permutation(10).tolist()) for k in range(50)}) == 50


def test_a_choice_is_each_item_about_equally_often():
    counts = np.bincount([Key(k).fold("choice").choice([0, 1, 2]) for k in range(3000)])
    assert (np.abs(counts - 1000) < 100).all()


def test_a_local_generator_starts_alike():
    assert Key(9).random().random() == Key(9).random().random() != Key(8).random().random()
