"""Checks before the first step whether the recipe, the task and the model fit together. An error is a sentence with its remedy."""

from __future__ import annotations

import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from gradus.policies import registry
from gradus.policies.reading import remedy
from gradus.recipe import abilities
from gradus.recipe.abilities import check_acting
from gradus.recipe.asks import check_asks, check_plays
from gradus.recipe.core import Recipe, specs_of
from gradus.recipe.part_classes import PROTOCOLS, check_classes, check_methods, everything
from gradus.recipe.scheduled import check_schedule
from gradus.runtime.user_code import asked
from gradus.schedules.stages import Stages
from gradus.types import Key, Problem, UserError, unknown
from gradus.types.frozen import value_fields
from gradus.types.parts import Environment, Optimizer, Source, Task
from gradus.types.players import Player
from gradus.types.returned import named, of_user, remembers, shown
from gradus.types.signals import Signal, Want, needed_first

NEEDED = ("curriculum", "rollout", "reward", "selection", "schedule", "update", "setting", "players")
WITH_STATE = re.compile(r"(curriculum|rollout|selection|credit|reward|schedule|search|update)(\..*)?|players\.[^.]+\.(credit|selection)(\..*)?")
"""The places of a recipe that give state to their parts, at any depth (`gradus.training.memory`)."""


def check_fit(recipe: Recipe, task: Task, players: Mapping[str, Any] | None = None) -> None:
    """Raises UserError for the first fault: a part is missing or wrong, or the parts, the task and the players do not fit together."""
    for seam in NEEDED:
        if getattr(recipe, seam) is None:
            raise UserError(f"recipe {recipe.key} has no {seam}; set a value with --{seam}, or start from a recipe that sets {seam}")
    check_parts(recipe)
    check_task(task)
    check_plays(recipe, task)
    check_turns(recipe, task)
    for _, part in _parts(recipe, ""):
        if hasattr(part, "check_task"):  # the part checks facts that the task's fields do not hold
            part.check_task(task)
    check_learning(recipe)
    check_right(recipe)
    check_correction(recipe)
    for scheduled in check_schedule(recipe):
        check_parts(scheduled)
        check_asks(scheduled)
    if players is not None:
        check_acting(recipe, task, players)
    columns = (getattr(part, "columns", ()) for where, part in _parts(recipe, "") if not where.startswith("schedule"))  # a stage is checked on its own
    missing = sorted(recipe.requires.union(*columns) - task.provides)
    if missing:
        raise UserError(
            f"recipe {recipe.key} needs problems with {', '.join(missing)}, which task {task.name} does not provide (the task provides "
            f"{', '.join(sorted(task.provides)) or 'none'}); {_ADDED.get(missing[0], 'add them as columns')}, or choose another task"
        )
    check_reads(recipe, players)
    check_asks(recipe)
    for _, part in _parts(recipe, "") if players is not None else ():
        if hasattr(part, "check_players"):  # the part checks facts that are not among the players' abilities
            part.check_players(players)


def check_turns(recipe: Recipe, task: Task) -> None:
    """Raises UserError if the rollout cuts every episode before it can end.

    The attribute `least_turns` of an environment is the length of its shortest possible episode.
    """
    environment = recipe.environment if recipe.environment is not None else task.environment
    least, most = getattr(environment, "least_turns", 1), getattr(recipe.rollout, "max_turns", None)
    if most is not None and most < least:
        raise UserError(
            f"an episode of {type(environment).__name__} has at least {least} turns, but rollout.max_turns is {most}, so no episode would end; "
            f"set --rollout.max_turns {least} or more"
        )


_ADDED = {"transitions": "add them with dataclasses.replace(task, transitions=load_transitions(FILE), provides=...), as docs/how/control.md shows,"}
"""Required data that cannot be a column of a data file -> how the user adds it."""


