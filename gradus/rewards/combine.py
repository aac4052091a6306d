"""Combines rewards: `a + b`, `a * b`, `2 * a - 1`.

A reward that does not apply to an answer is left out. If one of the rewards failed, the whole combination failed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradus.types import NOT_APPLICABLE, Failed, Frozen, Group, NotApplicable, Outcome, UserError, unknown
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.returned import check_judgements
from gradus.types.signals import Signal


class Combines:
    """The operators of rewards. `a + b`, `0.5 * a` and `a - 1` give a Sum, and `a * b` gives a Product. `parts` maps each name to its part."""

    def __add__(self, other: float | Reward) -> Sum:
        return _shifted(self, float(other)) if isinstance(other, int | float) else _sum(self, other)

    def __sub__(self, other: float | Reward) -> Sum:
        return self + (-other if isinstance(other, int | float) else _scaled(other, -1.0))

    def __mul__(self, other: float | Reward) -> Sum | Product:
        return _scaled(self, float(other)) if isinstance(other, int | float) else _product(self, other)

    def __rmul__(self, other: float) -> Sum:
        return _scaled(self, float(other))


@dataclass(frozen=True)
class Sum(Combines):
    """A reward: the constant plus the sum of weight * value over the parts that apply. The default weight is 1.

    If no part applies, the sum does not apply. The components are the values of the parts before weights and constants are applied. For
    example, `2 * Verified() - 1` gives the rewards -1 and 1, but the accuracy is still computed from `Verified`.
    """

    parts: Frozen[Reward]
    weights: Frozen[float] = Frozen()
    constant: float = 0.0  # this number is added once

    def __post_init__(self) -> None:
        _check_parts(self.parts, "sum")
        for name, weight in self.weights.items():
            if name not in self.parts:
                raise unknown("component", name, self.parts, "Weights belong to the parts of the sum")
            if not math.isfinite(weight):
                raise UserError(f"the weight of the reward {name} is {weight}; it must be a finite number")
        if not math.isfinite(self.constant):
            raise UserError(f"the constant of a sum of rewards is {self.constant}; it must be a finite number")

    @property
    def name(self) -> str:
        return "+".join(self.parts)

    @property
    def needs(self) -> tuple[Signal, ...]:
        return _needs(self.parts)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [[add(row, self.weights, self.constant) for row in rows] for rows in await _scores(self.parts, groups, signals, world)]

    def check(self, task: Task) -> None:
        _check(self.parts, task)


@dataclass(frozen=True)
class Product(Combines):
    """A reward: the product of the values of the parts that apply. If a part has only the values 0 and 1, it acts as a gate: the product is 0 if the part is
    0.
    """

    parts: Frozen[Reward]

    def __post_init__(self) -> None:
        _check_parts(self.parts, "product")

    @property
    def name(self) -> str:
        return "*".join(self.parts)

    @property
    def needs(self) -> tuple[Signal, ...]:
        return _needs(self.parts)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [[multiply(row) for row in rows] for rows in await _scores(self.parts, groups, signals, world)]

    def check(self, task: Task) -> None:
        _check(self.parts, task)


@dataclass(frozen=True)
class Lowest(Combines):
    """A reward: the lowest value of the parts that apply. An answer earns much only if all parts agree, so several reward models are harder to exploit.

    The components are the values of the parts. The parts need one scale, as reward models of one training with several seeds have.
    Reference: Coste et al., Reward Model Ensembles Help Mitigate Overoptimization, arXiv:2310.02743, worst-case optimization.
    """

    parts: Frozen[Reward]

    def __post_init__(self) -> None:
        _check_parts(self.parts, "minimum")

    @property
    def name(self) -> str:
        return "&".join(self.parts)

    @property
    def needs(self) -> tuple[Signal, ...]:
        return _needs(self.parts)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return [[lowest(row) for row in rows] for rows in await _scores(self.parts, groups, signals, world)]

    def check(self, task: Task) -> None:
        _check(self.parts, task)


def add(judged: Mapping[str, Judgement], weights: Mapping[str, float], constant: float = 0.0) -> Judgement:
    """Computes the judgement of a sum.

    The components of this judgement are the values of the parts, without weights, under the parts' names. Rewards at single actions are weighted.
    """
    values, failed = _applying(judged)
    components = named_components(judged)
    if failed or not values:
        return Judgement(failed or NOT_APPLICABLE, components, extra=_extra(judged))
    total = math.fsum([constant, *(weights.get(name, 1.0) * value for name, value in values.items())])
    steps = [(c, a, label, weights.get(name, 1.0) * value) for name in values for c, a, label, value in _steps(name, judged[name])]
    return Judgement(total, components, tuple(steps), _extra(judged))


def multiply(judged: Mapping[str, Judgement]) -> Judgement:
    """Computes the judgement of a product. A part's rewards at single actions are multiplied by the values of the other parts.

    Raises UserError if two parts give rewards at single actions, because their product would not belong to a single action.
    """
    values, failed = _applying(judged)
    components = named_components(judged)
    if failed or not values:
        return Judgement(failed or NOT_APPLICABLE, components, extra=_extra(judged))
    placed = [name for name in values if judged[name].steps]
    if len(placed) > 1:
        raise UserError(f"{' and '.join(placed)} give rewards at single actions, and such rewards cannot be multiplied; use a sum in place of the product")
    factor = math.prod(value for name, value in values.items() if name not in placed)
    steps = [(c, a, label, factor * value) for name in placed for c, a, label, value in _steps(name, judged[name])]
    return Judgement(math.prod(values.values()), components, tuple(steps), _extra(judged))


def lowest(judged: Mapping[str, Judgement]) -> Judgement:
    """Computes the judgement of a minimum. Raises UserError if a part gives rewards at single actions, because a minimum does not belong to an action."""
    values, failed = _applying(judged)
    components = named_components(judged)
    if failed or not values:
        return Judgement(failed or NOT_APPLICABLE, components, extra=_extra(judged))
    if placed := [name for name in values if judged[name].steps]:
        raise UserError(f"{placed[0]} gives rewards at single actions, which have no minimum; use a sum in place of the minimum")
    return Judgement(min(values.values()), components, extra=_extra(judged))


def named_components(judged: Mapping[str, Judgement]) -> Frozen[Outcome]:
    """Returns the value of every part under the part's name. If a part has several components, each has the name `name/component`."""
    named: dict[str, Outcome] = {}
    for name, judgement in judged.items():
        named[name] = judgement.reward
        if len(judgement.components) > 1:
            named |= {f"{name}/{inner}": value for inner, value in judgement.components.items()}
    return Frozen(named)


