"""The flow generator as a policy: draws that depend on nothing else, rows that agree with the draw, folders, bad input."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch

from gradus.policies.flow import BUILT_IN, FlowModel
from gradus.policies.flow_network import FlowConfig
from gradus.policies.flow_steps import matching_pairs
from gradus.testing.methods import FLOW_CONFIG, flow_ask, toy_flow
from gradus.types import Context, Key, UserError
from gradus.types.samplers import Drawing, Ode, Sde
from gradus.types.signals import EntropyOf, LogProb, MatchingError, MatchingTime, MatchingVelocity, Velocity

STEPS = Drawing(Sde(6), "steps")
HOWS = (STEPS, Drawing(Sde(3), "sample"), Drawing(Ode(5)), None)


def same(a: Context, b: Context) -> bool:
    """Whether two contexts hold the same bytes."""
    arrays = [(c.tokens, c.chosen, c.versions, c.logprobs, *c.streams.values()) for c in (a, b)]
    equal = [(x is None and y is None) or (x.dtype == y.dtype and x.tobytes() == y.tobytes()) for x, y in zip(*arrays, strict=True)]
    return all(equal) and list(a.streams) == list(b.streams)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_draw_is_the_same_alone_in_company_and_in_another_order(dtype):
    model = FlowModel.load(None, dtype) if dtype == torch.float32 else toy_flow()
    asks = [flow_ask(HOWS[i % 4], f"p{i % 7}", i, (np.cos(i), np.sin(i))) for i in range(150)]
    together = model.act(asks)
    order = random.Random(0).sample(range(150), 150)
    shuffled = dict(zip(order, model.act([asks[i] for i in order]), strict=True))
    assert all(same(together[i], shuffled[i]) for i in range(150))
    assert all(same(together[i], model.act([asks[i]])[0]) for i in range(0, 150, 11))


def test_a_draw_by_hand():
    # velocity 1 everywhere: weights 0, last bias 1; two steps of the ODE take x to x - 1/2 - 1/2
    model = FlowModel.fresh(FlowConfig(dimension=1, condition=0, width=2, depth=1, frequencies=0), Key(0), torch.float64)
    with torch.no_grad():
        for p in model.network.parameters():
            p.zero_()
        model.network.biases[-1].fill_(1.0)
    one = flow_ask(Drawing(Ode(2)), condition=())
    (context,) = model.act([one])
    assert context.streams["sample"] == pytest.approx(one.key.fold("start").normal(1)[None] - 1.0)
    # one step of the SDE (a = 1, t = 1, dt = 1: s = 1, c = 1/2): x / 2 - 1 + e, whose log-probability is that of e
    one = flow_ask(Drawing(Sde(1, 1.0), "steps"), condition=())
    (context,) = model.act([one])
    start, noise = one.key.fold("start").normal(1), one.key.fold("steps").normal(1, 1)
    assert context.streams["sample"] == pytest.approx(start / 2 - 1 + noise)
    assert context.logprobs == pytest.approx(-(noise[0] ** 2) / 2 - np.log(2 * np.pi) / 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_probabilities_of_the_draw_and_of_training_agree(dtype):
    model = FlowModel.load(None, dtype)
    contexts = model.act([flow_ask(STEPS, "p", i, (np.cos(i), np.sin(i))) for i in range(100)])
    rows = model.evaluate(contexts, (LogProb(), Velocity()))
    drawn = np.concatenate([c.logprobs for c in contexts])
    assert np.abs(rows[LogProb()].detach().numpy() - drawn).max() < 1e-4
    assert rows[Velocity()].shape == (600, 2)


def test_only_random_steps_are_actions():
    class Half:
        def path(self):
            return (*Sde(2).path()[:1], *Ode(2).path()[1:])

    (context,) = toy_flow().act([flow_ask(Drawing(Half(), "steps"))])
    assert context.actions == 1
    assert not np.array_equal(context.streams["next"], context.streams["sample"])  # a step of the ODE follows
    assert torch.isfinite(toy_flow().evaluate([context], (LogProb(),))[LogProb()]).all()


def test_matching_rows_by_hand():
    model = toy_flow()
    contexts = model.act([flow_ask(Drawing(Ode(3)), "p", i) for i in range(3)])
    rows = model.evaluate(contexts, (MatchingError(4), MatchingVelocity(4), MatchingTime(4)))
    for i, context in enumerate(contexts):
        (times,), (noise,) = matching_pairs(context.streams["key"], 4, 2)
        for k in range(4):
            clean, t, e = context.streams["sample"][0], times[k], noise[k]
            place = torch.from_numpy((1 - t) * clean + t * e)[None]
            v = model.network(place, torch.tensor([t]), torch.tensor(context.streams["condition"]))[0]
            assert rows[MatchingTime(4)][i, k].item() == t
            assert rows[MatchingVelocity(4)][i, k].tolist() == pytest.approx(v.tolist())
            assert rows[MatchingError(4)][i, k].item() == pytest.approx(((v.detach().numpy() - (e - clean)) ** 2).mean())


def test_old_new_and_other_players_match_at_the_same_pairs():
    model = toy_flow()
    contexts = model.act([flow_ask(Drawing(Ode(3)), "p", i) for i in range(5)])
    first = model.evaluate(contexts, (MatchingError(3),), key=Key(1))[MatchingError(3)]
    again = model.clone().evaluate(contexts[::-1], (MatchingError(3),), key=Key(2))[MatchingError(3)]
    torch.testing.assert_close(again.flip(0), first, rtol=0, atol=1e-14)


def test_micro_batches_hold_every_context_once_and_no_more_than_fit():
    contexts = toy_flow().act([flow_ask(STEPS, "p", i) for i in range(5)])  # 6 actions each
    assert toy_flow().micro_batches(contexts, 100) == [[0, 1, 2, 3, 4]]
    assert toy_flow().micro_batches(contexts, 13) == [[0, 1], [2, 3], [4]]
    assert toy_flow().micro_batches(contexts, 1) == [[0], [1], [2], [3], [4]]
    assert toy_flow().micro_batches([], 5) == []


def test_a_saved_model_is_the_same_model(tmp_path):
    model = toy_flow()
    model.save(tmp_path / "m")
    loaded = FlowModel.load(tmp_path / "m", torch.float64)
    assert loaded.config == FLOW_CONFIG
    assert all(torch.equal(a, b) for a, b in zip(model.network.parameters(), loaded.network.parameters(), strict=True))
    narrow = FlowModel.load(tmp_path / "m", torch.bfloat16)
    (context,) = narrow.act([flow_ask(STEPS)])
    assert context.streams["sample"].dtype == np.float32


def test_a_clone_stands_apart():
    model = toy_flow()
    other = model.clone()
    with torch.no_grad():
        other.network.biases[0].add_(1)
    assert not torch.equal(model.network.biases[0], other.network.biases[0])


def test_the_built_in_model_is_small():
    assert (BUILT_IN / "model.safetensors").stat().st_size < 300_000


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "qwen2"}, 'of type "qwen2", but this task is for a flow generator'),
        ({"model_type": "gradus_flow", "widht": 8}, "did you mean width"),
        ({"model_type": "gradus_flow", "width": 0}, "`width` is 0"),
        ([1], "is not a JSON object"),
        ({"model_type": "gradus_flow", "width": 9}, "does not contain the weights that"),
    ],
)
def test_a_folder_that_does_not_fit_is_a_sentence(tmp_path, config, said):
    toy_flow().save(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=said):
        FlowModel.load(tmp_path)


def test_a_missing_or_damaged_file_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match="is not a model folder"):
        FlowModel.load(tmp_path / "absent")
    toy_flow().save(tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="is damaged"):
        FlowModel.load(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"there is no .*model\.safetensors"):
        FlowModel.load(tmp_path)


def test_what_cannot_be_told_is_a_sentence():
    model = toy_flow()
    contexts = model.act([flow_ask(None)])
    with pytest.raises(UserError, match="were stored without the steps"):
        model.evaluate(contexts, (LogProb(),))
    with pytest.raises(UserError, match="does not offer EntropyOf, which needs entropy"):
        model.evaluate(contexts, (EntropyOf(),))
    with pytest.raises(UserError, match="a condition of 3 numbers, but the flow model needs 2 numbers"):
        model.act([flow_ask(None, condition=(1, 2, 3))])
