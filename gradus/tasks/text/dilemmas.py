"""Dilemmas: whether a group would agree to a plan. Each of the four groups likes and dislikes different properties of the plan."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial

from gradus.tasks.generated import Draft, generated_task
from gradus.tasks.kinds import verify_exact
from gradus.types import Frozen, UserError
from gradus.types.parts import Task

VIEWS: Mapping[str, Mapping[str, int]] = Frozen(
    owner=Frozen(cheap=1, loud=-1, new=1, far=-1, big=1, wet=-1),
    guest=Frozen(safe=1, far=-1, green=1, loud=-1, warm=1, wet=-1),
    child=Frozen(loud=1, big=1, old=-1, far=-1, fast=1, warm=1),
    guard=Frozen(safe=1, new=1, big=-1, loud=-1, old=1, fast=-1, calm=1),
)
"""Group -> property -> 1 if the group likes it, -1 if it dislikes it. The group does not mind other properties."""
PROPERTIES = ("big", "calm", "cheap", "far", "fast", "green", "loud", "new", "old", "safe", "warm", "wet")
_SIGNS = {1: "+", -1: "-"}


def dilemmas(level: int = 2, roles: int = 0) -> Task:
    """A plan has `level` + 2 properties. A group agrees if it likes more properties of the plan than it dislikes; the question names the group whose
    view counts.

    A worked solution has one part for each of several groups; the last part is for the named group. `roles`: the number of parts, 1 to 4; 0: a random
    number.
    """
    if not 0 <= roles <= len(VIEWS):
        raise UserError(f"task dilemmas: `roles` is {roles}; give a number from 0 to {len(VIEWS)}")
    return generated_task(
        "dilemmas",
        partial(_dilemma, roles=roles),
        verify_exact,
        level=level,
        levels=(1, 5),
        max_tokens=96 + 32 * level,
        chance=1 / 2,
        about='whose view counts? "guard: loud safe new" -> "[child] loud+ so yes [guard] loud- safe+ new+ so yes =yes"; level: properties',
    )


def opinion(group: str, properties: Sequence[str]) -> str:
    """Returns "yes" if the group likes more of the properties than it dislikes, else "no".

    >>> [opinion(group, ["loud", "safe", "new"]) for group in VIEWS]
    ['no', 'no', 'yes', 'yes']
    """
    return "yes" if sum(VIEWS[group].get(p, 0) for p in properties) > 0 else "no"


def part(group: str, properties: Sequence[str]) -> str:
    """Returns the reasoning of a group: the properties that it likes (+) and dislikes (-), and its opinion."""
    minded = " ".join(f"{p}{_SIGNS[VIEWS[group][p]]}" for p in properties if p in VIEWS[group])
    return f"[{group}] {minded or 'none'} so {opinion(group, properties)}"


def _dilemma(rng: random.Random, level: int, roles: int) -> Draft:
    wanted = rng.choice(("yes", "no"))  # both answers have the same chance
    while True:
        group = rng.choice(list(VIEWS))
        properties = rng.sample(PROPERTIES, level + 2)
        if opinion(group, properties) == wanted:
            break
    others = rng.sample([g for g in VIEWS if g != group], (roles or rng.randint(1, len(VIEWS))) - 1)
    solution = " ".join(part(g, properties) for g in (*others, group)) + f" ={wanted}"
    return Draft(f"{group}: {' '.join(properties)}", wanted, solution, f"{group} {' '.join(sorted(properties))}", Frozen(category=group))
