"""Checks the values that parts return. If a value is wrong, a UserError names the class, the method, the file, the line, the value and the correct form.

The functions copy no array and read no numbers of a tensor. Tensors are checked in `gradus.objectives.returned`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradus.types.errors import UserError, unknown
from gradus.types.frozen import value_fields
from gradus.types.parts import Credited, Judgement
from gradus.types.records import SOURCES, Context, Failed, Group, NotApplicable, Problem, Request, Trajectory


def place_of(part: Any, method: str = "") -> str:
    """The file and line of a part's method, such as "p.py, line 28". If the class does not define the method, the file and line of the class. '' without a
    source file."""
    cls = part if isinstance(part, type) else type(unbound(part))
    code = getattr(inspect.unwrap(vars(cls).get(method) or (lambda: None)), "__code__", None) if method in vars(cls) else None
    if code is not None and not code.co_filename.startswith("<"):
        return f"{Path(code.co_filename).name}, line {code.co_firstlineno}"
    try:
        return f"{Path(inspect.getsourcefile(cls) or '').name}, line {inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        return ""


def named(part: Any, method: str = "") -> str:
    """The class and method of a part, with file and line: "Mine.assign (p.py, line 28)"."""
    cls = part if isinstance(part, type) else type(unbound(part))
    place = place_of(part, method)
    return f"{cls.__name__}{'.' if method else ''}{method}{f' ({place})' if place else ''}"


def of_user(part: Any) -> bool:
    """Whether a part's class comes from outside the package."""
    return type(unbound(part)).__module__.partition(".")[0] not in ("gradus", "builtins")


def own_parts(part: Any) -> Iterator[Any]:
    """Gives `part` and the parts inside it, but leaves out the parts of this package."""
    if is_dataclass(part):
        if of_user(part):
            yield part
        for field in value_fields(part):
            yield from own_parts(getattr(part, field.name))


def shown(value: Any) -> str:
    """A short description of a value: its type, the shape of an array, the length of a list, or the value itself if it is short."""
    kind = type(value).__name__
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        return f"{_a(kind)} that no code awaits"
    if hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, np.generic):
        kind = getattr(value.dtype, "name", str(value.dtype).removeprefix("torch."))  # a NumPy dtype has a name
        return f"{_a(kind)} {'tensor' if hasattr(value, 'requires_grad') else 'array'} of shape {list(value.shape)}"
    if isinstance(value, (list, tuple, Mapping)):
        return f"{_a(kind)} of {len(value)}"
    if isinstance(value, (bool, int, float, str)):
        return f"{_a(kind)} ({value!r:.30})"
    return _a(kind)


