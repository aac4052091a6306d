"""Evaluation during training. Each evaluation uses the same held-out problems, with sampled answers and, by default, greedy answers. The evaluation's reward
judges the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradus.study.intervals import of_shares
from gradus.study.summary import mean, surprise
from gradus.types import Group, Key, Request, UserError, without_aside
from gradus.types.parts import Reward, Source
from gradus.types.ranges import check_ranges
from gradus.types.returned import check_drawn


@dataclass(frozen=True)
class HeldOut:
    """Measures the accuracy and the mean reward on held-out problems.

    The best checkpoint has the highest `held_out/accuracy`, or the highest `held_out/reward` if answers are not marked as right or wrong.
    """

    problems: int = 256
    samples: int = 1  # sampled answers per problem, at the task's temperature
    greedy: bool = True  # adds one greedy answer per problem
    reward: Reward | None = None  # the reward that judges evaluations, or FILE.py:FUNCTION; None: the recipe's reward
    patience: int = 0  # the run stops early after this number of evaluations without improvement; 0: it never stops early
    target: float | None = None  # the run stops when held_out/accuracy reaches this number; None: no such stop
    entropy: bool = False  # adds "held_out/entropy": the mean of -log p of the sampled tokens, in nats
    by: tuple[str, ...] = ()  # columns, such as difficulty: the accuracy is also measured for each value of each column; "task" measures each task of a mixture

    def __post_init__(self) -> None:
        check_ranges(self, problems="[1, inf)", samples="[1, inf)", patience="[0, inf)", target="[0, inf)")

    async def measure(self, run: Any, recipe: Any, world: Any) -> dict[str, float | None]:
        """Returns the metrics of an evaluation, such as "held_out/accuracy", "held_out/reward" and "held_out/length".

        "held_out/greedy" is present if `greedy` is set. "held_out/failed" is present if at least one answer has no reward. "held_out/problems" is the number of
        problems. "held_out/low" and "held_out/high" are the bounds of the 95 % interval of the accuracy over these problems. With `by`, "held_out/COLUMN/VALUE"
        is the accuracy on the problems with that value. If no sampled answer has a reward and `max_failed` is below 1, raises UserError, because an
        accuracy of 0 would be wrong. Greedy answers are then not sampled.
        """
        requests = held_out_requests(world.task.held_out, self.problems, self.samples, world.task.level)
        groups = without_aside(await run.memory.answer(recipe, requests, world))
        if recipe.setting.max_failed < 1:
            _refuse_silence(groups, world.refused)
        out = {
            **of_problems([float(np.mean([t.right for t in g.trajectories])) for g in groups]),
            **_by_column(groups, self.by),
            "held_out/reward": mean([t.value for g in groups for t in g.trajectories if t.failed is None]),
            "held_out/length": mean([t.actions for g in groups for t in g.trajectories]),
        }
        if self.entropy:
            out["held_out/entropy"] = surprise([t for g in groups for t in g.trajectories])
        if self.greedy and "drawing" not in run.players["policy"].policy.can:
            asked = [replace(r, count=1, sampling=replace(world.sampling, temperature=0.0), tags=("greedy",)) for r in requests]
            once = without_aside(await run.memory.answer(recipe, asked, world))
            out["held_out/greedy"] = accuracy(once)
            groups = [*groups, *once]
        answers = [t for g in groups for t in g.trajectories]
        if failed := [t.failed for t in answers if t.failed is not None]:
            out["held_out/failed"] = float(len(failed))
            if run.view is not None:
                run.view.message(f"{len(failed)} of {len(answers)} held-out answers have no reward, and count as wrong: {failed[0]}")
        return out


def _refuse_silence(groups: Sequence[Group], refused: Callable[[], str]) -> None:
    failed = [t.failed for g in groups for t in g.trajectories]
    reasons = [r for r in failed if r is not None]
    if failed and len(reasons) == len(failed):
        common = max(set(reasons), key=reasons.count)
        raise UserError(
            f"none of the {len(failed)} held-out answers has a reward; the most common reason: {common}{refused()}. Fix the cause, then "
            "continue with gradus resume RUN (if the run has no folder, start it again). To accept such answers, set --max_failed 1. To train "
            "without evaluation, start a new run with --study none"
        )


def held_out_requests(source: Source, problems: int, samples: int, level: float | None) -> list[Request]:
    """Returns requests for the first `problems` held-out problems, which are the same in every run."""
    count = problems if source.size is None else min(problems, source.size)
    drawn = source.draw(list(range(count)), level, Key(0).fold("held out"))
    check_drawn(source, drawn, range(count))
    return [Request(p, count=samples, tags=("held out",)) for p in drawn]


def of_problems(shares: Sequence[float]) -> dict[str, float | None]:
    """Makes metrics from one share per problem: the mean ("held_out/accuracy"), the number of problems, and the bounds of the 95 % interval."""
    if not shares:
        return {"held_out/accuracy": None, "held_out/problems": 0}
    found = of_shares(shares)
    return {"held_out/accuracy": found.mean, "held_out/problems": len(shares), "held_out/low": found.low, "held_out/high": found.high}


def _by_column(groups: Sequence[Group], columns: Sequence[str]) -> dict[str, float | None]:
    """Returns the accuracy for each value of each column. Problems without the column are left out."""
    found: dict[str, list[Group]] = {}
    for column in columns:
        for group in (g for g in groups if g.trajectories):
            problem = group.trajectories[0].problem
            value = problem.task if column == "task" else problem.meta.get(column)
            if value is not None:
                found.setdefault(f"held_out/{column}/{value}", []).append(group)
    return {name: accuracy(found[name]) for name in sorted(found)}


def accuracy(groups: Sequence[Group]) -> float | None:
    """Returns the share of right answers, averaged over problems. A trajectory without a reward counts as wrong."""
    return mean([float(np.mean([t.right for t in g.trajectories])) for g in groups])
