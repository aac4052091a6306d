from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from gradus.policies.lm import LanguageModel
from gradus.types import Context, Ended, Key, Sampling, UserError, prompt_context
from gradus.types.readers import Hidden, MaxProb
from gradus.types.signals import EntropyOf, LogProb, Value, Velocity
from tests.policies.contexts import group, mixed

WANTS = (LogProb(), EntropyOf(), Value())


@dataclass(frozen=True)
class Ask:
    parent: Context
    at: int
    sampling: Sampling
    key: Key
    version: int


@pytest.fixture
def qwen3(saved):
    return LanguageModel.load(saved("qwen3"), dtype=torch.float64)


@pytest.fixture
def speaking(saved, tokenizer_folder, tmp_path):
    """A folder with a tokenizer: 300 tokens, end token 3."""
    shutil.copytree(saved("qwen2", vocab_size=300), tmp_path, dirs_exist_ok=True)
    shutil.copytree(tokenizer_folder, tmp_path, dirs_exist_ok=True)
    return tmp_path


def gradients(model, contexts, batches):
    """d loss / d weights for a loss whose every row has its own factor, by micro-batches."""
    starts = np.cumsum([0, *(c.actions for c in contexts)])
    factors = torch.sin(torch.arange(int(starts[-1]), dtype=torch.float64))
    model.network.zero_grad()
    for batch in batches:
        rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in batch])
        if len(rows):
            out = model.evaluate([contexts[i] for i in batch], WANTS)
            sum((out[want] * factors[rows] * (n + 1)).sum() for n, want in enumerate(WANTS)).backward()
    return torch.cat([p.grad.flatten() for p in model.network.parameters()])


def test_gradients_do_not_depend_on_the_cut(qwen3):
    model, contexts = qwen3.with_value_head(Key(1), shared=False), mixed(np.random.default_rng(0))
    whole = gradients(model, contexts, [range(len(contexts))])
    assert whole.abs().max() > 1
    cuts = [[[i] for i in range(len(contexts))], [[4, 2, 9, 0, 1, 11], [3, 10, 8], [7, 6, 5]]]
    cuts += [model.micro_batches(contexts, limit) for limit in (1, 40, 100, 10_000)]
    for cut in cuts:
        assert sorted(i for batch in cut for i in batch) == list(range(len(contexts)))
        assert_close(gradients(model, contexts, cut), whole, atol=1e-10, rtol=0)


def test_each_context_has_its_temperature(qwen3):
    rng = np.random.default_rng(1)
    warm = group(rng, 1, 5, 6, 6, temperature=2.0)[0]
    plain = Context(warm.tokens.copy(), warm.chosen.copy(), parent=warm.parent)
    greedy = Context(warm.tokens.copy(), warm.chosen.copy(), parent=warm.parent, temperature=0.0)
    tokens = torch.from_numpy(warm.sequence.astype(np.int64)).unsqueeze(0)
    logits = qwen3.trunk(tokens)[0, 4:-1]
    rows = qwen3.evaluate([warm, plain, greedy], WANTS[:2])
    for n, temperature in enumerate((2.0, 1.0, 1.0)):  # greedy rows are those of temperature 1
        logp = torch.log_softmax(logits / temperature, -1)
        assert_close(rows[LogProb()][6 * n : 6 * n + 6], logp.gather(1, tokens[0, 5:, None]).squeeze(1), atol=1e-12, rtol=0)
        assert_close(rows[EntropyOf()][6 * n : 6 * n + 6], -(logp.exp() * logp).sum(1), atol=1e-12, rtol=0)


def test_values_are_read_before_the_action(qwen3):
    model = qwen3.with_value_head(Key(2), shared=False)
    context = group(np.random.default_rng(2), 1, 5, 6, 6)[0]
    hidden = model.trunk.hidden(torch.from_numpy(context.sequence.astype(np.int64)).unsqueeze(0))[0]
    assert_close(model.evaluate([context], (Value(),))[Value()], model.head(hidden[4:10]), atol=1e-12, rtol=0)


def test_a_row_does_not_depend_on_what_else_is_wanted(qwen3):
    model, contexts = qwen3.with_value_head(Key(2), shared=False), mixed(np.random.default_rng(3))
    with torch.no_grad():
        rows = model.evaluate(contexts, (*WANTS, Hidden(), MaxProb()))
        for want, found in rows.items():
            assert not found.requires_grad
            assert torch.equal(model.evaluate(contexts, (want,))[want], found)


def test_what_is_not_offered_is_refused(qwen3):
    contexts = group(np.random.default_rng(4), 1, 3, 2, 2)
    assert "value" not in qwen3.can
    with pytest.raises(UserError, match="give the player a value head"):
        qwen3.evaluate(contexts, (Value(),))
    with pytest.raises(UserError, match="does not offer Velocity"):
        qwen3.evaluate(contexts, (Velocity(),))


