from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from gradus.policies.lm import LanguageModel
from gradus.policies.loading import load_decoder
from gradus.policies.lora import CONFIG, WEIGHTS, LoRA, adapt, adapters, load_adapter, merged, save_adapter
from gradus.types import Key, UserError
from tests.policies.shapes import fields, ours, theirs

TOKENS = torch.arange(3, 40).unsqueeze(0)
ALL_BUT_FUSED = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


def moved(folder, lora=LoRA(4, 8.0), dtype=torch.float32):
    """An adapter that was trained a little: B is no longer zero."""
    decoder = adapt(load_decoder(folder, dtype=dtype), lora, Key(1))
    for name, module in adapters(decoder):
        module.lora_B.data = torch.from_numpy(Key(2).fold(name).normal(*module.lora_B.shape)).to(dtype) * 0.1
        if module.magnitude is not None:
            module.magnitude.data *= 1 + 0.1 * torch.from_numpy(Key(3).fold(name).uniform(len(module.magnitude))).to(dtype)
    return decoder


def test_a_new_adapter_changes_nothing(saved):
    base = load_decoder(saved("qwen2"))
    assert torch.equal(adapt(base, LoRA(), Key())(TOKENS), base(TOKENS))


def test_magnitudes_with_a_zero_change_give_the_base_weight_exactly(saved):
    decoder = adapt(load_decoder(saved("llama")), LoRA(rank=2, root=True, magnitude=True), Key())
    for _, module in adapters(decoder):
        assert torch.equal(module.weight, module.base)
        assert torch.equal(module.magnitude, module.base.norm(dim=1))
    learning = {n.rpartition(".")[2] for n, p in decoder.named_parameters() if p.requires_grad}
    assert learning == {"lora_A", "lora_B", "magnitude"}


def test_magnitudes_by_hand(saved):
    decoder = adapt(load_decoder(saved("llama")), LoRA(rank=4, alpha=6.0, targets=("q_proj",), root=True, magnitude=True), Key())
    module = decoder.layers[0].self_attn.q_proj
    module.base.data, module.lora_A.data, module.lora_B.data = torch.zeros(32, 32), torch.zeros(4, 32), torch.zeros(32, 4)
    module.base.data[0, 0], module.lora_A.data[0, 1], module.lora_B.data[0, 0] = 3.0, 4.0, 1 / 3  # 6 / sqrt(4) * 4 / 3 = 4
    module.magnitude.data[:] = 2.0
    assert module.weight[0, :2].tolist() == pytest.approx([2 * 3 / 5, 2 * 4 / 5])  # the row (3, 4) has norm 5
    # the norm has no gradient: d weight[0, 1] / d B[0, 0] = 2 / 5 * (6 / 2) * 4
    module.weight[0, 1].backward()
    assert module.lora_B.grad[0, 0].item() == pytest.approx(2 / 5 * 3 * 4)
    assert module.magnitude.grad[0].item() == pytest.approx(4 / 5)


def test_an_adapter_with_magnitudes_is_stored_and_read(saved, tmp_path):
    lora = LoRA(3, 5.0, root=True, magnitude=True)
    decoder = moved(saved("llama"), lora)
    save_adapter(decoder, lora, tmp_path, str(saved("llama")))
    again, shape = load_adapter(load_decoder(saved("llama")), tmp_path)
    assert (shape.rank, shape.root, shape.magnitude) == (3, True, True)
    assert torch.equal(again(TOKENS), decoder(TOKENS))
    assert_close(merged(decoder)(TOKENS), decoder(TOKENS), atol=1e-5, rtol=0)


def test_weight_by_hand(saved):
    decoder = adapt(load_decoder(saved("llama")), LoRA(rank=1, alpha=3.0, targets=("q_proj",)), Key())
    assert [n for n, _ in adapters(decoder)] == ["model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"]
    module = decoder.layers[0].self_attn.q_proj
    module.lora_A.data, module.lora_B.data = torch.zeros(1, 32), torch.zeros(32, 1)
    module.lora_A.data[0, 1], module.lora_B.data[2, 0] = 5.0, 7.0
    change = module.weight - module.base
    assert float(change[2, 1].detach()) == pytest.approx(105.0, abs=1e-4)  # 3 / 1 * 7 * 5
    assert int((change.abs() > 1e-3).sum()) == 1


def test_only_the_adapter_learns_and_memory_is_shared(saved):
    base = load_decoder(saved("llama"))
    decoder = adapt(base, LoRA(2), Key())
    learning = [n for n, p in decoder.named_parameters() if p.requires_grad]
    assert len(learning) == 2 * 2 * 7  # A and B, two layers, seven linear modules
    assert all(".lora_" in n for n in learning)
    assert all(p.requires_grad for p in base.parameters())
    assert decoder.model.embed_tokens.weight.data_ptr() == base.model.embed_tokens.weight.data_ptr()
    assert decoder.layers[0].mlp.up_proj.base.data_ptr() == base.layers[0].mlp.up_proj.weight.data_ptr()


