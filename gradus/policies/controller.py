"""A controller as a policy: a small network that reads named arrays and chooses an index (`Choice`) or numbers (`Box`).

The context of a controller is a conversation. An observation is one token with one row of every array. The token of an observation is always 0 and is not
chosen. An action is one chosen token. For a `Choice` the token is the index of the choice. For a `Box` the token is 0, and the numbers are in the streams
`action` (in the environment's units) and `raw` (before the squashing). If the numbers of a `Box` have bins, every number is one chosen token (see
`controller_bins`).
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradus.policies.blocks import even
from gradus.policies.controller_bins import chunk_context, drawn_bins, middles, nearest_bins
from gradus.policies.controller_network import BARRED, ControllerConfig, ControllerNetwork, Shown
from gradus.policies.controller_reading import (
    EDGE,
    OpenedController,
    as_inputs,
    gaussian,
    middle_and_half,
    newest_row,
    squashed_logprob,
)
from gradus.policies.network_files import fill_network, save_network
from gradus.policies.reading import check_offered, read
from gradus.types import Context, Ended, Frozen, Key, UserError
from gradus.types.contexts import Seen
from gradus.types.players import Fresh
from gradus.types.signals import Want
from gradus.types.spaces import Action, Box, Choice, Space

KIND = "gradus_controller"
BLOCK = 16  # rows of a matrix product in `act`; the number is fixed, so a row's bits do not depend on the other rows
LONGEST = 2**31 - 1  # largest number of tokens of a context: no limit


class Controller:
    """A `ControllerNetwork` as a policy."""

    reads = frozenset({"array"})
    context_length = LONGEST

    def __init__(self, config: ControllerConfig, network: ControllerNetwork) -> None:
        self.config, self.network = config, network

    @classmethod
    def fresh(cls, config: ControllerConfig, key: Key = Key(), dtype: torch.dtype = torch.float32, device: str = "cpu") -> Controller:
        """Makes a controller with weights that `key` draws."""
        return cls(config, ControllerNetwork(config, key, dtype).to(device))

    @classmethod
    def load(cls, model: str | Path, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Controller:
        """Loads the controller in a folder. Raises UserError if the folder has no controller, or if the weights do not match config.json."""
        folder = Path(model)
        made = cls.fresh(read_config(folder / "config.json"), dtype=dtype)
        fill_network(made.network, folder)
        made.network.to(device)
        return made

    def save(self, folder: Path | str) -> None:
        """Writes config.json and model.safetensors."""
        save_network(self.network, {"model_type": KIND, **written(self.config)}, folder)

    def clone(self) -> Controller:
        return copy.deepcopy(self)

    def with_value_head(self, key: Key, shared: bool = False) -> Controller:
        """Returns a value network of the same form, with its own weights. Raises UserError for a shared trunk."""
        if shared:
            raise UserError("a controller's value head cannot share layers with the policy; write model=Head(of=Copy(...)), or Fresh(outputs='value')")
        config = replace(self.config, fresh=replace(self.config.fresh, outputs="value", heads=1))
        return Controller.fresh(config, key, self._like.dtype, str(self._like.device))

    @property
    def _like(self) -> Tensor:
        return next(self.network.parameters())

    @property
    def can(self) -> frozenset[str]:
        """Returns the names of the values that `evaluate` can compute from the network's outputs."""
        continuous = isinstance(self.config.acts, Box) and not self.config.fresh.bins
        if self.config.fresh.kind == "pointer":
            return frozenset({"logprobs", "entropy"})
        return {
            "actions": frozenset({"logprobs", "entropy", "hidden"} | ({"drawn"} if continuous else set())),
            "q": frozenset({"q", "hidden", "q_of_candidates" if continuous else "q_of_all"}),
            "value": frozenset({"head:value", "hidden"}),
            "number": frozenset({"number"}),
        }[self.config.fresh.outputs]

    def acts(self, space: Space) -> bool:
        """Whether the controller can act in this space. A `Choice` must have the same number of choices. A `Box` must have the same bounds and chunk."""
        if isinstance(space, Choice) and isinstance(self.config.acts, Choice):
            return len(space.names) == len(self.config.acts.names)
        return space == self.config.acts

    def opening(self, prompt: Any) -> Context:
        """Returns the context of a first observation. Raises UserError for text, for messages, and if an array that the controller reads is missing."""
        return self._piece(prompt)

    def follow(self, observation: Any, after: Context) -> Context:
        """Returns the observation as the next piece of a context. No token of this piece is chosen."""
        return self._piece(observation)

    def _piece(self, observation: Any) -> Context:
        if not isinstance(observation, Mapping):
            raise UserError("a controller reads named arrays, but this environment shows text; take a language model, or take an environment that shows arrays")
        seen = []
        for due in self.config.shown:
            given = observation.get(due.name)
            if given is None or np.shape(given) != due.shape:
                there = ", ".join(f"{n} {list(np.shape(a))}" for n, a in observation.items())
                raise UserError(
                    f"the controller reads {due.name} {list(due.shape)}, but the observation has {there}; take the environment for which the "
                    "controller was made"
                )
            row = np.asarray(given, np.uint8 if due.pixels else np.float32)[None].copy()
            seen.append(Seen(due.name, "array", row, np.zeros(1, np.int32), np.ones(1, np.int32)))
        none = np.zeros(0, np.int32)
        return Context(np.zeros(1, np.int32), np.zeros(1, bool), np.zeros(0, np.float32), none, seen=tuple(seen))

    def told(self, action: Action) -> Context:
        """Returns the piece of a context that records a given action. Raises UserError for an action outside the space."""
        acts = self.config.acts
        if isinstance(acts, Choice):
            index = acts.index(action)
            if index is None:
                raise UserError(f"{action!r} is not an action of this task; choose from {', '.join(acts.names)}")
            return Context(np.array([index], np.int32), np.ones(1, bool), ended=Ended.STOP)
        if not isinstance(action, np.ndarray) or action.size != self.config.actions:
            raise UserError(f"an action of this task is an array of {self.config.actions} numbers, but the given action is {action!r:.60}; give such an array")
        if self.config.fresh.bins:
            return chunk_context(nearest_bins(action, self.config), self.config)
        given = action.astype(np.float32).reshape(1, -1)
        middle, half = (t.cpu().numpy() for t in middle_and_half(self.config, self._like))
        raw = np.arctanh(np.clip((given - middle) / half, -EDGE, EDGE)).astype(np.float32)
        return Context(np.zeros(1, np.int32), np.ones(1, bool), streams=Frozen(action=self._shaped(given), raw=raw))

    def said(self, context: Context, since: int) -> Action:
        """Returns the last action after token `since`: an index, or numbers [d] or [chunk, d]."""
        if isinstance(self.config.acts, Choice):
            return int(context.sequence[since:][-1])
        if self.config.fresh.bins:
            return self._shaped(middles(context.sequence[since:][-self.config.tokens :], self.config))[0]
        return context.streams["action"][-1]

    def _shaped(self, flat: np.ndarray) -> np.ndarray:
        """Reshapes [N, numbers] to [N, d], or to [N, chunk, d] if the chunk is longer than 1."""
        assert isinstance(self.config.acts, Box)
        return flat.reshape(len(flat), self.config.acts.chunk, -1) if self.config.acts.chunk > 1 else flat

    def text(self, tokens: Sequence[int] | np.ndarray) -> str:
        """Returns the names of the chosen actions; an empty text if actions are numbers."""
        return " ".join(self.config.acts.names[int(t)] for t in tokens) if isinstance(self.config.acts, Choice) else ""

    def act(self, asked: Sequence[Any]) -> list[Context]:
        """Draws one action per request with the request's key. Matrix products are in blocks of `BLOCK` rows; a gru computes its requests one by one."""
        with torch.no_grad():
            outputs = self._outputs(asked)
        return [self._acted(ask, row) for ask, row in zip(asked, outputs, strict=True)]

    def _outputs(self, asked: Sequence[Any]) -> Tensor:
        """Returns the network's outputs for the next action of every request. [N, outputs]"""
        if self.config.fresh.kind == "gru":  # one by one, because the sequences have different lengths
            ahead = [_one_more(ask.parent, ask.at) for ask in asked]
            return torch.cat([self.network(OpenedController(self.network, [c])._encoded)[0] for c in ahead])
        columns = [np.stack([newest_row(a.parent, a.at, self.config, i) for a in asked]) for i in range(len(self.config.shown))]
        inputs = torch.cat([as_inputs(self.config, i, rows, self._like) for i, rows in enumerate(columns)], -1)
        padded = torch.nn.functional.pad(inputs, (0, 0, 0, -len(inputs) % BLOCK))
        return torch.cat([rowwise(self.network, block) for block in padded.split(BLOCK)])[: len(asked)]

    def _acted(self, ask: Any, outputs: Tensor) -> Context:
        temperature = ask.sampling.temperature
        key = ask.key.fold("action")
        if self.config.fresh.bins:
            chunk, found = drawn_bins(outputs, self.config, temperature, key)
            versions = np.full(len(chunk), ask.version, np.int32)
            return replace(chunk_context(chunk, self.config), logprobs=found, versions=versions, temperature=temperature, parent=(ask.parent, ask.at))
        streams: Frozen[np.ndarray] = Frozen()
        if isinstance(self.config.acts, Choice):
            logprobs = (outputs.double() / (temperature or 1.0)).log_softmax(-1)
            open_ones = self._open(ask)
            if temperature:
                chances = logprobs.exp() if open_ones is None else logprobs.masked_fill(~open_ones, -math.inf).softmax(-1)
                below = chances.cumsum(-1).numpy() <= key.uniform(1)[0]
                token = min(int(below.sum()), len(below) - 1)
            else:
                token = int((outputs if open_ones is None else outputs.masked_fill(~open_ones, -math.inf)).argmax())
            logprob = float(logprobs[token])
        else:
            token = 0
            mean, std = (t * scale for t, scale in zip(gaussian(outputs[None]), (1.0, temperature or 1.0), strict=True))
            noise = torch.from_numpy(key.normal(self.config.actions)).to(mean) if temperature else torch.zeros_like(mean[0])
            raw = mean + std * noise
            middle, half = middle_and_half(self.config, self._like)
            logprob = float(squashed_logprob(raw, mean, std, half)[0])
            action = (middle + half * raw.tanh()).cpu().numpy()
            streams = Frozen(action=self._shaped(action), raw=raw.cpu().numpy())
        return Context(
            tokens=np.array([token], np.int32),
            chosen=np.ones(1, bool),
            logprobs=np.array([logprob], np.float32),
            versions=np.array([ask.version], np.int32),
            temperature=temperature,
            streams=streams,
            parent=(ask.parent, ask.at),
        )

    def _open(self, ask: Any) -> Tensor | None:
        """Returns the choices that a pointer may draw now, bool [n]; None means all choices. Raises UserError if the pointer may draw no choice."""
        names = [shown.name for shown in self.config.shown]
        if self.config.fresh.kind != "pointer" or BARRED not in names:
            return None
        barred = torch.from_numpy(newest_row(ask.parent, ask.at, self.config, names.index(BARRED)) > 0).to(self._like.device)
        if barred.all():
            raise UserError(f"all {len(barred)} candidates are barred, so no action can be drawn; let the environment end the episode earlier")
        return ~barred

    def evaluate(self, contexts: Sequence[Context], wants: Sequence[Want], key: Key | None = None) -> dict[Want, Tensor]:
        """Returns, for each `Want`, a row per action. Raises UserError for a `Want` that the controller's outputs cannot give."""
        check_offered(wants, self.can, f"a controller with outputs {self.config.fresh.outputs}")
        return read(OpenedController(self.network, contexts), wants, key or Key())

    def micro_batches(self, contexts: Sequence[Context], max_tokens: int) -> list[list[int]]:
        """Cuts the contexts, in order, into parts of at most `max_tokens` actions. A context with more actions forms its own part."""
        out: list[list[int]] = []
        room = 0
        for i, context in enumerate(contexts):
            if not out or context.actions > room:
                out.append([])
                room = max_tokens
            out[-1].append(i)
            room -= context.actions
        return out


