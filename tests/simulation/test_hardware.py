"""Estimates from data sheets, by hand."""

from __future__ import annotations

import pytest

from gradus.recipe.registry import recipe
from gradus.simulation.hardware import (
    GPU,
    GPUS,
    Costs,
    Decoding,
    Efficiency,
    Shape,
    costs_of,
    estimated,
    gpu_of,
    replica_gpus,
    size_of,
    training_gpus,
)
from gradus.types import UserError

PLAIN = Efficiency(training=0.5, reading=0.5, decoding=0.5, step=0.0, used=1.0)
TOY = GPU(flops=1e12, bandwidth=1e12, memory=100e9, link=1e9)


def test_sizes_in_words():
    assert [size_of(text) for text in ("70B", "1.5b", "500M", "1000")] == [70e9, 1.5e9, 5e8, 1000]
    for wrong in ("70 GB", "0B", "B"):
        with pytest.raises(UserError, match="number of parameters, such as 70B"):
            size_of(wrong)
    assert gpu_of("h100") is GPUS["H100"]
    with pytest.raises(UserError, match=r'unknown GPU "H10".*H100'):
        gpu_of("H10")


def test_the_shape_of_a_model_of_70_billion_parameters_is_near_that_of_public_models():
    shape = Shape(70e9)
    assert 78 <= shape.layers <= 84  # 80 in Llama 3
    assert shape.cache == 2 * shape.layers * 8 * 128 * 2


def test_a_decoding_step_is_bound_by_memory_and_then_by_arithmetic():
    shape = Shape(1e9)
    step = Decoding(shape, TOY, 1, 0.0, PLAIN)
    assert step(1) == pytest.approx(2e9 / 0.5e12)  # the weights, once
    assert step(1000) == pytest.approx(2e9 * 1000 / 0.5e12)
    assert Decoding(shape, TOY, 2, 0.0, PLAIN)(1) == pytest.approx(step(1) / 2)
    cached = Decoding(shape, TOY, 1, 100.0, PLAIN)
    assert cached(1) - step(1) == pytest.approx(100 * shape.cache / 0.5e12)


def test_rates_by_hand():
    found = estimated(Shape(1e9), TOY, Costs(1, 1, 2), replica=2, training=4, context=10.0, prompts=0.5, efficiency=PLAIN)
    assert found.prefill == pytest.approx(2e9 / (2 * 0.5e12))
    assert found.update == pytest.approx(1.5 * (6e9 * 2 / 0.5 + 2e9 * 2 / 0.5) / 4e12)  # the frozen model, and the log-probabilities at the start
    assert found.publish == pytest.approx(2e9 / 2e9)
    assert found.most == int((200e9 - 2e9) // (20 * Shape(1e9).cache))


def test_memory_sets_the_least_number_of_gpus():
    assert replica_gpus(Shape(70e9), GPUS["H100"]) == 8
    assert replica_gpus(Shape(7e9), GPUS["H100"]) == 1
    assert training_gpus(Shape(70e9), GPUS["H100"]) == 23  # 70e9 * 18 * 1.2 / (0.85 * 80e9)
    assert training_gpus(Shape(70e9), GPUS["H100"], Costs(2, 1)) == 47


def test_the_models_of_recipes():
    assert costs_of(recipe("grpo")) == Costs(1, 1, 1, 1)
    assert costs_of(recipe("ppo")) == Costs(2, 1, 4, 1)
    assert [costs_of(recipe(key)).scored for key in ("grpo", "ppo", "dapo")] == [1, 2, 1]
