from __future__ import annotations

import json

import pytest

from gradus.policies.config import Unsupported, decoder_config, end_tokens, read_json
from gradus.types import UserError

SIZES = {"vocab_size": 10, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}


def fields(family="qwen2", **changes):
    return {"model_type": family, **SIZES, **({"num_key_value_heads": 2} if family != "llama" else {}), **changes}


def test_what_families_differ_in():
    llama, qwen2, qwen3 = (decoder_config(fields(f)) for f in ("llama", "qwen2", "qwen3"))
    assert [c.qkv_bias for c in (llama, qwen2, qwen3)] == [False, True, False]
    assert [c.qk_norm for c in (llama, qwen2, qwen3)] == [False, False, True]
    assert [c.head_dim for c in (llama, qwen2, qwen3)] == [4, 4, 128]
    assert [c.output_bias for c in (llama, qwen2, qwen3)] == [False, False, False]
    biased = decoder_config(fields("llama", attention_bias=True, mlp_bias=True))
    assert (biased.qkv_bias, biased.output_bias, biased.mlp_bias) == (True, True, True)
    assert llama.num_key_value_heads == 2  # as many as heads where the file says nothing


def test_rope_of_new_and_old_files():
    assert decoder_config(fields(rope_parameters={"rope_type": "default", "rope_theta": 5e5})).rope_theta == 5e5
    assert decoder_config(fields(rope_theta=1e6)).rope_theta == 1e6
    assert decoder_config(fields(rope_theta=1e6, rope_scaling=None)).rope_scaling is None
    old = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 99}
    scaled = decoder_config(fields("llama", rope_theta=7e5, rope_scaling=old))
    assert (scaled.rope_theta, scaled.rope_scaling.factor, scaled.rope_scaling.original_max_position_embeddings) == (7e5, 8.0, 99)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_act", "gelu_new"),
        ("attention_dropout", 0.1),
        ("layer_types", ["sliding_attention"]),
        ("rope_scaling", {"type": "proportional", "factor": 2.0}),
        ("rope_parameters", {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}),
        ("rope_parameters", {"rope_type": "llama3", "factor": 8.0}),
        ("architectures", ["Qwen2ForSequenceClassification"]),
        ("quantization_config", {"bits": 4}),
        ("no_such_field", 1),
    ],
)
def test_what_is_not_implemented_is_named(field, value):
    with pytest.raises(Unsupported) as caught:
        decoder_config(fields(**{field: value}))
    assert (caught.value.field, caught.value.value) == (field, value)
    assert field in str(caught.value)


def test_other_families_are_named():
    with pytest.raises(Unsupported, match="model_type = 'gpt2'"):
        decoder_config({"model_type": "gpt2"})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"vocab_size": None}, "`vocab_size` is None"),
        ({"hidden_size": "8"}, "`hidden_size` is '8'"),
        ({"num_hidden_layers": 0}, "`num_hidden_layers` is 0"),
        ({"num_attention_heads": True}, "`num_attention_heads` is True"),
        ({"num_key_value_heads": 3}, "not a multiple"),
        ({"rms_norm_eps": "small"}, "`rms_norm_eps` is 'small'"),
        ({"tie_word_embeddings": "no"}, "`tie_word_embeddings` is 'no'"),
        ({"rope_parameters": [1]}, "`rope_parameters` is"),
        ({"eos_token_id": "x"}, "`eos_token_id` is 'x'"),
        ({"rope_theta": 0}, "`rope_theta` is 0; it must be above 0"),
        ({"rope_theta": float("nan")}, "`rope_theta` is nan; it must be a finite number"),
        ({"rms_norm_eps": float("inf")}, "`rms_norm_eps` is inf; it must be a finite number"),
        ({"rms_norm_eps": -1e-6}, "`rms_norm_eps` is -1e-06; it must be 0 or more"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, "`factor` is 0; it must be above 0"),
        ({"rope_scaling": {"rope_type": ["linear"], "factor": 2}}, "`rope_type` is .'linear'.; it must be a name"),
        ({"tie_word_embeddings": 1}, "`tie_word_embeddings` is 1; it must be true or false"),
        ({"head_dim": 5}, "`head_dim` is 5; rotary positions rotate the dimensions of a head in pairs"),
    ],
)
def test_malformed_values_are_named(changes, says):
    with pytest.raises(UserError, match=says):
        decoder_config(fields(**changes))


