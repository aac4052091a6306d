"""The decoder, which both rollout and update use. The parameters have the names of `transformers`, so files load and save unchanged.

A layer has two halves around its attention: `attn_inputs` computes rotated queries, keys and values; `finish` computes the rest from the attention's output.
The caller computes only the attention itself (packed with shared prefixes, or over cached keys). So all callers use the same code for the two halves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradus.policies.attention import causal
from gradus.policies.config import DecoderConfig
from gradus.policies.experts import Mixture
from gradus.policies.fused import ACTIVATIONS, gated, rms_norm, rotate
from gradus.policies.products import Linear, linear
from gradus.policies.rope import frequencies
from gradus.types import Key

Rotation: TypeAlias = tuple[Tensor, Tensor]
"""cos and sin of the angle of every position, each [..., pairs]."""


class RMSNorm(nn.Module):
    """Computes x / sqrt(mean(x^2) + eps) * weight over the last dimension, with the mean in float32 at least.

    With `offset` the factor is 1 + weight.
    """

    def __init__(self, width: int, eps: float, offset: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width) if offset else torch.ones(width))
        self.eps, self.offset = eps, offset

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps, self.offset)

    @property
    def factor(self) -> Tensor:
        """Returns the factor on the normed vector: the weight. With `offset`, the factor is 1 + weight, in float32 at least."""
        if not self.offset:
            return self.weight
        return 1 + (self.weight if self.weight.dtype == torch.float64 else self.weight.float())


class Attention(nn.Module):
    """The projections of grouped-query attention. The caller computes the attention itself."""

    def __init__(self, c: DecoderConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        self.fused = c.fused_projections
        if self.fused:
            self.qkv_proj = Linear(c.hidden_size, (self.heads + 2 * self.kv_heads) * c.head_dim, bias=c.qkv_bias)
        else:
            self.q_proj = Linear(c.hidden_size, self.heads * c.head_dim, bias=c.qkv_bias)
            self.k_proj = Linear(c.hidden_size, self.kv_heads * c.head_dim, bias=c.qkv_bias)
            self.v_proj = Linear(c.hidden_size, self.kv_heads * c.head_dim, bias=c.qkv_bias)
        self.o_proj = Linear(self.heads * c.head_dim, c.hidden_size, bias=c.output_bias)
        if c.qk_norm:
            self.q_norm = RMSNorm(c.head_dim, c.rms_norm_eps, c.norm_offset)
            self.k_norm = RMSNorm(c.head_dim, c.rms_norm_eps, c.norm_offset)
        self.qk_norm = c.qk_norm

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Maps x [..., hidden] to q [..., heads, head_dim], and k and v [..., kv_heads, head_dim], before norms and rotation."""
        if self.fused:
            q, k, v = self.qkv_proj(x).unflatten(-1, (-1, self.head_dim)).split([self.heads, self.kv_heads, self.kv_heads], -2)
            return q, k, v
        return self.q_proj(x).unflatten(-1, (self.heads, self.head_dim)), *self.keys(x)

    def keys(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Computes only k and v of `project`."""
        if self.fused:
            return self.project(x)[1:]
        k = self.k_proj(x).unflatten(-1, (self.kv_heads, self.head_dim))
        return k, self.v_proj(x).unflatten(-1, (self.kv_heads, self.head_dim))


class MLP(nn.Module):
    """Computes down(activation(gate(x)) * up(x))."""

    def __init__(self, c: DecoderConfig) -> None:
        super().__init__()
        self.fused = c.fused_projections
        if self.fused:
            self.gate_up_proj = Linear(c.hidden_size, 2 * c.intermediate_size, bias=c.mlp_bias)
        else:
            self.gate_proj = Linear(c.hidden_size, c.intermediate_size, bias=c.mlp_bias)
            self.up_proj = Linear(c.hidden_size, c.intermediate_size, bias=c.mlp_bias)
        self.down_proj = Linear(c.intermediate_size, c.hidden_size, bias=c.mlp_bias)
        self.activation = ACTIVATIONS[c.activation]

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, -1) if self.fused else (self.gate_proj(x), self.up_proj(x))
        return self.down_proj(gated(gate, up, self.activation))


class Layer(nn.Module):
    def __init__(self, c: DecoderConfig, index: int) -> None:
        super().__init__()

        def norm() -> RMSNorm:
            return RMSNorm(c.hidden_size, c.rms_norm_eps, c.norm_offset)

        self.self_attn = Attention(c)
        mixture = c.experts if c.is_mixture(index) else None
        self.mlp: MLP | Mixture = MLP(c) if mixture is None else Mixture(c.hidden_size, mixture, ACTIVATIONS[c.activation])
        self.input_layernorm, self.post_attention_layernorm = norm(), norm()
        if c.post_norms:
            self.pre_feedforward_layernorm, self.post_feedforward_layernorm = norm(), norm()
        self.post_norms = c.post_norms
        self.rule, self.rope = c.rule(index), c.rope_of(index)
        self.steer: nn.Module | None = None  # applied to the layer's output (`steering`)

    def forward(self, work: Callable[..., Tensor], *given: Any) -> Tensor:
        """Returns work(self, *given). The call runs the hooks of the module. If the layers of a model are divided among processes, the model needs these
        hooks."""
        return work(self, *given)

    def attn_inputs(self, x: Tensor, rotations: Sequence[Rotation]) -> tuple[Tensor, Tensor, Tensor]:
        """Maps x [..., hidden] to q [..., heads, head_dim], and k and v [..., kv_heads, head_dim].

        q and k are rotated by `rotations`, which `Decoder.rotation(positions)` computes.
        """
        rotation = rotations[self.rope]
        q, k, v = self.unrotated(x)
        return rotate(q, rotation), rotate(k, rotation), v

    def keys(self, x: Tensor, rotations: Sequence[Rotation]) -> tuple[Tensor, Tensor]:
        """Computes only k and v of `attn_inputs`."""
        a = self.self_attn
        k, v = a.keys(self.input_layernorm(x))
        return rotate(a.k_norm(k) if a.qk_norm else k, rotations[self.rope]), v

    def unrotated(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Does the same as `attn_inputs`, without the rotation of q and k."""
        a = self.self_attn
        q, k, v = a.project(self.input_layernorm(x))
        return (a.q_norm(q), a.k_norm(k), v) if a.qk_norm else (q, k, v)

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Computes the layer's output [..., hidden] from its input x and the attention's output [..., heads, head_dim]."""
        y = self.self_attn.o_proj(attended.flatten(-2))
        if self.post_norms:
            x = x + self.post_attention_layernorm(y)
            x = x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))
        else:
            x = x + y
            x = x + self.mlp(self.post_attention_layernorm(x))
        return x if self.steer is None else self.steer(x)


def embedding(count: int, width: int) -> nn.Embedding:
    """Makes an embedding with PyTorch's initial values.

    On the meta device the embedding gets no values. Drawing values there would import torch's compiler, which takes more than a second.
    """
    undefined = torch.get_default_device().type == "meta"
    return nn.Embedding(count, width, _weight=torch.empty(count, width)) if undefined else nn.Embedding(count, width)


class Stack(nn.Module):
    def __init__(self, c: DecoderConfig) -> None:
        super().__init__()
        self.embed_tokens = embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c, i) for i in range(c.num_hidden_layers))
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps, c.norm_offset)


class Decoder(nn.Module):
    """A decoder of one of the families in `families.FAMILIES`.

    The weights have PyTorch's initial values; on the meta device the weights are undefined.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Stack(config)
        if not config.tie_word_embeddings:
            self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)

    @property
    def layers(self) -> list[Layer]:
        return cast("list[Layer]", list(self.model.layers))

    def empty(self) -> Decoder:
        """Returns a network of the same shape, with its own weights."""
        return Decoder(self.config)

    @property
    def head_weight(self) -> Tensor:
        """Returns the output weight [vocab, hidden]. If the output layer and the embedding are tied, the result is the embedding's weight."""
        return self.model.embed_tokens.weight if self.config.tie_word_embeddings else self.lm_head.weight

    @property
    def dtype(self) -> torch.dtype:
        return self.model.embed_tokens.weight.dtype

    @property
    def device(self) -> torch.device:
        return self.model.embed_tokens.weight.device

    def embed(self, tokens: Tensor) -> Tensor:
        """Maps token ids [...] to vectors [..., hidden].

        F.embedding is used because its backward pass is deterministic, and the backward pass of indexing is not.
        """
        x = F.embedding(tokens, self.model.embed_tokens.weight)
        return x if self.embedding_scale is None else x * self.embedding_scale

    @property
    def embedding_scale(self) -> float | None:
        """Returns the factor on embeddings; None: no factor.

        As in transformers, the factor is sqrt(hidden_size) in float32, which is then rounded to the type of the weights.
        """
        root = torch.tensor(self.config.hidden_size**0.5, dtype=torch.float32)
        return float(root.to(self.dtype)) if self.config.scaled_embeddings else None

    def rotation(self, positions: Tensor) -> list[Rotation]:
        """Returns cos and sin at integer positions [...] for each of `config.ropes`.

        The angles are float32, as in transformers; cos and sin have the type of the weights.
        """
        found: list[Rotation] = []
        for rope in self.config.ropes:
            turns, factor = frequencies(rope, self.config.head_dim)
            angles = positions.float().unsqueeze(-1) * turns.to(positions.device)
            cos, sin = (angles.cos(), angles.sin()) if factor == 1 else (angles.cos() * factor, angles.sin() * factor)
            found.append((cos.to(self.dtype), sin.to(self.dtype)))
        return found

    def forward(self, tokens: Tensor) -> Tensor:
        """Maps right-padded tokens [B, T] to logits [B, T, vocab] with causal attention. The tests compare the faster computations with this method."""
        return soften(linear(self.hidden(tokens), self.head_weight), self.config.logit_cap)

    def hidden(self, tokens: Tensor) -> Tensor:
        """Maps right-padded tokens [B, T] to the normed last hidden states [B, T, hidden]."""
        rotation = self.rotation(torch.arange(tokens.shape[-1], device=tokens.device))
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer.finish(x, causal(*layer.attn_inputs(x, rotation), layer.rule))
        return self.model.norm(x)

    @torch.no_grad()
    def initialise(self, key: Key) -> Decoder:
        """Draws the weights from the key.

        Matrices are normal with deviation `initializer_range`, norms have the factor 1, biases are 0.
        """
        unit = 0.0 if self.config.norm_offset else 1.0
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                draws = torch.from_numpy(key.fold(name).normal(*parameter.shape))
                parameter.copy_(draws * self.config.initializer_range)
            else:
                parameter.fill_(0.0 if name.endswith("bias") else unit)
        return self


def soften(logits: Tensor, cap: float | None) -> Tensor:
    """Returns cap tanh(logits / cap), in float32 at least; the logits themselves if `cap` is None."""
    if cap is None:
        return logits
    wide = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    return torch.tanh(wide / cap) * cap
