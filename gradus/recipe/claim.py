"""A paper's claim about its method, as data in the recipe's file: `claims = (Claim(...), ...)`.

`gradus claims` prints the claims, and `gradus claims --run` measures them. A claim is not a field of the recipe, so derived recipes do not inherit
it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from gradus.types import Frozen, UserError, unknown
from gradus.types.ranges import check_ranges

BOUNDS = {
    "better_by": "the least difference",
    "at_most": "the largest ratio",
    "at_least": "the smallest ratio",
    "within": "the largest distance of the final weights",
}


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, the terms of its measurement, and the bound that the measured value must reach.

    The recipe and the arm `against` are trained on equal terms. Let m be the measure, averaged over problems:

        better_by = x   mean over seeds of m(recipe) - m(against) is at least x; at most x for x < 0
        at_most = x     geometric mean over seeds of m(recipe) / m(against) is at most x; at_least: at least x
        within = x      for all players that both arms have, no entry of the final weights differs by more than x

    Raises UserError if a term is missing, is out of range, or contradicts another term.
    """

    says: str  # the claim in one sentence
    source: str  # the place in the paper, and the numbers that are not from the paper
    against: str | None = None  # another arm, written as in `gradus compare`; None: m(against) is 0
    measure: str | None = None  # as in `gradus compare`; None: the first measure of the ground; without a ground, accuracy
    better_by: float | None = None
    at_most: float | None = None
    at_least: float | None = None
    within: float | None = None
    ground: str | None = None  # a proving ground: its task, start model, fields and budget
    task: str | None = None
    options: Mapping[str, str] = field(default_factory=Frozen)  # options of the task
    model: str | None = None  # None: the model of the ground; without a ground, the built-in model
    profile: str | None = None
    fields: Mapping[str, str] = field(default_factory=Frozen)  # changed fields in both arms
    own: Mapping[str, str] = field(default_factory=Frozen)  # changed fields in the recipe's arm only
    budget: str | None = None  # budget of one run, such as steps=40; None: the budget of the ground; without a ground, steps=20
    seeds: int = 3  # the number of seeds: 0, 1, ...
    problems: int | None = None  # held-out problems of the last evaluation; None: as in the ground; without a ground, 100 (1 for a metric)
    samples: int | None = None  # answers per problem
    script: str | None = None  # the module with a separate program for this measurement; the other terms then describe that program

    def __post_init__(self) -> None:
        for name in ("options", "fields", "own"):
            object.__setattr__(self, name, Frozen(getattr(self, name)))
        check_ranges(self, better_by="(-inf, inf)", at_most="(0, inf)", at_least="(0, inf)", within="[0, inf)")
        check_ranges(self, seeds="[1, inf)", problems="[1, inf)", samples="[1, inf)")
        for name in ("says", "source"):
            if not getattr(self, name).strip():
                raise UserError(f"Claim.{name} is empty; write {'the sentence of the paper' if name == 'says' else 'the paper and the place in it'}")
        self._check_bound()
        self._check_terms()

    def _check_bound(self) -> None:
        given = [name for name in BOUNDS if getattr(self, name) is not None]
        if len(given) != 1:
            known = ", ".join(f"{name} ({about})" for name, about in BOUNDS.items())
            raise UserError(f"{self.named} has {' and '.join(given) or 'no bound'}; give exactly one of {known}")
        if self.against is None and self.bound != "better_by":
            raise UserError(f"{self.named} has the bound `{self.bound}`, which compares with another arm; name this arm, for example with `against='grpo'`")
        if self.bound == "within" and self.measure is not None:
            raise UserError(
                f"{self.named} has the bound `within`, which compares weights, so the measure {self.measure} has no effect; leave out "
                "`within` or `measure`"
            )
        if self.bound != "within" and self.seeds < 2:
            raise UserError(f"{self.named} has only one seed, which gives no interval; set `seeds` to 2 or more")

    def _check_terms(self) -> None:
        if self.ground is not None and (self.task is not None or self.options):
            raise UserError(
                f"{self.named} names the ground {self.ground} and also a task or task options; leave out the ground, or leave out the task and "
                "the task options"
            )
        for name in ("options", "fields", "own"):
            wrong = next((f"{key}={value!r}" for key, value in getattr(self, name).items() if not isinstance(value, str)), None)
            if wrong is not None:
                raise UserError(f"{self.named} has {wrong} in {name}; write the value as text, in the form of the command line")
        if twice := sorted(self.own.keys() & self.fields.keys()):
            raise UserError(f"{self.named} sets {twice[0]} both in `fields` and in `own`; set {twice[0]} in only one of them")
        if self.against is not None and not self.against.strip():
            raise UserError(f"{self.named} has an empty `against`; name an arm, for example grpo, or leave `against` out")

    @property
    def bound(self) -> str:
        """The name of the claim's bound, such as "at_most"."""
        return next(name for name in BOUNDS if getattr(self, name) is not None)

    @property
    def value(self) -> float:
        """The value of the claim's bound."""
        return float(getattr(self, self.bound))

    @property
    def named(self) -> str:
        """The first words of the claim, as a name in messages."""
        words = self.says.split()
        return f'the claim "{" ".join(words[:8])}{" ..." if len(words) > 8 else ""}"'

    @property
    def digest(self) -> str:
        """The first 16 digits of a hash of the sentence and all terms."""
        return hashlib.sha256(json.dumps(self.stored(), sort_keys=True).encode()).hexdigest()[:16]

    def stored(self) -> dict[str, Any]:
        """The fields that differ from their defaults, as plain values."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {name: dict(value) if isinstance(value, Frozen) else value for name, value in found.items()}
        left_out: dict[str, Any] = {f.name: {} if f.default_factory is Frozen else f.default for f in fields(self)}
        return {name: value for name, value in plain.items() if value != left_out[name]}

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Claim:
        """The inverse of `stored`. Raises UserError for an unknown field."""
        known = [f.name for f in fields(cls)]
        if wrong := next((name for name in stored if name not in known), None):
            raise unknown("field", wrong, known, "Of a claim")
        return cls(**stored)


def same_weights(says: str, source: str, against: str, **terms: Any) -> Claim:
    """Returns the claim that the recipe's final weights equal the final weights of the arm `against`, after three small steps on arithmetic with one seed.

    `terms`: further fields of the claim, or other values of `within`, `task`, `fields`, `budget` and `seeds`.
    """
    small = {"prompts": "4", "group": "4", "study": "none"}
    usual: dict[str, Any] = {"within": 0.0, "task": "arithmetic", "fields": small, "budget": "steps=3", "seeds": 1}
    return Claim(says=says, source=source, against=against, **{**usual, **terms})


def reached(claim: Claim) -> str:
    """The bound of the claim as text, such as "at least +0.02"."""
    match claim.bound:
        case "better_by":
            return f"at {'least' if claim.value >= 0 else 'most'} {claim.value:+g}"
        case "within":
            return f"weights within {claim.value:g}"
        case name:
            return f"{name.replace('_', ' ')} x {claim.value:g}"
