"""The sighted decoder gives what transformers gives, plain and packed, and a picture depends on no other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.players.learner import Learner
from gradus.policies.lm import LanguageModel
from gradus.policies.sighted import Sighted
from gradus.recipe.core import Setting
from gradus.types import Context, Frozen, Key, Sampling, UserError
from gradus.types.contexts import prompt_context
from gradus.types.players import Player
from gradus.types.signals import LogProb
from gradus.updates.optimizers import AdamW
from tests.policies.vision_models import IMAGE, folder, inner, picture, says

KINDS = ("llava-siglip", "llava-clip", "smolvlm", "idefics3")


@dataclass
class Ask:
    parent: Context
    at: int
    sampling: Sampling
    key: Key
    version: int = 0


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    path = folder(request.param, tmp_path_factory.mktemp(request.param))
    return LanguageModel.load(path), inner(request.param), path


@pytest.fixture(scope="module")
def llava(tmp_path_factory):
    return LanguageModel.load(folder("llava-siglip", tmp_path_factory.mktemp("llava")))


def theirs(model, network, context):
    """Logits [T, vocab] of transformers for a context, with the pixels that the network prepares."""
    things = sorted((int(at), row) for seen in context.shown for at, row in zip(seen.at, seen.rows, strict=True))
    pixels = torch.cat([torch.from_numpy(network.prepare.tiles(row)[0]) for _, row in things])
    pixels = pixels if network.sight.projector.shuffle == 0 else pixels[None]
    with torch.no_grad():
        return model(input_ids=torch.from_numpy(context.sequence.astype(np.int64))[None], pixel_values=pixels).logits[0]


def answered(prompt, tokens):
    """The prompt with an answer, as sampled."""
    tokens = np.array(tokens, np.int32)
    return Context(tokens, np.ones(len(tokens), bool), np.zeros(len(tokens), np.float32), np.zeros(len(tokens), np.int32), parent=(prompt, len(prompt.sequence)))


def test_logprobs_equal_transformers(pair):
    """One picture, several pictures of several sizes, pictures in a later turn; packed together, a shared picture once."""
    ours, model, _ = pair
    assert isinstance(ours.trunk, Sighted), ours.note
    one = ours.opening([says("what is here", picture(1))])
    two = ours.opening([says("look at this", picture(2), picture(3, 20, 30)), says("one", role="assistant"), says("and this", picture(4))])
    contexts = [answered(one, t) for t in ([20, 21, 22], [20, 25], [30, 19, 18, 4])] + [answered(two, [21, 22])]
    with torch.no_grad():
        found = ours.evaluate(contexts, [LogProb()])[LogProb()].split([c.actions for c in contexts])
    for context, logprobs in zip(contexts, found, strict=True):
        at = torch.from_numpy(context.action_positions)
        due = theirs(model, ours.trunk, context)[at - 1].log_softmax(-1).gather(-1, torch.from_numpy(context.tokens.astype(np.int64))[:, None])
        assert_close(logprobs, due[:, 0], atol=1e-4, rtol=0)
        with torch.no_grad():
            assert_close(ours.evaluate([context], [LogProb()])[LogProb()], logprobs, atol=1e-4, rtol=0)


def test_rollout_equals_update(pair):
    ours, _, _ = pair
    prompt, other = (ours.opening([says("tell me what is here", picture(seed, 24, 16))]) for seed in (5, 6))
    asked = [Ask(p, len(p.sequence), Sampling(max_tokens=9), Key(i)) for i, p in enumerate((prompt, prompt, other))]
    drawn = ours.act(asked)
    with torch.no_grad():
        found = ours.evaluate(drawn, [LogProb()])[LogProb()]
    assert_close(torch.from_numpy(np.concatenate([c.logprobs for c in drawn])), found, atol=1e-4, rtol=0)
    alone = [ours.act([a])[0] for a in asked]
    for a, b in zip(drawn, alone, strict=True):  # a sample has the same bits whatever else is drawn
        assert a.tokens.tolist() == b.tokens.tolist()
        assert a.logprobs.tobytes() == b.logprobs.tobytes()


def test_another_picture_changes_no_other_row(llava):
    """One pixel of one picture changes; the rows of the other prompt, which has equal tokens, keep every bit."""
    changed = picture(8).array.copy()
    changed[3, 4, 1] ^= 1
    first, second = (llava.opening([says("what is here", picture(seed))]) for seed in (7, 8))
    third = llava.opening([says("what is here", type(picture(8))("image", changed))])
    assert first.tokens.tobytes() == second.tokens.tobytes() == third.tokens.tobytes()
    asked = lambda p: Ask(p, len(p.sequence), Sampling(max_tokens=5), Key(3))  # noqa: E731
    a, b = llava.act([asked(first), asked(second)]), llava.act([asked(first), asked(third)])
    assert a[0].logprobs.tobytes() == b[0].logprobs.tobytes()
    assert a[1].logprobs.tobytes() != b[1].logprobs.tobytes()

    def rows(*prompts):
        with torch.no_grad():
            return llava.evaluate([answered(p, [20, 21]) for p in prompts], [LogProb()])[LogProb()]

    with_second, with_third = rows(first, second), rows(first, third)
    assert torch.equal(with_second[:2], with_third[:2])
    assert not torch.equal(with_second[2:], with_third[2:])


def test_gradient_reaches_the_tower(tmp_path):
    """Against differences of float64, for a weight of tower, projector and decoder."""
    model = LanguageModel.load(folder("llava-siglip", tmp_path), dtype=torch.float64)
    prompt = model.opening([says("what is here", picture(1), picture(2))])
    contexts = [answered(prompt, [20, 21, 22]), answered(prompt, [23])]

    def loss():
        return model.evaluate(contexts, [LogProb()])[LogProb()].sum()

    loss().backward()
    weights = dict(model.trunk.named_parameters())
    for name in ("tower.embeddings.patch_embedding.weight", "tower.encoder.layers.1.mlp.fc1.weight", "projector.linear_1.bias", "model.norm.weight"):
        weight, step = weights[name], 1e-6
        flat, grad = weight.detach().view(-1), weight.grad.view(-1)
        i = int(grad.abs().argmax())
        with torch.no_grad():
            flat[i] += step
            up = loss()
            flat[i] -= 2 * step
            down = loss()
            flat[i] += step
        assert_close((up - down) / (2 * step), grad[i], rtol=1e-5, atol=1e-8)


def test_a_picture_is_encoded_once_and_again_when_a_weight_changes(llava):
    prompt = llava.opening([says("what is here", picture(30))])
    network, before = llava.trunk, llava.trunk.encoded.count
    contexts = [answered(prompt, [20, 21]), answered(prompt, [22])]
    with torch.no_grad():
        llava.act([Ask(prompt, len(prompt.sequence), Sampling(max_tokens=3), Key(i)) for i in range(4)])
        first = llava.evaluate(contexts, [LogProb()])[LogProb()]
        assert network.encoded.count == before + 1
        weight = network.tower.encoder.layers[0].mlp.fc2.bias
        weight.add_(0.5)
        second = llava.evaluate(contexts, [LogProb()])[LogProb()]
        assert network.encoded.count == before + 2
        assert not torch.equal(first, second)
        weight.sub_(0.5)
    llava.evaluate(contexts, [LogProb()])[LogProb()].sum().backward()  # with gradient: once for all answers of one forward pass
    assert network.encoded.count == before + 3
    network.zero_grad()
    network.tower.requires_grad_(False)
    network.projector.requires_grad_(False)
    llava.evaluate(contexts, [LogProb()])
    llava.evaluate(contexts, [LogProb()])
    assert network.encoded.count == before + 4  # frozen: kept, also where the decoder has gradient
    network.requires_grad_(True)


def test_answers_to_a_picture_share_its_rows_also_where_gradient_is_enabled(llava):
    """As in training: the rollout keeps what it encoded until the optimiser moved the tower."""
    prompt = llava.opening([says("what is here", picture(31))])
    asked = [Ask(prompt, len(prompt.sequence), Sampling(max_tokens=2), Key(i)) for i in range(4)]
    before = llava.trunk.encoded.count
    assert torch.is_grad_enabled()
    llava.act(asked)
    llava.act(asked)
    assert llava.trunk.encoded.count == before + 1
    player = Learner("policy", Player(objective=Frozen(a=1)), llava, AdamW(), Setting(learning_rate=0.0, warmup=0))
    llava.evaluate([answered(prompt, [20])], [LogProb()])[LogProb()].sum().backward()
    player.move(0)
    llava.act(asked)
    assert llava.trunk.encoded.count == before + 3  # the pass with gradient, and anew after the step


def test_a_saved_folder_is_read_by_transformers(pair, tmp_path):
    import transformers

    ours, _, _ = pair
    with torch.no_grad():
        ours.trunk.tower.embeddings.patch_embedding.weight.mul_(1.1)
    ours.save(tmp_path)
    read, report = transformers.AutoModelForImageTextToText.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    context = answered(ours.opening([says("what is here", picture(9))]), [20, 21])
    again = LanguageModel.load(tmp_path)
    with torch.no_grad():
        found = [m.evaluate([context], [LogProb()])[LogProb()] for m in (ours, again)]
    assert torch.equal(*found)
    due = theirs(read.eval(), ours.trunk, context)[torch.from_numpy(context.action_positions) - 1].log_softmax(-1)
    assert_close(found[0], due.gather(-1, torch.from_numpy(context.tokens.astype(np.int64))[:, None])[:, 0], atol=1e-4, rtol=0)


def test_a_text_model_is_shown_nothing(tmp_path):
    from gradus.policies.tiny import folder as tiny

    plain, seeing = LanguageModel.load(tiny("base")), LanguageModel.load(folder("llava-siglip", tmp_path))
    context = answered(seeing.opening([says("what is here", picture(1))]), [20])
    with pytest.raises(UserError, match="this model reads only text"):
        plain.evaluate([context], [LogProb()])
    with pytest.raises(UserError, match="this model reads only text"):
        plain.act([Ask(context.parent[0], 5, Sampling(), Key())])


def test_placeholders_and_pictures_agree(llava):
    with pytest.raises(UserError, match=r"show 0 pictures, but the templated text has 1 placeholders"):
        llava.opening([{"role": "user", "content": "what is <image> here"}])
    wrong = prompt_context([2, IMAGE, IMAGE, 20], llava.opening([says("one", picture(1))]).seen[0:0])
    assert llava.trunk.inputs([wrong]) == [None]  # a placeholder that shows nothing is a token


def test_hidden_states_and_attention_see_the_picture(llava):
    """All that a pass opens depends on the picture: states of a layer, of the last one, the attention."""
    contexts = [answered(llava.opening([says("what is here", picture(seed))]), [20, 21]) for seed in (41, 42)]
    with torch.no_grad():
        for read in (lambda o: o.hidden(1), lambda o: o.hidden(), lambda o: o.states(0)[0], lambda o: o.states()[0], lambda o: next(o.attention([1]))):
            one, two = (read(llava.opened([c], frozenset())) for c in contexts)
            assert not torch.equal(one, two)
        opened = llava.opened(contexts, frozenset())
        early, late = opened.hidden(1), opened.hidden()
        torch.testing.assert_close(late, llava.opened(contexts, frozenset()).hidden())
        assert early.shape == late.shape
