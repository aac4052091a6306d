"""The networks of controllers: dense, convolutional and recurrent trunks, and pointers. One pass computes all heads of an ensemble."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradus.policies.blocks import even
from gradus.types import Key, UserError
from gradus.types.players import Fresh
from gradus.types.spaces import Box, Choice, described

CHANNELS = (16, 32)  # channels of the 3 x 3 convolutions of a cnn, which have stride 2
QUERY, CANDIDATES, BARRED = "query", "candidates", "barred"  # the arrays that a pointer reads
LOG_STD = (-5.0, 2.0)  # the range of the logarithm of a Gaussian's deviation; an output of 0 gives the logarithm 0


@dataclass(frozen=True)
class Shown:
    """One named array of an observation."""

    name: str
    shape: tuple[int, ...]
    pixels: bool = False  # uint8 numbers are divided by 255

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class ControllerConfig:
    """The configuration of a network: its layers, its input arrays, and its space of actions."""

    fresh: Fresh
    shown: tuple[Shown, ...]
    acts: Choice | Box

    def __post_init__(self) -> None:
        if self.fresh.kind == "cnn" and (len(self.shown) != 1 or len(self.shown[0].shape) != 3):
            given = ", ".join(f"{s.name} {list(s.shape)}" for s in self.shown)
            raise UserError(f"a cnn reads one array [height, width, channels], but the environment shows {given}; set --players.policy.model.kind mlp")
        if self.fresh.bins and not isinstance(self.acts, Box):
            raise UserError(f"bins divide the numbers of a Box, but this environment accepts {described(self.acts)}; set `bins` to 0")
        if self.fresh.kind == "pointer":
            check_pointed({s.name: s.shape for s in self.shown}, self.acts)

    @property
    def inputs(self) -> int:
        return sum(s.size for s in self.shown)

    @property
    def actions(self) -> int:
        """For a Choice, returns how many names it has. For a Box, returns how many numbers one action has; an action consists of all steps of a chunk."""
        return len(self.acts.names) if isinstance(self.acts, Choice) else self.acts.size * self.acts.chunk

    @property
    def tokens(self) -> int:
        """Returns the number of chosen tokens of one action: one per number if the numbers have bins, else 1."""
        return self.actions if self.fresh.bins else 1

    @property
    def chunk(self) -> int:
        """Returns how many steps one action contains."""
        return self.acts.chunk if isinstance(self.acts, Box) else 1

    @property
    def outputs(self) -> int:
        """Returns the number of outputs of each head per row."""
        discrete = isinstance(self.acts, Choice)
        actions = self.actions * (1 if discrete else self.fresh.bins or 2)
        values = self.chunk if self.fresh.each_step else 1
        return {"actions": actions, "q": self.actions if discrete else 1, "value": values, "number": 1}[self.fresh.outputs]


class Layer(nn.Module):
    """One dense layer per head, all of the same size. Maps [heads, N, inputs] to [heads, N, outputs]."""

    def __init__(self, heads: int, inputs: int, outputs: int, key: Key, dtype: torch.dtype, norm: bool = False, gain: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(drawn((heads, inputs, outputs), inputs, key.fold("weight"), dtype, gain))
        self.bias = nn.Parameter(drawn((heads, 1, outputs), inputs, key.fold("bias"), dtype, gain))
        self.norm = norm
        if norm:
            self.scale = nn.Parameter(torch.ones((heads, 1, outputs), dtype=dtype))
            self.shift = nn.Parameter(torch.zeros((heads, 1, outputs), dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        out = torch.baddbmm(self.bias, x, self.weight)
        return torch.addcmul(self.shift, F.layer_norm(out, out.shape[-1:]), self.scale) if self.norm else out


class Dense(nn.Module):
    """Hidden layers with ReLU and an output layer, for every head. `gain` scales the output layer's initial weights."""

    def __init__(self, config: ControllerConfig, inputs: int, outputs: int, key: Key, dtype: torch.dtype, gain: float) -> None:
        super().__init__()
        fresh = config.fresh
        widths = (inputs, *fresh.hidden)
        self.layers = nn.ModuleList(
            Layer(fresh.heads, a, b, key.fold("layer", i), dtype, fresh.layer_norm) for i, (a, b) in enumerate(itertools.pairwise(widths))
        )
        self.out = Layer(fresh.heads, widths[-1], outputs, key.fold("out"), dtype, gain=gain)

    def hidden(self, x: Tensor) -> Tensor:
        """Maps [N, inputs] or [heads, N, inputs] to [heads, N, width]."""
        x = x.expand(self.out.weight.shape[0], *x.shape) if x.dim() == 2 else x
        for layer in self.layers:
            x = F.relu(layer(x))
        return x

    def forward(self, x: Tensor) -> Tensor:
        """Maps [N, inputs] to [heads, N, outputs]."""
        return self.out(self.hidden(x))


