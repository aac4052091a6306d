"""The rollouts of a step. The step itself makes them, or the recipe's system has made them earlier."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from gradus.runtime.activity import FOR_GROUPS, UPDATING, carried, doing
from gradus.runtime.memory import REMEDIES, out_of_memory
from gradus.training.ahead import Pipeline
from gradus.training.nested_state import stateful
from gradus.training.streaming import Stream
from gradus.training.twins import PLACE
from gradus.types import Group, Request, UserError
from gradus.types.returned import named
from gradus.types.systems import Ahead, Streaming

if TYPE_CHECKING:
    from gradus.recipe.core import Recipe
    from gradus.training.run import Run
    from gradus.training.world import RunWorld

T = TypeVar("T")


async def arrivals(run: Run, recipe: Recipe, world: RunWorld) -> tuple[list[Request], list[Group]]:
    """Returns the requests of a step and the judged groups of its rollout, with auxiliary groups. The rollout may have begun
    earlier, if the recipe has the system Ahead or Streaming."""
    if isinstance(recipe.system, Ahead | Streaming):
        try:
            return await earlier(run, recipe, recipe.system, world)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            said = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(f"memory ran out for the copies of the players ({said}). Remedies: {REMEDIES}, or a larger --memory") from error
    requests = await world.more(recipe.setting.prompts)
    groups = await run.memory.call("rollout", recipe.rollout, "run", requests, world)
    return requests, [*groups, *await world.aside()]


async def earlier(run: Run, recipe: Recipe, system: Ahead | Streaming, world: RunWorld) -> tuple[list[Request], list[Group]]:
    """Returns the requests and the groups of a step for a recipe with a system. Before the first step, copies the players, because the copies draw the
    samples."""
    if run.pipeline is None or run.pipeline.restarts != run.numbers["restarts"]:
        check(run, system)
        end(run)
        run.pipeline = Pipeline(run) if isinstance(system, Ahead) else Stream(run, system)
    with doing(FOR_GROUPS):
        found: tuple[list[Request], list[Group]] = await run.pipeline.arrivals(recipe, world)
    run.activity.aged(world.noted("staleness"))
    return found


async def beside(run: Run, work: Callable[[], T]) -> T:
    """Does work that changes weights. If the recipe has a system, the rollouts of later steps continue at the same time."""
    with doing(UPDATING):
        if run.pipeline is None:
            return work()
        return await asyncio.get_running_loop().run_in_executor(run.pipeline.threads["update"], carried(work))


def passed(run: Run, step: int) -> None:
    """Deletes the weights with which the rollout of a finished step was sampled."""
    if isinstance(run.pipeline, Pipeline):
        run.history[PLACE] = [entry for entry in run.history[PLACE] if entry["step"] > step]


def end(run: Run) -> None:
    """Ends the rollouts that have begun, if there are any."""
    if run.pipeline is not None:
        run.pipeline.close()
        run.pipeline = None


def check(run: Run, system: Ahead | Streaming) -> None:
    """Raises UserError if the run cannot sample rollouts earlier than in their steps."""
    recipe, name = run.recipe, type(system).__name__
    states = [part for place in ("rollout", "reward") for _, part in stateful(place, getattr(recipe, place))]
    learning = [named(part, "learn") for part in states if hasattr(part, "learn")]
    engines = [name for name, p in run.players.items() if p.spec.engine is not None]
    reasons = {
        f"{', '.join(learning)} changes its state after each step": bool(learning),
        f"{named(states[0]) if states else ''} has a state, which would depend on the order of the rollouts": bool(states) and isinstance(system, Streaming),
        f"the player {', '.join(engines)} samples with an engine outside this process": bool(engines),
    }
    for reason, holds in reasons.items():
        if holds:
            raise UserError(f"system {name} cannot sample earlier, because {reason}; leave out --system")
