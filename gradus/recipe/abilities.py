"""Checks whether the policy can act in the task: its inputs, its actions, and the abilities that the recipe needs.

The check reads only the abilities of a policy, and never its kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gradus.policies import registry
from gradus.recipe.core import Recipe
from gradus.recipe.part_classes import everything
from gradus.rollouts.environment_calls import gate
from gradus.types import UserError
from gradus.types.parts import Task
from gradus.types.players import Player
from gradus.types.spaces import described

REMEDIES = {
    "text": "name a language model with --model",
    "image": "name a model that reads pictures with --model",
    "audio": "name a model that reads sound with --model",
    "array": "make a controller with --players.policy.model Fresh",
    "condition": "leave --model out, or name a flow generator",
}
"""Kind of input that a task shows -> how the user gets a policy that reads it."""


def check_acting(recipe: Recipe, task: Task, players: Mapping[str, Any]) -> None:
    """Raises UserError if the player `policy` cannot act in the task.

    There are four reasons: the policy cannot read the inputs, it cannot act in the action space, it lacks an ability that the rollout needs, or the rollout
    does not give a fact that the policy needs (its `asks`).
    """
    if task.environment is not None:
        gate(task.environment)  # raises for a wrong number of parallel episodes
    policy = players["policy"].policy
    reads = f"the policy reads only {', '.join(sorted(policy.reads))}"
    if unread := sorted(task.showing - policy.reads):
        ways = getattr(task.environment, "ways", None)
        other = f", or change the input with --task.show {' or '.join(w for w in ways if w not in unread)}" if ways else ""
        raise UserError(f"task {task.name} shows {', '.join(unread)}, but {reads}; {REMEDIES.get(unread[0], 'use another task')}{other}")
    if not policy.acts(task.acting):
        raise UserError(
            f"task {task.name} accepts {described(task.acting)} as an action, which this policy cannot produce ({reads}); use another model or task"
        )
    for where, part in rollouts(recipe):
        for ability in sorted(getattr(part, "opens", frozenset()) - policy.can):
            raise UserError(f"`{where}` is {type(part).__name__}, which needs a policy that offers {ability}; {registry.offered_by(ability, policy.can)}")
    given = {fact for _, part in rollouts(recipe) for fact in getattr(part, "gives", ())}
    for fact, remedy in getattr(policy, "asks", {}).items():
        if fact not in given:
            raise UserError(f"the policy of task {task.name} needs {fact}, but the rollout of recipe {recipe.key} does not give {fact}; {remedy}")


def rollouts(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    """Gives (path, part) for the rollout and for every part within it."""
    if recipe.rollout is not None:
        yield from ((path, part) for path, part in everything(recipe.rollout, "rollout") if not isinstance(part, Mapping))


def kind_of(recipe: Recipe, wanted: frozenset[str]) -> registry.Kind:
    """The kind of policy that a recipe trains. `wanted`: the abilities that its objective and signals need."""
    opens = {ability for _, part in rollouts(recipe) for ability in getattr(part, "opens", ())}
    return registry.of_recipe(recipe.players.get("policy", Player()).model, wanted | opens)
