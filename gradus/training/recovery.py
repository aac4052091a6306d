"""Recovers a run from non-finite numbers.

First the run skips the update and stores the diagnosis. If several updates in a row are skipped, or the weights are broken, the run returns to a good
checkpoint. If the allowed number of returns is used up, the run stops. Recovery depends only on the run's state and on facts that are
stored before they take effect. So a run that is killed during a recovery and then resumed has the same result as a run without a stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gradus.lab import bad
from gradus.lab.checkpoints import Checkpoint
from gradus.training.health import watch
from gradus.training.memory import Memory
from gradus.types import Group, UserError
from gradus.types.returned import check_numbers

if TYPE_CHECKING:
    from gradus.recipe.core import Recipe
    from gradus.training.run import Run
    from gradus.training.world import RunWorld
    from gradus.types.batch import Batch
    from gradus.updates.diagnosis import Diagnosis

RESTART = "restart"


def whole(groups: Sequence[Group]) -> list[Group]:
    """Leaves out the trajectories that have non-finite log-probabilities.

    Such a trajectory is not a failure of a reward, so the share of failures does not count it. The function `updated` handles such a trajectory.
    """
    return [g.but(trajectories=tuple(t for t in g.trajectories if all(c.finite for c in t.contexts))) for g in groups]


def updated(run: Run, recipe: Recipe, batches: Mapping[str, Batch], groups: Sequence[Group], world: RunWorld) -> dict[str, float]:
    """Updates the players and returns the metrics of the update. If an input is NaN or infinite, no player is updated.

    `groups`: all groups of the step. If a log-probability of an action is not finite, the weights that chose this action are broken.
    """
    from gradus.updates.diagnosis import of_batch, of_samples, of_weights

    batches = {name: batch for name, batch in batches.items() if name not in run.frozen}
    found = [d for d in (of_samples(groups), *(of_batch(name, batch) for name, batch in batches.items())) if d is not None]
    metrics = {"skipped": 1.0} if found else _applied(run, recipe, batches, world)
    for player in run.players.values():
        found, player.bad = [*found, *player.bad], []
        for spike in player.spikes:
            _note_spike(run, world.step, spike)
        player.spikes = []
    if (broken := of_weights(run.players)) is not None:
        found = [*found, broken]
    run.numbers = {**run.numbers, "broken": broken is not None}
    if found:
        _note(run, world.step, found)
        return {**metrics, "bad_numbers": float(len(found))}
    if any(batch.actions for batch in batches.values()):
        run.numbers = {**run.numbers, "streak": 0, "cause": "", "broken": False}
    return metrics


def _applied(run: Run, recipe: Recipe, batches: Mapping[str, Batch], world: RunWorld) -> dict[str, float]:
    """Runs the recipe's update and returns its metrics."""
    update = run.memory.inside("update", recipe.update)
    metrics = run.memory.ask("update", update, "apply", run.players, batches, world.step - run.began, world.key)
    check_numbers(recipe.update, "apply", metrics)
    return dict(metrics)


def _note_spike(run: Run, step: int, spike: Mapping[str, Any]) -> None:
    if run.folder is not None:
        run.folder.append_spike(step, spike)
    _say(
        run,
        f"step {step}: the gradient norm of {spike['player']} is {spike['norm']:.3g}, its median {spike['median']:.3g}; the update is skipped",
    )


def _note(run: Run, step: int, found: list[Diagnosis]) -> None:
    numbers = run.numbers
    run.numbers = {**numbers, "streak": numbers["streak"] + 1, "cause": numbers["cause"] or str(found[0])}
    kept = "" if run.folder is None else f"; see {bad.keep(run.folder.path, step, numbers['restarts'], found)}"
    done = "no update can repair the weights" if numbers["broken"] else "the update is skipped"
    _say(run, f"step {step}: {found[0]}; {done}{kept}")


def _say(run: Run, text: str) -> None:
    if run.view is not None:
        run.view.message(text)


