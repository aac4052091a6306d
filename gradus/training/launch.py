"""Makes a trained run from a recipe, a task and a model.

First builds and checks all parts. Then trains the run, and reacts to signals, limits and the watchdog.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gradus.lab.folder import RunFolder
from gradus.players.build import build_players
from gradus.players.rates import with_rate
from gradus.recipe.compatibility import check_fit
from gradus.recipe.core import Recipe
from gradus.rewards.combine import check_reward
from gradus.runtime.activity import TRAINER
from gradus.runtime.memory import limited
from gradus.study.given_answers import GivenAnswers
from gradus.training.arrivals import end
from gradus.training.course import Leg, check_ends, course, staged
from gradus.training.interrupts import Cut, unheard
from gradus.training.loop import train
from gradus.training.plan import load_task
from gradus.training.reporting import reporting
from gradus.training.run import OnStep, Run
from gradus.training.stages import Course
from gradus.types import Frozen, Key, Problem, UserError
from gradus.types.guards import bytes_of
from gradus.types.parts import Task
from gradus.types.reads import check_kinds, check_reads, pictures_of


def prepare(
    recipe: Recipe,
    task: Task,
    model: str | Path | None = None,
    *,
    seed: int = 0,
    folder: RunFolder | None = None,
    on_step: OnStep | None = None,
    view: Any = None,
    device: str = "cpu",
) -> Run:
    """Makes a run that is ready to train: checks that the parts fit the task and the model, and builds the players.

    Raises UserError with a remedy if a part does not fit.
    """
    if staged(recipe):
        return _in_stages(recipe, task, model, seed, device, folder=folder, on_step=on_step, view=view)
    if recipe.environment is not None:
        task = replace(task, environment=recipe.environment)
    check_fit(recipe, task)
    recipe = judgeable(recipe, task, view.message if view is not None else None)
    recipe = with_rate(recipe, model)
    players = build_players(recipe, model, task, Key(seed), device)
    check_fit(recipe, task, players)
    check_pictures(task, players["policy"].policy)
    anew = partial(build_players, without_engines(recipe), model, task, Key(seed), device)
    return Run(recipe, task, players, seed=seed, folder=folder, on_step=on_step, view=view, anew=anew)


def _in_stages(recipe: Recipe, task: Task, model: str | Path | None, seed: int, device: str, **how: Any) -> Run:
    """Makes a run that is at the start of its first stage. Before the first step, checks every stage and its players."""
    say = how["view"].message if how["view"] is not None else None
    legs = tuple(
        leg if leg.merges else replace(leg, recipe=with_rate(judgeable(leg.recipe, leg.task, say), model))
        for leg in course(recipe, task, load_task)
    )

    def build(leg: Leg, start: str | Path | None) -> dict[str, Any]:
        return build_players(leg.recipe, model if start is None else start, task, Key(seed), device)

    first, seen = build(legs[0], None), list[tuple[Recipe, Task]]()
    for leg in legs:
        check_ends(leg)
        if (leg.recipe, leg.task) not in seen:
            seen.append((leg.recipe, leg.task))
            try:
                check_fit(leg.recipe, leg.task, first if leg.recipe == legs[0].recipe else build(leg, None))
            except UserError as error:
                raise UserError(f"stage {leg.name}: {error}") from None
        if leg.reads is None and not leg.merges:
            check_pictures(leg.task, first["policy"].policy)
    return Run(legs[0].recipe, legs[0].task, first, seed=seed, stages=Course(legs, build), **how)


def check_pictures(task: Task, policy: Any) -> None:
    """Raises UserError if the task's data or its first problem contains media that the policy cannot read."""
    if pictures_of(task):
        check_kinds(policy, {"image"}, f"the data of task {task.name}")
    first: list[Problem] = []
    with suppress(Exception):  # the later check of the problems reports the fault
        first = task.source.draw([0], task.level, Key())
    for problem in first:
        check_reads(policy, getattr(problem, "messages", ()), f"problem {problem.id} of task {task.name}")


