"""Adds up several rewards that the user names in a command or lists in Python."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradus.rewards.combine import Sum, free_name, name_of
from gradus.rewards.functions import reward_from
from gradus.types import Frozen, UserError
from gradus.types.parts import Reward

_NAMED = re.compile(r"([A-Za-z_][\w-]*)=(.+)", re.DOTALL)


@dataclass(frozen=True)
class Term:
    """One term of a sum of rewards, before its reward is made. `what` is a function, a part or text."""

    what: Any
    weight: float = 1.0
    name: str | None = None  # the name of its component; None: the reward's own name


def terms_of(given: Any) -> list[Term]:
    """Returns the terms of a reward that a user gives as text, as an object or as a list.

    A text has the form `[NAME=]FILE.py:FUNCTION[*WEIGHT]`. A pair (reward, weight) sets the weight. A list or tuple of texts, rewards and pairs has several
    terms.
    Raises UserError for an empty list or a weight that is not finite.
    """
    several = list(given) if isinstance(given, list) or (isinstance(given, tuple) and not _is_pair(given)) else [given]
    if not several:
        raise UserError("the list of rewards is empty; give at least one reward, or leave the list out to use the reward of the recipe")
    return [_term(one) for one in several]


def reward_of(given: Any, make: Callable[[Any], Reward] = reward_from) -> Reward:
    """Makes the sum of the terms that a user gives (see `terms_of`). A single term without name and weight is returned as the reward itself.

    The function `make` makes the reward of one term.
    """
    return total([(term, make(term.what)) for term in terms_of(given)])


def total(made: Sequence[tuple[Term, Reward]]) -> Reward:
    """Makes the weighted sum of rewards. Each reward is a component under its name. Raises UserError for a name that is given twice."""
    if len(made) == 1 and made[0][0].name is None and made[0][0].weight == 1.0:
        return made[0][1]
    given = [term.name for term, _ in made if term.name is not None]
    if twice := next((name for name in given if given.count(name) > 1), None):
        raise UserError(f'two rewards have the name "{twice}"; give each reward its own name, for example first=FILE.py:FUNCTION')
    parts: dict[str, Reward] = {}
    weights: dict[str, float] = {}
    for term, reward in made:
        name = term.name or free_name(name_of(reward), {*parts, *given})
        parts[name], weights[name] = reward, term.weight
    return Sum(Frozen(parts), Frozen({name: weight for name, weight in weights.items() if weight != 1.0}))


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], int | float) and not isinstance(given[1], bool)


def _term(one: Any) -> Term:
    term = Term(one[0], float(one[1])) if _is_pair(one) else Term(one)
    if isinstance(term.what, str):
        term = _of_text(term.what, term.weight)
    if not math.isfinite(term.weight):
        raise UserError(f"the weight of the reward {term.what} is {term.weight}; it must be a finite number")
    return term


def _of_text(text: str, weight: float) -> Term:
    """Reads a term from `[NAME=]REWARD[*WEIGHT]`. If the whole text is the name of a file or folder, the text is not split."""
    if Path(text).exists():
        return Term(text, weight)
    what, star, factor = text.rpartition("*")
    try:
        what, weight = (what, weight * float(factor)) if star else (text, weight)
    except ValueError:
        what = text
    match = None if Path(what.rpartition(":")[0] or what).exists() else _NAMED.fullmatch(what)
    return Term(match[2], weight, match[1]) if match else Term(what, weight)