def _a(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def wrong(part: Any, method: str, got: str, due: str) -> UserError:
    """Returns the error for a returned value `got` that does not have the form `due`."""
    return UserError(f"{named(part, method)} returned {got}; it must return {due}")


def check_list(part: Any, method: str, value: Any, kind: type, due: str) -> None:
    """Raises UserError unless the value is a list or tuple that contains only objects of `kind`."""
    if not isinstance(value, (list, tuple)):
        raise wrong(part, method, shown(value), due)
    for item in value:
        if not isinstance(item, kind):
            raise wrong(part, method, f"{shown(value)} with {shown(item)} in it", due)


def check_drawn(source: Any, value: Any, indices: Sequence[int]) -> None:
    """Raises UserError unless a source returned one Problem per index, and different indices have problems with different ids."""
    due = "a list of Problem, one for each requested index"
    check_list(source, "draw", value, Problem, due)
    if len(value) != len(indices):
        raise wrong(source, "draw", f"{len(value)} problems for {len(indices)} indices", due)
    known: dict[str, int] = {}
    for problem, index in zip(value, indices, strict=True):
        if known.setdefault(problem.id, index) != index:
            got = f"problem {problem.id} for index {known[problem.id]} and for index {index}"
            raise wrong(source, "draw", got, "a problem with its own id for each index; equal ids draw equal answers")


def check_requests(part: Any, value: Any, source: Any, count: int, world: Any) -> None:
    """Raises UserError unless a curriculum returned valid requests. An empty list is valid only for a curriculum with a state."""
    due = "a list of Request, as in [Request(problem, count=world.group) for problem in problems]"
    check_list(part, "choose", value, Request, due)
    if not value and count and not remembers(unbound(part)):
        raise wrong(part, "choose", f"no requests for {count} problems", due)
    players = getattr(world, "players", None)
    for request in value:
        if not isinstance(request.problem, Problem):
            raise wrong(part, "choose", f"a Request for {shown(request.problem)}", "requests for the problems that source.draw gives")
        if not isinstance(request.count, int) or request.count < 1:
            raise wrong(part, "choose", f"a Request with count {request.count!r}", "requests for 1 or more samples")
        if players is not None and request.player not in players:
            raise unknown("player", request.player, players, f"{named(part, 'choose')} requests samples of this player; add the player to players")


def check_groups(part: Any, value: Any, requests: Sequence[Request], world: Any) -> None:
    """Raises UserError unless a rollout returned judged groups of complete trajectories, and each trajectory only once.

    An empty list is valid only if the rollout, or a part inside the rollout, has a state.
    """
    check_list(part, "run", value, Group, "a list of Group, as `await world.judge(groups)` gives it")
    if requests and not value and not remembers_within(part):
        raise wrong(part, "run", f"no groups for {len(requests)} requests", "one group or more")
    players, keys, seen = getattr(world, "players", None), set[str](), set[str]()
    for group in value:
        if group.key in keys:
            raise wrong(part, "run", f"two groups with the key {group.key}", "each group once, with its own key")
        keys.add(group.key)
        if not isinstance(group.trajectories, tuple) or not group.trajectories:
            raise wrong(part, "run", f"group {group.key} with {shown(group.trajectories)} as trajectories", "groups with a tuple of 1 or more Trajectory objects")
        for t in group.trajectories:
            if not isinstance(t, Trajectory):
                raise wrong(part, "run", f"group {group.key} with {shown(t)} among its trajectories", "groups of Trajectory")
            if t.id in seen:
                raise wrong(part, "run", f"trajectory {t.id} twice", "every trajectory once, with its own id; an equal id would count it twice")
            seen.add(t.id)
            if fault := _fault(t, players):
                raise UserError(f"{named(part, 'run')} returned trajectory {t.id} {fault}")


def _fault(t: Trajectory, players: Mapping[str, Any] | None) -> str | None:
    """The fault of a trajectory and its remedy; None without a fault."""
    if t.reward is None:
        return "without a reward; it must return judged groups: await world.judge(groups)"
    if not _is_outcome(t.reward):
        return f"with {shown(t.reward)} as its reward; it must be a float, a Failed or NOT_APPLICABLE"
    if t.source not in SOURCES:
        return f'with the source "{t.source}"; it must be one of {", ".join(SOURCES)}'
    if players is not None and t.player not in players:
        return f'of player "{t.player}", which the recipe does not have; it must be one of {", ".join(players)}'
    if not _is_number(t.weight):
        return f"with {shown(t.weight)} as its weight; it must be a number"
    if not isinstance(t.contexts, tuple) or not all(isinstance(c, Context) for c in t.contexts):
        return f"with {shown(t.contexts)} as its contexts; it must have a tuple of Context, as world.sample gives them"
    return next((fault for c in t.contexts if (fault := _context_fault(c))), None)


def _context_fault(c: Context) -> str | None:
    if c.chosen.shape != c.tokens.shape or c.tokens.ndim != 1:
        return f"with tokens of shape {list(c.tokens.shape)} and chosen of shape {list(c.chosen.shape)}; it must have one `chosen` per token"
    rows = {"logprobs": c.logprobs, "versions": c.versions, **c.streams}
    for name, row in rows.items():
        if row is not None and len(row) != c.actions:
            return f"with {len(row)} {name} for {c.actions} actions; it must have one per chosen token"
    if any(not 0 <= action < c.actions for action, _, _ in c.rewards):
        return f"with a reward at an action that does not exist; it must name actions from 0 to {c.actions - 1} of its context"
    return None


def check_judgements(part: Any, value: Any, groups: Sequence[Group], signals: Any = None, world: Any = None) -> None:
    """Raises UserError unless a reward returned a valid Judgement for every trajectory of every group."""
    due = "one list per group, with one Judgement per trajectory"
    _check_rows(part, "score", value, groups, Judgement, due)
    for group, row in zip(groups, value, strict=True):
        for t, judgement in zip(group.trajectories, row, strict=True):
            if fault := _judgement_fault(judgement, t):
                raise UserError(f"{named(part, 'score')} returned a Judgement for trajectory {t.id} with {fault}")


def _judgement_fault(judgement: Judgement, t: Trajectory) -> str | None:
    number = "it must be a float, a Failed or NOT_APPLICABLE"
    if not _is_outcome(judgement.reward):
        return f"{shown(judgement.reward)} as reward; {number}"
    if not isinstance(judgement.components, Mapping):
        return f"{shown(judgement.components)} as components; it must be a mapping of names to rewards"
    for name, outcome in judgement.components.items():
        if not _is_outcome(outcome):
            return f"{shown(outcome)} as component {name}; {number}"
    for step in judgement.steps:
        if not isinstance(step, tuple) or len(step) != 4 or not _is_number(step[3]):
            return f"{shown(step)} among its steps; it must be (context, action, component, value)"
        if not (0 <= step[0] < len(t.contexts) and 0 <= step[1] < t.contexts[step[0]].actions):
            return f"a step at action {step[1]} of context {step[0]}, which does not exist; it must name an existing action, counted from 0"
    return None


def check_kept(part: Any, value: Any, groups: Sequence[Group], key: Any) -> None:
    """Raises UserError unless a selection returned (kept groups, dropped groups). No trajectory may be kept twice, and no trajectory may be both kept and
    dropped."""
    due = "two lists of Group: (kept, dropped)"
    if not isinstance(value, tuple) or len(value) != 2:
        raise wrong(part, "keep", shown(value), due)
    for groups_ in value:
        check_list(part, "keep", groups_, Group, due)
    kept = [t.id for g in value[0] for t in g.trajectories]
    dropped = {t.id for g in value[1] for t in g.trajectories}
    once = set(kept)
    if len(once) != len(kept):
        twice = next(name for name in kept if kept.count(name) > 1)
        raise wrong(part, "keep", f"trajectory {twice} twice among the kept", "every trajectory once, because a second copy would count it twice")
    if both := next((name for name in kept if name in dropped), None):
        raise wrong(part, "keep", f"trajectory {both} as kept and as dropped", "every trajectory in one of the two lists")


def assigned(rule: Any, groups: Sequence[Group], signals: Any) -> list[list[Credited]]:
    """Returns the credit that an inner rule of a credit rule assigns, and checks it with `check_credited`."""
    rows: list[list[Credited]] = rule.assign(groups, signals)
    check_credited(rule, rows, groups)
    return rows


def check_credited(part: Any, value: Any, groups: Sequence[Group], signals: Any = None) -> None:
    """Raises UserError unless a credit rule returned float arrays with one row per action, and weights that are finite and at least 0."""
    due = "one list per group, with one Credited per trajectory (gradus.credit.groups.spread makes them from one number per trajectory)"
    _check_rows(part, "assign", value, groups, Credited, due)
    for group, row in zip(groups, value, strict=True):
        for t, credited in zip(group.trajectories, row, strict=True):
            for name, array in (("advantages", credited.advantages), ("returns", credited.returns), ("weights", credited.weights)):
                if array is None and name != "advantages":
                    continue
                several = name == "returns" and getattr(array, "ndim", 1) == 2
                shape = array.shape[:1] if several else getattr(array, "shape", None)
                if not (isinstance(array, np.ndarray) and array.dtype.kind == "f" and shape == (t.actions,)):
                    floats = f"a float array of shape [{t.actions}], one number per action: np.full(t.actions, 0.5)"
                    raise wrong(part, "assign", f"{shown(array)} as {name} of trajectory {t.id}", floats)
            if credited.weights is not None and not (np.isfinite(credited.weights).all() and (credited.weights >= 0).all()):
                raise wrong(part, "assign", f"weights of trajectory {t.id} with {credited.weights.min():g}", "weights that are finite and at least 0")


def check_rounds(part: Any, value: Any, kept: Sequence[Group], key: Any) -> None:
    """Raises UserError unless a selection returned an iterable for its rounds. The rounds themselves are not read here."""
    if isinstance(value, (str, Mapping)) or not hasattr(value, "__iter__"):
        raise wrong(part, "rounds", shown(value), "the rounds one by one, each as a list of Group")


def check_turn(part: Any, value: Any, now: Any, recipe: Any) -> None:
    """Raises UserError unless a schedule returned (the recipe of a step, a tuple of events)."""
    due = "(recipe, events): the given recipe or recipe.but(...), and a tuple of events, which may be empty"
    if not isinstance(value, tuple) or len(value) != 2:
        raise wrong(part, "at", shown(value), due)
    if not isinstance(value[0], type(recipe)):
        raise wrong(part, "at", f"{shown(value[0])} as recipe", due)
    if not isinstance(value[1], tuple):
        raise wrong(part, "at", f"{shown(value[1])} as events", due)


def _check_rows(part: Any, method: str, value: Any, groups: Sequence[Group], kind: type, due: str) -> None:
    """Raises UserError unless the value has one list per group, and each list has one object of `kind` per trajectory."""
    if not isinstance(value, (list, tuple)):
        raise wrong(part, method, shown(value), due)
    if len(value) != len(groups):
        raise wrong(part, method, f"a list of {len(value)} for {len(groups)} groups", due)
    for group, row in zip(groups, value, strict=True):
        check_list(part, method, row, kind, due)
        if len(row) != len(group.trajectories):
            raise wrong(part, method, f"{len(row)} of {kind.__name__} for {len(group.trajectories)} trajectories of group {group.key}", due)


def check_numbers(part: Any, method: str, value: Any) -> None:
    """Raises UserError unless the value maps names to numbers, or to None for a missing number."""
    due = "a mapping of names to numbers"
    if not isinstance(value, Mapping):
        raise wrong(part, method, shown(value), due)
    for name, number in value.items():
        if not isinstance(name, str) or not (number is None or _is_number(number)):
            raise wrong(part, method, f"{shown(number)} under {name!r:.40}", f"{due}: float(...) makes a number")


def check_state(part: Any, method: str, state: Any, where: str = "state") -> None:
    """Raises UserError if the state cannot be stored.

    A state may contain numbers, text, lists, mappings with text keys, arrays and tensors.
    """
    if state is None or isinstance(state, (bool, int, float, str, np.generic)) or hasattr(state, "requires_grad"):
        return
    if isinstance(state, np.ndarray) and state.dtype.kind in "biuf":
        return
    if isinstance(state, Mapping):
        for key, value in state.items():
            if not isinstance(key, str):
                raise wrong(part, method, f"a {where} with the key {key!r:.40}", "a state with text keys")
            check_state(part, method, value, f"{where}.{key}")
    elif isinstance(state, (list, tuple)):
        for i, value in enumerate(state):
            check_state(part, method, value, f"{where}.{i}")
    else:
        raise wrong(part, method, f"{shown(state)} as {where}", "a state of numbers, text, lists, mappings, arrays and tensors, which can be stored")


def check_learned(part: Any, state: Any, before: Any) -> None:
    """Raises UserError unless `learn` returned a state. None means that `learn` lacks a `return`."""
    if state is None and before is not None:
        raise wrong(part, "learn", "None", "the state, changed or unchanged")
    check_state(part, "learn", state)


def remembers(part: Any) -> bool:
    """Whether a part has a state: the part has a method `start` without arguments. (The `start` of an environment takes a problem.)"""
    start = getattr(part, "start", None)
    own = getattr(start, "__func__", None)
    return callable(start) and not isinstance(part, type) and len(_parameters(own or start)) == int(own is not None)


def remembers_within(part: Any) -> bool:
    """Whether a part, or a part within it, has a state."""
    part = unbound(part)
    return remembers(part) or (is_dataclass(part) and any(remembers_within(getattr(part, f.name)) for f in value_fields(part)))


def unbound(part: Any) -> Any:
    """The part inside a `gradus.training.memory.Bound`, which keeps the part's state. Any other part is returned as it is."""
    return vars(part).get("unbound", part) if hasattr(part, "__dict__") else part


def takes_state(part: Any, name: str) -> bool:
    """Whether a method of a stateful part takes the state as the last argument and returns it as the last value.

    The answer is True for the methods in `RETURNED`, and for methods with the last parameter `state`.
    """
    if name.startswith("_") or not inspect.isfunction(inspect.getattr_static(part, name, None)):
        return False
    return name in RETURNED or _parameters(getattr(type(part), name))[-1:] == ("state",)


@functools.cache
def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # a built-in function without a readable signature
        return ("unknown", "unknown")


def without_state(part: Any, method: str, value: Any) -> tuple[Any, Any]:
    """Splits the value of a stateful part into (result, state). Raises UserError if the state is missing."""
    names = RETURNED[method][1] if method in RETURNED else ("value",)
    if not isinstance(value, tuple) or len(value) != len(names) + 1:
        raise wrong(part, method, shown(value), f"({', '.join((*names, 'state'))}), because the part has `start`, so it has a state")
    *values, state = value
    check_state(part, method, state)
    return (values[0] if len(values) == 1 else tuple(values)), state


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _is_outcome(value: Any) -> bool:
    return _is_number(value) or isinstance(value, (Failed, NotApplicable))


RETURNED: Mapping[str, tuple[Callable[..., None], tuple[str, ...]]] = {
    "choose": (check_requests, ("requests",)),
    "run": (check_groups, ("groups",)),
    "keep": (check_kept, ("kept", "dropped")),
    "rounds": (check_rounds, ("rounds",)),
    "assign": (check_credited, ("credits",)),
    "score": (check_judgements, ("judgements",)),
    "at": (check_turn, ("recipe", "events")),
}
"""Method of a seam -> (the function that checks its value, the names of the elements of its value).

The function gets the part, the value and the method's arguments.
"""
