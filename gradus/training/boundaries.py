"""The steps of a run, and its work between them: save, evaluate, return to a checkpoint after non-finite numbers, end."""

from __future__ import annotations

from collections.abc import AsyncIterator

from gradus.training.health import sound
from gradus.training.recovery import beyond_bearing, go_back, obey
from gradus.training.run import Run
from gradus.training.turn import take_turn


async def boundaries(run: Run) -> AsyncIterator[int]:
    """The remaining steps. At each boundary the run saves, then evaluates. It ends after the last step, or by the study, or by a stop."""
    setting = run.recipe.setting
    while True:
        if beyond_bearing(run):
            go_back(run)
        last = run.step >= setting.steps
        due = setting.save_every and run.step % setting.save_every == 0 and run.step > 0 and sound(run.numbers, run.players)
        run.mark()
        stopped = run.stop.boundary(last=last)
        if last or due or stopped:
            run.save(planned=bool(due))
        if stopped:
            return
        obey(run)
        run.measured = {}
        if run.recipe.study is not None and (last or run.step == 0 or (setting.eval_every and run.step % setting.eval_every == 0)):
            last = await run.evaluate() or last
        if last or ended(run):
            run.finish()
            return
        yield run.step
        run.stop.release()
        run.step += 1


def ended(run: Run) -> bool:
    """Begins the next step; whether the schedule ends the run before it."""
    stop = take_turn(run).stop
    if stop is not None and run.view is not None:
        run.view.message(f"step {run.step}: the run ends here, because {stop.reason}")
    return stop is not None