class Convolutions(nn.Module):
    """3 x 3 convolutions of stride 2 with ReLU. Maps [N, height * width * channels] to [N, features]."""

    def __init__(self, shape: tuple[int, ...], key: Key, dtype: torch.dtype) -> None:
        super().__init__()
        self.shape = shape
        height, width, channels = shape
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for i, out in enumerate(CHANNELS):
            fan = channels * 9
            self.weights.append(nn.Parameter(drawn((out, channels, 3, 3), fan, key.fold("convolution", i), dtype)))
            self.biases.append(nn.Parameter(drawn((out,), fan, key.fold("convolution bias", i), dtype)))
            height, width, channels = -(-height // 2), -(-width // 2), out
        self.features = height * width * channels

    def forward(self, x: Tensor) -> Tensor:
        x = x.unflatten(1, self.shape).permute(0, 3, 1, 2)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            x = F.relu(F.conv2d(x, weight, bias, stride=2, padding=1))
        return x.flatten(1)


class Recurrent(nn.Module):
    """A gated recurrent unit over the observations of a sequence. Maps [B, T, inputs] to [B, T, width].

    Reference: Cho et al., arXiv:1406.1078.
    """

    def __init__(self, inputs: int, width: int, key: Key, dtype: torch.dtype) -> None:
        super().__init__()
        self.cell = nn.GRU(inputs, width, batch_first=True, dtype=dtype)
        with torch.no_grad():
            for name, p in self.cell.named_parameters():
                p.copy_(drawn(tuple(p.shape), width, key.fold("recurrent", name), dtype))

    def forward(self, x: Tensor) -> Tensor:
        return self.cell(x)[0]


class Pointer(nn.Module):
    """Computes the score h(candidate) . h(query) of each candidate, with one linear layer h. Maps [N, inputs] to [N, candidates].

    Reference: Lu et al., arXiv:2209.14610.
    """

    def __init__(self, config: ControllerConfig, key: Key, dtype: torch.dtype) -> None:
        super().__init__()
        self.names, self.sizes = [s.name for s in config.shown], [s.size for s in config.shown]
        width = next(s.size for s in config.shown if s.name == QUERY)
        self.weight = nn.Parameter(drawn((width, config.fresh.hidden[0]), width, key.fold("weight"), dtype))
        self.bias = nn.Parameter(drawn((config.fresh.hidden[0],), width, key.fold("bias"), dtype))

    def forward(self, x: Tensor) -> Tensor:
        parts = dict(zip(self.names, x.split(self.sizes, -1), strict=True))
        query = parts[QUERY]
        both = torch.cat([query, parts[CANDIDATES]], -1).reshape(-1, query.shape[-1])
        h = ((both @ even(self.weight))[:, : self.weight.shape[1]] + self.bias).unflatten(0, (len(x), -1))
        return (h[:, 1:] * h[:, :1]).sum(-1)


def check_pointed(shapes: Mapping[str, tuple[int, ...]], acts: Choice | Box) -> None:
    """Raises UserError if a pointer that reads arrays of these shapes cannot choose in the space `acts`."""
    given = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
    if not isinstance(acts, Choice):
        raise UserError(f"a pointer chooses one of several candidates, but this environment accepts {described(acts)}; set --players.policy.model.kind mlp")
    query, several = shapes.get(QUERY, ()), (len(acts.names),)
    if len(query) != 1 or {**shapes, BARRED: several} != {QUERY: query, CANDIDATES: (*several, *query), BARRED: shapes.get(BARRED, several)}:
        raise UserError(
            f"a pointer reads the arrays {QUERY} [d], {CANDIDATES} [{several[0]}, d] and optionally {BARRED} [{several[0]}], but the "
            f"environment shows {given}; give the arrays these names and shapes, or set --players.policy.model.kind mlp"
        )


class ControllerNetwork(nn.Module):
    """The encoder, the hidden layers and the outputs of one controller."""

    def __init__(self, config: ControllerConfig, key: Key, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.config = config
        fresh, inputs = config.fresh, config.inputs
        self.encoder: nn.Module | None = None
        if fresh.outputs == "number":
            self.number = nn.Parameter(torch.full((1,), fresh.number, dtype=dtype))
            return
        if fresh.kind == "cnn":
            self.encoder = Convolutions(config.shown[0].shape, key, dtype)
            inputs = self.encoder.features
        elif fresh.kind == "gru":
            self.encoder = Recurrent(inputs, fresh.hidden[0], key, dtype)
            inputs = fresh.hidden[0]
        elif fresh.kind == "pointer":
            self.pointer = Pointer(config, key.fold("pointer"), dtype)
            return
        inputs += config.actions if fresh.outputs == "q" and isinstance(config.acts, Box) else 0
        self.dense = Dense(config, inputs, config.outputs, key, dtype, gain=0.1 if fresh.outputs == "actions" else 1.0)

    def encoded(self, observed: Tensor) -> Tensor:
        """Maps [N, inputs] to the inputs of the hidden layers. A gru maps [B, T, inputs] to [B, T, width]."""
        return observed if self.encoder is None else self.encoder(observed)

    def forward(self, encoded: Tensor, action: Tensor | None = None) -> Tensor:
        """Maps [N, features] to [heads, N, outputs].

        A Q network over a Box also needs actions [N, d], scaled to [-1, 1].
        """
        if self.config.fresh.kind == "pointer":
            return self.pointer(encoded)[None]
        return self.dense(encoded if action is None else torch.cat([encoded, action], -1))


def drawn(shape: tuple[int, ...], inputs: int, key: Key, dtype: torch.dtype, gain: float = 1.0) -> Tensor:
    """Draws uniform numbers between -gain / sqrt(inputs) and gain / sqrt(inputs)."""
    bound = gain / math.sqrt(inputs)
    return torch.from_numpy((key.uniform(*shape) * 2 - 1) * bound).to(dtype)
