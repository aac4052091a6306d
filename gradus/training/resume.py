"""Going on with a run: what may be changed of it, and how it is put back to its last whole checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gradus.recipe.core import Recipe, changes
from gradus.recipe.overrides import override_all
from gradus.types import UserError

if TYPE_CHECKING:
    from gradus.lab.folder import RunFolder
    from gradus.training.run import Run

MAY_CHANGE = ("memory", "micro_tokens", "recompute", "save_every", "keep", "max_wait", "max_failed", "guard.in_a_row", "guard.returns")
"""Fields of the setting that say what the machine gives and when a run gives up, not what it computes."""

OPTIONS = ("steps", "until", "device", "processes", "log")
"""What `gradus resume` takes besides."""

PLANNED = ("task", "model", "profile", "seed", "run", "reward")
"""What a run was started with for good."""

MISFIT = (KeyError, FileNotFoundError, TypeError, ValueError, RuntimeError)
"""What a state raises that is whole, but that of other players or parts."""


def replanned(recipe: Recipe, steps: int | None, given: Mapping[str, Any]) -> Recipe:
    """The recipe for the steps to come.

    Args: steps: in all; None: as planned; given: path with two underscores for a dot -> value, as for `Recipe.but`.
    Raises: UserError for a field that says what the run computes.
    """
    _refuse_fixed(given)
    changed = recipe.but(**{f"setting__{name.removeprefix('setting__')}": value for name, value in given.items()})
    return changed if steps is None else changed.but(setting__steps=steps)


def read_fields(recipe: Recipe, fields: Sequence[tuple[str, str]], more: Sequence[str] = OPTIONS) -> dict[str, Any]:
    """(path, text) as typed, read as `given` of `replanned`; those that are so already are left out.

    Args: more: options that stand beside the fields.
    Raises: UserError for what is no field, or what a run was started with for good.
    """
    if fixed := next((path for path, _ in fields if path.partition(".")[0] in PLANNED), None):
        raise _refused(fixed)
    given = {re.sub(r"\.", "__", path): value for path, value in changes(recipe, override_all(recipe, fields, more)).items()}
    _refuse_fixed(given)
    return given


def _refuse_fixed(given: Mapping[str, Any]) -> None:
    for path in (name.replace("__", ".") for name in given):
        if path.removeprefix("setting.") not in MAY_CHANGE:
            raise _refused(path)


def _refused(path: str) -> UserError:
    """The error for a field or an option that cannot change."""
    return UserError(
        f"--{path.removeprefix('setting.')} cannot change within a run: gradus resume takes "
        f"{', '.join(f'--{name}' for name in (*OPTIONS, *MAY_CHANGE))}; for anything else export its model (gradus export RUN DIR) and start "
        "another run with --model DIR"
    )


def put_back(run: Run, folder: RunFolder) -> list[str]:
    """Puts a run at the folder's newest whole checkpoint, or its start, and drops from the folder what came after it.

    Returns: a sentence for everything that was found broken, changed or missing.
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
                f"{checkpoint.path} does not fit {folder.path / 'recipe.json'} ({type(error).__name__}: {what}): put the recipe back as it was, "
                "or use the version of gradus that is named in provenance.json"
            ) from error
    aside = folder.cut_back(run.step)
    run.metrics = folder.metrics()
    return [note for note in (passed, *aside, *folder.gaps(run.step)) if note]