def check_reads(recipe: Recipe, players: Mapping[str, Any] | None = None) -> None:
    """Raises UserError if a `Signal` or `Want` names a player that the recipe lacks, or if this player's policy cannot give the output."""
    names = {"policy", *recipe.players}
    for reader, signal in signals_of(recipe):
        if signal.player not in names:
            raise UserError(
                f'{reader} reads {type(signal).__name__} of player "{signal.player}", but recipe {recipe.key} has only the players '
                f"{', '.join(sorted(names))}; add this player to players"
            )
        if players is not None:
            _offers(players, signal.player, signal.want.needed, f"{reader} reads {type(signal).__name__} of")
    for name, spec in specs_of(recipe).items() if players is not None else ():
        for want in wants(spec.objective):
            _offers(players or {}, name, want.needed, f"the objective of {name} wants {type(want).__name__} of")


def check_parts(recipe: Recipe) -> None:
    """Raises UserError for the first part, at any depth, that does not fit its field, and if a number is NaN."""
    from gradus.objectives.terms import Term

    check_classes(recipe)
    seams = {seam: part for seam in (*PROTOCOLS, "objective", "players") if (part := getattr(recipe, seam)) is not None}
    for seam, part in seams.items():
        method, protocol = PROTOCOLS.get(seam, ("items", None))
        if lacks := _lacks(part, Optimizer) if protocol is Optimizer else None if hasattr(part, method) else method:
            raise _misplaced(part, seam, lacks)
    check_state_places(recipe)
    _check_inside(recipe, "")
    for seam, (method, protocol) in PROTOCOLS.items():
        if seam in seams:
            check_methods(seams[seam], seam, protocol, method)
    for owner, objective in objectives_of(recipe):
        for name, term in objective.items():
            _check_place(term, Term, f"{owner}.{name}")
    for name, player in recipe.players.items():
        _check_place(player, Player, f"players.{name}")


def check_state_places(recipe: Recipe) -> None:
    """Raises UserError if a part has a state, but parts in this field of the recipe get no state."""
    for where, part in everything(recipe, ""):
        if is_dataclass(part) and remembers(part) and not WITH_STATE.fullmatch(where):
            who = named(part) if of_user(part) else type(part).__name__
            raise UserError(
                f"`{where}` is {who}. This part has a state, but a part in this field gets no state; remove the part. Fields whose parts get a state: "
                "curriculum, rollout, selection, credit, reward, schedule, update, search, and the fields credit and selection of a player"
            )


def _check_inside(node: Any, where: str) -> None:
    if isinstance(node, float) and math.isnan(node):
        raise UserError(f"`{where}` is nan; set a number with --{where}")
    if isinstance(node, Stages):  # the recipe of every stage is checked separately
        return
    if isinstance(node, Mapping):
        for name, value in node.items():
            _check_inside(value, f"{where}.{name}")
    elif is_dataclass(node) and not isinstance(node, type):
        declared = _declared(type(node))
        for field in value_fields(node):
            path = f"{where}.{field.name}".lstrip(".")
            _check_place(getattr(node, field.name), declared.get(field.name, Any), path)
            _check_inside(getattr(node, field.name), path)


def _check_place(value: Any, declared: Any, where: str) -> None:
    """Checks a field whose declared type is a protocol or a class of parts. The value must have the protocol's attributes, or be an instance of the class."""
    several = typing.get_origin(declared) in (typing.Union, types.UnionType)
    choices = typing.get_args(declared) if several else (declared,)
    kinds = [c for c in choices if isinstance(c, type) and (getattr(c, "_is_protocol", False) or is_dataclass(c))]
    if not kinds or (value is None and type(None) in choices) or any(isinstance(value, c) for c in choices if c in (str, int, float)):
        return
    lacking = [_lacks(value, kind) for kind in kinds]
    if value is None:
        raise UserError(f"`{where}` is empty; set a {kinds[0].__name__} with --{where}")
    if all(lacking):
        raise _misplaced(value, where, str(lacking[0]))
    fitting = kinds[lacking.index(None)]
    if getattr(fitting, "_is_protocol", False):
        check_methods(value, where, fitting)


