from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from gradus.policies.heads import FILE, SEVERAL, Critic, Heads, load_head, names_of, save_head
from gradus.types import Key, UserError


def test_value_by_hand():
    head = Heads(2, Key())
    head.weight.data, head.bias.data = torch.tensor([[2.0, -1.0]]), torch.tensor([0.5])
    assert_close(head(torch.tensor([[3.0, 1.0], [0.0, 0.0]])), torch.tensor([5.5, 0.5]))  # 2 * 3 - 1 + 0.5


def test_it_starts_small_and_by_key():
    one, same, other = (Heads(256, Key(k)) for k in (1, 1, 2))
    assert torch.equal(one.weight, same.weight)
    assert not torch.equal(one.weight, other.weight)
    values = one(torch.randn(500, 256, generator=torch.Generator().manual_seed(0))).detach()
    assert float(values.std()) == pytest.approx(0.01, rel=0.2)


def test_round_trip(tmp_path):
    head = Heads(4, Key(3))
    save_head(head, tmp_path)
    read = load_head(tmp_path, 4, dtype=torch.float32, device="cpu")
    assert torch.equal(read.weight, head.weight)
    with pytest.raises(UserError, match=f"{FILE} contains no value head for a model of width 5"):
        load_head(tmp_path, 5, dtype=torch.float32, device="cpu")
    (tmp_path / FILE).write_bytes(b"x")
    with pytest.raises(UserError, match="contains no value head"):
        load_head(tmp_path, 4, dtype=torch.float32, device="cpu")


def test_a_critic_holds_trunk_and_head():
    critic = Critic(torch.nn.Linear(2, 2), Heads(2, Key()))
    assert set(critic.state_dict()) == {"trunk.weight", "trunk.bias", "head.weight", "head.bias"}


def test_no_head(tmp_path):
    assert load_head(tmp_path, 4, dtype=torch.float32, device="cpu") is None


def test_several_heads_by_hand():
    """Hidden layer relu([x0 - x1, x1 + 1]) for q, relu([2 x0, 0]) for v; x = (3, 1): (2, 2) and (6, 0)."""
    heads = Heads(2, Key(), ("q", "v"), hidden=2)
    heads.inner_weight.data = torch.tensor([[[1.0, -1.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 0.0]]])
    heads.inner_bias.data = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    heads.weight.data, heads.bias.data = torch.tensor([[1.0, 10.0], [-1.0, 5.0]]), torch.tensor([0.5, 1.0])
    x = torch.tensor([[3.0, 1.0]])
    assert_close(heads(x, "q"), torch.tensor([22.5]))  # 2 + 20 + 0.5
    assert_close(heads(x, "v"), torch.tensor([-5.0]))  # -6 + 0 + 1
    assert_close(heads(x), heads(x, "q"))
    assert not heads.plain


@pytest.mark.parametrize("hidden", [0, 3])
def test_the_entry_of_a_token_is_that_of_the_row(hidden):
    heads = Heads(4, Key(1), ("a", "b"), vocab=5, hidden=hidden, dtype=torch.float64)
    with torch.no_grad():
        heads.bias.copy_(torch.arange(10.0))
    x, tokens = torch.randn(6, 4, dtype=torch.float64, requires_grad=True), torch.tensor([0, 4, 2, 2, 1, 3])
    row = heads(x, "b").gather(1, tokens[:, None])[:, 0]
    assert heads(x, "b").shape == (6, 5)
    assert_close(heads.chosen(x, tokens, "b"), row)
    one = torch.autograd.grad(row.square().sum(), [x, *heads.parameters()])
    other = torch.autograd.grad(heads.chosen(x, tokens, "b").square().sum(), [x, *heads.parameters()])
    for a, b in zip(one, other, strict=True):
        assert_close(a, b)


