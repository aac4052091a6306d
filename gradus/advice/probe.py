"""A short probe: the model answers a few training problems, and the answers give facts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradus import api
from gradus.study.evaluate import solved, verdict_of
from gradus.study.passk import pass_at_k
from gradus.training.plan import Plan
from gradus.types import Group, Request
from gradus.types.contexts import Ended
from gradus.types.parts import Task

CUT = (Ended.LENGTH, Ended.CONTEXT, Ended.TRUNCATED)
MOST = 16  # the k of pass@k
TENTH = 10  # the fact about the lengths of right answers is this percentile


def probed(planned: Plan, task: Task, problems: int, samples: int, *, own: bool = False) -> dict[str, float | None]:
    """Samples `samples` answers to each of the first training problems, and returns their facts (`shown`).

    The task's verifier judges the answers. If `own` is set, or if the task has no verifier or has an environment, the reward of the plan judges the
    answers.
    Raises UserError if the plan does not fit the task.
    """
    run = api.start(planned, task=task)
    judge = run.recipe.reward if own else verdict_of(run, own=False)
    return shown(asyncio.run(_answered(run, judge, problems, samples)), planned.recipe.setting.group)


async def _answered(run: Any, judge: Any, problems: int, samples: int) -> list[Group]:
    source = run.task.source
    count = problems if source.size is None else min(problems, source.size)
    world = run.world(run.recipe, "probe", judge)
    drawn = source.draw(list(range(count)), run.task.level, world.seed.fold("problems"))
    try:
        return await solved(run, world, [Request(p, count=samples, tags=("probe",)) for p in drawn])
    finally:
        if hasattr(judge, "close"):
            await judge.close()


def shown(groups: Sequence[Group], size: int) -> dict[str, float | None]:
    """Returns the facts of a probe, under the names of the fields of `Facts`.

    Args: groups: one judged group per problem; size: the size of a group in training.
    """
    right = [[t.right for t in g.trajectories] for g in groups if g.trajectories]
    answers = [t for g in groups for t in g.trajectories]
    if not answers:
        return {}
    lengths = [t.actions for t in answers if t.right]
    most = min(MOST, min(map(len, right)))
    training = [part for row in right for part in _groups(row, size)]
    return {
        "pass_1": float(np.mean([np.mean(row) for row in right])),
        "pass_16": float(np.mean([pass_at_k(len(row), sum(row), most) for row in right])),
        "mixed": float(np.mean([0 < sum(row) < len(row) for row in training])),
        "solved": float(np.mean([all(row) for row in right])),
        "unsolved": float(np.mean([not any(row) for row in right])),
        "length": float(np.mean([t.actions for t in answers])),
        "short": float(np.percentile(lengths, TENTH)) if lengths else None,
        "truncated": float(np.mean([t.ended in CUT for t in answers])),
        "overpaid": float(np.mean([t.failed is None and t.value > 1 for t in answers])),
    }


def _groups(row: Sequence[bool], size: int) -> list[Sequence[bool]]:
    """Splits the answers to a problem into groups of `size`, as in training. If there are fewer than `size` answers, makes one smaller group."""
    return [row[at : at + size] for at in range(0, max(len(row) - size, 0) + 1, size)]