def _lacks(value: Any, kind: type) -> str | None:
    """Returns the reason why a value does not fit a kind; None if the value fits.

    If `kind` is a protocol, the reason is the name of an attribute that the value lacks. If `kind` is a class and the value is not an instance of the
    class, the reason is the name of the class.
    """
    if not getattr(kind, "_is_protocol", False):
        return None if isinstance(value, kind) else kind.__name__
    asked = [n for c in kind.__mro__ if getattr(c, "_is_protocol", False) for n in (*inspect.get_annotations(c), *vars(c))]
    return next((name for name in asked if not name.startswith("_") and not _has(value, name)), None)


def _has(value: Any, name: str) -> bool:
    """Whether a value has an attribute. Properties of its class are not computed, because a property may read files."""
    return inspect.getattr_static(value, name, _ABSENT) is not _ABSENT or hasattr(value, name)


_ABSENT = object()


def _misplaced(part: Any, where: str, lacks: str) -> UserError:
    given = named(part) if is_dataclass(part) and of_user(part) else type(part).__name__ if is_dataclass(part) else _called(part)
    if where == "reward" and callable(part) and not is_dataclass(part):
        return UserError(f"reward cannot be the function {given} itself; turn it into a part: gradus.rewards.functions.reward_from({given})")
    if of_user(part) and is_dataclass(part):
        return UserError(f"{where} cannot be {given}, which lacks {lacks}; add it to the class (docs/how/method.md lists the members of each part)")
    return UserError(
        f"{where} cannot be {given}, which lacks {lacks}; set a fitting part with --{where} (gradus show lists the parts of a recipe)"
    )


def _called(given: Any) -> str:
    """The name of a function, or of another value that is no part, for a message."""
    code = getattr(given, "__code__", None)
    place = f" ({Path(code.co_filename).name}, line {code.co_firstlineno})" if code is not None else ""
    return f"{getattr(given, '__name__', None) or repr(given)}{place}"


@functools.cache
def _declared(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls)
    except Exception:  # a user's class may name types that exist only for a type checker
        return {}


def check_learning(recipe: Recipe) -> None:
    """Raises UserError if a player learns but lacks a credit rule, an optimizer, or a source of groups."""
    policy = recipe.players.get("policy", Player())
    if policy.objective is not None:
        raise UserError("players.policy.objective has no effect: the policy uses the recipe's objective; set the recipe's objective with --objective")
    names = {"policy", *recipe.players}
    for owner, objective in objectives_of(recipe):
        name = "policy" if owner == "objective" else owner.split(".")[1]
        player = recipe.players.get(name, policy)
        if objective and (player.optimizer or recipe.optimizer) is None:
            raise UserError(f"{owner} trains {name}, but recipe {recipe.key} has no optimizer; set one with --optimizer AdamW")
        source = name if player.learns_from == "own" else player.learns_from
        if source not in names:
            raise unknown("player", source, names, f"In players.{name}.learns_from")
        _check_lessons(recipe, name, player, source)
        rule = player.credit or ((policy.credit or recipe.credit) if "policy" in (name, source) else None)
        if objective and rule is None:
            place = "credit" if source == "policy" else f"players.{name}.credit"
            raise UserError(f"{owner} trains {name}, but recipe {recipe.key} has no {place}; set a rule with --{place}")