def rowwise(network: ControllerNetwork, block: Tensor) -> Tensor:
    """Returns the outputs of the first head for a block of rows.

    A narrow matrix is padded if the bits of a row depend on the row's position without padding.
    """
    x = network.encoded(block)
    if network.config.fresh.kind == "pointer":
        return network(x)[0]
    layers = [*network.dense.layers, network.dense.out]
    for i, layer in enumerate(layers):
        weight: Tensor = layer.weight[0]
        x = (x @ even(weight))[:, : weight.shape[1]] + layer.bias[0]
        if layer.norm:
            x = torch.nn.functional.layer_norm(x, x.shape[-1:]) * layer.scale[0] + layer.shift[0]
        x = x.relu() if i + 1 < len(layers) else x
    return x


def _one_more(parent: Context, at: int) -> Context:
    """Returns a context with the first `at` tokens of `parent` and one action after these tokens."""
    return Context(np.zeros(1, np.int32), np.ones(1, bool), parent=(parent, at))


def written(config: ControllerConfig) -> dict[str, Any]:
    """Returns the configuration as JSON values."""
    acts = config.acts
    space = {"names": list(acts.names)} if isinstance(acts, Choice) else {"low": list(acts.low), "high": list(acts.high), "chunk": acts.chunk}
    return {"fresh": asdict(config.fresh), "shown": [asdict(s) for s in config.shown], "acts": space}


