"""Builds the players of a recipe: models, copies, heads and adapters. After a step, updates the moving averages and lagged copies."""

from __future__ import annotations

import asyncio
import inspect
import math
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradus.players.learner import Learner
from gradus.players.noise import norms
from gradus.policies import registry
from gradus.policies.tiny import beyond
from gradus.recipe.core import Recipe, specs_of
from gradus.runtime.memory import keep_freed_memory
from gradus.runtime.threads import use_threads
from gradus.types import Key, Problem, UserError, unknown
from gradus.types.parts import Closing, Task, Turn
from gradus.types.players import Adapter, Copy, Fresh, Gated, Head, Lagged, MovingAverage, Noisy, Steering

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


def build_players(recipe: Recipe, model: str | Path | None, task: Task, seed: Key, device: str = "cpu") -> dict[str, Learner]:
    """Builds every player of the recipe with its model, the player `policy` first. Raises UserError for relations to unknown players."""
    specs = specs_of(recipe)
    built: dict[str, Any] = {}

    def policy_of(name: str, trail: tuple[str, ...] = ()) -> Any:
        if name not in specs:
            raise unknown("player", name, specs, f"Named by the model of player {trail[-1] if trail else name}")
        if name in trail:
            raise UserError(f"the players {' -> '.join([*trail, name])} take their models from each other; give one of these players its own model")
        if name not in built:
            built[name] = make(specs[name].model, name, (*trail, name))
        return built[name]

    def make(relation: Any, name: str, trail: tuple[str, ...]) -> Any:
        if relation is None or isinstance(relation, str):
            return load_policy(relation or model, task, recipe, device)
        if isinstance(relation, Fresh):
            return fresh_controller(relation, task, seed.fold("fresh", name), recipe, device, model if name == "policy" else None)
        if isinstance(relation, Head):
            own = isinstance(relation.of, Copy)
            base = make(relation.of, name, trail) if own else policy_of(str(relation.of), trail)
            able(base, relation, name)
            form = _form(relation, base, name)
            return base.with_value_head(seed.fold("head", name), shared=not own, **form)
        if isinstance(relation, Gated):
            nested = relation.of is None or isinstance(relation.of, Adapter)
            base = able(make(relation.of, name, trail) if nested else policy_of(str(relation.of), trail).clone(), relation, name)
            form = {field: getattr(relation, field) for field in ("c", "least", "most", "mark")}
            return base.with_gate(seed.fold("gate", name), **form)
        base = make(None, name, trail) if relation.of is None else policy_of(relation.of, trail)
        if isinstance(relation, Adapter):
            form = {field: True for field in ("root", "magnitude") if getattr(relation, field)}
            return able(base, relation, name).with_adapter(relation.rank, relation.alpha, seed.fold("adapter", name), relation.bits, **form)
        if isinstance(relation, Steering):
            return able(base, relation, name).with_steering(relation.layers, relation.gate)
        if isinstance(relation, Noisy):
            refuse_no_norms(base, relation, name)
        return base.beside() if isinstance(relation, (Lagged, MovingAverage)) and hasattr(base, "beside") else base.clone()

    players = {}
    for name, spec in specs.items():
        network_policy = policy_of(name)
        if spec.objective is None and not isinstance(spec.model, Head):
            network_policy.network.requires_grad_(False)
        if spec.engine is not None:
            from gradus.policies.vllm.served import served

            moves = spec.objective is not None or not (spec.model is None or isinstance(spec.model, str))
            network_policy = served(network_policy, spec.engine, moves=moves, name=name)
        players[name] = Learner(name, spec, network_policy, spec.optimizer, recipe.setting)
    introduce(players)
    keep_freed_memory()
    use_threads(sum(p.numel() for p in players["policy"].policy.network.parameters()))
    return players


