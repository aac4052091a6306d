"""Actions as tokens: bins and their middles, keyed draws, log-probabilities of every token, values per step, folders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from gradus.policies.controller import Controller, config_for
from gradus.policies.controller_bins import middles, nearest_bins, slots
from gradus.types import Context, Key, Sampling, UserError
from gradus.types.control import EndValues
from gradus.types.players import Fresh
from gradus.types.signals import EntropyOf, LogProb, Value
from gradus.types.spaces import Box, Choice

ARM = Box((-1.0, 0.0), (1.0, 4.0), chunk=3)


@dataclass(frozen=True)
class Ask:
    parent: Context
    at: int
    sampling: Sampling
    key: Key
    version: int = 3
    request: object = None


def made(acts=ARM, dtype=torch.float64, key=Key(1), **fresh) -> Controller:
    return Controller.fresh(config_for(Fresh(**{"bins": 4, **fresh}), {"state": np.zeros(4)}, acts), key, dtype)


def asks(policy: Controller, count: int, temperature: float = 1.0) -> list[Ask]:
    first = [policy.opening({"state": s}) for s in Key(5).normal(count, 4)]
    return [Ask(c, 1, Sampling(temperature=temperature), Key(9).fold(i)) for i, c in enumerate(first)]


def test_bins_by_hand():
    config = made().config
    tokens = nearest_bins(np.array([[-1.0, 0.0], [-0.4, 3.9], [2.0, 4.0]]), config)  # four bins of width 1/2 and 1
    assert tokens.tolist() == [0, 0, 1, 3, 3, 3]
    assert middles(tokens, config)[0].tolist() == [-0.75, 0.5, -0.25, 3.5, 0.75, 3.5]
    assert nearest_bins(middles(tokens, config), config).tolist() == tokens.tolist()
    assert slots(np.array([], np.int64)).tolist() == []


def test_an_action_is_one_token_per_number():
    policy = made()
    sampled = policy.act(asks(policy, 2))[1]
    assert sampled.actions == sampled.logprobs.size == 6
    assert sampled.streams["step"].tolist() == [0, 0, 1, 1, 2, 2]
    assert sampled.versions.tolist() == [3] * 6
    action = policy.said(sampled, 1)
    assert action.shape == (3, 2)
    assert action.tolist() == middles(sampled.tokens, policy.config)[0].reshape(3, 2).tolist()
    again = policy.told(action)
    assert again.tokens.tolist() == sampled.tokens.tolist()
    assert again.streams["step"].tolist() == sampled.streams["step"].tolist()


def test_the_chunk_log_probability_is_the_sum_over_its_tokens_and_all_chunks_add_up_to_one():
    """A chunk of two steps of one number with two bins: four chunks."""
    policy = made(Box((-1.0,), (1.0,), chunk=2), bins=2)
    opened = policy.opening({"state": np.ones(4)})
    total = 0.0
    for action in ([-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]):
        rows = policy.evaluate([opened.then(policy.told(np.array(action)))], (LogProb(),))[LogProb()]
        assert rows.shape == (2,)
        total += float(rows.detach().sum().exp())
    assert total == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("kind", "temperature"), [("mlp", 1.0), ("mlp", 0.5), ("gru", 1.0)])
def test_the_update_reads_the_log_probabilities_of_the_rollout(kind, temperature):
    policy = made(kind=kind)
    contexts = []
    for i, ask in enumerate(asks(policy, 5, temperature)):
        grown = ask.parent.then(policy.act([ask])[0])
        grown = grown.then(policy.follow({"state": np.full(4, 0.1 * i)}, grown))
        more = policy.act([Ask(grown, len(grown.sequence), ask.sampling, Key(2).fold(i))])[0]
        contexts.append(grown.then(more))
    found = policy.evaluate(contexts, (LogProb(), EntropyOf()))
    assert found[LogProb()].tolist() == pytest.approx(np.concatenate([c.logprobs for c in contexts]).tolist(), abs=1e-6)
    assert found[EntropyOf()].shape == (5 * 12,)
    assert float(found[EntropyOf()].detach().max()) <= np.log(4) + 1e-9


def test_draws_do_not_depend_on_the_company_and_follow_the_probabilities():
    policy = made(dtype=torch.float32)
    together, alone = policy.act(asks(policy, 40)), [policy.act([ask])[0] for ask in asks(policy, 40)]
    assert [c.tokens.tolist() for c in together] == [c.tokens.tolist() for c in alone]
    assert [c.logprobs.tolist() for c in together] == [c.logprobs.tolist() for c in alone]
    opened = policy.opening({"state": np.ones(4)})
    drawn = policy.act([Ask(opened, 1, Sampling(), Key(1).fold(i)) for i in range(2000)])
    share = np.mean([c.tokens[4] == 2 for c in drawn])
    chance = next(float(np.exp(c.logprobs[4])) for c in drawn if c.tokens[4] == 2)
    assert share == pytest.approx(chance, abs=0.03)
    greedy = policy.act([Ask(opened, 1, Sampling(temperature=0.0), Key(1))])[0]
    assert np.exp(greedy.logprobs).min() >= 1 / 4


def test_the_gradient_is_that_of_the_softmax():
    policy = made(Box((0.0,), (1.0,)), hidden=(3,))
    context = policy.opening({"state": np.ones(4)}).then(policy.told(np.array([0.3])))  # bin 1 of 4
    policy.evaluate([context], (LogProb(),))[LogProb()].sum().backward()
    with torch.no_grad():
        logits = policy.network(torch.ones(1, 4, dtype=torch.float64))[0, 0]
    due = torch.eye(4, dtype=torch.float64)[1] - logits.softmax(0)
    assert torch.allclose(policy.network.dense.out.bias.grad[0, 0], due, atol=1e-12)


def test_a_critic_has_one_value_per_step_or_per_chunk():
    policy = made()
    context = policy.opening({"state": np.ones(4)}).then(policy.told(np.zeros((3, 2))))
    context = context.then(policy.follow({"state": np.zeros(4)}, context))
    critic = made(bins=0, outputs="value", each_step=True)
    values = critic.evaluate([context], (Value(),))[Value()]
    outputs = critic.network(torch.ones(1, 4, dtype=torch.float64))[0, 0]
    assert values.tolist() == outputs.repeat_interleave(2).tolist()
    (ended,) = EndValues(player="critic").seen_by([context], {}, Key())
    after = critic.network(torch.zeros(1, 4, dtype=torch.float64))[0, 0]
    assert critic.evaluate([ended], (Value(),))[Value()].tolist() == after[:1].tolist()
    whole = made(bins=0, outputs="value")
    rows = whole.evaluate([context], (Value(),))[Value()]
    assert rows.shape == (6,)
    assert len(set(rows.tolist())) == 1


def test_the_network_is_computed_once_per_observation():
    policy = made()
    context = policy.opening({"state": np.ones(4)}).then(policy.told(np.zeros((3, 2))))
    seen = []
    policy.network.dense.register_forward_hook(lambda module, given, out: seen.append(len(given[0])))
    policy.evaluate([context, context], (LogProb(),))
    assert seen == [2]


def test_a_folder_gives_the_same_controller(tmp_path):
    policy = made(dtype=torch.float32)
    policy.save(tmp_path)
    assert Controller.load(tmp_path).config == policy.config


def test_refusals():
    with pytest.raises(UserError, match="bins is 1"):
        Fresh(bins=1)
    with pytest.raises(UserError, match='bins need `outputs="actions"`'):
        Fresh(bins=4, outputs="value")
    with pytest.raises(UserError, match='each_step needs `outputs="value"`'):
        Fresh(each_step=True)
    with pytest.raises(UserError, match="bins divide the numbers of a Box"):
        made(Choice(("a", "b")))
    with pytest.raises(UserError, match="an action of this task is an array of 6 numbers"):
        made().told(np.zeros(2))
    wide = made(Box((-1.0, 0.0), (1.0, 4.0), chunk=4))
    context = wide.opening({"state": np.ones(4)}).then(wide.told(np.zeros((4, 2))))
    with pytest.raises(UserError, match="an action has 8 tokens, but an action of this environment has only 6 numbers"):
        made().evaluate([context], (LogProb(),))
    assert made().can == {"logprobs", "entropy", "hidden"}
