"""A curriculum with fewer and shorter episodes for problems that the policy already solves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from gradus.curricula.rates import answered
from gradus.curricula.shuffled_epochs import problems_at, sweep_order
from gradus.types import Frozen, Group, Request, UserError
from gradus.types.parts import Source, World
from gradus.types.ranges import check_ranges


def next_count(count: int, rate: float, *, easy_above: float, step: int, least: int, most: int) -> int:
    """Returns the number of episodes at the next visit of a problem. If `rate` is above `easy_above`, the result is the last number minus `step`, but at
    least `least`. Otherwise the result is `most`.

    >>> next_count(8, 0.7, easy_above=0.6, step=1, least=2, most=8), next_count(5, 0.3, easy_above=0.6, step=1, least=2, most=8)
    (7, 8)
    """
    return max(least, count - step) if rate > easy_above else most


@dataclass(frozen=True)
class Paced:
    """Requests the problems of `ShuffledEpochs`. Each problem has its own number of episodes and its own limit of turns. Both depend on the earlier successes
    at this problem.

    A new problem gets `most` episodes. The success rate of a problem is the weighted share of successes among all its episodes so far. The weight of a visit
    (a step with this problem) is `keep` times the weight of the next visit. If the rate is above `easy_above`, the next visit has `step` episodes fewer than
    this visit, but at least `least`. Otherwise the next visit has `most` episodes. The limit of turns is the length of the longest success so far; without a
    success, the rollout's limit applies.
    Given and replayed trajectories do not count.

    The metric `rollouts` is the mean number of episodes per problem, and `turn_limit` the mean limit of the problems that have one.
    Reference: Li et al., Efficient Multi-turn RL for GUI Agents via Decoupled Training and Adaptive Data Curation, arXiv:2509.23866.
    """

    most: int = 8  # episodes of a problem that is not easy
    least: int = 2
    easy_above: float = 0.6
    step: int = 1
    keep: float = 0.5  # weight of an earlier visit relative to the next one; 1: all visits count equally; 0: only the last visit counts
    pool: int | None = 64  # number of problems that are taken from an endless source; None: every problem is new
    asks: ClassVar[Frozen[str]] = Frozen({"turns": "--rollout Episodes"})
    asks_right: ClassVar[str] = "ShuffledEpochs"  # the part to use instead if no episode is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, most="[1, inf)", least="[1, inf)", easy_above="[0, 1]", step="[0, inf)", keep="[0, 1]", pool="[1, inf)")
        if self.least > self.most:
            raise UserError(f"Paced.least is {self.least}, which is above Paced.most ({self.most}); set `least` to {self.most} or less")

    def start(self) -> dict[str, Any]:
        return {"drawn": 0, "problems": {}}

    def choose(self, source: Source, count: int, world: World, state: dict[str, Any]) -> tuple[list[Request], dict[str, Any]]:
        """Returns `count` requests. The state has, for each problem, its weighted right and wrong episodes, its next number of episodes, and its limit."""
        first, size = state["drawn"], self.pool if source.size is None else source.size
        problems = problems_at(source, sweep_order(size, range(first, first + count), world.seed), world)
        known = [state["problems"].get(p.id, {"count": self.most, "longest": None}) for p in problems]
        for one in known:
            world.note("rollouts", one["count"])
            if one["longest"] is not None:
                world.note("turn_limit", one["longest"])
        requests = [Request(p, count=one["count"], turns=one["longest"]) for p, one in zip(problems, known, strict=True)]
        return requests, {**state, "drawn": first + count}

    def learn(self, groups: Sequence[Group], dropped: Sequence[Group], world: World, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the state after a step: the episodes of its problems are counted."""
        everything = (*groups, *dropped)
        longest = longest_success(everything)
        problems = dict(state["problems"])
        for name, found in answered(everything).items():
            before = problems.get(name, {"right": 0.0, "wrong": 0.0, "count": self.most, "longest": None})
            right, wrong = (self.keep * before[kind] + float(n) for kind, n in zip(("right", "wrong"), found, strict=True))
            lengths = [n for n in (before["longest"], longest.get(name)) if n is not None]
            rate = right / (right + wrong)
            count = next_count(before["count"], rate, easy_above=self.easy_above, step=self.step, least=self.least, most=self.most)
            problems[name] = {"right": right, "wrong": wrong, "count": count, "longest": max(lengths, default=None)}
        return {**state, "problems": problems}


def longest_success(groups: Sequence[Group]) -> dict[str, int]:
    """Maps every problem with a success of the policy to the number of turns of its longest success."""
    found: dict[str, int] = {}
    for t in (t for group in groups for t in group.trajectories):
        if t.right and t.source == "policy" and "turns" in t.links:
            found[t.problem.id] = max(found.get(t.problem.id, 0), int(t.links["turns"]))
    return found
