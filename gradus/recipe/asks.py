"""Checks before a run whether each part gets the abilities that it needs from other parts.

A part declares its needs on its class. A part without needs fits every part.

`ratios`, `not_ratios`: the classes of ratio that a trust region or weight supports, or does not support.
`against`: for a ratio, the policy in its denominator ("old", "behaviour"); for a weight, the ratios that it supports.
`asks`: a mapping from each ability that another part of the recipe must give, to a remedy; `gives`: the abilities that a part gives.
`plays`: the tasks that a rollout or credit rule supports, "answers" (tasks of one turn) or "episodes" (tasks with an environment).
`names_players`: the fields that contain names of players, as text, as a tuple, or as the values of a mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Any

from gradus.recipe.core import Recipe
from gradus.recipe.part_classes import everything
from gradus.types import UserError, unknown
from gradus.types.parts import Task
from gradus.types.players import Player
from gradus.types.returned import named, of_user


def check_asks(recipe: Recipe) -> None:
    """Raises UserError for the first part with a need that no other part of the recipe meets."""
    _check_given(recipe)
    _check_players(recipe)
    for where, term in _parts(recipe, ""):
        if hasattr(term, "trust"):
            _check_ratios(where, term)


def check_plays(recipe: Recipe, task: Task) -> None:
    """Raises UserError if a part needs tasks of one turn and the task has an environment, or the reverse."""
    kind = "answers" if task.environment is None else "episodes"
    for where, part in (*_parts(recipe.rollout, "rollout"), *_parts(recipe.credit, "credit")):
        plays = getattr(part, "plays", kind)
        if plays != kind:
            lacks = f'but task "{task.name}" has no environment; use a task of many turns, such as frozen_lake'
            has = f'but task "{task.name}" is played in an environment; set --{where} Episodes, or use a task of one turn'
            raise UserError(f"`{where}` is {_called(part)}, which is for {_KINDS[plays]}, {lacks if kind == 'answers' else has}")


_KINDS = {"answers": "tasks of one turn", "episodes": "tasks with an environment"}


def _check_given(recipe: Recipe) -> None:
    shared = [recipe.curriculum, recipe.rollout, recipe.environment, recipe.reward, recipe.selection, recipe.update]
    readers: list[tuple[str, Any, Any]] = [(seam, getattr(recipe, seam), recipe.credit) for seam in ("rollout", "reward", "selection", "credit", "update")]
    policy = recipe.players.get("policy", Player())
    readers.append(("objective", recipe.objective, policy.credit or recipe.credit))
    for name, player in recipe.players.items():
        rule = player.credit or recipe.credit
        readers += [(f"players.{name}.objective", player.objective, rule), (f"players.{name}.credit", player.credit, rule)]
    for start, reader, rule in readers:
        given = {fact for part in (*shared, rule) for _, inner in _parts(part, "") for fact in getattr(inner, "gives", ())}
        for where, part in _parts(reader, start):
            for fact, remedy in getattr(part, "asks", {}).items():
                if fact not in given:
                    raise UserError(f"`{where}` is {_called(part)}, which needs {fact}, but no other part of the recipe gives {fact}; set {remedy}")


def _check_players(recipe: Recipe) -> None:
    players = {"policy", *recipe.players}
    for where, part in _parts(recipe, ""):
        for field in getattr(part, "names_players", ()):
            value = getattr(part, field)
            for name in () if value is None else (value,) if isinstance(value, str) else value.values() if isinstance(value, Mapping) else value:
                if name not in players:
                    raise unknown("player", name, players, f"{where}.{field} of {_called(part)} names it; add it to players")


def _check_ratios(where: str, term: Any) -> None:
    """Raises UserError if a trust region or weight does not support the term's ratio. A term without the field `ratio` is the ratio itself."""
    ratio = getattr(term, "ratio", term)
    against = getattr(ratio, "against", None)
    for field in ("trust", "weight"):
        part = getattr(term, field, None)
        only, never = (tuple(getattr(part, name, ())) for name in ("ratios", "not_ratios"))
        beside = getattr(part, "against", against) if field == "weight" else against
        who = f"`{where}.{field}` is {_called(part)}, which"
        if only and not isinstance(ratio, only):
            raise UserError(f"{who} supports only {_listed(only)}, but the ratio is {_called(ratio)}; set --{where}.ratio {only[0].__name__}")
        if isinstance(ratio, never):
            raise UserError(f"{who} does not support the ratio {_called(ratio)}; set another --{where}.ratio, or another --{where}.{field}")
        if against is not None and beside != against:
            remedy = f"set --{where}.weight none, or --{where}.ratio.against {beside}"
            raise UserError(f"{who} supports only a ratio with against={beside!r}, but {_called(ratio)} has against={against!r}; {remedy}")
    if against == "behaviour" and getattr(term, "source", "policy") == "expert":
        raise UserError(
            f"{where}.ratio needs log-probabilities of sampled answers, but the answers of the source `expert` are not sampled; set --{where}.ratio "
            f"Probability"
        )


def _parts(node: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Gives (path, part) for every part in the node. If the node itself is a part, gives this part, too."""
    if node is not None:
        yield from ((path, part) for path, part in (*everything(node, where), *(() if where else [("", node)])) if is_dataclass(part))


def _listed(classes: Iterable[type]) -> str:
    return " and ".join(cls.__name__ for cls in classes)


def _called(part: Any) -> str:
    return named(part) if of_user(part) else type(part).__name__