def introduce(players: Mapping[str, Learner]) -> None:
    """If a policy has the attribute `others`, gives it the policies of all players. So it can compute its divergence from them."""
    for player in players.values():
        if (others := getattr(player.policy, "others", None)) is not None:
            others.update({name: other.policy for name, other in players.items()})


def able(base: Any, relation: Any, name: str) -> Any:
    """Returns the policy. Raises UserError if it does not support a head or an adapter."""
    method = "with_value_head" if isinstance(relation, Head) else "with_adapter"
    if method not in dir(base):
        raise UserError(
            f"players.{name}.model is {type(relation).__name__}, which its base model does not support; take another base model, "
            "such as a language model, or another recipe"
        )
    return base


def refuse_no_norms(base: Any, relation: Noisy, name: str) -> None:
    """Raises UserError if the network of a policy has no RMSNorm."""
    if not norms(base.network):
        raise UserError(
            f"players.{name}.model is Noisy, which adds noise to the weights of RMSNorms, but the model of {relation.of} has no RMSNorm; take another "
            "model, such as a language model of the built-in decoder"
        )


def _form(relation: Head, base: Any, name: str) -> dict[str, Any]:
    """Returns the fields of a head that differ from a plain head. If there are such fields but the policy supports only plain heads, raises UserError.
    """
    form = {n: value for n in ("outputs", "over", "hidden", "bias") if (value := getattr(relation, n)) != getattr(Head(), n)}
    if form and not hasattr(base, "vocabulary"):
        raise UserError(f"players.{name}.model is a Head that sets {', '.join(form)}, but such a Head needs a language model; leave out {', '.join(form)}")
    return form


def fresh_controller(fresh: Fresh, task: Task, key: Key, recipe: Recipe, device: str, model: str | Path | None = None) -> Any:
    """Makes a small network for the task's environment. The folder `model` gives the weights; without a folder, the key draws them.

    Raises UserError if the environment shows text, if the task has no environment, or if the folder has no controller of this form.
    """
    from gradus.policies.controller import Controller, config_for

    environment = task.environment
    if environment is None:
        raise UserError(
            f"a player's model is Fresh, whose sizes come from an environment, but task {task.name} has no environment; take a task for "
            "controllers, such as cartpole"
        )
    (problem,) = task.source.draw([0], task.level, Key())
    config = config_for(fresh, first_turn(environment, problem).observation, task.acting)
    made = Controller.fresh(config, key, DTYPES[recipe.setting.precision], device)
    return made if model in (None, "tiny") else continued(made, model, task, recipe, device)


def continued(fresh: Any, model: str | Path | None, task: Task, recipe: Recipe, device: str) -> Any:
    """Returns the policy in the run's model folder, instead of the fresh policy.

    If the folder contains another kind of model, but another player uses this model, returns the fresh policy. Raises UserError if the folder has a
    controller of another form, or if it has another kind of model that no other player uses.
    """
    same = registry.of_folder(str(model)) is registry.of_recipe(fresh.config.fresh, frozenset())
    if not same and any(spec.model is None for spec in specs_of(recipe).values()):
        return fresh
    loaded = load_policy(model, task, recipe, device)
    if type(loaded) is not type(fresh) or loaded.config != fresh.config:
        raise UserError(
            f"players.policy.model is {fresh.config.fresh}, but the model in {model} is another kind of model or has other fields; "
            "leave out --model to start with fresh weights, or name a model with the same fields"
        )
    return loaded


def first_turn(environment: Any, problem: Problem) -> Turn:
    """Starts an episode, closes it at once and returns its first turn. The call runs in a thread with its own event loop."""

    async def seen() -> Turn:
        made: Any = environment.start(problem, Key(), None)
        episode = await made if inspect.isawaitable(made) else made
        if isinstance(episode, Closing):
            await episode.close()
        return episode.first

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, seen()).result()