@pytest.mark.parametrize("field", ["attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar"])
def test_what_logits_are_divided_by_is_above_0(field):
    for value in (0, -2.0):
        with pytest.raises(UserError, match=f"`{field}` is {value:g}; it must be above 0"):
            decoder_config(fields("gemma2", **{field: value}))
    if field != "query_pre_attn_scalar":
        assert decoder_config(fields("gemma2", **{field: None})) != decoder_config(fields("gemma2", **{field: 5.0}))


def test_rope_parameters_that_are_no_object_are_named():
    changes = {"rope_local_base_freq": 10000.0, "rope_parameters": {"full_attention": 5}}
    with pytest.raises(UserError, match="`rope_parameters` is 5; it must be a JSON object"):
        decoder_config(fields("gemma3_text", **changes))


def test_end_tokens():
    assert [end_tokens({"eos_token_id": v}) for v in (None, 3, [4, 5])] == [(), (3,), (4, 5)]


def test_json_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "config.json"
    with pytest.raises(UserError, match=r"config\.json cannot be read"):
        read_json(path)
    path.write_text(json.dumps([1]))
    with pytest.raises(UserError, match="contains a list, but it must contain a JSON object"):
        read_json(path)
    path.write_text('{"a": 1,\n "b" 2}')
    with pytest.raises(UserError, match="line 2, column 6"):
        read_json(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="UTF-8"):
        read_json(path)


@pytest.mark.parametrize(
    ("family", "field", "value"),
    [
        ("gemma3_text", "rope_scaling", {"type": "linear", "factor": 8.0}),
        ("gemma3_text", "rope_parameters", {"rope_type": "default"}),
        ("gemma3_text", "rope_parameters", {"full_attention": {"rope_type": "yarn", "factor": 2.0, "truncate": False}}),
        ("gemma3_text", "attn_logit_softcapping", 5.0),
        ("phi3", "rope_parameters", {"rope_type": "linear", "factor": 2.0}),
        ("phi3", "resid_pdrop", 0.1),
        ("mistral", "layer_types", ["full_attention"]),
        ("mixtral", "router_jitter_noise", 0.1),
        ("qwen2", "layer_types", ["chunked_attention"]),
        ("llama", "sliding_window", 7),
    ],
)
def test_what_a_family_does_not_have_is_named(family, field, value):
    with pytest.raises(Unsupported) as caught:
        decoder_config(fields(family, **{field: value}))
    assert caught.value.field == field


def test_windows_of_every_family():
    def windows(family, **changes):
        found = decoder_config(fields(family, num_hidden_layers=4, **changes))
        return found.window, found.windowed

    assert windows("mistral") == (4096, (True,) * 4)
    assert windows("mistral", sliding_window=None) == windows("phi3") == windows("mixtral") == (None, ())
    assert windows("qwen2", sliding_window=7, max_window_layers=1) == (None, ())  # use_sliding_window is off
    assert windows("qwen2", use_sliding_window=True, sliding_window=7, max_window_layers=3) == (7, (False, False, False, True))
    assert windows("qwen3_moe", use_sliding_window=True, sliding_window=7) == (7, (True,) * 4)
    assert windows("gemma2") == (4096, (True, False, True, False))
    assert windows("gemma3_text", sliding_window_pattern=3, sliding_window=5) == (5, (True, True, False, True))


def test_a_context_ends_where_angles_would_hang_on_the_length():
    long = {"rope_type": "longrope", "short_factor": [1.0, 1.0], "long_factor": [2.0, 2.0]}
    stretched = decoder_config(fields("phi3", max_position_embeddings=900, original_max_position_embeddings=300, rope_parameters=long))
    assert stretched.context == 300
    assert stretched.rope_scaling.attention_factor == pytest.approx(1.09206, abs=1e-5)  # sqrt(1 + ln 3 / ln 300) = sqrt(1.19261)
    assert decoder_config(fields("phi3", max_position_embeddings=900)).context == 900


def test_experts_by_layer():
    moe = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 3, "num_hidden_layers": 4}
    sparse = decoder_config(fields("qwen3_moe", **moe, decoder_sparse_step=2)).experts
    assert (sparse.layers, sparse.width, sparse.normalise) == ((False, True, False, True), 3, False)
    assert decoder_config(fields("qwen3_moe", **moe, mlp_only_layers=[0, 3])).experts.layers == (False, True, True, False)
    with pytest.raises(UserError, match="`num_experts_per_tok` is 5, but there are 4 experts"):
        decoder_config(fields("qwen3_moe", **{**moe, "num_experts_per_tok": 5}))
    long = {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}
    with pytest.raises(UserError, match="each must have 2 numbers, one for every rotated pair"):
        decoder_config(fields("phi3", rope_parameters=long))
