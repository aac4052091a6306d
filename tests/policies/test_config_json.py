"""A decoder's config.json reads back as it was, and transformers reads the folder as the same function."""

from __future__ import annotations

import json

import pytest
import torch

from gradus.policies.config import decoder_config
from gradus.policies.config_json import config_json
from gradus.policies.lm import LanguageModel
from gradus.policies.loading import load_decoder, save_weights, state_dict
from tests.policies.shapes import SHAPES, fields, ours, theirs

TOKENS = torch.arange(3, 83).unsqueeze(0)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_written_configuration_reads_back(shape: str):
    config = decoder_config(fields(shape))
    assert decoder_config(json.loads(config_json(config, torch.float32))) == config


@pytest.mark.parametrize("shape", ["gemma3", "mixtral", "qwen3_moe", "phi3_long", "llama"])
def test_a_new_decoder_loads_in_transformers(shape: str, tmp_path):
    from transformers import AutoModelForCausalLM

    network = ours(shape)
    (tmp_path / "config.json").write_text(config_json(network.config, torch.float32))
    save_weights(state_dict(network), tmp_path)
    with torch.no_grad():
        expected = network(TOKENS)
        assert torch.equal(load_decoder(tmp_path)(TOKENS), expected)
        assert (AutoModelForCausalLM.from_pretrained(tmp_path)(TOKENS).logits - expected).abs().max() < 1e-4


@pytest.mark.parametrize("shape", ["gemma2", "gemma3", "mixtral", "qwen3_moe", "phi3_long", "mistral"])
def test_folders_go_to_and_fro(shape: str, tmp_path):
    """What transformers saves, in shards, is read; what is saved then loads in transformers."""
    from transformers import AutoModelForCausalLM

    other = theirs(fields(shape))
    other.save_pretrained(tmp_path / "first", max_shard_size="20KB")
    assert (tmp_path / "first" / "model.safetensors.index.json").is_file()
    model = LanguageModel.load(tmp_path / "first")
    assert model.note is None
    model.save(tmp_path / "second")
    with torch.no_grad():
        expected = other(TOKENS).logits
        for found in (model.trunk(TOKENS), AutoModelForCausalLM.from_pretrained(tmp_path / "second")(TOKENS).logits):
            assert (found - expected).abs().max() < 1e-4
