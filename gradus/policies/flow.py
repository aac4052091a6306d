"""A flow generator as a policy. The policy turns noise into samples by steps along a velocity field, and computes the rows that a `Want` needs for training."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from gradus.policies.flow_network import FlowConfig, Velocity
from gradus.policies.flow_steps import draw, matching_pairs, transition_logprob
from gradus.policies.network_files import fill_network, save_network
from gradus.policies.reading import check_offered, read
from gradus.types import Context, Frozen, Key, UserError, prompt_context, unknown
from gradus.types.samplers import Drawing
from gradus.types.signals import Want
from gradus.types.spaces import Action, Box, Observation, Space

KIND = "gradus_flow"
BUILT_IN = Path(__file__).parent / "tiny" / "flow_2d"


class FlowModel:
    """A velocity field as a policy.

    A problem's condition is `meta["condition"]`, a list of numbers. A context has these streams, with one row per action: `condition`, `key` (uint64) and
    `sample`, which is the finished sample. If the steps are stored, a context also has `latent` and `next` (the points before and after the step), and
    `time`, `pull`,
    `gain` and `spread` (see `samplers.Step`). Points and log-probabilities are float64 if the network is float64, else float32.
    """

    can = frozenset({"logprobs", "velocity", "matching", "drawing"})
    reads = frozenset({"condition"})
    asks: ClassVar[Mapping[str, str]] = Frozen(drawing="set --rollout FlowSampling, or take a recipe for flow generators, such as flow_grpo")
    context_length = 1 << 30  # a sample has no tokens

    def __init__(self, config: FlowConfig, network: Velocity) -> None:
        self.config, self.network = config, network

    @classmethod
    def fresh(cls, config: FlowConfig, key: Key = Key(), dtype: torch.dtype = torch.float32) -> FlowModel:
        """Makes a model with weights that `key` draws."""
        return cls(config, Velocity(config, key, dtype))

    @classmethod
    def load(cls, model: str | Path | None = None, dtype: torch.dtype = torch.float32, device: str = "cpu") -> FlowModel:
        """Loads the model in a folder. None and "tiny" mean the built-in model. Raises UserError if the folder has no complete flow model."""
        folder = BUILT_IN if model in (None, "tiny") else Path(str(model))
        config = read_config(folder / "config.json")
        made = cls.fresh(config, dtype=dtype)
        fill_network(made.network, folder)
        made.network.to(device)
        return made

    def save(self, folder: Path | str) -> None:
        """Writes config.json and model.safetensors."""
        save_network(self.network, {"model_type": KIND, **asdict(self.config)}, folder)

    def clone(self) -> FlowModel:
        return copy.deepcopy(self)

    @property
    def rows(self) -> torch.dtype:
        """Returns the dtype of points and log-probabilities."""
        return torch.float64 if self.network.weights[0].dtype == torch.float64 else torch.float32

    def acts(self, space: Space) -> bool:
        """Whether the model can act in the space: a point of the space must have the model's dimension."""
        return isinstance(space, Box) and space.size == self.config.dimension and space.chunk == 1

    def opening(self, prompt: Observation) -> Context:
        """Returns an empty context, because a sample depends only on the condition of its problem."""
        return prompt_context([])

    def follow(self, observation: Observation, after: Context) -> Context:
        """Raises UserError, because a flow generator draws one sample and takes no further turn."""
        raise UserError("a flow generator draws one sample and takes no turns; choose a task without an environment")

    def told(self, action: Action) -> Context:
        """Raises UserError, because a given sample does not contain its condition."""
        raise UserError("a flow generator cannot learn from given samples; set --rollout FlowSampling")

    def said(self, context: Context, since: int) -> np.ndarray:
        """Returns the finished sample, [d]."""
        return context.streams["sample"][-1]

    def text(self, tokens: Sequence[int] | np.ndarray) -> str:
        """Returns an empty text."""
        return ""

    def act(self, asks: Sequence[Any]) -> list[Context]:
        """Draws one sample per request. The `how` of the request describes the method.

        Without `how`, the sampler is the ODE, and the steps of the sample are not stored.
        """
        out: dict[int, Context] = {}
        hows = [ask.request.how or Drawing() for ask in asks]
        for how in dict.fromkeys(hows):
            mine = [i for i, h in enumerate(hows) if h == how]
            out.update(zip(mine, self._drawn(how, [asks[i] for i in mine]), strict=True))
        return [out[i] for i in range(len(asks))]

    def _drawn(self, how: Drawing, asks: Sequence[Any]) -> list[Context]:
        conditions = np.array([self.condition_of(ask.request.problem) for ask in asks]).reshape(len(asks), self.config.condition)
        path = how.sampler.path()
        given = torch.from_numpy(conditions).to(self.network.weights[0].device, self.rows)
        drawn = draw(self.network, path, [ask.key for ask in asks], given, self.config.dimension)
        samples, before, after, logprobs = (t.cpu().numpy() for t in (drawn.samples, drawn.before, drawn.after, drawn.logprobs))
        random = [step for step in path if step.spread > 0] if how.keep == "steps" else []
        count = len(random) or 1
        contexts = []
        for i, ask in enumerate(asks):
            streams = {name: np.repeat(rows[i : i + 1], count, 0) for name, rows in (("sample", samples), ("condition", conditions))}
            streams["key"] = np.full(count, ask.key.value, np.uint64)
            if random:
                streams |= {name: np.array([getattr(step, name) for step in random]) for name in ("time", "pull", "gain", "spread")}
                streams |= {"latent": before[i].copy(), "next": after[i].copy()}
            contexts.append(kept(ask, streams, logprobs[i].astype(np.float32) if random else None))
        return contexts

    def condition_of(self, problem: Any) -> list[float]:
        """Returns the network's condition for a problem. Raises UserError if the problem's condition has another length."""
        given = problem.meta.get("condition", ())
        if len(given) != self.config.condition:
            raise UserError(
                f"problem {problem.id} has a condition of {len(given)} numbers, but the flow model needs {self.config.condition} numbers; "
                'give these numbers in meta["condition"], or take a model for this task'
            )
        return [float(c) for c in given]

    def evaluate(self, contexts: Sequence[Context], wants: Sequence[Want], key: Key | None = None) -> dict[Want, Tensor]:
        """Returns, for each `Want`, a row per action.

        The random pairs of flow matching are drawn with the keys of the samples. A `Want` that draws numbers uses `key`.
        """
        check_offered(wants, self.can, "a flow generator")
        return read(OpenedFlow(self, contexts), wants, key or Key())

    def stream(self, contexts: Sequence[Context], name: str) -> Tensor:
        """Returns a stream of all contexts, [A, ...]. Raises UserError if a sample was kept without this stream."""
        if not all(name in c.streams for c in contexts):
            raise UserError(
                "these samples were stored without the steps that led to them; set --rollout.keep steps, and choose a sampler with noise"
            )
        rows = torch.from_numpy(np.concatenate([c.streams[name] for c in contexts]))
        return rows.to(self.network.weights[0].device, self.rows)

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


