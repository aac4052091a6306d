"""Sampling in rounds. In each round a rule reads the answers so far, and decides how many further answers each problem gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from gradus.rollouts.auto import Auto, one_each, rolled
from gradus.types import Group, Request, UserError
from gradus.types.parts import Rollout, World
from gradus.types.ranges import check_ranges
from gradus.types.returned import named, shown


class Rule(Protocol):
    """Chooses how many further answers each problem gets."""

    async def more(self, groups: Sequence[Group], requests: Sequence[Request], world: World) -> Sequence[int]:
        """Returns one number per request, at least 0. If all numbers are 0, the sampling ends.

        `groups`: one group per request, with all answers so far, including failed answers. `requests`: the requests of the step, with their counts.
        """
        ...


def still_open(right: int, wrong: int, *, least_right: int, least_wrong: int) -> bool:
    """Returns whether there are fewer than `least_right` right answers or fewer than `least_wrong` wrong answers.

    >>> [still_open(2, wrong, least_right=2, least_wrong=2) for wrong in (1, 2)]
    [True, False]
    """
    return right < least_right or wrong < least_wrong


@dataclass(frozen=True)
class UntilSignal:
    """Gives `count` further answers to every problem that has fewer than `right` right answers or fewer than `wrong` wrong answers.

    A failed answer is neither right nor wrong.
    """

    right: int = 2
    wrong: int = 2
    count: int = 8  # further answers per problem and round
    asks_right: ClassVar[str] = "UntilUnequal"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, right="[0, inf)", wrong="[0, inf)", count="[1, inf)")

    async def more(self, groups: Sequence[Group], requests: Sequence[Request], world: World) -> list[int]:
        verdicts = [[t.right for t in group.trajectories if t.failed is None] for group in groups]
        waits = (still_open(sum(row), len(row) - sum(row), least_right=self.right, least_wrong=self.wrong) for row in verdicts)
        return [self.count if open_ else 0 for open_ in waits]


@dataclass(frozen=True)
class UntilUnequal:
    """Gives `count` further answers to every problem whose answers so far have equal rewards. Failed answers do not count."""

    count: int = 8  # further answers per problem and round

    def __post_init__(self) -> None:
        check_ranges(self, count="[1, inf)")

    async def more(self, groups: Sequence[Group], requests: Sequence[Request], world: World) -> list[int]:
        values = [{t.value for t in group.trajectories if t.failed is None} for group in groups]
        return [0 if len(row) > 1 else self.count for row in values]


def half_width(deviation: float, count: int, *, alpha: float) -> float:
    """Returns t s / sqrt(n), the half width of Student's confidence interval of a mean; 0 for n below 2. Here s is the standard deviation, and n is the
    number of answers. The number t is the 1 - alpha/2 quantile of Student's distribution with n - 1 degrees of freedom.

    >>> round(half_width(0.5, 4, alpha=0.05), 4), round(half_width(0.5, 5, alpha=0.05), 4)
    (0.7956, 0.6208)
    """
    from scipy.special import stdtrit

    return float(stdtrit(count - 1, 1 - alpha / 2)) * deviation / count**0.5 if count > 1 else 0.0


def priority(deviation: float, count: int, total: int, *, alpha: float, bonus: float) -> float:
    """Returns d + bonus * sqrt(ln(1 + total) / count). The number d is the decrease of `half_width` if the problem gets one more answer; d is 0 if the count
    is below 2."""
    narrower = half_width(deviation, count, alpha=alpha) - half_width(deviation, count + 1, alpha=alpha) if count > 1 else 0.0
    return narrower + bonus * float(np.sqrt(np.log1p(total) / max(count, 1)))


@dataclass(frozen=True)
class HalfWidth:
    """Gives blocks of answers to the problems with the least certain mean reward. Ends when the step has the requested number of answers.

    A round gives at most as many blocks as there are problems. The blocks are given one after the other. Each block goes to the problem with the highest
    `priority`, and raises the `count` of this problem. The deviation of the rewards is computed from the answers before the round (unbiased; 0 for fewer than
    two answers). Failed answers have no reward, but they count in the budget.
    """

    alpha: float = 0.05  # 1 - alpha is the confidence of the interval
    bonus: float = 0.1  # weight of the term that favours problems with few answers
    block: int = 4  # answers per block

    def __post_init__(self) -> None:
        check_ranges(self, alpha="(0, 1)", bonus="[0, inf)", block="[1, inf)")

    async def more(self, groups: Sequence[Group], requests: Sequence[Request], world: World) -> list[int]:
        rewards = [[t.value for t in g.trajectories if t.failed is None] for g in groups]
        total = sum(len(g.trajectories) for g in groups)
        left = sum(r.count for r in requests) - total
        return self.divided(rewards, min(max(left, 0), self.block * len(requests)), total)

    def divided(self, rewards: Sequence[Sequence[float]], more: int, total: int) -> list[int]:
        """Divides `more` further answers among the problems: returns the number for each problem.

        `rewards`: the rewards of each problem so far. `total`: the number of answers so far.
        """
        deviations = [float(np.std(row, ddof=1)) if len(row) > 1 else 0.0 for row in rewards]
        out = [0] * len(rewards)
        while more > 0:
            at = [len(row) + n for row, n in zip(rewards, out, strict=True)]
            ranked = [priority(s, n, total, alpha=self.alpha, bonus=self.bonus) for s, n in zip(deviations, at, strict=True)]
            best, size = int(np.argmax(ranked)), min(self.block, more)
            out[best], more, total = out[best] + size, more - size, total + size
        return out


@dataclass(frozen=True)
class Allot:
    """Samples `first` answers to each problem. In each further round, samples the number of answers that `rule` returns for each problem. Ends after `rounds`
    rounds, or if `rule`
    asks for no more answers.

    All answers to a problem form one group. With `probe`, only the rule reads the answers of the first round: they stay in the group, but no update uses
    them. The random draws of an answer do not depend on its round. Metrics: allotted (answers per problem), allotted_most (the largest number of answers to
    one problem).
    """

    rule: Rule = UntilSignal()
    rollout: Rollout = Auto()
    first: int | None = None  # answers to each problem in the first round; None: as many as the curriculum asks for
    rounds: int = 4  # largest number of rounds, including the first
    probe: bool | None = None  # True: no update uses the answers of the first round; None: the attribute `probes` of the rule, or False without it

    def __post_init__(self) -> None:
        check_ranges(self, first="[1, inf)", rounds="[1, inf)")

    @property
    def test(self) -> Any:
        return getattr(self.rollout, "test", self.rollout)

    async def run(self, requests: Sequence[Request], world: World) -> list[Group]:
        """Returns one judged group per request, with its answers of all rounds in the order of sampling."""
        probe = getattr(self.rule, "probes", False) if self.probe is None else self.probe
        opened = [replace(r, count=self.first or r.count, trained=r.trained and not probe) for r in requests]
        groups = one_each(await rolled(self.rollout, opened, world), requests, self)
        used = [r.count for r in opened]
        for _ in range(1, self.rounds):
            counts = await self.rule.more(groups, requests, world)
            check_counts(self.rule, counts, requests)
            due = [i for i, count in enumerate(counts) if count]
            if not due:
                break
            asked = [replace(requests[i], count=int(counts[i]), sample=requests[i].sample + used[i]) for i in due]
            for i, more in zip(due, one_each(await rolled(self.rollout, asked, world), asked, self), strict=True):
                groups[i] = joined(groups[i], more)
                used[i] += int(counts[i])
        if requests:
            world.note("allotted", sum(used) / len(used))
            world.note("allotted_most", float(max(used)))
        return groups


def joined(group: Group, more: Group) -> Group:
    """Returns the group with the trajectories and the pool of `more` added at the end."""
    return group.but(trajectories=(*group.trajectories, *more.trajectories), pool=(*group.pool, *more.pool))


def check_counts(rule: Rule, counts: Any, requests: Sequence[Request]) -> None:
    """Raises UserError unless a rule returned one number per request, and each number is a whole number of at least 0."""
    due = f"{len(requests)} whole numbers of further answers, one per request, each 0 or more"
    numbers = list(counts) if isinstance(counts, Sequence) or hasattr(counts, "tolist") else None
    if numbers is None or len(numbers) != len(requests):
        raise UserError(f"{named(rule, 'more')} returned {shown(counts)}; it must return {due}")
    if (wrong := next((n for n in numbers if n != int(n) or n < 0), None)) is not None:
        raise UserError(f"{named(rule, 'more')} returned {wrong} as a number of answers; it must return {due}")
