"""Runs of a recipe over toy players: a step takes about ten milliseconds, and the weights can be compared bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gradus.players.build import build_players, introduce
from gradus.players.learner import Learner
from gradus.recipe.compatibility import kind_of
from gradus.recipe.core import Recipe, specs_of
from gradus.testing.methods.control import cut_down
from gradus.testing.methods.flow import toy_flow
from gradus.testing.methods.masked import toy_masked
from gradus.testing.methods.policy import BigramPolicy
from gradus.testing.methods.tasks import counts_successes, toy_task
from gradus.training.launch import go
from gradus.training.run import Run
from gradus.types import Frozen, Group, Key
from gradus.types.parts import Task
from gradus.types.players import FOLLOWING, Copy, Head, Player
from gradus.updates.optimizers import AdamW

SCALE = {"warmup": 0, "eval_every": 0, "save_every": 0}
LANGUAGE = {**SCALE, "prompts": 4, "group": 4, "learning_rate": 0.05}
CONTROL = {**SCALE, "prompts": 2, "group": 1, "learning_rate": 0.01, "precision": "float64"}
FLOW = {**SCALE, "prompts": 3, "group": 5, "learning_rate": 0.01}


@dataclass(frozen=True)
class Toy:
    """A toy policy and the size of its runs."""

    make: Callable[[], Any]
    scale: Mapping[str, Any]


TOYS = {"lm": Toy(lambda: BigramPolicy(Key(7)), LANGUAGE), "flow": Toy(toy_flow, FLOW), "masked": Toy(toy_masked, LANGUAGE)}
"""Kind of policy that a recipe trains (`gradus.policies.registry`) -> the toy for it."""


def toy_run(recipe: Recipe, *, steps: int = 2, task: Task | None = None, seed: int = 0, micro: int | None = None, **setting: Any) -> Run:
    """Makes an untrained run of the recipe over toy players in float64. The run has no folder and no study.

    Args: `task`: the task to train on (None: the result of `toy_task`). `micro`: contexts per micro-batch (None: one micro-batch for all contexts).
    `setting`: fields of the recipe's setting. By default, a step has 4 prompts with 4 answers each, and the learning rate is 0.05. For a flow, a step
    has 3 prompts with 5 answers each, and the learning rate is 0.01.

    >>> from gradus import load_recipe
    >>> run = toy_run(load_recipe("grpo"))
    >>> sorted(run.players), run.players["policy"].policy.network.logits.shape
    (['policy', 'reference'], torch.Size([8, 8]))
    """
    kind = kind_of(recipe).name
    if kind == "controller":
        group = 6 if counts_successes(recipe) else CONTROL["group"]
        return _control_run(recipe, {**CONTROL, "group": group, "steps": steps, **setting}, task, seed, micro)
    toy = TOYS[kind]
    scale = {**toy.scale, "steps": steps, **setting}
    recipe = replace(recipe, setting=replace(recipe.setting, **scale), study=None)
    task = toy_task(recipe) if task is None else task
    policy = toy.make()
    policy.micro = micro
    policy.reads = policy.reads | (task.showing & {"image"}) | ({"image"} if "images" in task.provides else frozenset())
    players = {}
    specs = specs_of(recipe)
    for name, spec in specs.items():
        mine = policy if name == "policy" else policy.clone()
        if (heads := _heads(name, specs)) is not None:
            mine = mine.with_heads(heads.outputs, heads.over)
        mine.network.requires_grad_(spec.objective is not None or isinstance(spec.model, Head))  # the clone of a frozen policy may be a player that learns
        spec = replace(spec, trains=("",), rates=Frozen())  # a toy policy has no parameters with these names
        players[name] = Learner(name, spec, mine, spec.optimizer, recipe.setting)
    introduce(players)
    return Run(recipe, task, players, seed=seed)


def _heads(name: str, specs: Mapping[str, Player]) -> Head | None:
    """Returns the heads of a player, or of the player that it copies. Returns None for a plain value head, which every toy player has."""
    relation = specs[name].model
    while isinstance(relation, (Copy, *FOLLOWING)):
        relation = specs[relation.of].model
    return relation if isinstance(relation, Head) and (relation.outputs, relation.over) != (("value",), "action") else None


def _control_run(recipe: Recipe, scale: Mapping[str, Any], task: Task | None, seed: int, micro: int | None) -> Run:
    """Makes the run of a controller. The run has the players of the recipe with smaller networks, because controllers have no toy class."""
    made = cut_down(replace(recipe, setting=replace(recipe.setting, **scale), study=None))
    if micro is not None:
        made = made.but(setting__micro_tokens=micro)
    world = toy_task(recipe) if task is None else task
    return Run(made, world, build_players(made, None, world, Key(7)), seed=seed)


def train_toy(recipe: Recipe, *, watch: Callable[[Run, Mapping[str, Any], Sequence[Group]], None] | None = None, **options: Any) -> Run:
    """Makes the run of `toy_run`, trains it to its last step and returns it. `watch(run, metrics, groups)` is called after each step.

    >>> from gradus import load_recipe
    >>> run = train_toy(load_recipe("grpo"), steps=3)
    >>> [row["step"] for row in run.metrics], run.players["policy"].updates
    ([0, 1, 2], 3)
    """
    run = toy_run(recipe, **options)
    run.on_step = watch
    return go(run)


def steps_of(recipe: Recipe, **options: Any) -> list[tuple[Mapping[str, Any], Sequence[Group]]]:
    """Returns the pair (metrics, groups) of every step of a toy run."""
    seen: list[tuple[Mapping[str, Any], Sequence[Group]]] = []
    train_toy(recipe, watch=lambda run, metrics, groups: seen.append((metrics, groups)), **options)
    return seen


@dataclass(frozen=True)
class PlainDescent(AdamW):
    """Plain gradient descent, w <- w - lr g, without momentum, clipping or decay. With lr = 1, the change of the weights is -g."""

    def build(self, parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.0)


def with_plain_descent(recipe: Recipe, rate: float = 1.0) -> Recipe:
    """Returns the recipe with plain gradient descent for every player that learns."""
    plain = PlainDescent(lr=rate, clip=None)
    learning = [n for n, p in recipe.players.items() if n != "policy" and p.objective is not None]
    own = ["policy"] if getattr(recipe.players.get("policy"), "optimizer", None) is not None else []
    return recipe.but(optimizer=plain, **{f"players__{n}__optimizer": plain for n in [*own, *learning]})


def weights_after(recipe: Recipe, *, steps: int = 1, rate: float = 1.0, **options: Any) -> dict[str, Tensor]:
    """Trains with plain gradient descent of learning rate `rate`. Returns the weights of every player that learns, by "PLAYER.TENSOR".

    >>> from gradus import load_recipe
    >>> sorted(weights_after(load_recipe("ppo")))
    ['critic.logits', 'critic.values', 'policy.logits', 'policy.values']
    """
    run = train_toy(with_plain_descent(recipe, rate), steps=steps, **options)
    found = {name: player.policy.network.state_dict() for name, player in run.players.items() if player.learns}
    return {f"{player}.{name}": value.clone() for player, state in found.items() for name, value in state.items()}