def beyond_bearing(run: Run) -> bool:
    """Whether the run must go back to a checkpoint. This is necessary if `guard.in_a_row` consecutive updates were skipped, or if the weights are broken.

    No step can repair broken weights.
    """
    return bool(run.numbers["broken"] or run.numbers["streak"] >= run.recipe.setting.guard.in_a_row)


def go_back(run: Run) -> None:
    """Returns the run to its last good checkpoint, or to its start. Afterwards the run draws other data.

    Raises UserError if the run has no folder, or if the allowed number of returns is used up.

    The folder `bad/` keeps the metrics of the discarded steps. The return is stored as a fact of the step at which the run continues.
    """
    guard, numbers = run.recipe.setting.guard, run.numbers
    if run.folder is None or numbers["restarts"] >= guard.returns:
        raise UserError(_cause(run))
    checkpoint, passed = run.folder.latest(only_planned=True)
    number, to = numbers["restarts"] + 1, 0 if checkpoint is None else checkpoint.step
    given_up = [row for row in run.folder.metrics() if row["step"] >= to]
    about = {"step": run.step, "went_back_to": to, "cause": numbers["cause"], "passed_over": passed, "metrics": given_up}
    with run.stop.saving():
        bad.keep_abandoned(run.folder.path, number, about)
        run.folder.append_fact(to, RESTART, str(number))
        _put_back(run, checkpoint)
        run.folder.cut_back(run.step)
        run.metrics = run.folder.metrics()
        run.numbers = {**run.numbers, "restarts": number, "streak": 0, "cause": "", "broken": False}
        run.mark()
    if run.sinks is not None:
        run.sinks.back(run.step)
    _say(
        run,
        f"{_what(numbers)} ({numbers['cause']}); going back from step {about['step']} to step {to}, "
        f"with other data from there (return {number} of {guard.returns})",
    )


def _put_back(run: Run, checkpoint: Checkpoint | None) -> None:
    if checkpoint is not None:
        run.restore(checkpoint)
    else:
        _begin_again(run)


def _begin_again(run: Run) -> None:
    """Restores the state before the first step: the initial weights and an empty memory."""
    if run.stages is not None:
        run.step = 0
        run.stages.again(run)
    elif run.anew is None:
        raise UserError(
            "the training produced non-finite numbers before the first checkpoint; start the run again (only a run from `prepare` can "
            "return to its start)"
        )
    for name, player in ({} if run.anew is None else run.anew()).items():
        run.players[name].load(player.tensors(), 0)
    run.step, run.best, run.history, run.memory, run.saved = 0, {}, {}, Memory(), None
    run.time, run.turned, run.moved_back = {}, None, {}
    run.numbers = watch({}, run.players, run.recipe.setting.agreement)


def obey(run: Run) -> None:
    """If a return to this boundary is stored as a fact, counts this return, so that the run draws other data."""
    number = 0 if run.folder is None else int(run.folder.facts(run.step).get(RESTART, 0))
    if number > run.numbers["restarts"]:
        run.numbers = {**run.numbers, "restarts": number, "streak": 0, "cause": "", "broken": False}


def _what(numbers: Mapping[str, Any]) -> str:
    if numbers["broken"]:
        return "an update has broken the weights"
    count = numbers["streak"]
    return "an update was skipped" if count == 1 else f"{count} updates in a row were skipped"


def _cause(run: Run) -> str:
    numbers = run.numbers
    count = numbers["restarts"]
    tried = f" after {count} return{'s' * (count > 1)} to a checkpoint" if count else ""
    kept = f"; {run.folder.path / bad.BAD} contains the details" if run.folder is not None else ""
    return (
        f"{_what(numbers)}{tried}: {numbers['cause']}{kept}. Lower --learning_rate or --optimizer.clip, use --precision float32, "
        "or correct the reward or credit rule that returns such numbers; "
        "to allow more skipped updates or more returns, raise --guard.in_a_row or --guard.returns"
    )
