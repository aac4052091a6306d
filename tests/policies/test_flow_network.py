"""The velocity field against plain loops, and its configuration."""

from __future__ import annotations

import math

import pytest
import torch

from gradus.policies.flow_network import FlowConfig, Velocity
from gradus.types import Key, UserError


def test_it_is_what_plain_loops_give():
    network = Velocity(FlowConfig(dimension=2, condition=1, width=3, depth=2, frequencies=2), Key(1), torch.float64)
    for bias in network.biases:
        torch.nn.init.normal_(bias, generator=torch.Generator().manual_seed(0))
    x, t, c = [0.3, -1.2], 0.4, 0.7
    row = [*x, c, t, math.sin(math.pi * t), math.sin(2 * math.pi * t), math.cos(math.pi * t), math.cos(2 * math.pi * t)]
    for i, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        row = row if i == 0 else [h / (1 + math.exp(-h)) for h in row]
        row = [sum(w * h for w, h in zip(line, row, strict=True)) + b for line, b in zip(weight.tolist(), bias.tolist(), strict=True)]
    ours = network(*(torch.tensor(rows, dtype=torch.float64) for rows in ([x], [t], [[c]])))
    assert ours[0].tolist() == pytest.approx(row, rel=1e-12)


def test_weights_are_a_function_of_the_key():
    a, b, other = (torch.cat([p.flatten() for p in Velocity(FlowConfig(), Key(k)).parameters()]) for k in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, other)


@pytest.mark.parametrize(("field", "value"), [("dimension", 0), ("width", 1.5), ("depth", True), ("condition", -1), ("frequencies", "4")])
def test_senseless_shapes_are_refused(field, value):
    with pytest.raises(UserError, match=f"flow model: `{field}` is "):
        FlowConfig(**{field: value})
