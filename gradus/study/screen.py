"""Screening measures the pass rate of a policy on each problem of a source once, and keeps the problems whose pass rate is in a band."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradus.study.summary import mean
from gradus.types import Group, Problem, Request, UserError, without_aside
from gradus.types.ranges import check_ranges
from gradus.types.returned import check_drawn

_AT_ONCE = 1024  # number of samples that are requested at a time


@dataclass(frozen=True)
class Screened:
    """Keeps the problems whose pass rate, the share of right answers among `samples`, lies in [`low`, `high`].

    An answer without a reward counts as wrong. The first problems of the source are measured. The source belongs to the stage, or to the command's
    task.
    """

    low: float = 0.1
    high: float = 0.9
    samples: int = 8  # number of answers per problem, at the temperature of training
    problems: int = 256  # number of problems that are measured, at most the size of the source

    def __post_init__(self) -> None:
        check_ranges(self, low="[0, 1]", high="[0, 1]", samples="[1, inf)", problems="[1, inf)")
        if self.low > self.high:
            raise UserError(f"Screened.low is {self.low}, which is above Screened.high ({self.high}); set `low` to {self.high} or less")

    def keeps(self, rate: float) -> bool:
        """Whether a problem with this pass rate is kept."""
        return self.low <= rate <= self.high


@dataclass(frozen=True)
class Measured:
    """The problems of a screening with their pass rates, in the order of the source."""

    rates: tuple[tuple[Problem, float], ...]

    def kept(self, screen: Screened) -> list[Mapping[str, Any]]:
        """Returns a row per kept problem: the problem and its `pass_rate`."""
        return [{"problem": problem, "pass_rate": rate} for problem, rate in self.rates if screen.keeps(rate)]

    def numbers(self, screen: Screened) -> dict[str, float | None]:
        """Returns the numbers of problems, and the mean pass rate.

        `screen/problems`: number of measured problems. `screen/kept`: number of problems in the band. `screen/solved`: number of problems with pass rate 1.
        `screen/unsolved`: number of problems with pass rate 0. `screen/pass_rate`: the mean pass rate.
        """
        rates = [rate for _, rate in self.rates]
        kept = sum(map(screen.keeps, rates))
        counts = {"problems": len(rates), "kept": kept, "solved": rates.count(1.0), "unsolved": rates.count(0.0)}
        return {**{f"screen/{name}": count for name, count in counts.items()}, "screen/pass_rate": mean(rates)}

    def told(self, screen: Screened) -> str:
        """Describes the screening in a sentence."""
        found = self.numbers(screen)
        band = f"from {screen.low:g} to {screen.high:g}"
        return (
            f"{found['screen/kept']} of {found['screen/problems']} problems have a pass rate {band} ({found['screen/unsolved']} were never solved, "
            f"{found['screen/solved']} always; {screen.samples} answers each)"
        )


async def measure(
    run: Any, recipe: Any, world: Any, screen: Screened, source: Any, progress: Callable[[int, int], None] | None = None
) -> Measured:
    """Measures the pass rates of the run's policy on the source's first problems, with `screen.samples` answers per problem.

    The states of the recipe's parts do not change.
    Args: world: samples and judges the answers; source: the problems; progress: called with the number of finished problems and the number of all problems.
    """
    count = screen.problems if source.size is None else min(screen.problems, source.size)
    drawn = source.draw(list(range(count)), world.task.level, world.seed.fold("problems"))
    check_drawn(source, drawn, range(count))
    acting = getattr(recipe.rollout, "test", recipe.rollout)
    groups: list[Group] = []
    for start in range(0, count, step := max(1, _AT_ONCE // screen.samples)):
        asked = [Request(p, count=screen.samples, tags=("screen",)) for p in drawn[start : start + step]]
        groups += without_aside(await run.memory.peek("rollout", acting, "run", asked, world))
        if progress is not None:
            progress(min(start + step, count), count)
    return Measured(tuple(rated(groups, drawn)))


def rated(groups: Sequence[Group], problems: Sequence[Problem]) -> list[tuple[Problem, float]]:
    """Returns every problem with its pass rate, which is the share of right trajectories. A problem without trajectories has the pass rate 0."""
    right: dict[str, list[bool]] = {p.id: [] for p in problems}
    for t in (t for g in groups for t in g.trajectories):
        right.setdefault(t.problem.id, []).append(t.right)
    return [(p, sum(right[p.id]) / max(len(right[p.id]), 1)) for p in problems]


def band(text: str) -> tuple[float, float]:
    """Reads the bounds of a band. Raises UserError for any other text.

    >>> band("0.1..0.9")
    (0.1, 0.9)
    """
    low, dots, high = text.partition("..")
    try:
        if not dots:
            raise ValueError
        return float(low), float(high)
    except ValueError:
        raise UserError(f'--keep is "{text}"; write two pass rates with two dots between them, such as 0.1..0.9') from None