def test_contexts_without_actions_have_no_rows(qwen3):
    silent = prompt_context([4, 5, 6])
    assert qwen3.evaluate([silent], (LogProb(),))[LogProb()].shape == (0,)
    assert qwen3.micro_batches([silent], 10) == [[0]]


def test_a_shared_trunk_gets_no_gradient_from_the_head(qwen3):
    model = qwen3.with_value_head(Key(3), shared=True)
    assert [n for n, _ in model.network.named_parameters()] == ["weight", "bias"]
    rows = model.evaluate(mixed(np.random.default_rng(5)), (Value(),))[Value()]
    rows.sum().backward()
    assert float(model.head.bias.grad) == len(rows)
    assert all(p.grad is None for p in qwen3.trunk.parameters())
    assert model.trunk is qwen3.trunk


def test_a_clone_goes_its_own_way(qwen3):
    qwen3.network.requires_grad_(False)
    other, contexts = qwen3.clone(), mixed(np.random.default_rng(6))
    assert all(p.requires_grad for p in other.network.parameters())
    before = qwen3.evaluate(contexts, (LogProb(),))[LogProb()]
    assert torch.equal(other.evaluate(contexts, (LogProb(),))[LogProb()], before)
    with torch.no_grad():
        other.trunk.model.norm.weight.mul_(1.5)
    assert torch.equal(qwen3.evaluate(contexts, (LogProb(),))[LogProb()], before)
    assert not torch.equal(other.evaluate(contexts, (LogProb(),))[LogProb()], before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_saved_folders_are_whole(speaking, tmp_path_factory, dtype):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, target = LanguageModel.load(speaking, dtype=dtype), tmp_path_factory.mktemp("saved")
    model.save(target)
    assert {f.name for f in target.iterdir()} == {f.name for f in speaking.iterdir()}
    theirs = AutoModelForCausalLM.from_pretrained(target)
    assert theirs.dtype == dtype
    for name, weight in theirs.state_dict().items():
        assert torch.equal(weight, dict(model.trunk.named_parameters())[name])
    talk = [{"role": "user", "content": "what is 12"}]
    tokenizer = AutoTokenizer.from_pretrained(target)
    assert tokenizer.apply_chat_template(talk, add_generation_prompt=True, return_dict=False) == model.opening(talk).tokens.tolist()
    again = LanguageModel.load(target, dtype=dtype)
    assert again.end_tokens == model.end_tokens == (3,)
    model.save(target)  # in place: the same bytes
    assert (target / "config.json").read_bytes() == again._config_json(again.trunk).encode()


def test_heads_and_adapters_are_saved_beside(speaking, tmp_path_factory):
    target = tmp_path_factory.mktemp("saved")
    contexts = mixed(np.random.default_rng(7))
    critic = LanguageModel.load(speaking).with_value_head(Key(4), shared=False)
    critic.save(target)
    again = LanguageModel.load(target)
    assert "value" in again.can
    assert torch.equal(again.evaluate(contexts, (Value(),))[Value()], critic.evaluate(contexts, (Value(),))[Value()])

    model = LanguageModel.load(speaking).with_adapter(2, 4.0, Key(5))
    for p in model.network.parameters():
        if p.requires_grad:
            p.data += 0.05
    model.save(target / "b")
    expected = model.evaluate(contexts, (LogProb(),))[LogProb()]
    for folder in (target / "b", target / "b" / "adapter"):  # merged, and the adapter on its base
        found = LanguageModel.load(folder).evaluate(contexts, (LogProb(),))[LogProb()]
        assert_close(found, expected, atol=2e-5, rtol=0)
    assert (expected - LanguageModel.load(speaking).evaluate(contexts, (LogProb(),))[LogProb()]).abs().max() > 0.01


def test_text(speaking):
    model = LanguageModel.load(speaking)
    talk = [{"role": "user", "content": "what is 12"}]
    assert model.text(model.opening(talk).tokens) == "user\nwhat is 12\nassistant\n"
    assert model.told("42").tokens[-1] == 3
    assert model.text(model.told("the answer is 42").tokens) == "the answer is 42"
    assert model.follow("no", prompt_context([])).tokens[0] == 3
    assert model.context_length == 256


def test_no_tokenizer_is_said(qwen3):
    with pytest.raises(UserError, match=r"no tokenizer\.json"):
        qwen3.opening("x")


def test_end_tokens_of_generation_config_come_first(speaking):
    (speaking / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 3, 9]}))
    assert LanguageModel.load(speaking).end_tokens == (7, 3, 9)


