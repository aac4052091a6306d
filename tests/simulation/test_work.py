"""Groups from a distribution and from a run."""

from __future__ import annotations

import numpy as np
import pytest

from gradus.api import train
from gradus.simulation.work import Item, LogNormal, Recorded, coarse, means, recorded
from gradus.types import UserError


def test_the_mean_the_spread_and_the_cut():
    items = LogNormal(1000, 0.5, 0.5, prompt=7, delay=2.0).draw(2000, 4, seed=1)
    lengths = np.array([item.lengths for item in items])
    assert lengths.mean() == pytest.approx(1000, rel=0.03)
    assert np.log(lengths).std() == pytest.approx(0.5, rel=0.05)
    assert np.corrcoef(np.log(lengths[:, :2]).T)[0, 1] == pytest.approx(0.5, abs=0.06)
    assert np.mean([item.delay for item in items]) == pytest.approx(2, rel=0.1)
    assert {item.prompt for item in items} == {7}
    assert items == LogNormal(1000, 0.5, 0.5, prompt=7, delay=2.0).draw(2000, 4, seed=1)
    assert max(max(i.lengths) for i in LogNormal(1000, 1.0, longest=2000).draw(100, 4)) <= 2000 * 1.02


def test_lengths_are_rounded_without_a_change_of_their_mean():
    lengths = np.random.default_rng(0).lognormal(6, 1, 5000)
    assert coarse(lengths).mean() == pytest.approx(lengths.mean(), rel=0.01)
    assert coarse(np.array([1.0, 2.0])).tolist() == [1, 2]
    assert coarse(lengths).min() >= 1


def test_means_by_hand():
    assert means([Item(10, (4, 6)), Item(20, (10,))]) == (20 / 3, (20 + 20) / 20)


def test_the_groups_of_a_run_are_repeated(tmp_path):
    run = train("grpo", "arithmetic", steps=2, run=tmp_path / "run", study=None, setting__prompts=2, setting__group=3, setting__max_tokens=8)
    found = recorded(tmp_path / "run")
    assert len(found.groups) == 4
    assert sum(item.tokens for item in found.groups) == sum(row["tokens/rollout"] for row in run.metrics)
    assert all(item.prompt > 3 for item in found.groups)
    again = found.draw(6, 4)
    assert again[4].lengths == again[0].lengths == (*found.groups[0].lengths, found.groups[0].lengths[0])
    with pytest.raises(UserError, match="contains no run"):
        recorded(tmp_path)


def test_delays_of_repeated_groups():
    assert np.mean([i.delay for i in Recorded((Item(1, (2,)),), delay=3.0).draw(4000, 2)]) == pytest.approx(3, rel=0.1)
