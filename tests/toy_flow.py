"""A flow generator small enough to reason about, in float64, and runs of a few steps with it on flow_2d."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gradus.players.build import build_players
from gradus.policies.flow import FlowModel
from gradus.policies.flow_network import FlowConfig
from gradus.recipe.core import Recipe
from gradus.tasks.flow.flow_2d import flow_2d
from gradus.training.launch import go
from gradus.training.run import Run
from gradus.training.world import Ask
from gradus.types import Context, Key, Problem, Request, Sampling, prompt_context
from gradus.types.samplers import Drawing
from gradus.updates.optimizers import AdamW

SMALL = FlowConfig(width=8, depth=2, frequencies=2)


def small(dtype: torch.dtype = torch.float64) -> FlowModel:
    return FlowModel.fresh(SMALL, Key(3), dtype)


def ask(how: Drawing | None, name: str = "p", sample: int = 0, condition: tuple[float, ...] = (1.0, 0.0)) -> Ask:
    """One sample wanted of a problem; its key depends on name and sample alone."""
    problem = Problem(name, "flow_2d", answer=[2.0, 0.0], meta={"condition": condition})
    request = Request(problem, how=how)
    return Ask(prompt_context([]), 0, Sampling(), Key(5).fold(name, sample), 0, request)


def same(a: Context, b: Context) -> bool:
    """Whether two contexts hold the same bytes."""
    arrays = [(c.tokens, c.chosen, c.versions, c.logprobs, *c.streams.values()) for c in (a, b)]
    equal = [(x is None and y is None) or (x.dtype == y.dtype and x.tobytes() == y.tobytes()) for x, y in zip(*arrays, strict=True)]
    return all(equal) and list(a.streams) == list(b.streams)


def flow_run(recipe: Recipe, tmp_path: Any, *, steps: int = 2, micro_tokens: int = 16384, seed: int = 0, **setting: Any) -> Run:
    """A run of the recipe over the small model in float64, not yet trained; its players are built as those of any run."""
    small().save(tmp_path / "small")
    defaults = {"steps": steps, "prompts": 3, "group": 5, "learning_rate": 0.01, "warmup": 0, "eval_every": 0, "save_every": 0}
    chosen = {**defaults, "precision": "float64", "micro_tokens": micro_tokens, **setting}
    recipe = replace(recipe, setting=replace(recipe.setting, **chosen), study=None)
    task = flow_2d()
    return Run(recipe, task, build_players(recipe, tmp_path / "small", task, Key(seed)), seed=seed)


def train_flow(recipe: Recipe, tmp_path: Any, *, watch: Callable[[Any, Any, Any], None] | None = None, **options: Any) -> Run:
    """The run after its steps; `watch(run, metrics, groups)` is called at each."""
    run = flow_run(recipe, tmp_path, **options)
    run.on_step = watch
    return go(run)


class Plain(AdamW):
    """Gradient steps of size 1, so that the weights show the gradient itself."""

    def build(self, parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.0)


def weights_after(recipe: Recipe, tmp_path: Any, *, rate: float = 1.0, **options: Any) -> Tensor:
    """Every weight of the policy after the steps of a run with plain gradient steps, as one vector."""
    run = train_flow(recipe.but(optimizer=Plain(lr=rate, clip=None)), tmp_path, **options)
    return torch.cat([p.detach().flatten() for p in run.players["policy"].policy.network.parameters()])