def _check_lessons(recipe: Recipe, name: str, player: Player, source: str) -> None:
    """Raises UserError if a player without its own credit rule would get groups without credit.

    There are three such cases: the player has its own selection, it learns from a player that does not learn, or it learns in an earlier wave than that
    player. The player `policy` must not have its own selection.
    """
    if name == "policy" and player.selection is not None:
        raise UserError("players.policy.selection has no effect: the policy learns from the groups that the recipe's selection keeps; set --selection instead")
    if name == "policy" or player.credit is not None:
        return
    if player.selection is not None:
        raise UserError(
            f"players.{name} chooses its own groups, but no rule assigns credit to these groups; give the player a credit rule with "
            f"--players.{name}.credit, or leave players.{name}.selection out"
        )
    teacher = recipe.players.get(source, Player())
    if player.objective and source != name and not (recipe.objective if source == "policy" else teacher.objective):
        raise UserError(
            f"players.{name} learns from the groups of {source}, which does not learn, so no rule assigns credit to these groups; set a credit rule with "
            f"--players.{name}.credit"
        )
    if player.first and not teacher.first:
        raise UserError(
            f"players.{name} learns first, but the credit of the groups from {source} comes later; set a credit rule with --players.{name}.credit, "
            f"or set --players.{name}.first false"
        )


def check_right(recipe: Recipe) -> None:
    """Raises UserError if a part needs right answers, but the reward cannot mark an answer as right: it has no verifier, and its scores have no scale."""
    judging = {getattr(part, "name", None): part for _, part in _parts(recipe.reward, "reward")}
    unmarked = next((p for p in judging.values() if getattr(p, "unmarked", False)), None)
    if unmarked is None or judging.keys() & {"verified", "environment"}:
        return
    for where, part in _parts(recipe, ""):
        if instead := getattr(part, "asks_right", None):
            raise UserError(
                f"`{where}` is {type(part).__name__}, which needs to know the right answers, but {type(unmarked).__name__} gives only scores and "
                f"marks no answer as right; set --{where} {instead}, or use another reward"
            )


