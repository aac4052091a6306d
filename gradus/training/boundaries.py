"""The steps of a run, and the work between two steps.

Between steps the run can save, evaluate, return to a checkpoint after non-finite numbers, go to the next stage, or end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from gradus.training.health import sound
from gradus.training.recovery import beyond_bearing, go_back, obey
from gradus.training.run import Run
from gradus.training.stages import follows, ready
from gradus.training.turn import take_turn


async def boundaries(run: Run) -> AsyncIterator[int]:
    """Yields the remaining steps one after another.

    At each boundary the run first saves (if a checkpoint is planned there), and then evaluates (if an evaluation is planned there). The run ends after its
    last step, when its budget is used up, or when the study, the schedule or a stop ends it.

    If the run has stages, it goes to its next stage at a boundary. A merge is a step without training.
    """
    while True:
        if beyond_bearing(run):
            go_back(run)
        setting, course, done = run.recipe.setting, run.stages, run.step - run.began
        merges, final = course is not None and course.leg.merges, course is None or course.last
        last = over(run, done)
        saves = (setting.save_every and run.step % setting.save_every == 0) or (last and not final)
        due = saves and run.step > 0 and sound(run.numbers, run.players)
        run.mark()
        stopped = run.stop.boundary(last=last and final) or (not last and paused(run))
        if last or due or stopped:
            run.save(planned=bool(due))
        if stopped:
            return
        obey(run)
        run.measured = {}
        first = done == 0 and not merges
        if run.recipe.study is not None and (last or first or evaluates(run, done)):
            last = await run.evaluate() or last
        last = last or (not merges and ended(run))
        if last and course is not None and await follows(run, course):
            continue
        if last:
            run.finish()
            return
        if course is not None:
            await ready(run, course)
        if merges:
            run.record(run.step, [], {}, {}, {})
        else:
            yield run.step
            run.stop.release()
        run.step += 1


def over(run: Run, done: int) -> bool:
    """Returns whether the run, or its stage, has done all its steps. With a budget, returns whether the budget is used up."""
    return done >= run.length if run.budget is None else run.progress >= 1


def paused(run: Run) -> bool:
    """Returns whether the run must pause here. A run pauses if it has done the requested steps, or if it has used up the budget of the pause. A paused run is
    saved and returned."""
    if run.pause is None:
        return False
    return (run.step if run.pause.unit == "steps" else run.spent()[-1]) >= run.pause.amount


def evaluates(run: Run, done: int) -> bool:
    """Whether the run evaluates after `done` steps."""
    if run.budget is not None:
        return run.budget.due(*(amount / run.budget.amount for amount in ([0.0, *run.spent()])[-2:]))
    every = run.recipe.setting.eval_every
    return bool(done and every and done % every == 0)


def ended(run: Run) -> bool:
    """Begins the next step. Returns whether the schedule ends the run, or its stage, before this step."""
    stop = take_turn(run).stop
    if stop is not None and run.view is not None:
        run.view.message(f"step {run.step}: the {'run' if run.stages is None else 'stage'} ends here, because {stop.reason}")
    return stop is not None