def kept(ask: Any, streams: dict[str, np.ndarray], logprobs: np.ndarray | None) -> Context:
    """Returns the context of a sample. The tokens of the context are placeholders: one action per row of the streams."""
    count = len(streams["sample"])
    return Context(
        tokens=np.zeros(count, np.int32),
        chosen=np.ones(count, bool),
        logprobs=logprobs,
        versions=np.full(count, ask.version, np.int32),
        streams=Frozen(streams),
        parent=(ask.parent, ask.at),
    )


class OpenedFlow:
    """One pass of a flow generator over the kept steps of its samples, or over the pairs of flow matching."""

    def __init__(self, model: FlowModel, contexts: Sequence[Context]) -> None:
        self.model, self.contexts = model, contexts
        self._matched: dict[int, tuple[Tensor, Tensor, Tensor]] = {}

    def _stream(self, name: str) -> Tensor:
        return self.model.stream(self.contexts, name)

    @cached_property
    def _transitions(self) -> tuple[Tensor, Tensor]:
        """Computes the velocity [A, d] and the log-probability [A] of every kept step with the current weights."""
        names = ("latent", "next", "time", "pull", "gain", "spread", "condition")
        latent, after, time, pull, gain, spread, condition = (self._stream(n) for n in names)
        v = self.model.network(latent, time, condition).to(latent)
        return v, transition_logprob(after, pull[:, None] * latent + gain[:, None] * v, spread)

    def velocity(self) -> Tensor:
        return self._transitions[0]

    def logprobs(self) -> Tensor:
        return self._transitions[1]

    def matching(self, draws: int) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the flow-matching error [A, draws], the velocity [A, draws, d] and the time [A, draws], for `draws` pairs per action.

        A pair has a time t and noise e. With the sample x_0, the pair gives the point x_t = (1 - t) x_0 + t e and the target e - x_0.
        """
        if draws not in self._matched:
            sample, condition = self._stream("sample"), self._stream("condition")
            keys = np.concatenate([c.streams["key"] for c in self.contexts])
            times, noise = (torch.from_numpy(a).to(sample) for a in matching_pairs(keys, draws, self.model.config.dimension))
            clean = sample[:, None, :]
            mixed = (1 - times[..., None]) * clean + times[..., None] * noise
            told = condition[:, None, :].expand(-1, draws, -1)
            v = self.model.network(mixed.flatten(0, 1), times.flatten(), told.flatten(0, 1)).to(sample).unflatten(0, times.shape)
            self._matched[draws] = (v - (noise - clean)).square().mean(-1), v, times
        return self._matched[draws]


def read_config(path: Path) -> FlowConfig:
    """Reads the configuration of a flow model. Raises UserError if the configuration is missing, is of another kind of model, or has an unknown field."""
    if not path.is_file():
        raise UserError(f"there is no {path}, so {path.parent} is not a model folder; name a folder with config.json and model.safetensors")
    try:
        stored = json.loads(path.read_text())
    except ValueError:
        stored = None
    if not isinstance(stored, dict):
        raise UserError(f"{path} is not a JSON object; save or copy the model again")
    kind = stored.pop("model_type", None)
    if kind != KIND:
        raise UserError(
            f'{path} describes a model of type "{kind}", but this task is for a flow generator ("{KIND}"); choose another model or task'
        )
    known = [f.name for f in fields(FlowConfig)]
    for name in stored:
        if name not in known:
            raise unknown("field", name, known, f"In {path}")
    return FlowConfig(**stored)