def _extra(judged: Mapping[str, Judgement]) -> Frozen[Any]:
    """Returns the logged values of all parts. A column that several parts log is named `name/column`."""
    columns = [column for j in judged.values() for column in j.extra]
    return Frozen({(c if columns.count(c) == 1 else f"{name}/{c}"): value for name, j in judged.items() for c, value in j.extra.items()})


def check_reward(reward: Any, task: Task) -> None:
    """Checks before training that a reward can judge this task, if the reward has a `check`. Raises the UserError of that `check`."""
    if hasattr(reward, "check"):
        reward.check(task)


def name_of(reward: Any) -> str:
    """Returns the name of a reward in a combination: its `name`, else the name of its class in lower case."""
    return str(getattr(reward, "name", type(reward).__name__.lower()))


def _applying(judged: Mapping[str, Judgement]) -> tuple[dict[str, float], Failed | None]:
    """Returns the values of the parts that apply, and the first failure. The reason of this failure names the part that failed."""
    lost = ((name, j.reward) for name, j in judged.items() if isinstance(j.reward, Failed))
    failed = next((replace(reward, reason=f"{name}: {reward.reason}") for name, reward in lost), None)
    values = {name: j.reward for name, j in judged.items() if not isinstance(j.reward, Failed | NotApplicable)}
    return values, failed


def _steps(name: str, judgement: Judgement) -> list[tuple[int, int, str, float]]:
    several = len(judgement.components) > 1
    return [(c, a, f"{name}/{inner}" if several else name, value) for c, a, inner, value in judgement.steps]


async def _scores(parts: Mapping[str, Reward], groups: Sequence[Group], signals: Signals, world: World) -> list[list[dict[str, Judgement]]]:
    """Returns, for every trajectory of every group, the judgement of each part. All parts compute their scores concurrently."""
    judged = await asyncio.gather(*(part.score(groups, signals, world) for part in parts.values()))
    for part, rows in zip(parts.values(), judged, strict=True):
        check_judgements(part, rows, groups)
    return [[dict(zip(parts, row, strict=True)) for row in zip(*(rows[g] for rows in judged), strict=True)] for g, _ in enumerate(groups)]


def _needs(parts: Mapping[str, Reward]) -> tuple[Signal, ...]:
    return tuple(dict.fromkeys(signal for part in parts.values() for signal in part.needs))


def _check(parts: Mapping[str, Reward], task: Task) -> None:
    for part in parts.values():
        check_reward(part, task)


def _check_parts(parts: Mapping[str, Reward], what: str) -> None:
    if not parts:
        raise UserError(f"a {what} of rewards needs at least one part; give parts by name, such as right=Verified()")


def _sum(a: Any, b: Any) -> Sum:
    left, right = _whole(a), _whole(b)
    parts, weights = dict(left.parts), dict(left.weights)
    for name, part in right.parts.items():
        new = free_name(name, parts)
        parts[new] = part
        if name in right.weights:
            weights[new] = right.weights[name]
    return Sum(Frozen(parts), Frozen(weights), left.constant + right.constant)


def _scaled(a: Any, factor: float) -> Sum:
    whole = _whole(a)
    return Sum(whole.parts, Frozen({name: factor * whole.weights.get(name, 1.0) for name in whole.parts}), factor * whole.constant)


def _shifted(a: Any, constant: float) -> Sum:
    whole = _whole(a)
    return replace(whole, constant=whole.constant + constant)


def _whole(a: Any) -> Sum:
    return a if isinstance(a, Sum) else Sum(Frozen({name_of(a): a}))


def _product(a: Any, b: Any) -> Product:
    parts: dict[str, Reward] = dict(a.parts) if isinstance(a, Product) else {name_of(a): a}
    for name, part in b.parts.items() if isinstance(b, Product) else [(name_of(b), b)]:
        parts[free_name(name, parts)] = part
    return Product(Frozen(parts))


def free_name(name: str, taken: Collection[str]) -> str:
    """Returns the name if it is not taken. If the name is taken, appends the smallest number, 2 or more, that makes it free."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
