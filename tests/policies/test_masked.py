"""The masked model: no causal order, answers that depend on nothing but their key, folders, estimates by hand, and what it refuses."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.policies import registry
from gradus.policies.decoder import Decoder
from gradus.policies.masked import Masked
from gradus.testing.methods import MASKED_CONFIG, masked_ask, toy_masked
from gradus.types import Ended, Key, UserError
from gradus.types.masks import Coupled, Denoised, OneStep, Quadrature, of_move
from gradus.types.signals import LogProb
from gradus.types.spaces import Choice, Text

MASK = MASKED_CONFIG.mask


def answers(count=5, **options):
    model = toy_masked()
    return model, model.act([masked_ask("p", i, **options) for i in range(count)])


def test_a_late_token_changes_an_early_one_without_the_causal_order_only():
    first, second = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 2, 3, 5]])
    free = toy_masked().network
    bound = Decoder(replace(MASKED_CONFIG.decoder, causal=True)).double().initialise(Key(3))
    assert (free(first)[0, 0] != free(second)[0, 0]).any()
    assert torch.equal(bound(first)[0, 0], bound(second)[0, 0])


def test_an_answer_does_not_depend_on_the_others():
    model, together = answers(11)
    for i in (0, 4, 10):
        (alone,) = model.act([masked_ask("p", i)])
        assert alone.tokens.tolist() == together[i].tokens.tolist()
        assert alone.logprobs.tolist() == together[i].logprobs.tolist()
        assert alone.streams["order"].tolist() == together[i].streams["order"].tolist()


def test_the_built_in_model_answers_alike_alone_and_in_company():
    model = registry.load(None, "masked", "sudoku4", registry.Loading(torch.float32))
    prompt = model.opening(({"role": "user", "content": "1234............"},))
    asks = [replace(masked_ask("p", i, count=16), parent=prompt, at=len(prompt.sequence)) for i in range(9)]
    together = model.act(asks)
    for i in (0, 8):
        (alone,) = model.act([asks[i]])
        assert alone.tokens.tolist() == together[i].tokens.tolist()
        assert alone.logprobs.tolist() == together[i].logprobs.tolist()


def test_no_answer_holds_the_mask_token_and_each_step_fills_one_in():
    _, contexts = answers(20)
    for c in contexts:
        assert MASK not in c.tokens
        assert len(c.tokens) == 6
        assert c.actions == 6 or (c.tokens[c.actions - 1] == 0 and c.ended is Ended.STOP)
        assert len(set(c.streams["order"].tolist())) == c.actions
    assert any(c.actions < 6 for c in contexts)  # some end early, and what follows the end is no action


def test_log_probabilities_as_sampled_are_those_of_the_path():
    # each token's probability given what was filled in before it
    model, contexts = answers(3)
    for c in (c for c in contexts if c.actions == 6):
        at, order, canvas = len(c.prefix), c.streams["order"], np.append(c.prefix, np.full(6, MASK)).astype(np.int64)
        for place in np.argsort(order):
            logits = model.network(torch.from_numpy(canvas)[None])[0, at + place].clone()
            logits[MASK] = -math.inf
            assert logits.log_softmax(-1)[c.tokens[place]].item() == pytest.approx(float(c.logprobs[place]), abs=1e-5)
            canvas[at + place] = c.tokens[place]


def test_greedy_takes_the_likeliest_token_of_the_surest_place():
    model, (c, *_) = answers(1, temperature=0.0)
    logits = model.network(torch.tensor([[1, 2, *[MASK] * 6]]))[0, 2:]
    wide = torch.cat([logits[:, :MASK], torch.full((6, 1), -torch.inf)], -1).log_softmax(-1)
    entropy = -torch.where(wide.isfinite(), wide.exp() * wide, 0.0).sum(-1)
    first = int(entropy.argmin())
    if first < c.actions:
        assert c.streams["order"][first] == 0
    assert c.tokens[first] == int(wide[first].argmax())


@dataclass(frozen=True)
class Written:
    """One pass with the places 0 and 2 hidden, with factors 2 and 5."""

    def draw(self, actions, shared, own):
        hidden = np.zeros((1, actions), bool)
        hidden[0, [0, 2]] = True
        return hidden, np.arange(2.0, 2.0 + actions)[None] + (np.arange(actions) == 2)


def test_an_estimate_by_hand():
    model, contexts = answers(6)
    (c,) = [c for c in contexts if c.actions == 6][:1]
    canvas = c.sequence.astype(np.int64).copy()
    at = c.action_positions
    canvas[at[[0, 2]]] = MASK
    logits = model.network(torch.from_numpy(canvas)[None])[0]
    logits = torch.where(torch.arange(MASK + 1) == MASK, -torch.inf, logits).log_softmax(-1)
    rows = model.evaluate([c], (Denoised(Written()),))[Denoised(Written())]
    expected = torch.zeros(6, 1, dtype=torch.float64)
    expected[0], expected[2] = 2.0 * logits[at[0], c.tokens[0]], 5.0 * logits[at[2], c.tokens[2]]
    assert_close(rows, expected, rtol=0, atol=1e-12)


def test_rows_do_not_depend_on_the_company_and_equal_weights_give_equal_rows():
    model, contexts = answers(7)
    for masks in (OneStep(), Coupled(), Quadrature(3)):
        want = Denoised(masks)
        whole = model.evaluate(contexts, (want,), Key(4))[want]
        parts = torch.cat([model.evaluate([c], (want,), Key(4))[want] for c in contexts])
        assert torch.equal(whole, parts)
        assert torch.equal(whole, model.clone().evaluate(contexts, (want,), Key(4))[want])


def test_a_move_has_masks_of_its_own():
    model, contexts = answers(4)
    masks = Quadrature(3)
    now, second = Denoised(masks), Denoised(masks).at(1)
    rows = model.evaluate(contexts, (now, second), Key(4))
    assert (rows[now] != rows[second]).any()
    assert torch.equal(rows[second], model.evaluate(contexts, (now,), of_move(Key(4), 1))[now])


def test_what_follows_the_end_is_hidden_in_every_pass():
    model, contexts = answers(20)
    short = next(c for c in contexts if 2 <= c.actions < 5)
    other = replace(short, tokens=np.append(short.tokens[: short.actions], np.full(6 - short.actions, 3)).astype(np.int32))
    want = Denoised(Coupled())
    assert torch.equal(*(model.evaluate([c], (want,), Key(1))[want] for c in (short, other)))


def test_a_folder_comes_back(tmp_path):
    model = registry.load(None, "masked", "sudoku4", registry.Loading(torch.float32))
    model.save(tmp_path / "again")
    again = registry.load(str(tmp_path / "again"), "lm", "x", registry.Loading(torch.float32))
    assert isinstance(again, Masked)
    assert again.config == model.config
    assert all(torch.equal(a, b) for a, b in zip(model.network.parameters(), again.network.parameters(), strict=True))
    assert again.opening("12").tokens.tolist() == model.opening("12").tokens.tolist()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model_type": "llama"}, "but a masked model"),
        ({"mask_token_id": None}, "needs `mask_token_id`"),
        ({"mask_token_id": 999}, "`mask_token_id` is 999; it must be a token of the model, from 0 to 103"),
        ({"decoder": {"model_type": "llama"}}, "decoder: `vocab_size`"),
    ],
)
def test_a_wrong_folder_is_refused(change, says, tmp_path):
    model = registry.load(None, "masked", "sudoku4", registry.Loading(torch.float32))
    model.save(tmp_path)
    fields = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**fields, **change}))
    with pytest.raises(UserError, match=says):
        Masked.load(tmp_path)


def test_what_it_refuses():
    model, contexts = answers(1)
    with pytest.raises(UserError, match="a masked model does not offer LogProb"):
        model.evaluate(contexts, (LogProb(),))
    with pytest.raises(UserError, match="gives one answer"):
        model.follow("again", contexts[0])
    ask = masked_ask("p", 0)
    with pytest.raises(UserError, match=r"sampling\.stops"):
        model.act([replace(ask, sampling=replace(ask.sampling, stops=("x",)))])
    with pytest.raises(UserError, match="its actions must be text"):
        Masked(MASKED_CONFIG, model.network).told(3)
    assert model.acts(Text())
    assert not model.acts(Choice(("a", "b")))


def test_a_law_of_wrong_shape_is_refused():
    @dataclass(frozen=True)
    class Wrong:
        def draw(self, actions, shared, own):
            return np.ones(actions, bool), np.ones(actions)

    model, contexts = answers(1)
    with pytest.raises(UserError, match=r"Wrong\.draw returned arrays of shapes"):
        model.evaluate(contexts, (Denoised(Wrong()),))
