"""Controllers: exact log-probabilities, keyed draws that no company changes, contexts as conversations, and folders."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from gradus.policies.controller import Controller, config_for
from gradus.policies.controller_reading import squashed_logprob
from gradus.types import Context, Frozen, Key, Sampling, UserError
from gradus.types.contexts import Seen
from gradus.types.control import Drawn, LogProbOfDrawn, Number, Q, QOfAll, QOfCandidates, QSlope
from gradus.types.players import Fresh
from gradus.types.signals import EntropyOf, LogProb, Value
from gradus.types.spaces import Box, Choice, Text

PUSH = Choice(("left", "right"))
TORQUE = Box((-2.0, 0.0), (2.0, 1.0))


@dataclass(frozen=True)
class Ask:
    parent: Context
    at: int
    sampling: Sampling
    key: Key
    version: int = 3
    request: object = None


def made(acts=PUSH, dtype=torch.float64, key=Key(1), **fresh) -> Controller:
    return Controller.fresh(config_for(Fresh(**fresh), {"state": np.zeros(4)}, acts), key, dtype)


def with_density(actions: np.ndarray) -> np.ndarray:
    return np.concatenate([actions, np.zeros((*actions.shape[:2], 1), np.float32)], 2)


def rows(n: int, acts=TORQUE, key: int = 7) -> Context:
    """A context of n transitions."""
    seen = Seen("state", "array", Key(3).normal(n, 4).astype(np.float32), np.arange(0, 2 * n, 2, np.int32), np.ones(n, np.int32))
    low, high = np.array(acts.low), np.array(acts.high)
    action = (low + (high - low) * Key(4).uniform(n, acts.size)).astype(np.float32)
    streams = Frozen(action=action, key=np.full(n, key, np.uint64), candidates=with_density(np.stack([action, action * 0.5], 1)))
    return Context(np.zeros(2 * n, np.int32), np.tile([False, True], n), streams=streams, seen=(seen,))


def asks(policy: Controller, count: int, temperature: float = 1.0) -> list[Ask]:
    states = Key(5).normal(count, 4)
    first = [policy.opening({"state": s}) for s in states]
    return [Ask(c, 1, Sampling(temperature=temperature), Key(9).fold(i)) for i, c in enumerate(first)]


def test_log_probability_by_hand():
    """mean 0, deviation 1, raw 0.5, range [-2, 2]: log N = -0.125 - 0.918939; tanh(0.5) = 0.462117, so log(2 (1 - 0.213552)) = 0.452918."""
    raw = torch.tensor([[0.5]], dtype=torch.float64)
    got = squashed_logprob(raw, torch.zeros_like(raw), torch.ones_like(raw), torch.tensor([2.0], dtype=torch.float64))
    assert got.item() == pytest.approx(-0.125 - 0.5 * math.log(2 * math.pi) - math.log(2 * (1 - math.tanh(0.5) ** 2)), abs=1e-12)


def test_the_squashed_density_adds_up_to_one():
    half = torch.tensor([2.0], dtype=torch.float64)
    grid = torch.linspace(-2, 2, 200_001, dtype=torch.float64)[1:-1, None]
    raw = (grid / half).atanh()
    density = squashed_logprob(raw, torch.full_like(raw, 0.3), torch.full_like(raw, 0.7), half).exp()
    assert float(density.sum() * (grid[1] - grid[0])) == pytest.approx(1.0, abs=1e-4)


def test_far_out_the_density_stays_finite():
    raw = torch.tensor([[40.0], [-40.0]], dtype=torch.float32)
    got = squashed_logprob(raw, raw, torch.ones_like(raw), torch.ones(1))
    assert torch.isfinite(got).all()
    assert got[0] == pytest.approx(80 - 2 * math.log(2) - 0.5 * math.log(2 * math.pi), rel=1e-6)


@pytest.mark.parametrize("acts", [PUSH, TORQUE])
@pytest.mark.parametrize("kind", ["mlp", "gru"])
def test_what_was_sampled_has_the_same_log_probability_in_an_evaluation(acts, kind):
    policy = made(acts, kind=kind)
    given = asks(policy, 5)
    for ask, sampled in zip(given, policy.act(given), strict=True):
        again = policy.evaluate([sampled], (LogProb(), EntropyOf()))
        assert float(again[LogProb()].detach()) == pytest.approx(float(sampled.logprobs[0]), abs=1e-6)
        assert sampled.versions.tolist() == [3]
        assert sampled.parent[0] is ask.parent


@pytest.mark.parametrize("acts", [PUSH, TORQUE])
def test_no_draw_depends_on_its_company(acts):
    policy = made(acts, dtype=torch.float32)
    alone = [policy.act([ask])[0] for ask in asks(policy, 37)]
    for one, other in zip(alone, policy.act(asks(policy, 37)), strict=True):
        assert one.tokens.tobytes() == other.tokens.tobytes()
        assert one.logprobs.tobytes() == other.logprobs.tobytes()
        assert {n: a.tobytes() for n, a in one.streams.items()} == {n: a.tobytes() for n, a in other.streams.items()}


def test_a_choice_is_drawn_as_often_as_its_probability_says():
    policy = made(PUSH)
    (first,) = asks(policy, 1)  # the odds of its two actions
    drawn = [int(policy.act([replace(first, key=Key(2).fold(i))])[0].tokens[0]) for i in range(2000)]
    sampled = policy.act([first])[0]
    p = math.exp(sampled.logprobs[0]) if sampled.tokens[0] else 1 - math.exp(sampled.logprobs[0])
    assert np.mean(drawn) == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 2000))


def test_greedy_takes_the_middle_of_the_distribution():
    policy = made(TORQUE)
    greedy = policy.act(asks(policy, 3, temperature=0.0))
    assert all(np.array_equal(a.streams["action"], b.streams["action"]) for a, b in zip(greedy, policy.act(asks(policy, 3, 0.0)), strict=True))
    outputs = policy._outputs(asks(policy, 3))
    assert np.allclose(greedy[0].streams["raw"][0], outputs[0, :2].detach())


def test_a_context_is_a_conversation():
    policy = made(TORQUE)
    grown = policy.opening({"state": np.zeros(4)})
    for turn in range(3):
        grown = grown.then(policy.told(np.array([1.0, 0.25])))
        grown = grown.then(policy.follow({"state": np.full(4, turn + 1.0)}, grown))
    assert grown.chosen.tolist() == [False, True, False, True, False, True, False]
    assert grown.tokens.tolist() == [0] * 7
    assert [s.at.tolist() for s in grown.shown] == [[0, 2, 4, 6]]
    assert policy.said(grown, 5).tolist() == [1.0, 0.25]
    values = made(TORQUE, outputs="value").evaluate([grown], (Value(),))[Value()]
    alone = made(TORQUE, outputs="value").evaluate([policy.opening({"state": np.full(4, 2.0)}).then(policy.told(np.zeros(2)))], (Value(),))
    assert values.shape == (3,)
    assert values[2].item() == pytest.approx(alone[Value()][0].item(), abs=1e-12)


def test_a_gru_remembers_and_an_mlp_does_not():
    for kind, same in (("mlp", True), ("gru", False)):
        policy = made(PUSH, kind=kind)
        piece = policy.told(1)
        short = policy.opening({"state": np.ones(4)}).then(piece)
        long = policy.opening({"state": np.zeros(4)}).then(piece)
        long = long.then(policy.follow({"state": np.ones(4)}, long)).then(piece)
        a, b = (policy.evaluate([c], (LogProb(),))[LogProb()][-1].item() for c in (short, long))
        assert (abs(a - b) < 1e-12) is same


def test_one_large_network_equals_its_heads():
    """Five heads with layer norm in one product: each head is the network of its own weights."""
    policy, context = made(TORQUE, outputs="q", heads=5, layer_norm=True), rows(11)
    whole = policy.evaluate([context], (Q(),))[Q()]
    state = torch.tensor(context.seen[0].rows, dtype=torch.float64)
    middle, half = torch.tensor([0.0, 0.5], dtype=torch.float64), torch.tensor([2.0, 0.5], dtype=torch.float64)
    x = torch.cat([state, (torch.tensor(context.streams["action"], dtype=torch.float64) - middle) / half], 1)
    for head in range(5):
        y = x
        for layer in policy.network.dense.layers:
            y = y @ layer.weight[head] + layer.bias[head, 0]
            y = torch.nn.functional.layer_norm(y, (64,)) * layer.scale[head, 0] + layer.shift[head, 0]
            y = y.relu()
        out = policy.network.dense.out
        assert torch.allclose(whole[:, head], (y @ out.weight[head] + out.bias[head, 0])[:, 0], atol=1e-12)


def test_candidates_and_slopes_of_the_value():
    policy, context = made(TORQUE, outputs="q", heads=3), rows(6)
    q, several = (policy.evaluate([context], (w,))[w] for w in (Q(), QOfCandidates()))
    assert several.shape == (6, 3, 2)
    assert torch.allclose(several[..., 0], q, atol=1e-12)
    for reduce in ("least", "mean"):
        slope = policy.evaluate([context], (QSlope(reduce),))[QSlope(reduce)]
        step = 1e-6
        for d in range(2):
            shifted = context.streams["action"].astype(np.float64)
            shifted[:, d] += step
            moved = replace(context, streams=Frozen({**context.streams, "action": shifted}))
            fold = (lambda v: v.min(1).values) if reduce == "least" else (lambda v: v.mean(1))
            change = (fold(policy.evaluate([moved], (Q(),))[Q()]) - fold(q)) / step
            assert torch.allclose(slope[:, d], change, atol=1e-4)


def test_a_drawn_action_follows_its_key_and_its_weights():
    policy = made(TORQUE)
    one, same, other = rows(8), rows(8), rows(8, key=8)
    a, b, c = (policy.evaluate([x], (Drawn(), LogProbOfDrawn())) for x in (one, same, other))
    assert torch.equal(a[Drawn()], b[Drawn()])
    assert not torch.equal(a[Drawn()], c[Drawn()])
    low, high = torch.tensor(TORQUE.low), torch.tensor(TORQUE.high)
    assert (a[Drawn()] > low).all()
    assert (a[Drawn()] < high).all()
    given = replace(one, streams=Frozen({**one.streams, "action": a[Drawn()].detach().numpy()}))
    assert torch.allclose(policy.evaluate([given], (LogProb(),))[LogProb()], a[LogProbOfDrawn()], atol=1e-9)
    a[LogProbOfDrawn()].sum().backward()
    assert float(policy.network.dense.out.bias.grad.abs().max()) > 0


def test_choices_have_values_of_all_of_them():
    policy = made(PUSH, outputs="q", heads=2)
    context = policy.opening({"state": np.ones(4)}).then(policy.told("right"))
    found = policy.evaluate([context], (Q(), QOfAll()))
    assert found[QOfAll()].shape == (1, 2, 2)
    assert torch.equal(found[Q()], found[QOfAll()][..., 1])


def test_a_number():
    policy = made(PUSH, outputs="number", number=-1.5)
    context = policy.opening({"state": np.ones(4)}).then(policy.told(0))
    assert policy.evaluate([context, context], (Number(),))[Number()].tolist() == [-1.5, -1.5]
    assert sum(p.numel() for p in policy.network.parameters()) == 1


def test_pixels_go_through_convolutions():
    picture = np.random.default_rng(0).integers(0, 256, (9, 7, 3)).astype(np.uint8)
    policy = Controller.fresh(config_for(Fresh("cnn"), {"picture": picture}, PUSH), Key(2))
    context = policy.opening({"picture": picture}).then(policy.told(0))
    assert context.seen[0].rows.dtype == np.uint8
    assert policy.evaluate([context], (LogProb(),))[LogProb()].shape == (1,)
    assert policy.act([Ask(policy.opening({"picture": picture}), 1, Sampling(), Key())])[0].actions == 1


def test_chunks_of_actions():
    acts = Box((-1.0, -1.0), (1.0, 1.0), chunk=3)
    policy = made(acts)
    sampled = policy.act(asks(policy, 1))[0]
    assert sampled.streams["action"].shape == (1, 3, 2)
    assert policy.said(sampled, 1).shape == (3, 2)
    assert policy.evaluate([sampled], (LogProb(),))[LogProb()].item() == pytest.approx(float(sampled.logprobs[0]), abs=1e-5)


@pytest.mark.parametrize(("acts", "fresh"), [(PUSH, Fresh("gru")), (TORQUE, Fresh(outputs="q", heads=4, layer_norm=True, hidden=(8,)))])
def test_a_folder_gives_the_same_controller(tmp_path, acts, fresh):
    policy = Controller.fresh(config_for(fresh, {"state": np.zeros(4)}, acts), Key(5))
    policy.save(tmp_path)
    again = Controller.load(tmp_path)
    assert again.config == policy.config
    assert all(torch.equal(a, b) for a, b in zip(policy.network.parameters(), again.network.parameters(), strict=True))
    clone = policy.clone()
    with torch.no_grad():
        next(clone.network.parameters()).add_(1)
    assert not torch.equal(next(clone.network.parameters()), next(policy.network.parameters()))


def test_equal_keys_give_equal_weights():
    assert all(torch.equal(a, b) for a, b in zip(made().network.parameters(), made().network.parameters(), strict=True))
    assert not torch.equal(next(made().network.parameters()), next(made(key=Key(2)).network.parameters()))


def test_refusals(tmp_path):
    policy = made(TORQUE)
    with pytest.raises(UserError, match="reads named arrays, but this environment shows text"):
        policy.opening("hello")
    with pytest.raises(UserError, match=r"reads state \[4\], but the observation has place \[3\]"):
        policy.opening({"place": np.zeros(3)})
    with pytest.raises(UserError, match="does not offer Q, which needs q"):
        policy.evaluate([rows(2)], (Q(),))
    with pytest.raises(UserError, match="shows text and accepts text"):
        config_for(Fresh(), "a map", Text())
    with pytest.raises(UserError, match="a cnn reads one array"):
        config_for(Fresh("cnn"), {"state": np.zeros(4)}, PUSH)
    with pytest.raises(UserError, match=r"config\.json is missing"):
        Controller.load(tmp_path)
    with pytest.raises(UserError, match="not an action of this task; choose from left, right"):
        made(PUSH).told("up")
    with pytest.raises(UserError, match="is an array of 2 numbers"):
        policy.told(np.zeros(3))
    keyless = replace(rows(2), streams=Frozen(action=rows(2).streams["action"]))
    with pytest.raises(UserError, match="of each transition, but these transitions have no key"):
        policy.evaluate([keyless], (Drawn(),))
    gru = {"kind": "gru", "outputs": "q"}
    for wrong, text in (({"hidden": ()}, "one or more widths"), ({"heads": 2}, 'only a model with `outputs="q"`'), (gru, "no earlier observations")):
        with pytest.raises(UserError, match=text):
            Fresh(**wrong)


def test_micro_batches_hold_whole_contexts():
    contexts = [rows(n) for n in (3, 2, 9, 1)]
    assert made(TORQUE).micro_batches(contexts, 5) == [[0, 1], [2], [3]]
    assert made(TORQUE).acts(TORQUE)
    assert not made(TORQUE).acts(PUSH)
    assert made(PUSH).acts(Choice(("a", "b")))
    assert made(PUSH).text([0, 1]) == "left right"
    assert made(TORQUE).text([0]) == ""