@pytest.mark.parametrize(("outputs", "vocab", "hidden"), [(("q", "v"), None, 3), (("q",), 7, 0), (("value",), None, 2)])
def test_several_heads_round_trip(tmp_path, outputs, vocab, hidden):
    heads = Heads(4, Key(3), outputs, vocab=vocab, hidden=hidden)
    save_head(heads, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [SEVERAL]
    read = load_head(tmp_path, 4, dtype=torch.float32, device="cpu")
    assert (read.outputs, read.vocab, read.layer) == (outputs, vocab, hidden)
    assert all(torch.equal(a, b) for a, b in zip(read.state_dict().values(), heads.state_dict().values(), strict=True))
    with pytest.raises(UserError, match=f"{SEVERAL} contains no value head for a model of width 5"):
        load_head(tmp_path, 5, dtype=torch.float32, device="cpu")


def test_a_value_head_file_of_older_versions_loads(tmp_path):
    from safetensors.torch import save_file

    save_file({"weight": torch.tensor([[2.0, -1.0]]), "bias": torch.tensor([0.5])}, tmp_path / FILE)
    read = load_head(tmp_path, 2, dtype=torch.float32, device="cpu")
    assert read.plain
    assert_close(read(torch.tensor([[3.0, 1.0]])), torch.tensor([5.5]))


def test_a_language_model_reads_its_heads():
    """Value is the entry of the action taken, HeadRow all entries, both of the hidden state before the action; gradient to head and trunk."""
    import numpy as np

    from gradus.policies.lm import LanguageModel
    from gradus.types.signals import HeadRow, LogProb, Value
    from tests.policies.contexts import VOCAB, mixed
    from tests.policies.test_pack import decoder

    trunk, contexts = decoder(), mixed(np.random.default_rng(3))
    model = LanguageModel(trunk, None, ()).with_value_head(Key(1), shared=False, outputs=("a", "q"), over="vocabulary", hidden=6)
    assert {"head:a", "head:q", "row:q"} <= model.can
    assert "value" not in model.can
    found = model.evaluate(contexts, (Value("q"), HeadRow("q"), LogProb()))
    at = 0
    for context in (c for c in contexts if c.actions):
        tokens = torch.from_numpy(context.sequence.astype(np.int64))
        rows = torch.from_numpy(context.action_positions)
        due = model.head(trunk.hidden(tokens[None])[0][rows - 1], "q")
        part = slice(at, at := at + context.actions)
        assert_close(found[HeadRow("q")][part], due)
        assert_close(found[Value("q")][part], due.gather(1, tokens[rows][:, None])[:, 0])
    assert found[HeadRow("q")].shape == (at, VOCAB)
    found[Value("q")].sum().backward()
    assert float(trunk.model.embed_tokens.weight.grad.abs().max()) > 0
    shared = LanguageModel(trunk, None, ()).with_value_head(Key(1), shared=True, outputs=("q",))
    trunk.zero_grad()
    shared.evaluate(contexts, (Value("q"),))[Value("q")].sum().backward()
    assert trunk.model.embed_tokens.weight.grad is None
    assert shared.beside().trunk is trunk
    assert shared.beside().head is not shared.head


def test_without_a_bias_nothing_but_the_weight_is_trained_and_stored(tmp_path):
    head = Heads(3, Key(1), ("a", "b"), bias=False)
    assert [name for name, _ in head.named_parameters()] == ["weight"]
    assert torch.equal(head.weight, Heads(3, Key(1), ("a", "b")).weight)
    assert_close(head(torch.zeros(2, 3), "b"), torch.zeros(2))
    save_head(head, tmp_path)
    read = load_head(tmp_path, 3, dtype=torch.float32, device="cpu")
    assert (read.biased, read.outputs) == (False, ("a", "b"))
    assert torch.equal(read.weight, head.weight)
    assert names_of(tmp_path) == ("a", "b")


def test_names_of_heads(tmp_path):
    assert names_of(tmp_path) is None
    save_head(Heads(3, Key(1), ("q",), vocab=5), tmp_path)
    assert names_of(tmp_path) is None  # one number per token is no score of an answer
    save_head(Heads(3, Key(1)), tmp_path)
    assert names_of(tmp_path) == ("value",)
