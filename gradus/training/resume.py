"""Resumes a run: refuses changes of fixed fields, and returns the run to its last complete checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gradus.recipe.core import Recipe, changes
from gradus.recipe.overrides import override_all
from gradus.training.course import staged
from gradus.types import UserError

if TYPE_CHECKING:
    from gradus.lab.folder import RunFolder
    from gradus.training.run import Run

MAY_CHANGE = ("memory", "micro_tokens", "recompute", "backward_chunks", "save_every", "keep", "max_wait", "max_failed", "guard.in_a_row", "guard.returns")
"""The fields of the setting that may change in a resumed run. These fields concern the machine or the limits of the run, and not its computations."""

OPTIONS = ("steps", "until", "device", "processes", "log", "metrics_port", "trust")
"""The other options of `gradus resume`."""

PLANNED = ("task", "model", "profile", "seed", "run", "reward")
"""Options that are fixed at the start of a run."""

MISFIT = (KeyError, FileNotFoundError, TypeError, ValueError, RuntimeError)
"""The exceptions that occur if a stored state is complete, but belongs to other players or parts."""


def replanned(recipe: Recipe, steps: int | None, given: Mapping[str, Any]) -> Recipe:
    """Makes the recipe with which a resumed run continues.

    Args: steps: the total number of steps (None: as planned); given: changed values by path. In a path, two underscores mean a dot, as in `Recipe.but`.
    Raises: UserError for a field that is not in `MAY_CHANGE`. The length of the last stage may change, if the stages are not repeated.
    """
    _refuse_fixed(recipe, given)
    whole = {name if name.startswith("schedule__") else f"setting__{name.removeprefix('setting__')}": value for name, value in given.items()}
    changed = recipe.but(**whole)
    if steps is not None and staged(recipe):
        last = list(recipe.schedule.stages)[-1]
        raise UserError(
            f"--steps cannot change the length of a run with stages, because the stages set the length; lengthen the last stage with "
            f"--schedule.stages.{last}.until.count N"
        )
    return changed if steps is None else changed.but(setting__steps=steps)


def read_fields(recipe: Recipe, fields: Sequence[tuple[str, str]], more: Sequence[str] = OPTIONS) -> dict[str, Any]:
    """Converts the (path, text) pairs that a user typed to the argument `given` of `replanned`. Unchanged values are left out.

    Args: more: names of other options, which the error can suggest for a misspelt path.
    Raises: UserError for an unknown field, or for a field that is fixed at the start of a run.
    """
    if fixed := next((path for path, _ in fields if path.partition(".")[0] in PLANNED), None):
        raise _refused(fixed)
    given = {re.sub(r"\.", "__", path): value for path, value in changes(recipe, override_all(recipe, fields, more)).items()}
    _refuse_fixed(recipe, given)
    return given


def _refuse_fixed(recipe: Recipe, given: Mapping[str, Any]) -> None:
    """Raises UserError for a field that is fixed at the start of a run. The length of the last stage may change, if the stages are not repeated."""
    last = f"schedule.stages.{list(recipe.schedule.stages)[-1]}.until." if staged(recipe) and recipe.schedule.repeat == 1 else None
    for path in (name.replace("__", ".") for name in given):
        if path.removeprefix("setting.") not in MAY_CHANGE and not (last is not None and path.startswith(last)):
            raise _refused(path)


def _refused(path: str) -> UserError:
    """Returns the error for a field or an option that cannot change."""
    return UserError(
        f"--{path.removeprefix('setting.')} cannot change within a run; gradus resume accepts only "
        f"{', '.join(f'--{name}' for name in (*OPTIONS, *MAY_CHANGE))}; for any other change, export the model of the run (gradus export RUN DIR) "
        "and start another run with --model DIR"
    )


def put_back(run: Run, folder: RunFolder) -> list[str]:
    """Returns a run to the newest complete checkpoint in its folder, or to its start. Removes later data from the folder.

    Returns: one message for each broken, changed or missing file.
    """
    checkpoint, passed = folder.latest()
    if checkpoint is not None:
        try:
            run.restore(checkpoint)
        except MISFIT as error:
            if type(error).__name__ == "OutOfMemoryError":
                raise
            what = " ".join(str(error).split())[:200]
            raise UserError(
                f"{checkpoint.path} does not fit {folder.path / 'recipe.json'} ({type(error).__name__}: {what}); restore the old file, "
                "or use the version of gradus that provenance.json names"
            ) from error
    aside = folder.cut_back(run.step)
    run.metrics = folder.metrics()
    run.seconds = seconds_of(folder.timings())
    return [note for note in (passed, *aside, *folder.gaps(run.step)) if note]


def seconds_of(timings: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """Returns the seconds of each step, from the rows of the timings."""
    return {int(row["step"]): sum(value for name, value in row.items() if name != "step" and value is not None) for row in timings}
