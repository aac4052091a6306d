"""Hybrid latent inputs: the gate by hand, the mark, and a rollout that is replayed with gradient through the gate."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.policies.gated import FILE, STREAM, Gate, inputs_of, lam_of, latent_of, mean_embedding
from gradus.policies.lm import LanguageModel
from gradus.types import Frozen, Key, Sampling, UserError
from gradus.types.players import Gated
from gradus.types.records import Problem, Request
from gradus.types.signals import EntropyOf, LogProb
from tests.small_model import save_small_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_small_model(tmp_path_factory.mktemp("gated"))


def gated(folder, dtype=torch.float32, **fields) -> LanguageModel:
    model = LanguageModel.load(folder, dtype=dtype)
    return model.with_gate(Key(3), **{"c": 8.0, "least": 0.5, "most": 0.7, "mark": "#", **fields})


def sampled(model, count=6, prompt="ab", temperature=1.0, limit=24):
    parent = model.opening(prompt)
    problem = Problem("p", "t", text=prompt)
    sampling = Sampling(max_tokens=limit, temperature=temperature)
    asks = [
        SimpleNamespace(parent=parent, at=len(parent.sequence), sampling=sampling, key=Key(i), version=0, request=Request(problem))
        for i in range(count)
    ]
    return model.act(asks)


def test_the_gate_by_hand():
    """a = 0.99: a^(-1/8) - 1 = 0.0012571, lam = 6.679; r = 1/2 gives sqrt(0.99) = 0.99499; the latent part weighs sqrt(1 - 0.9801) = 0.1411."""
    lam = lam_of(torch.tensor([0.99], dtype=torch.float64), 8.0)
    assert_close(lam, torch.tensor([6.6790], dtype=torch.float64), atol=1e-4, rtol=0)
    for r, due in ((1.0, 0.99), (0.5, 0.99499)):
        a = math.exp(-8.0 * math.log1p(math.exp(-float(lam))) * r)
        assert a == pytest.approx(due, abs=1e-5)
    gate = Gate(1, Key(), like=torch.zeros((), dtype=torch.float64))
    with torch.no_grad():
        for p in gate.parameters():
            p.zero_()
        gate.lam.copy_(lam)
        gate.token_bias.fill_(50.0)  # r = 1
        gate.latent_bias.fill_(50.0)  # i = 1
    found = gate(torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64))
    assert float(found.detach()) == pytest.approx(0.1411, abs=5e-5)
    assert float(gate.share(torch.zeros(1, 1, dtype=torch.float64)).detach()) == pytest.approx(0.99)


def test_the_share_starts_between_least_and_most_for_an_open_gate():
    gate = Gate(400, Key(1), least=0.98, most=0.999)
    a = torch.exp(-8.0 * torch.nn.functional.softplus(-gate.lam)).detach()
    assert 0.98 <= float(a.min()) < 0.9805
    assert 0.998 < float(a.max()) <= 0.9991


def test_the_mean_embedding_by_hand():
    """p = (0.6, 0.8) / 1.4 has norm 1 / 1.4, so p / |p| = (0.6, 0.8)."""
    logits = torch.log(torch.tensor([[0.6, 0.8]], dtype=torch.float64)) * 2.0
    found = mean_embedding(logits, torch.tensor([2.0]), torch.tensor([[1.0, 0.0], [0.0, 10.0]], dtype=torch.float64))
    assert_close(found, torch.tensor([[0.6, 8.0]], dtype=torch.float64))


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_update_gives_the_log_probabilities_of_the_rollout(folder, temperature):
    model = gated(folder)
    contexts = sampled(model, temperature=temperature)
    found = model.evaluate(contexts, (LogProb(), EntropyOf()))
    due = torch.from_numpy(np.concatenate([c.logprobs for c in contexts]))
    assert_close(found[LogProb()].detach(), due, atol=1e-5, rtol=0)
    plain = LanguageModel.load(folder).evaluate([_without(c) for c in contexts], (LogProb(),))
    assert float((plain[LogProb()].detach() - due).abs().max()) > 1e-2  # the latent part is felt


def _without(context):
    from dataclasses import replace

    return replace(context, streams=Frozen())


def test_the_gradient_of_the_update_reaches_the_gate(folder):
    model = gated(folder, torch.float64)
    contexts = sampled(model, count=3)
    loss = model.evaluate(contexts, (LogProb(),))[LogProb()].sum()
    loss.backward()
    for name, p in model.gate.named_parameters():
        assert float(p.grad.abs().max()) > 0, name
    p = model.gate.lam
    eps = 1e-6
    with torch.no_grad():
        p[5] += eps
        up = float(model.evaluate(contexts, (LogProb(),))[LogProb()].sum())
        p[5] -= 2 * eps
        down = float(model.evaluate(contexts, (LogProb(),))[LogProb()].sum())
        p[5] += eps
    assert float(p.grad[5]) == pytest.approx((up - down) / (2 * eps), rel=1e-4)


def test_a_gate_that_is_shut_is_the_plain_model(folder):
    model = gated(folder)
    with torch.no_grad():
        model.gate.lam.fill_(200.0)  # a = 1
    contexts, plain = sampled(model), sampled(LanguageModel.load(folder))
    assert [c.tokens.tolist() for c in contexts] == [c.tokens.tolist() for c in plain]
    for one, other in zip(contexts, plain, strict=True):
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=2e-3)  # sqrt(1e-8) of the latent part is left


def test_after_the_mark_inputs_are_plain(folder):
    """The token that completes the mark has no latent part itself."""
    contexts = sampled(gated(folder, mark=" "), count=24, limit=40)
    model, marked = gated(folder, mark=" "), 0
    for c in contexts:
        latent = ~np.isnan(c.streams[STREAM]).any(-1)
        said = [" " in model.text(c.tokens[: i + 1]) for i in range(len(c.tokens))]
        assert latent.tolist() == [not x for x in said]
        marked += any(said)
    assert marked > 3


def test_a_continuation_takes_up_the_latent_inputs(folder):
    """A fork inside an answer reads the latent prefix; forks of two answers with equal tokens and other latents do not share it."""
    model = gated(folder)
    first = sampled(model, count=1)[0]
    at = len(first.prefix) + 5
    ask = SimpleNamespace(parent=first, at=at, sampling=Sampling(max_tokens=8), key=Key(9), version=0, request=Request(Problem("p", "t", text="ab")))
    fork, again = model.act([ask])[0], None
    assert len(latent_of(fork, at)[0]) == 5
    found = model.evaluate([first, fork], (LogProb(),))[LogProb()].detach()
    assert_close(found[first.actions :], torch.from_numpy(fork.logprobs.copy()), atol=1e-5, rtol=0)
    from dataclasses import replace

    other = replace(first, streams=Frozen(inputs=first.streams[STREAM] * -1))
    again = replace(fork, parent=(other, at))
    both = model.evaluate([fork, again], (LogProb(),))[LogProb()].detach()
    alone = model.evaluate([again], (LogProb(),))[LogProb()].detach()
    assert_close(both[fork.actions :], alone, atol=1e-5, rtol=0)
    assert float((both[: fork.actions] - alone).abs().max()) > 1e-3


def test_round_trip(folder, tmp_path):
    model = gated(folder)
    model.save(tmp_path)
    read = LanguageModel.load(tmp_path)
    assert (read.gate.c, read.gate.mark) == (8.0, "#")
    assert [c.tokens.tolist() for c in sampled(read)] == [c.tokens.tolist() for c in sampled(model)]
    assert sorted(n for n, _ in read.network.named_parameters() if n.startswith("gate.")) == sorted(f"gate.{n}" for n, _ in model.gate.named_parameters())
    (tmp_path / FILE).write_bytes(b"x")
    with pytest.raises(UserError, match="contains no gate for a model of width 32"):
        LanguageModel.load(tmp_path)


def test_inputs_without_a_gate_are_the_vectors_themselves(folder):
    context = sampled(gated(folder), count=1)[0]
    model = LanguageModel.load(folder)
    found = inputs_of(context, model.trunk.embed, None)
    assert_close(found.rows, torch.from_numpy(latent_of(context)[1]))


@pytest.mark.parametrize("fields", [{"least": 0.99, "most": 0.9}, {"mark": ""}, {"c": 0.0}])
def test_fields_that_cannot_be(fields):
    with pytest.raises(UserError):
        Gated(**fields)