def test_merging_keeps_the_function(saved):
    decoder = moved(saved("qwen3", tie_word_embeddings=True), dtype=torch.float64)
    plain = merged(decoder)
    assert set(plain.state_dict()) == set(load_decoder(saved("qwen3", tie_word_embeddings=True)).state_dict())
    assert_close(plain(TOKENS), decoder(TOKENS), atol=1e-12, rtol=0)
    assert merged(plain) is plain


@pytest.mark.parametrize("lora", [LoRA(4, 8.0), LoRA(2, 3.0, ("q_proj", "down_proj"), root=True), LoRA(4, 8.0, magnitude=True)])
def test_peft_reads_what_is_written(saved, tmp_path, lora):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    folder = saved("qwen2")
    decoder = moved(folder, lora)
    save_adapter(decoder, lora, tmp_path, str(folder))
    theirs = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder), tmp_path)
    with torch.no_grad():
        base, expected, found = load_decoder(folder)(TOKENS), theirs(TOKENS).logits, decoder(TOKENS)
    assert (expected - base).abs().max() > 1e-2
    assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(("shape", "leaves"), [("phi3", {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}), ("gemma2", ALL_BUT_FUSED)])
def test_adapters_of_other_families(shape, leaves, tmp_path):
    from peft import PeftModel

    decoder = adapt(ours(shape), LoRA(2, 8.0), Key(1))
    for _, module in adapters(decoder):
        module.lora_B.data.normal_(generator=torch.Generator().manual_seed(3), std=0.05)
    save_adapter(decoder, LoRA(2, 8.0), tmp_path, None)
    assert set(json.loads((tmp_path / CONFIG).read_text())["target_modules"]) == leaves
    with torch.no_grad():
        found = decoder(TOKENS)
        assert_close(PeftModel.from_pretrained(theirs(fields(shape)), tmp_path)(TOKENS).logits, found, atol=1e-4, rtol=0)
        assert_close(merged(decoder)(TOKENS), found, atol=1e-4, rtol=0)
        assert (found - ours(shape)(TOKENS)).abs().max() > 1e-2


def test_experts_and_routers_stay_as_they_are():
    decoder = adapt(ours("qwen3_moe"), LoRA(2), Key(1))
    learning = {name.split(".")[3] for name, p in decoder.named_parameters() if p.requires_grad}
    assert learning == {"self_attn", "mlp"}
    assert all("layers.1." in name for name, _ in adapters(decoder) if ".mlp." in name)  # the layer whose MLP is no mixture


def test_what_peft_writes_is_read(saved, tmp_path):
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    folder = saved("qwen3")
    torch.manual_seed(0)
    config = LoraConfig(r=3, lora_alpha=5, target_modules=["q_proj", "up_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    theirs = get_peft_model(AutoModelForCausalLM.from_pretrained(folder), config)
    theirs.save_pretrained(tmp_path)
    model = LanguageModel.load(tmp_path)  # the base is found by the adapter's own words
    with torch.no_grad():
        expected, base = theirs(TOKENS).logits, load_decoder(folder)(TOKENS)
    assert (expected - base).abs().max() > 1e-3
    assert_close(model.trunk(TOKENS), expected, atol=1e-4, rtol=0)
    assert model.lora == LoRA(3, 5.0, ("q_proj", "up_proj"))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"peft_type": "IA3"}, "`peft_type` is 'IA3'"),
        ({"use_dora": True}, r"lora_magnitude_vector is missing"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"r": 5}, r"lora_A is of shape \[4, 32\], not \[5, 32\]"),
    ],
)
def test_other_adapters_are_refused(saved, tmp_path, changes, says):
    decoder = moved(saved("llama"))
    save_adapter(decoder, LoRA(4, 8.0), tmp_path, None)
    config = json.loads((tmp_path / CONFIG).read_text())
    (tmp_path / CONFIG).write_text(json.dumps({**config, **changes}))
    with pytest.raises(UserError, match=says):
        load_adapter(load_decoder(saved("llama")), tmp_path)


def test_malformed_adapters_are_named(saved, tmp_path):
    base = load_decoder(saved("llama"))
    save_adapter(moved(saved("llama")), LoRA(4, 8.0), tmp_path, None)
    tensors = load_file(tmp_path / WEIGHTS)
    save_file({**tensors, "base_model.model.model.layers.7.mlp.up_proj.lora_A.weight": torch.zeros(4, 32)}, tmp_path / WEIGHTS)
    with pytest.raises(UserError, match=r"layers\.7\.mlp\.up_proj is not a linear layer"):
        load_adapter(base, tmp_path)
    (tmp_path / WEIGHTS).write_bytes(b"")
    with pytest.raises(UserError, match="cannot be read"):
        load_adapter(base, tmp_path)
    with pytest.raises(UserError, match="is not a model folder on this machine"):
        LanguageModel.load(tmp_path)


def test_bad_shapes_of_adapters():
    with pytest.raises(UserError, match="`rank` is 0"):
        LoRA(0)
    with pytest.raises(UserError, match="no linear layer"):
        LoRA(targets=("qq_proj",))


def test_no_adapter_on_an_adapter(saved):
    with pytest.raises(UserError, match="merge the adapter into the model first"):
        adapt(moved(saved("llama")), LoRA(), Key())