def _parts(node: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Gives (path, part) for every part in a node, at any depth."""
    if isinstance(node, Mapping):
        inside: Iterable[tuple[str, Any]] = node.items()
    elif isinstance(node, tuple):
        inside = ((str(i), n) for i, n in enumerate(node))
    elif is_dataclass(node) and not isinstance(node, type):
        yield where, node
        inside = ((f.name, getattr(node, f.name)) for f in value_fields(node))
    else:
        return
    for name, value in inside:
        yield from _parts(value, f"{where}.{name}".lstrip("."))


def check_correction(recipe: Recipe) -> None:
    """Raises UserError if `agreement` weights the policy's loss by ratios, but no term of the objective can be weighted in this way."""
    from gradus.objectives.corrections import correctable

    above = recipe.setting.agreement.above
    if above in ("truncate", "mask") and recipe.objective is not None and not correctable(recipe.objective):
        raise UserError(
            f"agreement.above is {above}, which corrects policy-gradient terms, but the objective of recipe {recipe.key} has no such term; set "
            "--agreement.above warn or stop"
        )


def check_task(task: Task) -> None:
    """Raises UserError if the task has a class in place of an object, or a method or function that does not accept the arguments of its calls."""
    for name, protocol in (("source", Source), ("held_out", Source), ("environment", Environment), ("verify", None), ("judge", None)):
        value = getattr(task, name)
        if isinstance(value, type):
            raise UserError(f"task {task.name}: its {name} is the class {named(value)} itself; give an instance of it: {value.__name__}()")
        if protocol is not None and value is not None and not _lacks(value, protocol):
            check_methods(value, f"{name} of task {task.name}", protocol)
    for function, due in ((task.verify, ("problem", "completion")), (task.judge, ("trajectory",))):
        if function is not None:
            _check_call(getattr(function, "call", function), f"task {task.name}: its verifier", *due)  # `call`: the function of a file


def _check_call(function: Any, who: str, *due: str) -> None:
    try:
        inspect.signature(function).bind(*due)
    except TypeError as error:
        raise UserError(f"{who} {_called(function)} cannot be called: {error}; it must take ({', '.join(due)})") from None
    except ValueError:  # a built-in function without a readable signature
        return


def check_problems(task: Task) -> None:
    """Draws the first problem for training and for evaluation. Raises UserError if there is no problem, or if the problem has no prompt."""
    for source, use in ((task.source, "training"), (task.held_out, "evaluation")):
        problem = _first(source, task, use)
        if "text" in task.showing and not (problem.text or problem.messages):
            raise UserError(f"task {task.name}: problem {problem.id} has neither text nor messages; give the problem text or messages")


def _first(source: Source, task: Task, use: str) -> Problem:
    if missing := [name for name in ("size", "draw") if not hasattr(source, name)]:
        raise UserError(f"task {task.name}: its source of problems for {use} is {source!r:.60}, which has no `{missing[0]}`; set a source with `size` and `draw`")
    if isinstance(source, type):
        raise UserError(f"task {task.name}: its source of problems for {use} is the class {named(source)} itself; give an instance of it: {source.__name__}()")
    if source.size is not None and not isinstance(source.size, int):
        raise UserError(f"task {task.name}: the size of {named(source)} is {shown(source.size)}; it must be a whole number, or None for an endless source")
    if source.size == 0:
        raise UserError(f"task {task.name} has no problems for {use}; its source must give at least one problem")
    with asked(source, "draw"):
        found = source.draw([0], task.level, Key())
    if not isinstance(found, (list, tuple)) or len(found) != 1 or not isinstance(found[0], Problem):
        raise UserError(
            f"task {task.name}: its source was asked for one problem for {use}, and gave {found!r:.60}; its source must give one Problem per index"
        )
    return found[0]


def objectives_of(recipe: Recipe) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Gives (path, objective) for every objective: first for the objective of the policy, then for the objectives of other players."""
    if recipe.objective is not None:
        yield "objective", recipe.objective
    for name, player in recipe.players.items():
        if isinstance(player, Player) and player.objective is not None:
            yield f"players.{name}.objective", player.objective


def _with_first(where: str, reader: Any) -> Iterable[Signal]:
    """The signals that a part needs, and the signals that these signals need. Raises UserError with the part's path if signals need each other."""
    try:
        return needed_first(getattr(reader, "needs", ()))
    except UserError as error:
        raise UserError(f"`{where}` is {named(reader)}, whose {error}") from None


def signals_of(recipe: Recipe) -> Iterator[tuple[str, Signal]]:
    """Gives (path of the reader, signal) for every signal that a part or another signal needs. Raises UserError if signals need each other."""
    for seam in ("reward", "credit", "selection"):
        for signal in _with_first(seam, getattr(recipe, seam)):
            yield seam, signal
    for owner, objective in objectives_of(recipe):
        for name, term in objective.items():
            for signal in _with_first(f"{owner}.{name}", term):
                yield f"{owner}.{name}", signal
    for name, player in recipe.players.items():
        for seam in ("credit", "selection"):
            for signal in _with_first(f"players.{name}.{seam}", getattr(player, seam)):
                yield f"players.{name}.{seam}", signal


def kind_of(recipe: Recipe) -> registry.Kind:
    """The kind of policy that a recipe trains. The abilities that the parts need from the player `policy` determine this kind."""
    read = [signal.want for _, signal in signals_of(recipe) if signal.player == "policy"]
    return abilities.kind_of(recipe, frozenset(a for want in (*wants(recipe.objective), *read) for a in want.needed))


def wants(objective: Any) -> tuple[Want, ...]:
    return tuple(w for term in (objective or {}).values() for w in term.wants)


def _offers(players: Mapping[str, Any], name: str, abilities: frozenset[str], who: str) -> None:
    if lacking := sorted(abilities - (can := players[name].policy.can)):
        raise UserError(f'{who} player "{name}", whose policy has no {lacking[0]}; {remedy(lacking[0], can, name, registry.offered_by(lacking[0], can))}')