def read_config(path: Path) -> ControllerConfig:
    """Reads the configuration that `written` wrote. Raises UserError with the file if a field is missing or wrong."""
    try:
        found = json.loads(path.read_text())
        fresh = Fresh(**{**found["fresh"], "hidden": tuple(found["fresh"]["hidden"])})
        shown = tuple(Shown(s["name"], tuple(s["shape"]), bool(s["pixels"])) for s in found["shown"])
        given = found["acts"]
        acts: Choice | Box = Choice(tuple(given["names"])) if "names" in given else Box(tuple(given["low"]), tuple(given["high"]), given["chunk"])
    except FileNotFoundError:
        raise UserError(f"{path} is missing; name the folder of a saved controller") from None
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} does not describe a controller ({error}); save the controller again with Controller.save") from None
    return ControllerConfig(fresh, shown, acts)


def config_for(fresh: Fresh, observation: Any, acts: Space) -> ControllerConfig:
    """Returns the configuration of a fresh network for an environment. Raises UserError if observations or actions are text."""
    if not isinstance(observation, Mapping) or not isinstance(acts, (Choice, Box)):
        shows = "arrays" if isinstance(observation, Mapping) else "text"
        space = "text" if not isinstance(acts, (Choice, Box)) else type(acts).__name__
        raise UserError(
            f"Fresh makes a controller (for arrays, and a Choice or a Box), but this task shows {shows} and accepts {space}; name a model with "
            "--model, or take a task for controllers, such as cartpole"
        )
    shown = tuple(Shown(n, tuple(np.shape(a)), np.asarray(a).dtype == np.uint8) for n, a in sorted(observation.items()))
    return ControllerConfig(fresh, shown, acts)
