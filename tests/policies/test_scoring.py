"""Log-probabilities of given tokens: those of a full forward, for every family, across chunks, and the same bits as alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from gradus.policies import decoding
from gradus.policies.decoder import Decoder
from gradus.policies.decoding import Fused
from gradus.policies.scoring import score
from tests.policies.full_forward import Plain
from tests.policies.shapes import SHAPES, VOCAB, ours


def tokens_of(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, VOCAB, count).astype(np.int32)


def expected(network: Decoder, tokens: np.ndarray) -> Tensor:
    with torch.no_grad():
        return network(torch.from_numpy(tokens.astype(np.int64))[None])[0, :-1].double().log_softmax(-1)


@pytest.mark.parametrize("shape", SHAPES)
def test_scores_are_those_of_a_full_forward(shape: str) -> None:
    network, tokens = ours(shape), tokens_of(75)
    found, rows = score(network, tokens, likely=3), expected(network, tokens)
    assert np.abs(rows.gather(-1, torch.from_numpy(tokens[1:].astype(np.int64))[:, None])[:, 0].numpy() - found.logprobs).max() < 2e-5
    assert [ids for ids, _ in found.likely] == rows.topk(3, -1).indices.tolist()
    assert np.abs(np.array([values for _, values in found.likely]) - rows.topk(3, -1).values.numpy()).max() < 2e-5


@pytest.mark.parametrize("count", [1, 2, 64, 65, 66, 128, 129, 130, 200])
def test_long_sequences_are_read_in_chunks(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_CHUNK", 64)
    network, tokens = ours("llama"), tokens_of(count)
    found = score(network, tokens, likely=1)
    assert (len(found.logprobs), len(found.likely)) == (count - 1, count - 1)
    if count > 1:
        rows = expected(network, tokens)
        assert np.abs(rows.amax(-1).numpy() - [values[0] for _, values in found.likely]).max() < 2e-5
        assert np.abs(rows.gather(-1, torch.from_numpy(tokens[1:].astype(np.int64))[:, None])[:, 0].numpy() - found.logprobs).max() < 2e-5


def test_a_prepared_decoder_gives_the_same_bits() -> None:
    network = ours("qwen3")
    with torch.inference_mode():
        fused = Fused(network, 256)
    for count in (2, 33, 90):
        tokens = tokens_of(count, seed=count)
        assert score(fused, tokens).logprobs.tobytes() == score(network, tokens).logprobs.tobytes()


def test_other_networks_are_scored_step_by_step() -> None:
    network, tokens = ours("llama"), tokens_of(12)
    slow, fast = score(Plain(network), tokens, likely=2), score(network, tokens, likely=2)
    assert np.abs(slow.logprobs - fast.logprobs).max() < 1e-5
    assert [ids for ids, _ in slow.likely] == [ids for ids, _ in fast.likely]


def test_a_model_of_transformers_is_scored_in_one_forward() -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    from gradus.policies.transformers_model import Foreign

    torch.manual_seed(0)
    network = Foreign(GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=2, n_positions=100)))
    tokens = tokens_of(90)
    with torch.no_grad():
        rows = network.inner(torch.from_numpy(tokens.astype(np.int64))[None]).logits[0, :-1].log_softmax(-1)
    found = score(network, tokens, likely=1)
    assert np.abs(rows.gather(-1, torch.from_numpy(tokens[1:].astype(np.int64))[:, None])[:, 0].numpy() - found.logprobs).max() < 1e-5
    assert [ids[0] for ids, _ in found.likely] == rows.argmax(-1).tolist()
