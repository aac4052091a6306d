"""Steering vectors: the same function at the start, gradient to the vectors alone, one function for rollout and update, and files."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.policies.lm import LanguageModel
from gradus.policies.steering import FILE, Steer, vectors
from gradus.types import Key, Sampling, UserError
from gradus.types.signals import LogProb
from tests.small_model import save_small_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_small_model(tmp_path_factory.mktemp("steered"))


def moved(folder, layers=(), gate=False, size=0.3):
    """A model whose vectors and gates are drawn."""
    model = LanguageModel.load(folder).with_steering(layers, gate)
    with torch.no_grad():
        for name, steer in vectors(model.trunk):
            for leaf, p in steer.named_parameters():
                p.copy_(torch.from_numpy(np.asarray(Key(3).fold(name, leaf).normal(*p.shape))) * size)
    return model


def sampled(model, count=4):
    parent = model.opening("ab")
    at = len(parent.sequence)
    return model.act([SimpleNamespace(parent=parent, at=at, sampling=Sampling(max_tokens=16), key=Key(i), version=0) for i in range(count)])


def test_by_hand():
    """h + s; with w . h + b = log 3 the gate is 3 / 4."""
    steer, gated = Steer(torch.zeros(2), False), Steer(torch.zeros(2), True)
    with torch.no_grad():
        steer.vector.copy_(torch.tensor([1.0, -2.0]))
        gated.vector.copy_(torch.tensor([4.0, 8.0]))
        gated.weight.copy_(torch.tensor([np.log(3.0), 0.0]))
    x = torch.tensor([[1.0, 5.0]])
    assert steer(x).tolist() == [[2.0, 3.0]]
    assert_close(gated(x).detach(), torch.tensor([[4.0, 11.0]]))


@pytest.mark.parametrize("gate", [False, True])
def test_it_starts_as_the_model_itself_and_trains_the_vectors_alone(folder, gate):
    plain = LanguageModel.load(folder)
    model = plain.with_steering((1,), gate)
    contexts = sampled(plain)
    assert [c.tokens.tolist() for c in sampled(model)] == [c.tokens.tolist() for c in contexts]
    model.evaluate(contexts, (LogProb(),))[LogProb()].sum().backward()
    learning = [n for n, p in model.network.named_parameters() if p.requires_grad]
    assert learning == [f"model.layers.1.steer.{leaf}" for leaf in (("vector", "weight", "bias") if gate else ("vector",))]
    assert float(dict(model.network.named_parameters())[learning[0]].grad.abs().max()) > 0
    assert model.trunk.head_weight.data_ptr() == plain.trunk.head_weight.data_ptr()


@pytest.mark.parametrize("gate", [False, True])
def test_rollout_and_update_are_one_function(folder, gate):
    model = moved(folder, gate=gate)
    contexts = sampled(model)
    found = model.evaluate(contexts, (LogProb(),))[LogProb()].detach()
    assert_close(found, torch.from_numpy(np.concatenate([c.logprobs for c in contexts])), atol=1e-5, rtol=0)
    plain = LanguageModel.load(folder).evaluate(contexts, (LogProb(),))[LogProb()].detach()
    assert float((plain - found).abs().max()) > 1e-2
    assert [c.logprobs.tolist() for c in sampled(model, 1)] == [c.logprobs.tolist() for c in contexts[:1]]


def test_round_trip_and_a_plain_model_beside_it(folder, tmp_path):
    model = moved(folder, layers=(0,), gate=True)
    model.save(tmp_path)
    read = LanguageModel.load(tmp_path)
    assert [c.tokens.tolist() for c in sampled(read)] == [c.tokens.tolist() for c in sampled(model)]
    assert [n for n, _ in vectors(read.trunk)] == ["model.layers.0.steer"]
    assert model.clone().network.state_dict().keys() == model.network.state_dict().keys()
    (tmp_path / FILE).unlink()
    plain = LanguageModel.load(tmp_path)
    assert [c.tokens.tolist() for c in sampled(plain)] == [c.tokens.tolist() for c in sampled(LanguageModel.load(folder))]
    (tmp_path / FILE).write_bytes(b"x")
    with pytest.raises(UserError, match="does not fit this model"):
        LanguageModel.load(tmp_path)


def test_what_cannot_be_is_refused(folder):
    model = LanguageModel.load(folder)
    with pytest.raises(UserError, match="names layer 2, but the model has the layers 0 to 1"):
        model.with_steering((2,), False)
    with pytest.raises(UserError, match="already has an adapter or steering vectors"):
        model.with_steering((), False).with_steering((), False)
    with pytest.raises(UserError, match="already has an adapter or steering vectors"):
        model.with_adapter(2, 4.0, Key()).with_steering((), False)