def without_engines(recipe: Recipe) -> Recipe:
    """Removes the sampling engines from the recipe, so that every player samples from its own model."""
    return replace(recipe, players=Frozen({name: replace(player, engine=None) for name, player in recipe.players.items()}))


def judgeable(recipe: Recipe, task: Task, say: Callable[[str], None] | None = None) -> Recipe:
    """Returns the recipe after a check that its rewards can judge the task. Raises UserError for the first reward that cannot judge the task.

    There is one exception: if all training answers are given and none is sampled, evaluations measure the loss on held-out given answers and need no reward.
    """
    check_reward(getattr(recipe.study, "reward", None), task)
    try:
        check_reward(recipe.reward, task)
    except UserError:
        if getattr(recipe.rollout, "judges", lambda _: True)(task):
            raise
        study = recipe.study
        if study is not None and getattr(study, "reward", None) is None and getattr(study, "judges", lambda _: True)(task):
            if say is not None:
                say(f"task {task.name} has no reward, so evaluations measure the loss on held-out answers; --study.reward FILE.py:FUNCTION judges samples")
            return replace(recipe, study=GivenAnswers(study.problems, study.patience))
    return recipe


def go(run: Run) -> Run:
    """Trains the run to its end or to a stop. During training no other process can use the run's folder."""
    with run.folder.claimed() if run.folder is not None else nullcontext():
        return proceed(run)


def proceed(run: Run) -> Run:
    """Trains the run to its end or to a stop. The caller must have locked the run's folder.

    After a signal, a run with a folder saves. After this, the function raises KeyboardInterrupt (SIGINT), SystemExit with 143 (SIGTERM) or SystemExit with
    129 (SIGHUP). If the time limit ends the run, the run also saves. The function then returns the run, and `run.stop.asked` is "time".
    """
    import torch

    devices = dict.fromkeys(p.device for player in run.players.values() for p in player.policy.network.parameters())
    torch.use_deterministic_algorithms(all(device.type == "cpu" for device in devices))
    # By default, PyTorch's deterministic mode fills new tensors with NaN. This takes one more pass over memory, and no code here reads uninitialised tensors.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if run.view is not None:
        run.view.start(run.recipe.setting.steps if run.stages is None else sum(leg.steps for leg in run.stages.legs), run.step, run.metrics)
    try:
        memory = run.recipe.setting.memory
        bound = limited(None if memory is None else bytes_of(memory), next(iter(devices), "cpu"))
        say = run.view.message if run.view is not None else partial(print, file=sys.stderr)
        watched = run.watchdog.watching(say, run.recipe.setting.max_wait)
        heard = run.stop.listening() if run.folder is not None else nullcontext()
        with reporting(run), run.activity.on(TRAINER), watched, bound, _unsearched(), suppress(Cut), heard:
            asyncio.run(_trained(run))
    finally:
        if run.view is not None:
            run.view.stop()
        if run.sinks is not None:
            run.sinks.close()
    run.rescue()  # again, for a stop before the loop began
    if run.stop.fault is not None:
        raise run.stop.fault
    if run.stop.asked == "SIGINT":
        raise KeyboardInterrupt
    if run.stop.asked not in (None, "time"):
        raise SystemExit(run.stop.code)
    return run


@contextmanager
def _unsearched() -> Iterator[None]:
    """Excludes existing objects from garbage collection, because the search through these objects can take a tenth of a second in a step."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def _trained(run: Run) -> None:
    asyncio.get_running_loop().set_exception_handler(unheard)
    try:
        await train(run)
    except (Cut, asyncio.CancelledError):
        run.rescue()  # before any other wait: the system may kill the process soon after the signal
        raise
    finally:
        end(run)
        recipes = [run.recipe] if run.stages is None else [leg.recipe for leg in run.stages.legs]
        for reward in (each for recipe in recipes for each in (recipe.reward, getattr(recipe.study, "reward", None))):
            closing = getattr(reward, "close", None)
            if closing is not None:
                await closing()