def load_policy(model: str | Path | None, task: Task, recipe: Recipe, device: str) -> Any:
    """Loads the policy in a model folder. Each kind of folder has its own loader. Without a folder, returns the built-in policy of the task."""
    check_device(device)
    dtype = DTYPES.get(recipe.setting.precision)
    if dtype is None:
        raise unknown("precision", recipe.setting.precision, DTYPES, "In setting.precision")
    setting = recipe.setting
    if setting.graphs and torch.device(device).type != "cuda":
        raise UserError(f"setting.graphs captures CUDA graphs, but the device is {device}; leave setting.graphs out, or name a CUDA device with --device cuda")
    if model in (None, "tiny") and (note := beyond(task.name, task.level)) is not None:
        _tell(note)
    how = registry.Loading(dtype, device, setting.recompute, setting.graphs, setting.backward_chunks)
    return registry.load(model, task.policy, task.name, how, task.showing)


@cache
def _tell(note: str) -> None:
    """Prints a note on standard error, only once per process."""
    print(note, file=sys.stderr)


def check_device(name: str) -> None:
    """Raises UserError for a device that PyTorch does not know or cannot use."""
    try:
        kind, index = torch.device(name).type, torch.device(name).index
    except RuntimeError:
        raise UserError(f'--device is "{name}"; write cpu, cuda, or cuda:1 for the second GPU') from None
    if kind == "cpu" and index is not None:
        raise UserError(f'--device is "{name}"; write cpu, which is one device with all its cores')
    if kind == "cpu":
        return
    try:
        torch.empty(1, device=name)
    except Exception as error:  # each backend has its own classes of errors
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"--device is {name}, which PyTorch cannot use here ({reason}); use --device cpu or repair the driver") from None


def follow(players: Mapping[str, Learner], moved: Mapping[str, int], history: dict[str, list[dict[str, Any]]]) -> None:
    """After a step, updates the players that are moving averages or lagged copies of other players.

    `moved`: each player's number of updates before the step. `history`: the queued weights for lagged copies, and the float32 averages of weights narrower than
    float32. The history is part of the run's state.
    """
    for name, player in players.items():
        relation = player.spec.model
        if not isinstance(relation, (MovingAverage, Lagged)) or players[relation.of].updates == moved[relation.of]:
            continue
        # only parameters: the codes of frozen quantised weights cannot be averaged
        theirs, mine = ({n: w.detach() for n, w in p.policy.network.named_parameters()} for p in (players[relation.of], player))
        updates = players[relation.of].updates
        if isinstance(relation, MovingAverage):
            due = [n for n in range(moved[relation.of] + 1, updates + 1) if n % relation.every == 0]
            if due:
                _average(mine, theirs, math.prod(relation.decay_at(n) for n in due), history.setdefault(name, []))
            player.updates = updates
            continue
        queue = history.setdefault(name, [])
        queue.append({"updates": updates, "weights": {key: weight.clone() for key, weight in theirs.items()}})
        while queue and queue[0]["updates"] <= updates - relation.updates:
            seen = queue.pop(0)
            player.updates = seen["updates"]
            for key, weight in seen["weights"].items():
                mine[key].copy_(weight)


def _average(mine: Mapping[str, Tensor], theirs: Mapping[str, Tensor], keep: float, wide: list[dict[str, Tensor]]) -> None:
    """Computes mine <- keep * mine + (1 - keep) * theirs.

    If weights are narrower than float32, `wide` stores their averages in float32, because small changes would otherwise be lost by rounding.
    """
    narrow = {key: weight for key, weight in mine.items() if weight.dtype in (torch.bfloat16, torch.float16)}
    if narrow and not wide:
        wide.append({key: weight.float() for key, weight in narrow.items()})
    for key, weight in mine.items():
        average = wide[0][key].to(weight.device) if key in narrow else weight
        average.mul_(keep).add_(theirs[key].to(average), alpha=1 - keep)
        if key in narrow:
            wide[0][key] = average
            weight.copy_(average)
