"""The decoder, used for rollout and update alike. Its parameters have the names of `transformers`, so files load and save as they are.

A layer is two halves round its attention: `attn_inputs` gives rotated queries, keys and values, `finish` takes what attention made of
them. Whoever calls decides how attention runs (packed with shared prefixes, over cached keys), so all share the same maths.
"""

from __future__ import annotations

import math
from typing import TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradus.policies.config import DecoderConfig
from gradus.policies.fused import rms_norm, rotate
from gradus.types import Key

Rotation: TypeAlias = tuple[Tensor, Tensor]
"""cos and sin of the angle of every position, each [..., head_dim / 2]."""


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight, over the last dimension; the mean in float32 at least."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)


def rotary_frequencies(config: DecoderConfig) -> Tensor:
    """Angle per position of every pair of a head, radians, float32 [head_dim / 2]; Llama 3.1 scaling where the configuration has it."""
    turns = 1.0 / config.rope_theta ** (torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim)
    scaling = config.rope_scaling
    if scaling is None:
        return turns
    # A wavelength shorter than the original context / high stays, one longer than context / low is stretched, between: a blend.
    laps = scaling.original_max_position_embeddings * turns / (2 * math.pi)
    keep = ((laps - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)).clamp(0, 1)
    return keep * turns + (1 - keep) * turns / scaling.factor


class Attention(nn.Module):
    """The projections of grouped-query attention; the attention itself is the caller's."""

    def __init__(self, c: DecoderConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        self.q_proj = nn.Linear(c.hidden_size, self.heads * c.head_dim, bias=c.qkv_bias)
        self.k_proj = nn.Linear(c.hidden_size, self.kv_heads * c.head_dim, bias=c.qkv_bias)
        self.v_proj = nn.Linear(c.hidden_size, self.kv_heads * c.head_dim, bias=c.qkv_bias)
        self.o_proj = nn.Linear(self.heads * c.head_dim, c.hidden_size, bias=c.output_bias)
        if c.qk_norm:
            self.q_norm = RMSNorm(c.head_dim, c.rms_norm_eps)
            self.k_norm = RMSNorm(c.head_dim, c.rms_norm_eps)
        self.qk_norm = c.qk_norm


class MLP(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, c: DecoderConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=c.mlp_bias)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=c.mlp_bias)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=c.mlp_bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c: DecoderConfig) -> None:
        super().__init__()
        self.self_attn = Attention(c)
        self.mlp = MLP(c)
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)

    def attn_inputs(self, x: Tensor, rotation: Rotation) -> tuple[Tensor, Tensor, Tensor]:
        """x [..., hidden] and `Decoder.rotation(positions)` to rotated q [..., heads, head_dim] and k, and v [..., kv_heads, head_dim]."""
        a = self.self_attn
        x = self.input_layernorm(x)
        q = a.q_proj(x).unflatten(-1, (a.heads, a.head_dim))
        k = a.k_proj(x).unflatten(-1, (a.kv_heads, a.head_dim))
        v = a.v_proj(x).unflatten(-1, (a.kv_heads, a.head_dim))
        if a.qk_norm:
            q, k = a.q_norm(q), a.k_norm(k)
        return rotate(q, rotation), rotate(k, rotation), v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """The layer's output [..., hidden] from its input x and what attention gave, [..., heads, head_dim]."""
        x = x + self.self_attn.o_proj(attended.flatten(-2))
        return x + self.mlp(self.post_attention_layernorm(x))


class Stack(nn.Module):
    def __init__(self, c: DecoderConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)


class Decoder(nn.Module):
    """A Llama, Qwen2 or Qwen3 network. Its weights start undefined where built on the meta device, else as PyTorch makes them."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Stack(config)
        if not config.tie_word_embeddings:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    @property
    def layers(self) -> list[Layer]:
        return cast("list[Layer]", list(self.model.layers))

    @property
    def head_weight(self) -> Tensor:
        """The output weight [vocab, hidden]; the embedding where the two are tied."""
        return self.model.embed_tokens.weight if self.config.tie_word_embeddings else self.lm_head.weight

    @property
    def dtype(self) -> torch.dtype:
        return self.model.embed_tokens.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.model.embed_tokens.weight.device

    def embed(self, tokens: Tensor) -> Tensor:
        """Token ids [...] to vectors [..., hidden]. F.embedding, because its backward is deterministic and that of indexing is not."""
        return F.embedding(tokens, self.model.embed_tokens.weight)

    def rotation(self, positions: Tensor) -> Rotation:
        """cos and sin at integer positions [...]; angles in float32 as transformers has them, then the weights' dtype."""
        angles = positions.float().unsqueeze(-1) * rotary_frequencies(self.config).to(positions.device)
        return angles.cos().to(self.dtype), angles.sin().to(self.dtype)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [B, T, vocab] of right-padded tokens [B, T], causal attention: the plain form that the faster ones are tested against."""
        return F.linear(self.hidden(tokens), self.head_weight)

    def hidden(self, tokens: Tensor) -> Tensor:
        """Normed last hidden states [B, T, hidden] of right-padded tokens [B, T]."""
        rotation = self.rotation(torch.arange(tokens.shape[-1], device=tokens.device))
        x = self.embed(tokens)
        for layer in self.layers:
            q, k, v = (t.transpose(-3, -2) for t in layer.attn_inputs(x, rotation))
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = layer.finish(x, attended.transpose(-3, -2))
        return self.model.norm(x)

    @torch.no_grad()
    def initialise(self, key: Key) -> Decoder:
        """Weights from the key: matrices normal with `initializer_range`, norms 1, biases 0."""
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                draws = torch.from_numpy(key.fold(name).normal(*parameter.shape))
                parameter.copy_(draws * self.config.initializer_range)
            else:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
        return self
