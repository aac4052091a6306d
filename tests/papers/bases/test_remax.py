"""ReMax: the greedy answer's reward as baseline, by hand and through the loop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradus.papers.bases.reinforce import reinforce
from gradus.papers.bases.remax import remax
from gradus.testing.methods import (
    TOY,
    advantages_of,
    check_different_update,
    check_learns,
    check_same_update,
    toy_group,
    train_toy,
)
from gradus.types import Failed


def test_advantages_by_hand():
    made = toy_group(0.7, 0.5)
    sample, probe = made.trajectories
    assert advantages_of(remax.credit, made.but(trajectories=(sample, probe.but(trained=False)))) == [[pytest.approx([0.2, 0.2]), [0, 0]]]


def test_the_loop_trains_on_samples_alone_and_shows_theirs():
    seen = []
    train_toy(remax, steps=3, watch=lambda run, metrics, groups: seen.append((metrics, groups)))
    credited = 0
    for metrics, groups in seen:
        samples = [t for g in groups for t in g.trajectories if t.trained]
        assert len(samples) == 16
        assert metrics["reward"] == pytest.approx(sum(t.value for t in samples) / 16)
        for g in groups:
            (probe,) = (t for t in g.trajectories if not t.trained)
            for t in g.trajectories:
                assert set(t.advantages.tolist()) == {t.value - probe.value if t.trained else 0.0}
                credited += bool(t.advantages.any())
                if t.completion == probe.completion:
                    assert not t.advantages.any()
    assert credited


def test_a_greedy_answer_that_failed_leaves_no_baseline():
    count = iter(range(10_000))

    def verify(problem, completion):
        return Failed("broken") if next(count) % 20 >= 16 else 1.0  # samples are judged first: 4 problems of 4, then the greedy ones

    seen = []
    train_toy(remax, steps=1, task=replace(TOY, verify=verify), watch=lambda run, metrics, groups: seen.append(groups))
    assert all(not t.advantages.any() for g in seen[0] for t in g.trajectories if t.trained)


def test_without_its_differences_it_is_reinforce():
    check_same_update(remax.but(credit=reinforce.credit, rollout=reinforce.rollout), reinforce)
    check_different_update(remax, reinforce)


@pytest.mark.nightly
def test_it_learns():
    check_learns(remax)
    check_learns(remax, group=1, prompts=32)
