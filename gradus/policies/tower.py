"""The vision tower, a transformer over the patches of a picture, and the projector to the decoder's width.

The module covers the towers of SigLIP, CLIP and Idefics3, whose layers have the same form. The parameters have the names of `transformers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradus.policies.products import Linear, linear
from gradus.types import Key

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": F.relu,
    "silu": F.silu,
}


@dataclass(frozen=True)
class TowerConfig:
    """The shape of a tower. Only the layers that are used are built."""

    hidden_size: int
    intermediate_size: int
    layers: int  # number of layers that are used
    heads: int
    image_size: int  # pixels per side
    patch_size: int
    eps: float = 1e-6
    activation: str = "gelu_pytorch_tanh"
    class_token: bool = False  # CLIP: there is a learned row before the patches, the patches have no bias, and there is a norm before the layers
    keeps_class: bool = False  # whether the output contains the class token's row
    normed: bool = False  # Idefics3: the last layer's output is normed
    fractions: bool = False  # Idefics3: the position of a patch is computed from its place as a fraction of the side

    @property
    def side(self) -> int:
        """Returns the number of patches per side."""
        return self.image_size // self.patch_size

    @property
    def rows(self) -> int:
        """Returns the number of rows in the output for one picture."""
        return self.side**2 + (self.class_token and self.keeps_class)


class _Embeddings(nn.Module):
    def __init__(self, c: TowerConfig) -> None:
        super().__init__()
        self.patch_embedding = nn.Conv2d(3, c.hidden_size, c.patch_size, c.patch_size, bias=not c.class_token)
        if c.class_token:
            self.class_embedding = nn.Parameter(torch.zeros(c.hidden_size))
        self.position_embedding = nn.Embedding(c.side**2 + c.class_token, c.hidden_size)
        self.config = c

    def forward(self, pixels: Tensor) -> Tensor:
        """Maps [B, 3, S, S] to [B, rows, hidden]."""
        c, conv, places = self.config, self.patch_embedding, self.position_embedding.weight
        x = linear(patches(pixels, c.patch_size), conv.weight.flatten(1), conv.bias)
        if c.class_token:
            x = torch.cat([self.class_embedding.expand(len(x), 1, -1), x], 1)
        if c.fractions:
            places = F.embedding(fractions(c.side).to(places.device), places)
        return x + places


class _Attention(nn.Module):
    def __init__(self, c: TowerConfig) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (Linear(c.hidden_size, c.hidden_size) for _ in range(4))
        self.heads = c.heads

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))


class _MLP(nn.Module):
    def __init__(self, c: TowerConfig) -> None:
        super().__init__()
        self.fc1, self.fc2 = Linear(c.hidden_size, c.intermediate_size), Linear(c.intermediate_size, c.hidden_size)
        self.activation = ACTIVATIONS[c.activation]

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.activation(self.fc1(x)))


class _Layer(nn.Module):
    def __init__(self, c: TowerConfig) -> None:
        super().__init__()
        self.layer_norm1, self.layer_norm2 = (nn.LayerNorm(c.hidden_size, eps=c.eps) for _ in range(2))
        self.self_attn, self.mlp = _Attention(c), _MLP(c)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


class _Encoder(nn.Module):
    def __init__(self, c: TowerConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(c) for _ in range(c.layers))


class Tower(nn.Module):
    """Maps prepared pixels float [B, 3, S, S] to features [B, rows, hidden]."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings, self.encoder = _Embeddings(config), _Encoder(config)
        if config.class_token:
            self.pre_layrnorm = nn.LayerNorm(config.hidden_size, eps=config.eps)  # the files have this spelling
        if config.normed:
            self.post_layernorm = nn.LayerNorm(config.hidden_size, eps=config.eps)

    def forward(self, pixels: Tensor) -> Tensor:
        c, x = self.config, self.embeddings(pixels)
        if c.class_token:
            x = self.pre_layrnorm(x)
        for layer in self.encoder.layers:
            x = layer(x)
        if c.normed:
            x = self.post_layernorm(x)
        return x[:, 1:] if c.class_token and not c.keeps_class else x


@dataclass(frozen=True)
class ProjectorConfig:
    """Two linear layers with an activation (LLaVA), or one layer over squares of `shuffle` x `shuffle` patches (Idefics3)."""

    bias: bool = True
    activation: str = "gelu"
    shuffle: int = 0  # 0: patches are not joined, and there are two layers


class TwoLayers(nn.Module):
    """LLaVA's projector: linear, activation, linear."""

    def __init__(self, width: int, hidden: int, c: ProjectorConfig) -> None:
        super().__init__()
        self.linear_1, self.linear_2 = Linear(width, hidden, bias=c.bias), Linear(hidden, hidden, bias=c.bias)
        self.activation = ACTIVATIONS[c.activation]

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_2(self.activation(self.linear_1(x)))


class Shuffled(nn.Module):
    """Idefics3's projector: joins every square of patches into one row, then applies one linear layer without bias."""

    def __init__(self, width: int, hidden: int, c: ProjectorConfig) -> None:
        super().__init__()
        self.shuffle = c.shuffle
        self.modality_projection = nn.ModuleDict({"proj": Linear(width * c.shuffle**2, hidden, bias=False)})

    def forward(self, x: Tensor) -> Tensor:
        return self.modality_projection["proj"](shuffled(x, self.shuffle))


def patches(pixels: Tensor, size: int) -> Tensor:
    """Cuts pixels [B, 3, S, S] into squares, row by row: [B, (S // size)^2, 3 * size * size]."""
    rows = pixels.unfold(2, size, size).unfold(3, size, size)
    return rows.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


def shuffled(x: Tensor, by: int) -> Tensor:
    """Joins squares of `by` x `by` patches. Maps the rows [B, n * n, d] of a picture to [B, (n / by)^2, d * by^2].

    The patches of a square are joined row by row.
    """
    side = round(x.shape[1] ** 0.5)
    squares = x.unflatten(1, (side // by, by, side // by, by))
    return squares.permute(0, 1, 3, 2, 4, 5).flatten(3).flatten(1, 2)


def fractions(side: int) -> Tensor:
    """Returns the positions of the patches of a full square, int64 [side * side].

    A position is computed from the coordinates of the patch as a fraction of the side, with the rounding of Idefics3.
    """
    bounds = torch.arange(1 / side, 1.0, 1 / side)
    at = (torch.arange(side, dtype=torch.float32) * (1.0 / torch.tensor(side))).clamp(max=1.0 - 1e-6)
    found = torch.bucketize(at, bounds, right=True)
    return (found[:, None] * side + found).flatten()


@torch.no_grad()
def initialise(module: nn.Module, key: Key, deviation: float = 0.02) -> None:
    """Draws the weights from the key. Matrices are normal, norms are 1, and biases and the class token are 0."""
    for name, parameter in module.named_parameters():
        if parameter.ndim > 1:
            parameter.copy_(torch.from_numpy(key.fold(name).normal(*parameter.shape)) * deviation)
        else:
            parameter.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