def test_sampling_agrees_with_evaluation(speaking):
    model = LanguageModel.load(speaking)
    prompt = model.opening([{"role": "user", "content": "what is 12"}])
    sampling = Sampling(temperature=0.8, max_tokens=12)
    asks = [Ask(prompt, len(prompt.sequence), sampling, Key(9).fold(i), 5) for i in range(8)]
    contexts = model.act(asks)
    rows = model.evaluate(contexts, (LogProb(),))[LogProb()].detach().numpy()
    assert_close(np.concatenate([c.logprobs for c in contexts]), rows, atol=1e-4, rtol=0)
    assert {c.parent for c in contexts} == {(prompt, len(prompt.sequence))}
    assert all(c.temperature == 0.8 and set(c.versions.tolist()) == {5} and c.chosen.all() for c in contexts)
    assert len({c.tokens.tobytes() for c in contexts}) > 4
    for c in contexts:
        assert (c.ended is Ended.STOP) == (c.tokens[-1] == 3)


@pytest.mark.parametrize("kind", ["adapter", "tied bfloat16", "transformers"])
def test_sampling_agrees_with_evaluation_for(kind, speaking, saved, tokenizer_folder, tmp_path_factory):
    folder = speaking
    if kind != "adapter":
        folder, shape = tmp_path_factory.mktemp("model"), {"vocab_size": 300, "initializer_range": 0.2}
        made = (
            saved("gpt2", n_embd=32, n_layer=2, n_head=4, **shape) if kind == "transformers" else saved("qwen3", tie_word_embeddings=True)
        )
        shutil.copytree(made, folder, dirs_exist_ok=True)
        shutil.copytree(tokenizer_folder, folder, dirs_exist_ok=True)
    model = LanguageModel.load(folder, dtype=torch.bfloat16 if "bfloat16" in kind else torch.float32)
    if kind == "adapter":
        model = model.with_adapter(4, 8.0, Key(6))
        for name, p in model.trunk.named_parameters():
            if "lora_B" in name:
                p.data += torch.from_numpy(Key(7).fold(name).normal(*p.shape)).to(p) * 0.2
    prompt = prompt_context(np.array([4, 5, 6], np.int32))
    asks = [Ask(prompt, 3, Sampling(max_tokens=10), Key(9).fold(i), 0) for i in range(4)]
    contexts = model.act(asks)
    rows = model.evaluate(contexts, (LogProb(),))[LogProb()].detach().numpy()
    assert rows.dtype == np.float32
    assert_close(np.concatenate([c.logprobs for c in contexts]), rows, atol=0.2 if "bfloat16" in kind else 1e-4, rtol=0)


def test_bfloat16_gradients_are_near_float32(saved):
    contexts = mixed(np.random.default_rng(8))
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        model = LanguageModel.load(saved("llama"), dtype=dtype)
        model.evaluate(contexts, (LogProb(),))[LogProb()].mean().backward()
        found.append(torch.cat([p.grad.flatten().float() for p in model.network.parameters()]))
    assert torch.nn.functional.cosine_similarity(found[0], found[1], dim=0) > 0.99


def test_greedy_sampling_is_the_most_likely_token(speaking):
    model = LanguageModel.load(speaking)
    prompt = model.opening("what")
    context = model.act([Ask(prompt, len(prompt.sequence), Sampling(temperature=0, max_tokens=5), Key(1), 0)])[0]
    tokens = torch.from_numpy(context.sequence.astype(np.int64)).unsqueeze(0)
    best = model.trunk(tokens)[0].argmax(-1)
    assert best[len(prompt.tokens) - 1 : -1].tolist() == context.tokens.tolist()


def test_transformers_is_not_imported(speaking):
    """Loading and reading text with a tokenizer.json takes no import of transformers, which costs seconds."""
    code = (
        "import sys; from gradus.policies.lm import LanguageModel; m = LanguageModel.load(sys.argv[1]);"
        "m.opening([{'role': 'user', 'content': 'x'}]); assert 'transformers' not in sys.modules and 'peft' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(speaking)], check=True)


def test_a_value_head_and_log_probabilities_in_other_families():
    from gradus.policies.heads import Heads
    from tests.policies.shapes import ours

    contexts = mixed(np.random.default_rng(3))
    for shape in ("gemma2", "qwen3_moe", "phi3_long"):
        trunk = ours(shape, torch.float64)
        head = Heads(32, Key(1), dtype=torch.float64)
        found = LanguageModel(trunk, None, (), head=head).evaluate(contexts, WANTS)
        again = LanguageModel(trunk, None, (), head=head, recompute=True).evaluate(contexts, WANTS)
        at = 0
        for context in (c for c in contexts if c.actions):
            tokens = torch.from_numpy(context.sequence.astype(np.int64))
            rows = torch.from_numpy(context.action_positions) - 1
            logp = (trunk(tokens[None])[0][rows] / context.temperature).log_softmax(-1)
            part = slice(at, at := at + context.actions)
            assert_close(found[LogProb()][part], logp[torch.arange(len(rows)), tokens[rows + 1]], atol=1e-6, rtol=0)
            assert_close(found[Value()][part], head(trunk.hidden(tokens[None])[0][rows]), atol=1e-6, rtol=0)
        assert all(torch.equal(found[want], again[want]) for want in WANTS)
