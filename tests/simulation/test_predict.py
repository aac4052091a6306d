"""Predictions and recommendations by hand."""

from __future__ import annotations

import pytest

from gradus.simulation.predict import Configuration, Prediction, configurations, predicted, recommended, workers
from gradus.simulation.rates import Affine, Rates
from gradus.simulation.work import Item
from gradus.types.systems import Ahead, Streaming


def test_a_prediction_leaves_out_the_first_steps():
    c = Configuration(Ahead(1), 1, 2, 1)
    found = predicted(c, Rates(Affine(1.0), update_start=5.0), [Item(0, (10,))] * 20, 9)
    assert found.step == 10  # the rollout is slower than the update
    assert found.tokens == 1
    assert (found.age, found.dropped, found.sampling_idle) == (1, 0, pytest.approx(0, abs=0.1))
    assert found.training_idle == pytest.approx(1 - 9 * 5 / (10 * 9 + 5))
    shared = predicted(Configuration(None, 1, 1, 1), Rates(Affine(1.0), update_start=5.0), [Item(0, (10,), 5.0)], 9)
    assert (shared.step, shared.age) == (20, 0)
    assert shared.sampling_idle == shared.training_idle == pytest.approx(5 / 20)


def test_the_choices():
    found = configurations(64, [8], [0, 1], [0.25, 0.5, 0.9], replica=8, training=20, workers_of=lambda c: c.replicas)
    assert [(c.name, c.sampling, c.training) for c in found] == [
        ("lockstep", 64, 64),
        *(("Ahead(1)", 16, 48), ("Streaming(1)", 16, 48), ("Ahead(1)", 32, 32), ("Streaming(1)", 32, 32)),
    ]  # 0.9 leaves 8 GPUs to train
    assert found[2].system == Streaming(1, 2)
    assert [c.gpus for c in found] == [64] * 5
    assert configurations(8, [8], [1], [0.5], replica=16, training=4, workers_of=lambda c: 1) == []


def test_workers_fill_the_memory_or_take_all_admitted_groups():
    rates = Rates(Affine(1.0), most=100)
    assert workers(512, 16, 1, 4, rates) == 4 * 6
    assert workers(4, 16, 1, 4, rates) == 8
    assert workers(1, 16, 0, 4, rates) == 4
    assert workers(512, 200, 1, 4, rates) == 4


def made(system, tokens, age, prompts=8, sampling=4):
    return Prediction(Configuration(system, sampling, 4, prompts), 1.0, tokens, 0.1, 0.2, age, 0.0)


def test_the_younger_of_two_nearly_equal_configurations_is_recommended():
    plain, one, two = made(None, 50.0, 0.0), made(Streaming(1), 96.0, 0.8), made(Streaming(2), 100.0, 1.6)
    chosen, reason = recommended([plain, one, two])
    assert chosen is one
    assert "96% of the most tokens per second (Streaming(2)" in reason
    assert "0.8 steps old in place of 1.6" in reason
    assert "1.92 times as fast as lockstep" in reason
    assert "training (20%)" in reason
    assert recommended([plain, two])[0] is two
    assert recommended([made(None, 96.0, 0.0), two])[0].configuration.name == "lockstep"
    small = made(Streaming(1), 97.0, 0.8, prompts=4)
    assert recommended([one, small])[0] is small
