"""The training loop. Training methods differ only in the parts that this loop calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gradus.selection.filters import without_failures
from gradus.training.arrivals import arrivals, beside, passed
from gradus.training.boundaries import boundaries
from gradus.training.lessons import begun, choices
from gradus.training.recovery import updated, whole
from gradus.training.rollout_mismatch import agree
from gradus.training.rounds import averaged, rounds
from gradus.types import Group, Request, UserError
from gradus.types.returned import named

if TYPE_CHECKING:
    from gradus.recipe.core import Recipe
    from gradus.training.run import Run


async def train(run: Run) -> None:
    """Trains from the run's current step to its last step. At the boundaries between steps the state is complete, and the run saves and evaluates."""
    async for step in boundaries(run):
        recipe, world = run.at(step)
        started = time.perf_counter()
        requests, groups = await arrivals(run, recipe, world)
        refuse_nothing(requests, groups, recipe)
        refuse_failures(whole(groups), recipe.setting.max_failed, world.refused)
        await agree(run, groups, world)
        rolled = time.perf_counter()
        kept, dropped = await run.memory.call("selection", recipe.selection, "keep", without_failures(groups), world.key)
        chosen, learned, metrics = await choices(run, without_failures(groups), world), list[Group](), list[dict[str, float]]()
        for drawn, round_ in await rounds(run, recipe, kept, world):
            lessons = await begun(run, drawn, chosen, round_)
            for wave in lessons.waves:
                batches = await lessons.batches(wave)
                run.must_finish()
                metrics.append(await beside(run, partial(updated, run, recipe, batches, groups, round_)))
            run.follow()
            learned += lessons.credited["policy"]
        await run.memory.learn(recipe, learned, dropped, world)
        await chosen.learn(run, world)
        passed(run, step)
        timings = {"rollout": rolled - started, "update": time.perf_counter() - rolled}
        spent = {**world.spent, "train": world.spent.get("train", 0)}
        run.record(step, merged(groups, learned), {**world.notes, **averaged(metrics)}, spent, timings)


def merged(groups: Sequence[Group], credited: Sequence[Group]) -> list[Group]:
    """Returns all groups of the step, including failed and dropped trajectories. In the result, the trajectories of `credited` have their advantages.

    A trajectory that the selection shortened or left out of the training stays as it was sampled.
    """
    sampled = {t.id: (t.trained, t.actions) for g in groups for t in g.trajectories}
    known = {t.id: t for g in credited for t in g.trajectories if sampled.get(t.id) == (t.trained, t.actions)}
    return [g.but(trajectories=tuple(known.get(t.id, t) for t in g.trajectories)) for g in groups]


def refuse_nothing(requests: Sequence[Request], groups: Sequence[Group], recipe: Recipe) -> None:
    """Raises UserError if a step has no requests and no groups, because all later steps would be empty, too."""
    if not requests and not groups:
        who = named(recipe.curriculum, "choose")
        raise UserError(f"{who} has no more requests, so the run has no more training data; give more problems, or set a smaller --steps")


def refuse_failures(groups: Sequence[Group], share: float, refused: Callable[[], str] = str) -> None:
    """Raises UserError if more than `share` of the step's trajectories failed.

    The message contains the most frequent reason and the text that `refused()` returns.
    """
    reasons = [t.failed for g in groups for t in g.trajectories]
    failed = [r for r in reasons if r is not None]
    if failed and len(failed) > share * len(reasons):
        common = max(set(failed), key=failed.count)
        raise UserError(
            f"{len(failed)} of {len(reasons)} trajectories of this step have no reward, but the allowed share is {share:.0%}; the most "
            f"common reason: {common}{refused()}. Fix the cause, then continue with gradus resume RUN (if the run has no folder, start it again). "
            "To allow a larger share, raise --max_failed"
        )
